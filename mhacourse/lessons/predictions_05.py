"""The predictions of lesson 05: what the wrong merge does, what it is worth in training, and what `W_o` adds up."""

import math

from mhacourse.prediction import Choose, Number

merged_rows = Choose(
    about="the two rows of the merged result",
    right="[0, 10] and [1, 11]",
    options={
        "[0, 1] and [10, 11]": (
            "Each of these rows is one head, of both tokens; the next layer wants one token in each row."
        ),
        "[0, 11] and [1, 10]": "Both heads are in each row, but so are both tokens.",
        "[0, 10] and [1, 11]": "Row 0 is token 0 as both heads see it, row 1 is token 1.",
        "[10, 0] and [11, 1]": "One token in each row, as it should be, but concatenating puts head 0 first.",
    },
)

last_word = Choose(
    about="which output rows the last word moves, through the wrong merge",
    right="all six",
    options={
        "the last only": "So the causal mask promises, and it holds in every head; but the merge comes after the mask.",
        "none": "The last word may look at itself, so at least its own output moves.",
        "the last two": "It seems that only neighbours mix, but eight pieces in line reach over all six words.",
        "all six": "Each row holds a piece of the last word, of one head or another.",
    },
)

wrong_merge_loss = Number(
    about="what loss the layer with the wrong merge reaches on random tokens",
    right=(0.25, 0.5),
    right_text="about .35, far below the entropy of 2.77",
    why="The next token is in the input, and the wrong merge carries it back to where it is asked for.",
    guesses=(
        (0, 0.25, "It sees nearly every answer, but not quite all of them."),
        (0.5, 2.5, "It does see answers, and more of them: it knows the next token at most positions."),
        (2.5, 3, "Nobody can know what will be drawn next, but this layer is told."),
        (3, math.inf, "A bug should do harm, but this one lets the layer see the answer."),
    ),
    other="A loss of this kind is never below 0.",
)

loss_above_zero = Choose(
    about="why the wrong layer stops at a loss of .35",
    right="one position does not hold its answer",
    options={
        "400 steps are not enough": "Seven positions are near 0 already, and the last one cannot get below ln 16.",
        "one position does not hold its answer": (
            "The last target is not in the input, so the last position guesses: ln(16) / 8 is left of the mean."
        ),
        "the causal mask holds half of the future back": (
            "It works inside each head; but every last query has read all tokens, and the merge hands that on."
        ),
        "32 features are too few for eight positions": "That would spread the loss over all positions, not over one.",
    },
)

leaking_pairs = Number(
    about="how many of 28 pairs leak with eight tokens and eight heads",
    right=(28, 28),
    right_text="28, all of them",
    why="Row t gets head t of all eight tokens, and the last of them has read everything.",
    guesses=(
        (0, 0, "The mask hides every later token inside the heads, but the merge mixes the tokens after it."),
        (7, 8, "That is one for each pair of neighbours, but a row takes eight pieces in line, of all eight tokens."),
        (14, 14, "It is no half: each row gets one head of all eight tokens, the last one included."),
        (21, 27, "Nearly, but no row is spared: each gets a piece of the last token."),
    ),
    other="A row takes eight pieces in line, and one of them is of the last token, which has read all the others.",
    unit="of 28 pairs",
)

easy_tasks = Number(
    about="which share of the tokens the wrong merge copies and reverses rightly, without a mask",
    right=(98, 100),
    right_text="over 99 %",
    why="Every head may look anywhere, so it learns to fetch what is needed by the row where its piece will end up.",
    guesses=(
        (0, 12, "About 6 % is a guess, but nothing is lost in the mixed rows, and training finds the way."),
        (12, 60, "Mixed tokens should make mistakes, but the mixing never changes, so training learns to undo it."),
        (60, 98, "A bug should cost something. This one costs nothing, so a training test does not find it."),
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
        (98, 100, "So it was without a mask, but now some rows get only pieces of tokens that come before theirs."),
        (0, 12, "About 6 % is a guess, but row 0 gets a piece of token 1, which may look back at token 0."),
        (12, 60, "There is a loss, but in more than half of the rows the pieces do reach their token."),
        (70, 98, "There is a loss, and it is larger: with two heads, three of the eight rows never see their token."),
    ),
    other="A share of tokens lies between 0 and 100 %.",
    unit="%",
)

louder_head = Choose(
    about="what a louder head does to the others' part of the output",
    right="nothing",
    options={
        "it shrinks: the loud head takes a larger share": "A softmax would do that; W_o is a matrix, and it adds.",
        "nothing": "The output is a sum, one term for each head: only the term of head 3 becomes another.",
        "it vanishes: W_o selects the best head": "W_o is the same matrix for every token: all it can do is add.",
        "it grows as well, by a part": "Each head has its own rows of W_o, so no other term moves.",
    },
)
