"""The predictions of lesson 09: what wide heads cost, and what wins a fair comparison."""

from mhacourse.prediction import Choose, Number

unsplit_map = Choose(
    about="what the one map is, if four heads are never split",
    right="a softmax of the four heads' scores, added up",
    options={
        "the mean of the four heads' maps": (
            "That would need four softmaxes first. Without a split the scores are added before the only softmax."
        ),
        "the map of the first head": (
            "Nothing is cut off: the product runs over all the features, those of the other heads as well."
        ),
        "a softmax of the four heads' scores, added up": (
            "A product over all features is the sum of the products over each head's features. Only then comes the "
            "softmax, and there is one of it."
        ),
        "four maps, one above the other": (
            "That is what the split is for. Without it queries and keys are (B, T, heads * d_model), and their "
            "product is a single (B, T, T)."
        ),
    },
)

wide_flops = Choose(
    about="how many times the FLOPs eight wide heads need",
    right="exactly eight times",
    options={
        "fewer than eight times": (
            "The maps have the same size, so their work seems to be the same. But each score in them now multiplies "
            "728 features instead of 91."
        ),
        "exactly eight times": (
            "Projections and maps both grow with num_heads * head_dim, which is eight times as large."
        ),
        "more than eight times": (
            "It would be 64 times if the width appeared squared somewhere. But d_model stays; only num_heads * "
            "head_dim grows."
        ),
    },
)

wide_memory = Choose(
    about="how much more a wide layer keeps for its gradients",
    right="more, but not eight times as much",
    options={
        "eight times as much": (
            "Weights, FLOPs and cache do, and so do the queries, keys and values. But most of what is kept here is "
            "maps, and they stay as they are: 1.8 times. Without maps, in a fused kernel, it comes near: 6.5 times."
        ),
        "as much: the maps are what counts": (
            "The maps are over half of it, and they do stay. But queries, keys and values are kept as well, and these "
            "grow: 1.8 times in all, and 6.5 times in a fused kernel, which keeps no maps."
        ),
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
            "That is where the runs are. The interval is about their true mean, and three runs may all be on one side "
            "of it."
        ),
        "it is narrower than from .55 to .57": (
            "A mean is indeed surer than a single run. But how far runs scatter has to be guessed from three of them, "
            "and for that t is 4.3 instead of 2."
        ),
    },
)

shrunk_width = Number(
    about="the features of a model with eight wide heads for the same weights",
    right=(14, 14),
    right_text="14",
    why="The heads' weights grow with the square of d_model, embeddings and readout with d_model itself.",
    guesses=(
        (3, 5, "32 / 8 would be right if the weights grew with d_model. Those of the heads grow with its square."),
        (
            10,
            13,
            "32 / √8 is 11, and would be right if the model were nothing but heads: their weights are 8 · 4 · d². "
            "Embeddings and readout only grow with d, so a little more is left.",
        ),
        (32, 32, "With 32 features the model would have four and a half times the weights: nothing would be equal."),
    ),
    other="The heads have 8 · 4 · d² weights instead of 4 · 32², embeddings and readout 128 · d: try d = 14.",
    unit="features",
)

best_arm = Choose(
    about="which arm wins at equal cost",
    right="eight narrow heads",
    options={
        "eight wide heads, as many weights": (
            "Each of them can do more. But for the same weights their model has 14 features instead of 32, and all six "
            "answers must pass through these."
        ),
        "eight narrow heads": (
            "They find nearly everything. Four features are enough to find one place among sixteen, and the model "
            "keeps its 32."
        ),
        "two layers of one head": (
            "A second layer has a second map, and later steps can build on it. But two maps are few for six places, "
            "and learning to use them together is slow: within 200 steps they hardly pass a single head."
        ),
        "none: they all find the same": (
            "With two lookups they nearly would. A task must be hard enough, or it decides nothing."
        ),
    },
)

curve_of_heads = Choose(
    about="how accuracy changes from 1 to 32 heads",
    right="up, and down again",
    options={
        "up all the way": (
            "More heads are more maps, and up to eight that helps. But the features are shared out: of 32, thirty-two "
            "heads get one each."
        ),
        "up, and then level": (
            "More heads than there are places to look at could just do nothing. But they are not free: each new one "
            "makes the others thinner."
        ),
        "down all the way": "Heads do get thinner from the start. But a single one can only average six places.",
        "up, and down again": "An arch: too few heads average, too many are too thin.",
    },
)

thick_enough = Choose(
    about="how wide thirty-two heads must be",
    right="four features each",
    options={
        "all thirty-two: no head may be made smaller": (
            "That is the proposal, and it would work, for over 20 times the FLOPs. But eight heads of four features "
            "did it before."
        ),
        "sixteen each, half of the model": "It would do, and costs more than it must: four are enough for this task.",
        "four features each": "That is what each of the eight heads had that did best.",
        "no width helps: there are too many of them": (
            "Heads that nobody needs do no harm by being there, only by taking features from the others."
        ),
    },
)
