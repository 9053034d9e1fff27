"""The predictions of lesson 02: shares, the root, a saturated softmax, the wrong axis."""

from mhacourse.prediction import Choose

share_of_animal = Choose(
    about="how much larger the share is for a score twice as large, 4 against 2",
    right="about seven times",
    options={
        "twice": "Twice the score suggests twice the share. But a softmax first takes e to the power of each score.",
        "about seven times": (
            "e² is about 7.4. A softmax takes e to the power of each score, so the lead of 2 counts, not the factor "
            "of 2."
        ),
        "hardly at all": "A lead of 2 looks small. In the exponent it isn't: e squared is more than 7.",
    },
)

query_of_zeros = Choose(
    about="what a query of zeros gets",
    right="the plain mean of all values",
    options={
        "the plain mean of all values": (
            "A query of zeros scores 0 with every key. Equal scores give equal shares, so the query averages all "
            "values and prefers none."
        ),
        "its own value": "Nothing tells a token to look at itself, and zeros agree equally with every key.",
        "nothing": "Its scores are all 0, but scores are not weights: e to the power of 0 is 1, for every key.",
    },
)

growth_of_variance = Choose(
    about="what the variance of q · k does when head_dim grows by a factor of 4",
    right="it grows by a factor of 4",
    options={
        "it stays the same": "Every feature keeps its variance of 1, but four times as many terms are added.",
        "it grows by a factor of 2": (
            "A typical score, the root of the variance, grows by that much. The variance itself adds up term by term."
        ),
        "it grows by a factor of 4": (
            "Each product of two features has variance 1, and the variances of independent terms add up, so the "
            "variance is head_dim."
        ),
        "it grows by a factor of 16": "A sum of equal terms would do that, but independent terms partly cancel.",
    },
)

shrinking_reaction = Choose(
    about="how much less a weight reacts when another score is ahead by 10",
    right="by a factor of thousands",
    options={
        "by a factor of ten": (
            "The gap goes into an exponent: e to the power of -10 is about 5e-5, which is far less than 1/10."
        ),
        "by a factor of a hundred": "Ten squared is a hundred, but the gap is not squared: it is an exponent of e.",
        "by a factor of thousands": "The reaction, w(1 - w), falls exponentially with the gap, from a quarter to 5e-5.",
    },
)

last_query = Choose(
    about="whose output changes with the last query when the softmax runs over the queries",
    right="that of every token",
    options={
        "only that of the last token": (
            "That would be so with a softmax over the keys, where each query has its own unit of weight to hand out."
        ),
        "those of the tokens that look at it": "They use the last token's key and value, and neither has changed.",
        "that of every token": (
            "Each key now hands out one unit of weight, and the queries compete for it: if one query gets more, the "
            "others get less."
        ),
    },
)

mask_and_wrong_axis = Choose(
    about="whether a causal mask repairs a softmax over the queries",
    right="no: nearly all outputs still change",
    options={
        "no: nearly all outputs still change": (
            "Later queries are still part of the sum that each column is divided by."
        ),
        "partly: every second output still changes": "The mask hides half of the scores, not half of the columns.",
        "yes: what is hidden cannot matter": (
            "Hidden scores do not matter. But later queries may legally see earlier keys, so they share columns with "
            "earlier queries."
        ),
    },
)

two_olds = Choose(
    about="whether the same word gets a different output beside different words",
    right="exactly the same output",
    options={
        "a different output, since the neighbours differ": (
            "Attention sees all tokens at once, not only the neighbours."
        ),
        "exactly the same output": "Equal queries meet the same keys: without positions, a sentence is a bag of words.",
        "the same output in some heads only": (
            "Each head has its own matrices, but to each of them both words are the same vector."
        ),
    },
)
