"""The predictions of lesson 01: what q and k do, what a projection touches, what a head sees, and how it is stored."""

from mhacourse.prediction import Choose, Number

shared_qk = Choose(
    about="what is lost if query and key come from one matrix",
    right="a score of its own for each direction",
    options={
        "a score of its own for each direction": (
            'The product of two vectors does not depend on which comes first, so the scores are symmetric: "old" '
            'scores "bridge" exactly as "bridge" scores "old". (Their weights may differ, since each row has its own '
            "softmax.)"
        ),
        "every word looks only at itself": (
            "A word does give itself a high score then, but others may score even higher."
        ),
        "nothing: one matrix learns as well": "Whatever it learns, q · k is the same product both ways.",
    },
)

rows_that_change = Choose(
    about="which rows of q change when token 1 changes",
    right="row 1 only",
    options={
        "all rows: it is attention": (
            "The attention weights mix tokens later on, but a projection multiplies each row by W separately."
        ),
        "row 1 only": "Each row of the product comes from one row of tokens: a projection never mixes tokens.",
        "row 1 and those after it": (
            "A network that reads from left to right works like that, but a matrix product computes each row "
            "separately."
        ),
    },
)

linear_weight = Choose(
    about="the shape of nn.Linear(4, 2).weight",
    right="(2, 4)",
    options={
        "(4, 2)": "That is the shape of W in x @ W, but the layer stores the transpose and computes x @ weight.T.",
        "(2, 4)": "Out comes before in: there is one row for each output. The layer computes x @ weight.T.",
        "(2, 5)": "One more column could hold the bias, but torch keeps it separately, in linear.bias.",
    },
)

features_seen = Number(
    about="on how many features of its token a head's query depends",
    right=(512, 512),
    right_text="512, all of them",
    unit="of 512",
    why="Each number of q is made from the whole token, before anything is cut.",
    guesses=(
        (64, 64, "512 / 8 is the width of a head, but the split applies to the projection's output, not to its input."),
        (0, 8, "There are 8 heads, but no number of q is made from so few features."),
    ),
    other=(
        "Each number of q is a sum over a whole row of the weight, and a row has an entry for each of the 512 features."
    ),
)

blind_directions = Number(
    about="in how many directions a token can change without its head noticing",
    right=(448, 448),
    right_text="448",
    unit="of 512",
    why="64 numbers can tell 64 directions apart. The other 512 - 64 are the blind spot.",
    guesses=(
        (0, 0, "Each feature counts, but 64 sums of 512 features each cannot tell all changes apart."),
        (
            64,
            64,
            "The head notices 64 directions, one per number of its query. It is blind to the other 512 - 64.",
        ),
    ),
    other="64 numbers can tell at most 64 of 512 directions apart; the rest go unnoticed.",
)

same_start = Choose(
    about="whose scores start larger under Xavier, those of a fused layer or of separate ones",
    right="those of separate layers",
    options={
        "those of the fused layer": (
            "It has three times as many numbers, but that is why each of them starts smaller: Xavier divides by in + "
            "out."
        ),
        "neither: they are the same layer": (
            "With the same numbers they are, but the numbers that Xavier draws depend on the shape of the weight."
        ),
        "those of separate layers": (
            "Xavier draws smaller numbers for a larger weight. A score multiplies two projections, so in a fused layer "
            "the spread of the scores is halved."
        ),
    },
)

same_cut = Choose(
    about="what comes out if the fused layer's output is cut by head first",
    right="different q, k and v, in the right shapes",
    options={
        "the same q, k and v": (
            "Only the order of two steps has changed, but the first step decides which rows a head gets."
        ),
        "different q, k and v, in the right shapes": (
            "Cutting by head first gives head 0 the first 192 rows, and all of these belong to q, because the three "
            "weights are stacked on top of each other."
        ),
        "k and v exchanged, q right": "It is not that orderly: only the query of head 0 is right, and that by chance.",
    },
)
