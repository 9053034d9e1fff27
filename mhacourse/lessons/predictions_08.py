"""The predictions of lesson 08: when one head and many are equal, where they differ, and what a narrow head lacks."""

from mhacourse.prediction import Choose, Number

true_of_200 = Number(
    about="in how many of 200 seeds the experiment says True",
    right=(100, 150),
    right_text="in some 120 of them; every round of 200 seeds gives 100 to 150",
    unit="of 200",
    why="That is rather more than half: too often for luck, and too rarely for a law.",
    guesses=(
        (180, 200, "It was true once, and the argument sounds like mathematics. But a law does not fail this often."),
        (0, 20, "In general the two do differ, so one True may have been luck. But luck does not come this often."),
    ),
    other="It is rather more than half: too often for luck, and too rarely for a law.",
)

spread_of_scores = Choose(
    about="how far the ten scores of a row spread with positive weights",
    right="by thousands",
    options={
        "by a few units": (
            "The scale keeps the scores close together for features around 0, but here all features are large and "
            "positive."
        ),
        "by thousands": (
            "Each feature of q and k is a sum of 512 positive numbers, and each score is a sum of 512 products of two "
            "such features, so it is in the hundreds of thousands. A difference of a few per cent is then a difference "
            "of thousands."
        ),
        "hardly at all, they are nearly equal": "For their size they are, but a softmax sees only differences.",
    },
)

leaves_most_true = Choose(
    about="after which change True comes up most often",
    right="two tokens in place of ten",
    options={
        "normal input in place of uniform": (
            "Scores stay large, but a token's features may sum to nearly 0, and then each head follows its own noise."
        ),
        "weights around 0 in place of positive ones": "This takes away exactly what made one token the loudest.",
        "two tokens in place of ten": (
            "A close race between two tokens is rarer than one between the best two of ten, so True comes up more "
            "often."
        ),
        "the weights of nn.Linear": "They are small and around 0, so no token wins outright.",
    },
)

tied_heads = Choose(
    about="whether eight heads with the same W_q and W_k equal the single head",
    right="no, the single head has a sharper map",
    options={
        "yes, all eight maps are the same": (
            "The maps are the same, but the single head adds up the heads' scores first."
        ),
        "no, the single head has a sharper map": (
            "It adds eight equal scores and divides by a root that is only √8 times as large, so its scores are √8 "
            "times as far apart."
        ),
        "no, the single head has a flatter map": "Its root is larger, but it adds eight times as many products.",
    },
)

where_one_head_looks = Choose(
    about="where a single head looks if it joins a head for cat and mat with one for mat and rug",
    right="at mat alone",
    options={
        "at mat alone": "Adding scores multiplies weights, and only mat has a large weight in both.",
        "at cat and rug, where the heads differ": "Each of them scores high in one head but lowest in the other.",
        "at cat, mat and rug alike": (
            "That would be so if the maps were added. But the scores are added, before the softmax."
        ),
    },
)

blocks_with_gradient = Choose(
    about="which blocks of W_q get a gradient if the loss looks only at the first 64 outputs",
    right="with eight heads the first, with one head all",
    options={
        "with eight heads the first, with one head the first": (
            "Outputs and blocks are numbered alike, but a single head makes its map from all blocks."
        ),
        "with eight heads the first, with one head all": (
            "The output of head 0 depends only on head 0's map. The single head has only one map, made from all blocks."
        ),
        "with eight heads all, with one head all": (
            "Every block sees the input, but seven of the heads write nothing that this loss looks at."
        ),
    },
)

weights_in_the_other_model = Choose(
    about="what accuracy the weights of four trained heads reach in a model with one head",
    right="about a half",
    options={
        "nearly 100 %, as with four": "All shapes match, but training has fitted each block to its own softmax.",
        "about a half": (
            "A single head with its own training reaches more than that, but these weights were trained for four maps."
        ),
        "as much as guessing, 6 %": "The values still fit, and the single map looks where the four agree.",
    },
)

keys_of_one_feature = Number(
    about="how many of 64 keys can ever be a query's first choice, with one feature",
    right=(2, 2),
    right_text="2",
    unit="of 64",
    why=(
        "The largest key wins for every positive query and the smallest for every negative one. No other key ever wins."
    ),
    guesses=(
        (1, 1, "It would be one, the largest key, if all queries were positive. Negative ones want the smallest."),
        (3, 20, "Few is right. But all keys are on one line, and a line has only two ends."),
        (
            21,
            64,
            "You would think that 20,000 queries want many different things. With one feature, they want either more "
            "or less.",
        ),
    ),
    other="Each query has one first choice, so the answer is between 1 and 64.",
)

bias_to_spare = Choose(
    about="which of the four biases can go",
    right="that of k",
    options={
        "that of q": "It looks like the twin of b_k, but it meets a different key in each column.",
        "that of k": "It adds the same number to all scores of a query, and a softmax sees only differences.",
        "that of v": "Every output contains it, so you can move it into b_o, but you cannot leave it out.",
        "none: each moves the output": (
            "A bias that shifts a whole row of scores by the same amount is gone after the softmax."
        ),
    },
)

key_bias_after_adam = Choose(
    about="where the bias of k is after 100 steps of Adam",
    right="some thousandths away from 0",
    options={
        "at 0: it has no gradient": "On paper it has none, but rounding leaves a gradient that is not exactly 0.",
        "some thousandths away from 0": (
            "Its gradient is nothing but rounding, yet Adam still turns it into small steps."
        ),
        "as far as the bias of q": "Adam would move it that far if it did not add 1e-8 to the denominator.",
    },
)
