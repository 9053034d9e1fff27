"""The predictions of lesson 08: when one head and many are equal, where they differ, and what a thin head lacks."""

from mhacourse.prediction import Choose, Number

true_of_200 = Number(
    about="in how many of 200 seeds the experiment says True",
    right=(100, 150),
    right_text="in some 120 of them, 100 to 150 in each round of 200",
    unit="of 200",
    why="Too often for luck, and too rarely for a law.",
    guesses=(
        (180, 200, "It was true once, and it was argued like mathematics. But a law does not fail in so many cases."),
        (0, 20, "One True may have been luck, since in general the two do differ. But luck does not come so often."),
    ),
    other="It is rather more than half: too often for luck, and too rarely for a law.",
)

spread_of_scores = Choose(
    about="how far the ten scores of a row spread with positive weights",
    right="by thousands",
    options={
        "by a few units": (
            "So it was in lesson 02, and the scale is there to keep it so. But it reckons with features around 0; here "
            "all of them are large and positive."
        ),
        "by thousands": (
            "Each feature of q and k is a sum of 512 positive numbers, and each score a sum of 512 products of those."
        ),
        "hardly at all, they are nearly equal": (
            "They are, compared with their size, which is far larger still. But a softmax sees differences only."
        ),
    },
)

leaves_most_true = Choose(
    about="which change leaves the most True",
    right="two tokens in place of ten",
    options={
        "normal input in place of uniform": (
            "The weights are still positive, so scores are still large. But the sums of two tokens may have different "
            "signs or be near 0, and then each head follows its own noise."
        ),
        "weights around 0 in place of positive ones": (
            "It looks like a small change, a shift by a half. It takes away just what made one token the loudest."
        ),
        "two tokens in place of ten": "A close race between two is rarer than one between the best two of ten.",
        "the weights of nn.Linear": (
            "They are what a real layer starts from, and small. So no token wins outright, and the maps differ."
        ),
    },
)

tied_heads = Choose(
    about="whether eight heads with the same W_q and W_k equal the single head",
    right="no, the single head has a sharper map",
    options={
        "yes, all eight maps are the same": (
            "They are, and most people stop here. But the single head does not have that map: its scores add up those "
            "of the eight."
        ),
        "no, the single head has a sharper map": (
            "Eight equal scores are added, and divided by a root that is only √8 times as large."
        ),
        "no, the single head has a flatter map": (
            "It divides by a larger root, which alone would make it flatter. But it adds eight times as many products."
        ),
    },
)

where_one_head_looks = Choose(
    about="where one head looks that joins a head for cat and mat with a head for mat and rug",
    right="at mat alone",
    options={
        "at mat alone": "Adding scores multiplies weights: only mat has a large weight in both.",
        "at cat and rug, where the heads differ": (
            "These are the words that only one of the two heads likes, and the other gives them the lowest score."
        ),
        "at cat, mat and rug alike": (
            "As if the maps were added or averaged. But it is the scores that are added, before the softmax."
        ),
    },
)

blocks_with_gradient = Choose(
    about="which blocks of W_q get a gradient if the loss looks at the first 64 outputs only",
    right="with eight heads the first, with one head all",
    options={
        "with eight heads the first, with one head the first": (
            "The outputs and the blocks have the same numbers. But one head makes its map from all blocks together."
        ),
        "with eight heads the first, with one head all": (
            "What head 0 writes depends on the map of head 0. The single head has only one map, made by all blocks."
        ),
        "with eight heads all, with one head all": (
            "Every block sees the whole input. But what comes back depends on what it wrote: seven heads wrote nothing "
            "that this loss looks at."
        ),
    },
)

weights_in_the_other_model = Choose(
    about="what the weights of four trained heads reach in a model with one",
    right="about a half",
    options={
        "nearly 100 %, as with four": (
            "All keys match and all shapes are the same. But training has fitted each block to a softmax of its own."
        ),
        "about a half": "Less than one head finds for itself: these weights were made for four maps.",
        "as much as guessing, 6 %": (
            "The values and the readout still fit, and the one map is no nonsense: it looks where the four maps agree."
        ),
    },
)

keys_of_one_feature = Number(
    about="how many of 64 keys can be a first choice with one feature",
    right=(2, 2),
    right_text="2",
    unit="of 64",
    why="The largest and the smallest: a product with one number has its maximum at one of the two ends.",
    guesses=(
        (1, 1, "It would be one, the largest key, if all queries were positive. Negative ones want the smallest."),
        (3, 20, "Few, that is right. But all keys lie on one line, and a line has only two ends."),
        (21, 64, "20,000 queries ask in many ways, one would think. With one feature there are two: more, or less."),
    ),
    other="Each query has one first choice, so it is one key at least, and 64 at most.",
)

bias_to_spare = Choose(
    about="which of the four biases can go",
    right="that of k",
    options={
        "that of q": (
            "It looks like the twin of b_k. But it meets another key in each column, so it changes scores within a row."
        ),
        "that of k": "It adds the same number to all scores of a query, and a softmax sees differences only.",
        "that of v": "It is part of what every row mixes. It can be moved into b_o, but not just left out.",
        "none: each moves the output": (
            "Each moves some numbers on the way. But what moves a whole row of scores alike is gone after the softmax."
        ),
    },
)

key_bias_after_adam = Choose(
    about="where the bias of k is after 100 steps of Adam",
    right="some thousandths away from 0",
    options={
        "at 0: it has no gradient": (
            "So it would be on paper, and nearly with SGD. But a gradient of rounding errors is not exactly 0, and "
            "Adam measures each gradient by its own size."
        ),
        "some thousandths away from 0": "Its gradient is rounding noise, and Adam makes steps of it.",
        "as far as the bias of q": (
            "That one has a signal, which points the same way step after step. Noise takes one step back for each step "
            "forward, nearly."
        ),
    },
)
