"""The predictions of lesson 04: what a mask lets through, and what becomes of it in another dialect."""

from mhacourse.prediction import Choose, Number

first_causal_row = Choose(
    about="the first row of causal weights for random scores",
    right="1, 0, 0, 0 in every head",
    options={
        "nobody can know": "The scores are random, but of the first row only one survives, and its share is always 1.",
        "1, 0, 0, 0 in every head": "The first token may see only itself, and a single share is all of it.",
        "1/4 four times": "Equal shares need equal scores; and three of the four keys are blocked.",
    },
)

padded_and_alone = Choose(
    about="whether two words get the same outputs alone and beside five paddings, without a mask",
    right="clearly other ones",
    options={
        "the same: padding means nothing": "To us. To the layer <pad> is a token with a vector, a key and a value.",
        "nearly the same": "Five tokens against two: the padding has most of the keys.",
        "clearly other ones": "Without a mask a good part of the weight goes to words that are not there.",
    },
)

joining_blocked_masks = Choose(
    about="what joins two masks in which True means blocked",
    right="or, |",
    options={
        "and, &": "That joins masks in which True means may attend: both must allow. Blocking turns it around.",
        "or, |": "One of them is enough to block: what both allow is what neither blocks.",
        "plus, +": "That joins masks of 0 and -inf; of booleans it makes no mask at all, or an or by luck.",
    },
)

mask_upside_down = Choose(
    about="what SDPA does with a mask that is upside down",
    right="it runs, and nearly all rows are wrong",
    options={
        "it runs, and nearly all rows are wrong": (
            "20 of 21 (three sentences of seven queries) see only what should be blocked, and torch says nothing."
        ),
        "it returns NaN in the rows that are wrong": (
            "Only a row with nothing to see could; here 20 of 21 rows have something, the wrong thing."
        ),
        "it stops with an error that names the mask": "It cannot know: upside down it is a legal mask, too.",
    },
)

float_triangle = Number(
    about="how much weight goes to the future when a float triangle of 0 and 1 is the mask",
    right=(15, 45),
    right_text="about a quarter, 15 to 45 %",
    why="Floats are added: 1 for the past, 0 for the future, which is a never of only -1.",
    guesses=(
        (0, 5, "0 looks like a block. But it is added to the scores, and adding 0 blocks nothing."),
        (45, 100, "Less: the past gets 1 more than the future, a factor of e for each key."),
    ),
    other="Some of it, and less than a half: the past gets a factor of e more.",
    unit="%",
)

never_added_in_float64 = Choose(
    about="a row of blocked scores when -1e9 is added in float64",
    right="as if there were no mask",
    options={
        "NaN": "That is what -inf makes, 0/0. A number as large as it may be is still a number.",
        "all shares alike": "So it is in float32, where -1e9 swallows the scores. float64 keeps them.",
        "as if there were no mask": "All scores move by the same amount, and a softmax sees only differences.",
    },
)

gradients_beside_a_nan = Choose(
    about="when one empty row leaves the gradients of the others fine",
    right="when scores are replaced and weights cleaned",
    options={
        "when scores are replaced and weights cleaned": "Each of the two stops the NaN on one side of the softmax.",
        "whenever nan_to_num cleans the weights afterwards": (
            "It cleans what comes after; the NaN inside the softmax still reaches W_q and W_k."
        ),
        "always: the loss leaves it out": "Its gradient is 0, but 0 times NaN is NaN.",
    },
)

dropout_places = Choose(
    about="where dropout leaves the mean of the output as it was",
    right="on the weights and on the output",
    options={
        "anywhere: dropout is fair everywhere": (
            "For each number it is, but a softmax behind the scores does not hand a mean through."
        ),
        "on the weights and on the output": "After both there is nothing but sums, and a mean passes through a sum.",
        "on the scores, since rows then still sum to 1": (
            "They do. But a row that sums to 1 can still be another row on average, and it is."
        ),
    },
)

one_query_is_causal = Number(
    about="how many of six keys one new query sees with is_causal=True",
    right=(1, 1),
    right_text="one, the oldest",
    why="The triangle is aligned at the top left, so query 0 belongs to key 0.",
    guesses=(
        (6, 6, "It is the newest token, so it should see all six. The triangle is drawn from the other corner."),
        (5, 5, "All that came before it sounds right. But the triangle is drawn from the other corner."),
    ),
    other="The first row of a triangle that begins at the top left.",
    unit="of 6",
)
