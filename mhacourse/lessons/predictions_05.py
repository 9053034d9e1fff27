"""The predictions of lesson 05: what the wrong merge does, what it is worth in training, and what `W_o` adds up."""

import math

from mhacourse.prediction import Choose, Number

merged_rows = Choose(
    about="the two rows of the merged result",
    right="[0, 10] and [1, 11]",
    options={
        "[0, 1] and [10, 11]": (
            "Each of these rows is one head, with both tokens; the next layer wants one token per row."
        ),
        "[0, 11] and [1, 10]": "Both heads are in each row, but so are both tokens.",
        "[0, 10] and [1, 11]": "Row 0 is token 0 as both heads see it, and row 1 is token 1.",
        "[10, 0] and [11, 1]": "There is one token per row, as there should be, but concatenating puts head 0 first.",
    },
)

last_word = Choose(
    about="which output rows the last word changes through the wrong merge",
    right="all six",
    options={
        "only the last": (
            "That is what the causal mask promises, and every head keeps the promise. But the merge comes after the "
            "mask."
        ),
        "none": "The last word may look at itself, so at least its own output changes.",
        "the last two": (
            "It looks as if only neighbours mix, but a row takes eight consecutive pieces, from all six words."
        ),
        "all six": "Each row holds a piece of the last word, from one head or another.",
    },
)

wrong_merge_loss = Number(
    about="what loss the layer with the wrong merge reaches on random tokens",
    right=(0.25, 0.5),
    right_text="about .35, far below the entropy of 2.77",
    why="The next token is in the input, and the wrong merge carries it back to the position that must predict it.",
    guesses=(
        (0, 0.25, "It sees nearly every answer, but not quite all of them."),
        (0.5, 2.5, "It does see answers, but more of them than that: at most positions, it knows the next token."),
        (2.5, 3, "Nobody can know what will be drawn next, but this layer is told."),
        (3, math.inf, "A bug should do harm, but this one lets the layer see the answer."),
    ),
    other="A loss of this kind is never below 0.",
)

loss_above_zero = Choose(
    about="why the wrong layer stops at a loss of .35",
    right="one position does not hold its answer",
    options={
        "400 steps are not enough": "Seven positions are already near 0, and the last one cannot get below ln 16.",
        "one position does not hold its answer": (
            "The last target is not in the input, so the last position has to guess, and the mean loss is ln(16) / 8."
        ),
        "the causal mask holds half of the future back": (
            "Inside a head it does. But a head's last row has read all tokens, and the merge puts it in earlier rows."
        ),
        "32 features are too few for eight positions": "That would spread the loss over all positions, not over one.",
    },
)

leaking_pairs = Number(
    about="how many of 28 pairs leak with eight tokens and eight heads",
    right=(28, 28),
    right_text="28, all of them",
    why="Row t gets head t's output for all eight tokens, and the last token has read everything.",
    guesses=(
        (0, 0, "Inside the heads the mask hides every later token, but after that the merge mixes the tokens."),
        (
            7,
            8,
            "That is one for each pair of neighbours, but a row takes eight consecutive pieces, from all eight tokens.",
        ),
        (14, 14, "It is more than half: each row gets one head's output for all tokens, even for the last."),
        (21, 27, "That is close, but no row is spared: each gets a piece of the last token."),
    ),
    other=(
        "A row takes eight consecutive pieces, and one of them comes from the last token, which has read all the "
        "others."
    ),
    unit="of 28 pairs",
)

easy_tasks = Number(
    about="what share of the tokens the wrong merge copies and reverses correctly, without a mask",
    right=(98, 100),
    right_text="over 99 %",
    why=("Every head may look anywhere, so it learns to fetch what is needed wherever its piece will end up."),
    guesses=(
        (
            0,
            12,
            "Guessing would give about 6 %, but mixing the rows loses nothing, and training gets around it.",
        ),
        (12, 60, "Mixed tokens should cause mistakes, but the mixing never changes, so training learns to undo it."),
        (60, 98, "A bug should cost something. This one costs nothing, so testing by training does not find it."),
    ),
    other="A share of tokens lies between 0 and 100 %.",
    unit="%",
)

masked_copy = Number(
    about="what share of the tokens two heads copy through the wrong merge, under a causal mask",
    right=(60, 70),
    right_text="about 65 %",
    why="Five of the eight rows get a piece that has read their token; the other three can only guess.",
    guesses=(
        (98, 100, "That was without a mask. Now some rows get only pieces of tokens that come before theirs."),
        (0, 12, "Guessing would give about 6 %, but row 0 gets a piece of token 1, which may look back at token 0."),
        (12, 60, "Something is lost, but more than half of the rows get a piece that does reach their token."),
        (
            70,
            98,
            "More than that is lost: with two heads, three of the eight rows never see their token.",
        ),
    ),
    other="A share of tokens lies between 0 and 100 %.",
    unit="%",
)

louder_head = Choose(
    about="what a louder head does to the others' part of the output",
    right="nothing",
    options={
        "it shrinks: the loud head takes a larger share": "A softmax would do that, but W_o only adds up the heads.",
        "nothing": "The output is a sum with one term for each head, and only the term of head 3 changes.",
        "it vanishes: W_o selects the best head": "W_o is the same matrix for every token, so all it can do is add.",
        "it grows as well, but by less": "Each head has its own rows of W_o, so no other term changes.",
    },
)
