"""The predictions of lesson 07: what more heads cost, what they change, and what they are good for."""

from mhacourse.prediction import Choose

parameters_of_heads = Choose(
    about="how the number of parameters grows from 1 to 8 heads",
    right="not at all",
    options={
        "eight times as many": (
            "Pictures suggest it, but each of eight heads has matrices only an eighth as tall as a single head's."
        ),
        "a few more, to join the heads": "W_o joins them, but a layer with one head has it as well.",
        "not at all": (
            "There are four matrices and four biases either way; num_heads only says how their outputs are cut."
        ),
        "an eighth as many": "Each of the heads is that small, but there are eight of them.",
    },
)

lookups_by_heads = Choose(
    about="what accuracy 1, 2, 4 and 8 heads reach on two lookups, with the same number of parameters",
    right="one about a half, the others nearly all",
    options={
        "all four about the same": "They have equally many parameters, and yet a single head is left far behind.",
        "one about a half, the others nearly all": (
            "A second head makes the second lookup possible, if training finds it. With more heads, it always does."
        ),
        "a little more with each head, eight the most": (
            "There are only two places to look at, so the second head brings all that was missing."
        ),
        "one the most, since its head is the widest": "Four features are enough here, so the extra width is wasted.",
    },
)

two_of_eight = Choose(
    about="what is left of eight trained heads with only the best two of them on",
    right="between 60 and 90 %",
    options={
        "about 99 %, as with two heads from the start": (
            "In training, these two never worked alone: each relied on the others for the rest."
        ),
        "between 60 and 90 %": (
            "Each lookup is the work of several heads, and their contributions add up. A single head brings only a "
            "part, which often suffices for the right answer, but not always."
        ),
        "about a half, as with a single head": "Two of them have two maps, so they know more than a single head does.",
        "6 %, as by guessing": "The heads' parts add up, and two parts are worth something.",
    },
)

wrong_answers = Choose(
    about="which tokens a single head names where it is wrong",
    right="the token of the other lookup",
    options={
        "any token, as by guessing": (
            "Then it would know one lookup and guess the other. That gives the same score but twice the loss."
        ),
        "a token next to the right one": (
            "Its map is sharp enough to avoid that: nearly all of the weight is on the two right places."
        ),
        "the token of the other lookup": (
            "It looks at both places, so its one mixture contains both tokens. It mostly answers both questions with "
            "the token that has a little more weight, so one of its answers is right."
        ),
    },
)

what_helps_one_head = Choose(
    about="which of the four changes reaches 99 %",
    right="one lookup in place of two",
    options={
        "one lookup in place of two": (
            "For one lookup, a single map is enough, and one head finds it every time. The other three changes leave "
            "the single head where it was."
        ),
        "three times as many steps": "The loss had stopped falling long before.",
        "a head four times as wide, with three times the parameters": (
            "A wider head aims better, but it still gives each position only one mixture."
        ),
        "a second head that is tied to the first": (
            "Both have the same map, so together they know no more than one head does."
        ),
    },
)

same_weights_more_heads = Choose(
    about="how far 2, 4 and 8 heads are from one head with the same weights",
    right="between a quarter and two thirds",
    options={
        "not at all, apart from rounding": (
            "The features are only cut, and no weight has changed. But something after the cut does change."
        ),
        "by one to five percent": (
            "The cut looks like a detail of storage, but it also cuts the scores, so the maps become different."
        ),
        "between a quarter and two thirds": (
            "That is far more than rounding, though no weight has changed. The next question asks where it comes from."
        ),
        "as far as two layers with different weights": (
            "Two such layers have no number in common; here all weights are the same."
        ),
    },
)

one_map_for_all = Choose(
    about="how far eight heads that share one head's map are from that head",
    right="not at all",
    options={
        "not at all": "The same map mixes all features, so it does not matter how they are cut.",
        "about half as far": "Splitting and then merging puts everything back where it was.",
        "just as far": (
            "The split is what you see in the code, but it only decides which feature belongs to which head."
        ),
    },
)

operations_of_heads = Choose(
    about="how many operations 8 heads take, compared with 1",
    right="just as many",
    options={
        "eight times as many": "There are eight maps, but each of their scores multiplies an eighth of the features.",
        "an eighth as many": "Each head takes an eighth of the work, but all eight have to be computed.",
        "just as many": "There are eight times as many maps, each made from an eighth of the features.",
    },
)

heads_after_training = Choose(
    about="how far apart four equal heads are after 50 steps of training",
    right="they are still equal",
    options={
        "they are still equal": "Equal weights get equal gradients, at every step.",
        "a little apart, and more with each step": "That takes some difference to begin with, and there is none.",
        "clearly apart: each has its own task": "Training can only follow gradients, and equal heads get equal ones.",
    },
)

saved_projections = Choose(
    about="which change lags behind after 200 steps, on two lookups with four heads",
    right="q = k alone",
    options={
        "all but the merged matrix": (
            "With k = v, for example, a head finds a token and reads it by the same vector, but it can still look "
            "where it wants."
        ),
        "v = x alone": "Then the head reads the token itself, and W_o can transform it in any way.",
        "the merged matrix alone": "It has more freedom than its two factors, and trains as well as they do.",
        "q = k alone": (
            "Its scores are the same in both directions, but a lookup goes one way. The lookup can still be learned, "
            "only more slowly."
        ),
    },
)
