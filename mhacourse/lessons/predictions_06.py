"""The predictions of lesson 06: how far the ways to write the layer agree, and what real modules return."""

from mhacourse.prediction import Choose, Number

cross_weights = Choose(
    about="the shape of the weights when 4 queries look at 12 tokens",
    right="(3, 8, 4, 12)",
    options={
        "(3, 8, 12, 12)": "The tokens do not look at each other here; the four queries look at them.",
        "(3, 8, 4, 12)": (
            "There is a row for each query, a weight for each key, and a map for each head of each sentence."
        ),
        "(3, 8, 12, 4)": "Rows belong to queries, and columns to keys.",
        "(3, 8, 16, 16)": "The two sequences are never joined: one gives the queries, the other the keys.",
    },
)

textbook_maps = Number(
    about="how many different maps the textbook's experiment shows",
    right=(2, 2),
    right_text="2, one for each sample",
    why=(
        "Equal keys get equal scores, so each map is uniform over the keys that the mask allows. Each sample allows "
        "different keys."
    ),
    guesses=(
        (1, 1, "All maps are uniform, but over three keys in one sample and over two in the other."),
        (
            5,
            5,
            "Five heads have five projections, but all keys are the same vector, so all scores of a query are equal.",
        ),
        (
            10,
            10,
            "Random weights suggest ten different maps, but all keys are the same vector: no head can tell them apart.",
        ),
    ),
    other=(
        "The keys are all alike, so no head can prefer one. Only the mask makes maps differ, and each sample has one "
        "mask."
    ),
    unit="of 10 maps",
)

in_float64 = Choose(
    about="what becomes of the largest difference in float64",
    right="it shrinks to around 1e-14",
    options={
        "it stays as it is": "It would if one of the ways computed a different formula.",
        "it shrinks to around 1e-14": (
            "The difference is rounding, and float64 keeps 29 more bits, so each error is some 500 million times "
            "smaller."
        ),
        "it vanishes: all are exactly equal": "Each way adds in a different order and rounds differently, even here.",
        "it halves": "Each bit halves the error, and there are 29 more of them.",
    },
)

keras_key_dim = Choose(
    about="how many features a head has with num_heads=8, key_dim=512 in Keras",
    right="512",
    options={
        "64": "It would be 64 in torch, which takes the width of all heads together. Keras takes the size of one.",
        "512": "key_dim is the size of one head, so these are eight wide heads, with eight times the parameters.",
        "8": "That is how many heads there are, and it says nothing about their size.",
    },
)

moved_samples = Choose(
    about="which samples of the output change when sample 0 changes",
    right="all three",
    options={
        "only sample 0": (
            "That is how it should be, but without batch_first=True this module treats the first axis as the token "
            "axis."
        ),
        "none, it raises an error": (
            "That would be kind, but (3, 5, 512) could just as well be three tokens of five samples."
        ),
        "all three": (
            "By default the first axis is time, so the three samples become three tokens that attend to each other."
        ),
        "sample 0 and those after it": "That would take a causal mask along the first axis.",
    },
)

batch_second_map = Choose(
    about="the shape of the map that comes back",
    right="(12, 3, 3)",
    options={
        "(12, 3, 3)": (
            "The layer sees 12 samples of 3 tokens, and it averages the maps over the heads. The shape of the output "
            "hides this; the shape of the map shows it."
        ),
        "(3, 12, 12)": "This is the map that you wanted, averaged over the heads. To get it, set batch_first=True.",
        "(3, 8, 12, 12)": "To get eight maps, set average_attn_weights=False; to get 12 by 12, set batch_first=True.",
        "(12, 8, 3, 3)": "The axes are indeed mixed up, but by default the heads are averaged.",
    },
)
