"""The predictions of lesson 09: what wide heads cost, and what wins a fair comparison."""

from mhacourse.prediction import Choose, Number

unsplit_map = Choose(
    about="what tells you that the heads were never split",
    right="nothing: all weights and shapes are as they should be",
    options={
        "the number of weights": "All four matrices stay as they are: the split has no weights of its own.",
        "the shape of the output": "W_o takes heads * d_model features, from four heads joined or from one wide head.",
        "an error in the product of queries and keys": "They are as wide as each other, and that is all it asks for.",
        "nothing: all weights and shapes are as they should be": (
            "The scores come out as (B, T, T) instead of (B, 4, T, T), but nobody looks at those, and the output is "
            "(B, T, d_model) either way."
        ),
    },
)

wide_flops = Choose(
    about="how many times the FLOPs eight wide heads need",
    right="exactly eight times",
    options={
        "fewer than eight times": "The maps keep their size, but each score multiplies 728 features instead of 91.",
        "exactly eight times": (
            "Projections and maps both grow with num_heads * head_dim, which is eight times as large."
        ),
        "more than eight times": "No width is squared: d_model stays, and only num_heads * head_dim grows.",
    },
)

wide_memory = Choose(
    about="how much more a wide layer keeps for its gradients",
    right="more, but not eight times as much",
    options={
        "eight times as much": (
            "Weights and FLOPs do, but most of what is kept here is maps, and they stay as they are."
        ),
        "as much: the maps are what counts": "The maps stay, but queries, keys and values are kept, too, and grow.",
        "more, but not eight times as much": (
            "The maps are part of both sums, and only the rest grows: 1.8 times in all. Without maps, in a fused "
            "kernel, it is 6.5 times: the input is still the same."
        ),
    },
)

three_runs = Choose(
    about="where the interval of three runs lies",
    right="it is wider than from .55 to .57",
    options={
        "it is wider than from .55 to .57": (
            "It reaches from below .54 to above .58. Three runs say little about how far runs scatter, so t is 4.3."
        ),
        "it is just from .55 to .57": (
            "That is where the runs are, but all three may be on one side of their true mean."
        ),
        "it is narrower than from .55 to .57": "A mean is surer than a run, but for three runs t is 4.3, not 2.",
    },
)

shrunk_width = Number(
    about="the features of a model with eight wide heads for the same weights",
    right=(14, 14),
    right_text="14",
    why="The heads' weights grow with the square of d_model, embeddings and readout with d_model itself.",
    guesses=(
        (3, 5, "32 / 8 would be right if the weights grew with d_model. Those of the heads grow with its square."),
        (10, 13, "32 / √8 is 11, but only the heads' weights grow with the square; a little more is left."),
        (32, 32, "With 32 features the model would have four and a half times the weights: nothing would be equal."),
    ),
    other="The heads have 8 · 4 · d² weights instead of 4 · 32², embeddings and readout 128 · d: try d = 14.",
    unit="features",
)

best_arm = Choose(
    about="which arm wins at equal cost",
    right="eight narrow heads",
    options={
        "eight wide heads, as many weights": "All six answers must pass through 14 features instead of 32.",
        "eight narrow heads": "They find nearly everything: eight maps for six places, and the model keeps its 32.",
        "two layers of one head": "Two maps are few for six places, and learning to use them together is slow.",
        "none: they all find the same": "With two lookups they nearly would, but a task must be hard enough.",
    },
)

curve_of_heads = Choose(
    about="how accuracy changes from 1 to 32 heads",
    right="up, and down again",
    options={
        "up all the way": "Up to eight it helps, but of 32 features thirty-two heads get one each.",
        "up, and then level": "Heads that are too many are not free: each new one makes the others thinner.",
        "down all the way": "Heads do get thinner from the start. But a single one can only average six places.",
        "up, and down again": "An arch: too few heads average, too many are too thin.",
    },
)

thick_enough = Choose(
    about="how many features thirty-two heads need",
    right="three each",
    options={
        "three each": "One less than the eight heads had that did best: so many make up for a little width.",
        "four each, like the eight heads that did best": "It would do, but so many heads can be a little narrower.",
        "sixteen each, half of the model": "It would do, and costs far more than it must.",
        "all thirty-two: no head may be made smaller": "It would do, for over 20 times the FLOPs.",
        "no width helps: there are too many of them": "Spare heads do harm only if they take others' features.",
    },
)
