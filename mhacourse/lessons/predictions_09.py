"""The predictions of lesson 09: what wide heads cost, and what wins a fair comparison."""

from mhacourse.prediction import Choose, Number

unsplit_map = Choose(
    about="what tells you that the heads were never split",
    right="nothing: weights and shapes are all right",
    options={
        "the number of weights": "All four matrices stay as they are, because the split has no weights of its own.",
        "the shape of the output": (
            "W_o takes heads * d_model features, whether they come from four heads joined or from one wide head."
        ),
        "an error in the product of queries and keys": (
            "Queries and keys are equally wide, and the product needs nothing more."
        ),
        "nothing: weights and shapes are all right": (
            "The scores come out as (B, T, T) instead of (B, 4, T, T), but nobody looks at their shape, and the output "
            "is (B, T, d_model) either way."
        ),
    },
)

wide_flops = Choose(
    about="how many times the narrow layer's FLOPs eight wide heads need",
    right="exactly eight times",
    options={
        "fewer than eight times": "The maps keep their size, but each score multiplies 728 features instead of 91.",
        "exactly eight times": (
            "Projections and maps both grow with num_heads * head_dim, which is eight times as large."
        ),
        "more than eight times": "No width is squared: d_model stays the same, and only num_heads * head_dim grows.",
    },
)

wide_memory = Choose(
    about="how much more a wide layer keeps for its gradients",
    right="more, but not eight times as much",
    options={
        "eight times as much": (
            "Weights and FLOPs do grow that much. But here the layer keeps mostly maps, and maps do not grow."
        ),
        "just as much: the maps are what counts": (
            "The maps stay the same, but queries, keys and values are kept, too, and they grow."
        ),
        "more, but not eight times as much": (
            "Both layers keep equally many maps and only the rest grows, so the total grows by a factor of just 1.8. "
            "In a fused kernel, which stores no maps, the factor is 6.5 and not 8, because the input does not grow."
        ),
    },
)

three_runs = Choose(
    about="where the interval of three runs lies",
    right="it is wider than from .55 to .57",
    options={
        "it is wider than from .55 to .57": (
            "It reaches from below .54 to above .58. Three runs say little about their spread, so the factor t is 4.3."
        ),
        "it is just from .55 to .57": (
            "That is where the runs are, but all three may be on the same side of their true mean."
        ),
        "it is narrower than from .55 to .57": (
            "A mean is more certain than a single run, but for three runs t is 4.3, not 2."
        ),
    },
)

shrunk_width = Number(
    about="how many features a model of eight wide heads can have with the same number of weights",
    right=(14, 14),
    right_text="14",
    why="The heads' weights grow with the square of d_model, the embeddings and the readout with d_model itself.",
    guesses=(
        (3, 5, "32 / 8 would be right if the weights grew with d_model. The heads' weights grow with its square."),
        (
            10,
            13,
            "32 / √8 is 11. But only the heads' weights grow with the square of d_model, so it can be a little larger.",
        ),
        (
            32,
            32,
            "With 32 features, the model would have four and a half times as many weights, not equally many.",
        ),
    ),
    other="The heads have 8 · 4 · d² weights instead of 4 · 32², and embeddings and readout have 128 · d: try d = 14.",
    unit="features",
)

best_arm = Choose(
    about="which variant wins at equal cost",
    right="eight narrow heads",
    options={
        "eight wide heads, as many weights": "All six answers must pass through 14 features instead of 32.",
        "eight narrow heads": (
            "They find nearly everything: there are eight maps for six places, and the model keeps its 32 features."
        ),
        "two layers of one head": "Two maps are few for six places, and learning to use them together is slow.",
        "none: they all find the same": (
            "With two lookups they nearly would, but a task must be hard enough to tell them apart."
        ),
    },
)

curve_of_heads = Choose(
    about="how accuracy changes from 1 to 32 heads",
    right="up, and down again",
    options={
        "up all the way": "Up to eight it helps, but with thirty-two heads, each gets only one of the 32 features.",
        "up, and then level": "Spare heads are not free: each new one makes the others narrower.",
        "down all the way": "Heads do get narrower from the start. But a single head can only average six places.",
        "up, and down again": "The curve is an arch: too few heads average, and too many are too narrow.",
    },
)

thick_enough = Choose(
    about="how many features each of thirty-two heads needs",
    right="three each",
    options={
        "three each": "The eight heads that did best had four each. With so many heads, three are enough.",
        "four each, like the eight heads that did best": "That would do, but so many heads can be a little narrower.",
        "sixteen each, half of the model": "That would do, but it costs far more than it must.",
        "all thirty-two: no head may be made smaller": "That would do, but it takes over 20 times the FLOPs.",
        "no width helps: there are too many of them": "Spare heads do harm only if they take features from the others.",
    },
)
