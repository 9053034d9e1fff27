"""The predictions of lesson 06: what real modules return, which tests see a bug, and what shows from outside."""

from mhacourse.prediction import Choose, Number

output_length = Choose(
    about="how long the output is when 4 queries look at 12 tokens",
    right="4",
    options={
        "12": (
            "Twelve tokens are read, but reading makes no outputs. They decide only how wide each row of weights is."
        ),
        "4": "Each query gets one mixture of the values, so there are as many outputs as queries.",
        "16": (
            "The two sequences are never joined: one asks, the other answers. A joined sequence would be "
            "self-attention."
        ),
        "48": "There are 4 · 12 weights, one for each pair. The values are summed over the 12, which leaves 4.",
    },
)

textbook_maps = Number(
    about="how many different maps the textbook's experiment shows",
    right=(2, 2),
    right_text="2, one for each sample",
    why="Equal keys get equal scores: each map is uniform over what the mask allows, and there the samples differ.",
    guesses=(
        (
            1,
            1,
            "All maps are uniform, that is true. But they spread over three keys in one sample and over two in the "
            "other.",
        ),
        (
            5,
            5,
            "Five heads have five projections. But all keys are the same vector, so whatever the projection, all "
            "scores of a query are equal.",
        ),
        (
            10,
            10,
            "Ten heads and ten draws of weights should give ten maps. But all keys are the same vector, so every head "
            "gives all of them the same score.",
        ),
    ),
    other="The keys are all alike, so no head can prefer one. Only the mask makes maps differ, one for each sample.",
    unit="of 10 maps",
)

keras_key_dim = Choose(
    about="how many features a head has with num_heads=8, key_dim=512 in Keras",
    right="512",
    options={
        "64": (
            "So it would be in torch, where the layer is told the width of all heads together and cuts it. Keras is "
            "told the size of one head, and nothing has to divide."
        ),
        "512": "key_dim is the size of one head: eight wide heads, with eight times the parameters.",
        "8": "That is how many heads there are, and no size follows from it.",
    },
)

moved_samples = Choose(
    about="which samples move when sample 0 changes",
    right="all three",
    options={
        "only sample 0": (
            "Samples of a batch must not know of each other. But this module takes the first axis for the tokens, "
            "unless it is told batch_first=True, so your samples attend to each other."
        ),
        "none, it raises an error": (
            "It would be kind. But (3, 5, 512) is a legal input as three tokens of five samples, too."
        ),
        "all three": "By default the first axis is time: the three samples are three tokens, and attend to each other.",
        "sample 0 and those after it": (
            "That would be a causal mask over the first axis. There is no mask here, so every one sees every other."
        ),
    },
)

batch_second_map = Choose(
    about="the shape of the map that comes back",
    right="(12, 3, 3)",
    options={
        "(12, 3, 3)": (
            "It sees 12 samples of 3 tokens, and averages over the heads. The shape of the map tells what the shape "
            "of the output hides."
        ),
        "(3, 12, 12)": "This is the map that you wanted, averaged over the heads; it takes batch_first=True.",
        "(3, 8, 12, 12)": (
            "One map for each of 8 heads takes average_attn_weights=False, and 12 by 12 takes batch_first=True."
        ),
        "(12, 8, 3, 3)": (
            "Right about the axes that it confuses. But by default the heads are averaged, so there is no axis of 8."
        ),
    },
)

toy_test = Number(
    about="how many of nine broken layers fail the toy test",
    right=(0, 0),
    right_text="0",
    why="It prints a shape, and every one of the nine gives the right shape.",
    guesses=(
        (
            1,
            3,
            "Those that put numbers in the wrong place do not change the shape either: reshape gives whatever shape "
            "it is asked for.",
        ),
        (
            4,
            8,
            "So many bugs ought to show somewhere. They would in the numbers, on tokens that differ; a shape shows "
            "none of them.",
        ),
        (9, 9, "Every one of them is broken, but the test only looks at the shape, which is right."),
    ),
    other="There are nine layers, so the answer lies between 0 and 9.",
    unit="of 9",
)

unseen_bug = Choose(
    about="which of the nine the doctor can name only by looking inside while the layer computes",
    right="scale 1/√d_model",
    options={
        "scale 1/√d_model": (
            "Every map is still a legal attention map, only flatter; a healthy layer with smaller W_q makes the same."
        ),
        "W_o unused": (
            "The output has the right shape and depends on the right tokens. But no gradient reaches W_o, which is a "
            "parameter all the same."
        ),
        "another sample's heads": (
            "Within a sample nothing looks wrong, the order of tokens included. But change one sample, and the other "
            "one moves."
        ),
        "dropout left on": (
            "It seems to be hidden in randomness. But an examined layer is in eval mode, and two calls that differ "
            "give it away at once."
        ),
    },
)

grouped_box = Number(
    about="how many heads are counted where 8 share 2 heads of keys and values",
    right=(8, 8),
    right_text="8",
    why="Each query head has scores of its own, and a piece of W_o of its own, so each adds a direction of its own.",
    guesses=(
        (
            2,
            2,
            "Only two kinds of values come out of W_v. But each of the eight heads weighs them on its own and writes "
            "them through its own piece of W_o.",
        ),
        (
            4,
            4,
            "Four query heads share one head of keys. They share the keys, not the queries, so each has its own map.",
        ),
        (
            10,
            16,
            "Heads of keys do not write anything; only heads of queries end in a piece of W_o, and there are eight.",
        ),
    ),
    other="Ask for each head of queries: does it have a map of its own, and a piece of W_o of its own?",
    unit="heads",
)

twin_heads = Number(
    about="how many of 4 heads are counted where two have the same scores",
    right=(3, 3),
    right_text="3",
    why="The two always look at the same tokens, so what they add comes only together: one direction for both.",
    guesses=(
        (
            4,
            4,
            "Their values do differ. But they always come in the same mixture, by the same weight, so their two "
            "vectors are only ever seen as one sum.",
        ),
        (2, 2, "The two are one, but the other two heads still have maps of their own."),
        (
            1,
            1,
            "Only two heads have the same scores. The other two move on their own, each in its own direction.",
        ),
    ),
    other="Two heads that always get the same weight are seen as one; count the others as usual.",
    unit="of 4 heads",
)
