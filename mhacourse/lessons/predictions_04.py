"""The predictions of lesson 04: what a mask lets through, and what becomes of it in another dialect."""

from mhacourse.prediction import Choose, Number

first_causal_row = Choose(
    about="the first row of causal weights for random scores",
    right="1, 0, 0, 0 in every head",
    options={
        "nobody can know": (
            "The scores are random, but only one score in the first row survives, and its share is always 1."
        ),
        "1, 0, 0, 0 in every head": "The first token may see only itself, and a single share is the whole.",
        "1/4 four times": "Equal shares need equal scores, and three of the four keys are blocked.",
    },
)

padded_and_alone = Choose(
    about="whether two words get the same outputs alone and beside five <pad> tokens, without a mask",
    right="clearly different ones",
    options={
        "the same: padding means nothing": (
            "To us, yes. To the layer, <pad> is a token with a vector, a key and a value."
        ),
        "nearly the same": "It is five tokens against two, so the padding has most of the keys.",
        "clearly different ones": "Without a mask, a good part of the weight goes to words that are not there.",
    },
)

joining_blocked_masks = Choose(
    about="what joins two masks in which True means blocked",
    right="or, |",
    options={
        "and, &": (
            "That joins masks in which True means may attend, since both masks must allow a key. With blocking, it is "
            "the other way round."
        ),
        "or, |": "One mask is enough to block a key, so a key is visible only if neither mask blocks it.",
        "plus, +": (
            "That joins masks of 0 and -inf. Adding booleans gives no mask at all or, by luck, the same result as |."
        ),
    },
)

mask_upside_down = Choose(
    about="what SDPA does with a mask that is upside down",
    right="it runs, and nearly all rows are wrong",
    options={
        "it runs, and nearly all rows are wrong": (
            "20 of 21 rows (three sentences of seven queries) see only what should be blocked, and torch says nothing."
        ),
        "it returns NaN in the rows that are wrong": (
            "Only a row with nothing to see could do that. Here 20 of 21 rows do see something, just the wrong things."
        ),
        "it stops with an error that names the mask": "SDPA cannot know: an upside-down mask is still a legal mask.",
    },
)

float_triangle = Number(
    about="how much weight goes to the future when a float triangle of 0 and 1 is the mask",
    right=(15, 45),
    right_text="about a quarter, 15 to 45 %",
    why="A float mask is added to the scores: 1 for the past, 0 for the future. The future is held back by a mere 1.",
    guesses=(
        (0, 5, "0 looks like a block. But it is added to the scores, and adding 0 blocks nothing."),
        (45, 100, "It is less: each past score gets 1 more than a future one, a factor of e for each key."),
    ),
    other="Some of the weight goes there, but less than half, since each past key gains a factor of e.",
    unit="%",
)

never_added_in_float64 = Choose(
    about="the softmax of a row of blocked scores when -1e9 is added in float64",
    right="as if there were no mask",
    options={
        "NaN": "-inf would give NaN, because 0/0 is NaN. But -1e9 is a finite number.",
        "all shares alike": "They would be in float32, where -1e9 swallows the scores. float64 keeps them.",
        "as if there were no mask": "All scores move by the same amount, and a softmax sees only differences.",
    },
)

gradients_beside_a_nan = Choose(
    about="when one empty row leaves the gradients of the others fine",
    right="when scores are replaced and weights cleaned",
    options={
        "when scores are replaced and weights cleaned": "Each step keeps NaN out on one side of the softmax.",
        "whenever nan_to_num cleans the weights afterwards": (
            "It cleans the weights, but in the backward pass the NaN inside the softmax still reaches W_q and W_k."
        ),
        "always: the loss leaves it out": "The row's gradient is 0, but 0 times NaN is NaN.",
    },
)

dropout_places = Choose(
    about="where dropout leaves the mean of the output unchanged",
    right="on the weights and on the output",
    options={
        "anywhere: dropout is fair everywhere": (
            "It is fair to each number, but the softmax that follows the scores does not preserve the mean."
        ),
        "on the weights and on the output": (
            "From either place on, there are only sums, and a sum preserves the mean."
        ),
        "on the scores, since rows then still sum to 1": (
            "They do. But a row that sums to 1 can still differ, on average, from the row without dropout. Here it "
            "does."
        ),
    },
)

one_query_is_causal = Number(
    about="how many of six keys one new query sees with is_causal=True",
    right=(1, 1),
    right_text="one, the oldest",
    why="The triangle is aligned at the top left, so query 0 belongs to key 0.",
    guesses=(
        (6, 6, "It is the newest token, so it should see all six. But the triangle is drawn from the other corner."),
        (5, 5, "You may want it to see everything before it, but the triangle is drawn from the other corner."),
    ),
    other="It gets the first row of a triangle that begins at the top left.",
    unit="of 6",
)
