"""The predictions of lesson 03: which split is right, and which tests see that the other is wrong."""

from mhalib.checks.prediction import Choose

which_split = Choose(
    about="which candidate equals the specification",
    right="the second",
    options={
        "the first": (
            "Its shape is right, and a shape is all that most of us look at. But it cuts the sentence, not the "
            "features: head 0 gets the first tokens whole."
        ),
        "the second": "It cuts each token's features first, then puts the heads in front.",
        "both": "They have the same shape and the same numbers, in another order: row 1 of head 0 tells them apart.",
    },
)
