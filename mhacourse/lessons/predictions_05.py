"""The predictions of lesson 05: what the wrong merge does, what it is worth in training, and what `W_o` adds up."""

from mhacourse.prediction import Choose, Number

merged_rows = Choose(
    about="the two rows of the merged result",
    right="[0, 10] and [1, 11]",
    options={
        "[0, 1] and [10, 11]": (
            "The numbers stand like that already. But each of these rows is one head, of both tokens; the next layer "
            "wants one token in each row."
        ),
        "[0, 11] and [1, 10]": (
            "Both heads are in each row, but so are both tokens: 0 belongs to token 0, and 11 to token 1."
        ),
        "[0, 10] and [1, 11]": "Row 0 is token 0 as both heads see it, row 1 is token 1.",
        "[10, 0] and [11, 1]": (
            "One token in each row, as it should be, and the heads in the opposite order. A W_o could be trained for "
            "that; concatenating puts head 0 first."
        ),
    },
)

last_word = Choose(
    about="which output rows the last word moves, through the wrong merge",
    right="all six",
    options={
        "the last only": (
            "That is what the causal mask promises, and it keeps its promise for every head. The merge comes after the "
            "mask and puts pieces of the last word into every row."
        ),
        "none": "The last word may look at itself, so at least its own output moves.",
        "the last two": (
            "A row takes the next pieces in line, so it seems that only neighbours mix. But eight pieces in line reach "
            "over all six words."
        ),
        "all six": "Each row holds a piece of the last word, of one head or another.",
    },
)

two_losses = Choose(
    about="which losses the two layers reach on random tokens",
    right="the correct one stays near 2.77, the wrong one falls far below",
    options={
        "both stay near 2.77": (
            "Nobody can know what will be drawn next, so no layer should get below the entropy. One of the two is "
            "told what was drawn."
        ),
        "both fall far below, with enough training": (
            "Training usually lowers the loss. But these tokens are new at every step, so there is nothing to learn "
            "that an honest model could keep."
        ),
        "the correct one stays near 2.77, the wrong one falls far below": (
            "The next token is in the input, and the wrong merge carries it back to where it is asked for."
        ),
        "the correct one falls below 2.77, the wrong one stays above": (
            "A bug should do harm, and the correct layer should win. Here the bug helps: it lets the layer see the "
            "answer, which the correct one cannot."
        ),
    },
)

loss_above_zero = Choose(
    about="why the wrong layer stops at a loss of .35",
    right="one position does not hold its answer",
    options={
        "400 steps are not enough": (
            "Most losses that stop above zero would fall with more training. This one would not: seven positions are "
            "near 0 already, and one cannot get below ln 16."
        ),
        "one position does not hold its answer": (
            "The last target is not in the input, so the last position guesses: ln(16) / 8 is left of the mean."
        ),
        "the causal mask holds half of the future back": (
            "The mask works inside each head, but every head's last query has read all tokens, and the merge hands "
            "that to everyone."
        ),
        "32 features are too few for eight positions": (
            "It would spread the loss over all positions. The bars show seven near 0 and one at the entropy."
        ),
    },
)

leaking_pairs = Number(
    about="how many of 28 pairs leak with eight tokens and eight heads",
    right=(28, 28),
    right_text="28, all of them",
    why="Row t gets head t of all eight tokens, and the last of them has read everything.",
    guesses=(
        (0, 0, "The mask hides every later token inside the heads, but the merge mixes the tokens after it."),
        (
            7,
            8,
            "Seven is one for each pair of neighbours. But a row takes eight pieces in line, and with eight tokens "
            "these reach from the first token to the last.",
        ),
        (14, 14, "It is no half: each row gets one head of all eight tokens, the last one included."),
        (
            21,
            27,
            "Nearly. No row is spared: each gets a piece of the last token, which has read all the others.",
        ),
    ),
    other=(
        "A row takes eight pieces in line. Count which tokens these are, and which tokens the last of them has read: "
        "it is all of them, for every row."
    ),
    unit="of 28 pairs",
)

easy_tasks = Number(
    about="which share of the tokens the wrong merge copies and reverses rightly, without a mask",
    right=(98, 100),
    right_text="over 99 %",
    why="Every head may look anywhere, so it learns to fetch what the row needs in which its piece will end up.",
    guesses=(
        (
            0,
            12,
            "About 6 % is a guess. The rows are mixed, but nothing is lost: each token still reaches every row through "
            "some head, and training finds the way.",
        ),
        (
            12,
            60,
            "Mixed tokens should make mistakes. But the mixing is the same each time, so training learns to undo it.",
        ),
        (
            60,
            98,
            "A bug should cost at least something. Here it costs nothing, which is why a training test does not find "
            "it.",
        ),
    ),
    other="A share of tokens lies between 0 and 100 %.",
    unit="%",
)

masked_copy = Number(
    about="which share of the tokens two heads copy through the wrong merge, under a causal mask",
    right=(60, 70),
    right_text="about 65 %",
    why="Five of the eight rows get a piece that has read their token; the other three can only guess.",
    guesses=(
        (
            98,
            100,
            "So it was without a mask. Now a head may not look ahead, and some rows get only pieces of tokens that "
            "come before theirs.",
        ),
        (
            0,
            12,
            "About 6 % is a guess. But row 0 gets a piece of token 1, which may look back at token 0; others do, too.",
        ),
        (
            12,
            60,
            "You expect a loss, and there is one. Count the rows whose pieces reach their token: it is more than half.",
        ),
        (70, 98, "There is a loss, and it is larger: with two heads, three of the eight rows never see their token."),
    ),
    other="A share of tokens lies between 0 and 100 %.",
    unit="%",
)

louder_head = Choose(
    about="what a louder head does to the others' part of the output",
    right="nothing",
    options={
        "it shrinks: the loud head takes a larger share": (
            "A softmax would do that, because shares sum to 1. There is none after the heads: W_o is a matrix, and it "
            "adds."
        ),
        "nothing": "The output is a sum, one term for each head: only the term of head 3 becomes another.",
        "it vanishes: W_o selects the best head": (
            "To select, W_o would have to look at what the heads say. It is the same matrix for every token, so all "
            "that it can do is add."
        ),
        "it grows as well, by a part": (
            "Each output feature is made of all heads, but each head has its own rows of W_o, so no other term moves."
        ),
    },
)
