"""The predictions of lesson 15: what a sealed box tells of its heads, and what it never tells."""

from mhacourse.prediction import Choose, Number

heads_in_the_unknown_box = Number(
    about="how many heads are in the box that you asked along a line",
    right=(5, 5),
    right_text="5, one for each step that the answer takes",
    why="Each of them makes one step on the line, and each step has a vector of its own.",
    guesses=(
        (1, 1, "So one step would be all: a single head can only look at the second token or not."),
        (4, 4, "Count again, from one end of the line to the other. Between five steps lie four plateaus."),
        (6, 6, "The answer stands still at six heights, the two ends counted; between them it takes five steps."),
        (32, 32, "That is the number of features. All of them move at the same few places."),
    ),
    other="Drag from one end to the other: at how many places does the answer move?",
    unit="heads",
)

box_alone = Choose(
    about="what one token alone can tell of a layer",
    right="the sum of all heads' values",
    options={
        "nothing, with one key there is no attention": (
            "There is none to see: every weight is 1. What the values do is plain to see then."
        ),
        "the sum of all heads' values": (
            "Every weight is 1, so what the heads make of the token is simply added up: one matrix for all of them."
        ),
        "the values of each head": (
            "They come out added up, and a sum does not tell its parts. For that the weights must change."
        ),
    },
)

sum_of_shares = Choose(
    about="what the four shares of one token sum to",
    right="about 2",
    options={
        "exactly 1": (
            "A softmax sums to 1 over tokens, in each head. Over heads nothing has to: here each head gives the second "
            "of two tokens about half."
        ),
        "a little less than 1": (
            "Each head does leave the rest to the first token. But each has a whole softmax to give away."
        ),
        "about 2": (
            "Each of four heads has a softmax of its own over two tokens, and with fresh weights the second gets about "
            "half of each. Trained heads could make it any number between 0 and 4."
        ),
    },
)

shared_keys_seen = Choose(
    about="whether one can tell from outside that two heads share their keys",
    right="yes, by the rank of both forms together",
    options={
        "no, keys never come out of the box": (
            "They do not come out, but the form of the scores does, and it is made with them."
        ),
        "yes, by the rank of both forms together": (
            "Both forms read a token through the same head_dim rows, so together they have no greater rank than one."
        ),
        "yes, the two look at the same tokens": "They ask with queries of their own, so they look at different ones.",
    },
)

unseen_from_outside = Choose(
    about="which of these changes, made in all heads, shows from outside",
    right="doubling W_q",
    options={
        "doubling W_q, halving W_k": "Only their product enters the scores, and it stays the same.",
        "another bias of the keys": "It adds the same to all scores of a query, and the softmax takes that away.",
        "doubling W_q": "All scores are twice as large, so each softmax is sharper.",
        "the heads in another order": (
            "All four weights are put in that order together, so the same things are added in another order."
        ),
    },
)

residual_around = Choose(
    about="what is counted if the box returns x + f(x), with four heads in f",
    right="4 heads",
    options={
        "nothing: the sum over heads is spoilt": "It would be if more than the heads changed with the second token.",
        "5 heads": (
            "The connection adds c both times, alone and with a second token: the difference knows nothing of it."
        ),
        "4 heads": "What is added is the same with and without the second token, and falls out of the difference.",
    },
)

steps_along_one_line = Number(
    about="how many different steps a walk has where two of four heads write along one line",
    right=(4, 4),
    right_text="4, though the rank is 3",
    why="They look at different tokens, so they switch at different places. Only what they add lies along one line.",
    guesses=(
        (3, 3, "That is the rank. A walk sees where a head switches, too, and the two switch at different places."),
        (2, 2, "The other two heads have steps of their own."),
    ),
    other="How often does the answer move, and where?",
    unit="steps",
)

missed_by_one_head = Choose(
    about="how much of what eight heads add the best single head misses",
    right="over half",
    options={
        "next to nothing": ("So it would be if the eight wrote along nearly one line. But each has values of its own."),
        "about a fifth": (
            "The first direction is the largest, but seven others follow, and together they make over half."
        ),
        "over half": "It can move along one line only. Across seven other directions it stands still.",
    },
)
