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

nearness_of_maps = Choose(
    about="how near the attention that is read from outside comes to the true one",
    right="to more than ten digits",
    options={
        "to a few percent": "One expects an estimate. But nothing is estimated here: there is no noise but rounding.",
        "to three or four digits": "So it would be in float32 with eight heads and no care.",
        "to more than ten digits": "Least squares solves for the weights, and in float64 only rounding is in its way.",
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

weights_of_one_head = Choose(
    about="whether some weights make one wide head equal to eight heads",
    right="no",
    options={
        "yes, both have the same parameters": "Equally many numbers, but they make other functions with them.",
        "yes, if it is trained long enough": (
            "Training chooses among the functions that a layer can be, and this one is not among them."
        ),
        "no": "What a second token adds lies along one line for one head, whatever its weights are.",
    },
)
