"""The predictions of lesson 14: where silent queries look, whose maps are flat, how scores grow, what else trains."""

import math

from mhacourse.prediction import Choose, Number

what_six_weights_sum_to = Choose(
    about="what the weights of a query on the six tokens sum to, with add_zero_attn",
    right="less than 1",
    options={
        "1, as in any softmax": "All seven weights do. But the seventh is on the key of zeros, so the six sum to less.",
        "less than 1": (
            "The key of zeros has a score of 0, which puts a 1 into the denominator. It takes its share of the weight, "
            "and its value adds nothing."
        ),
        "0": "They would if the key of zeros took everything. But its score is 0, and the others are not far from 0.",
        "more than 1": "One more term in the denominator makes each weight smaller.",
    },
)

weight_on_the_marker = Number(
    about="how much of the silent queries' weight a marker anywhere gets",
    right=(90, 100),
    right_text="over 90 %",
    why="Training shrinks the value of the marker to nothing, so putting all the weight on it gives a vector of zeros.",
    guesses=(
        (0, 15, "By chance each token gets an eighth, but the head has a use for this one."),
        (15, 90, "With less, other tokens' values would get into the answer, which must be zero."),
    ),
    other="A share lies between 0 and 100 %.",
    unit="%",
)

where_the_sink_goes = Choose(
    about="where silent queries look when the marker has moved from place 0 to place 5",
    right="it differs from run to run",
    options={
        "at place 5, all of them": "They would if the head had learned what the marker is and not where it was.",
        "at place 0, all of them": "They would if the head had learned only the place.",
        "it differs from run to run": "Place and marker always came together, so each run may use either, or both.",
    },
)

silent_when_not_found = Choose(
    about="which way out keeps the silent queries silent in the second task",
    right="softmax1 only",
    options={
        "all three": "A gate sees the query but not what the query found, and a marker seldom learns the right score.",
        "the marker and softmax1": (
            "A marker could take the weight where no other key fits. But training hardly ever finds the right score "
            "for the marker: it must be above the scores of all keys that do not fit, and below the score of the key "
            "that does."
        ),
        "softmax1 only": (
            "Where no key fits, all scores are low, and the 1 in the denominator takes the row's weight. A gate sees "
            "only the query's own token, which does not tell whether the wanted kind is there, and a marker has to "
            "learn its score, while the 1 has the right score from the start."
        ),
        "the gate only": (
            "The gate was perfect when a token alone told whether to speak. But it sees only the query's own token, "
            "which does not tell whether the wanted kind is there."
        ),
    },
)

the_flattest_maps = Choose(
    about="whose maps are the flattest of the five",
    right="those of counting",
    options={
        "those of counting": "Counting needs nothing but a mean of all values, so it learns to be flat.",
        "those without positions": (
            "That model cannot find its places, but it still looks more at some tokens than at others."
        ),
        "those of the tiny rate": "These maps come from random weights, and such maps are not flat.",
    },
)

tied_heads_apart = Choose(
    about="how far apart the maps of tied heads are after 150 steps",
    right="equal to the last bit",
    options={
        "as far as other heads": (
            "Training drives heads apart only if something differs, such as a gradient or the starting weights."
        ),
        "a little, by rounding": "You would think so, but equal numbers in equal operations are rounded alike.",
        "equal to the last bit": "Equal weights get equal gradients, and stay equal.",
    },
)

largest_normed_score = Number(
    about="how large a score can become after QK-norm, with head_dim 6",
    right=(2.4, 2.5),
    right_text="2.449, the root of 6",
    why="Two vectors of length √6 have a product of at most 6, and 6 / √6 is √6.",
    guesses=(
        (1, 1, "It would be 1 with vectors of length 1 and no division."),
        (6, 6, "That is the product; it is still divided by √6."),
        (6.001, math.inf, "The weights may grow, but the norm that follows them fixes the lengths."),
    ),
    other="Two vectors of length √6 have a product of at most 6, and that is then divided by √6.",
)

scores_below_three = Choose(
    about="which of three ways keeps all scores below 3 at rate 0.3",
    right="only QK-norm with the cap",
    options={
        "all three": "A cap leaves the scores before it free to grow, and so does a second map.",
        "only QK-norm with the cap": "The norm bounds the scores. A cap bounds only what the softmax gets to see.",
        "only the cap of 50, with or without QK-norm": (
            "Scores beyond the cap all become nearly 50. Before it, nothing holds them back."
        ),
        "only differential heads": "Each of the two maps has its own softmax, whose scores may grow without bound.",
    },
)

rows_with_nan = Choose(
    about="how many of 1,024 rows are NaN in float16, when the product comes before the division",
    right="some, fewer than 60",
    options={
        "none": (
            "There would be none if q were divided first. But float16 ends at 65,504, and once a product is infinite, "
            "no division brings it back."
        ),
        "some, fewer than 60": (
            "Few products exceed 65,504, but each of them makes its whole row NaN. If you divide q first, none does."
        ),
        "nearly all": "The products have a spread of 18,000, so only a rare one exceeds 65,504.",
    },
)

which_weighings_train = Choose(
    about="which of six ways to weigh values learn two lookups, with four heads",
    right="all six",
    options={
        "softmax alone": "The other ways give several maps as well, and the task needs no more than that.",
        "the four that people publish": "You would hope so, but in training, weights adapt to a mistake, too.",
        "all six": "Even the layers with the wrong axis or the misplaced scale learn both: training is no test.",
    },
)
