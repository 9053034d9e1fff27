"""The predictions of lesson 03: which split is right, where the wrong one puts a number, and which tests see it."""

from mhacourse.prediction import Choose, Number

which_split = Choose(
    about="what a single view, without a transpose, puts into the heads",
    right="different numbers in each head",
    options={
        "the same numbers in the same places": "The shape is right, but the view cuts the sentence, not the features.",
        "the same numbers in each head, in another order": (
            "It is not just the order: head 0 now holds the numbers 2 and 3, which belong to head 1."
        ),
        "different numbers in each head": (
            "A correct split takes two steps: the first cuts each token's features into heads, and the second brings "
            "the heads to the front. The view alone cuts the sentence, so head 0 gets all of tokens 0 and 1."
        ),
    },
)

place_of_23 = Choose(
    about="where the view alone puts token 2, feature 3",
    right="head 1, row 1",
    options={
        "head 1, row 1": (
            "If you count row by row from 0, the number 23 is at place 11. Head 1 begins at place 8, and its rows hold "
            "2 numbers each."
        ),
        "head 1, row 2": "That is where it belongs. The view alone gets the head right here, but not the row.",
        "head 0, row 3": "If you count row by row from 0, head 0 ends at place 7, just before token 2 begins.",
    },
)

five_that_share = Number(
    about="how many of view, transpose, permute, contiguous and reshape share memory with x",
    right=(3, 3),
    right_text="three: view, transpose and permute",
    why="view, transpose and permute only record new shapes and strides; contiguous and reshape copy here.",
    guesses=(
        (0, 1, "A transposed matrix looks like a new one. Only its strides are new; the numbers stay where they are."),
        (2, 2, "permute is transpose by another name: it swaps strides, too."),
        (4, 4, "reshape copies only when it must, and after a transpose it must."),
        (
            5,
            5,
            "contiguous puts the numbers into a new order, so it has to write them to a new piece of memory.",
        ),
    ),
    other="There are only five of them.",
    unit="of 5",
)

number_1_of_the_fold = Choose(
    about="which sample and head are at index 1 of the folded axis",
    right="sample 0, head 1",
    options={
        "sample 1, head 0": (
            "That puts the head axis first: all samples of head 0, then all of head 1. It is legal, but it is a "
            "different layout."
        ),
        "sample 0, head 1": (
            "All heads of a sample are next to each other: head i of sample b is number b · num_heads + i."
        ),
        "half of each": "A reshape that mixes samples would do that, but here each head stays with its sample.",
    },
)

future_pairs_of_the_wrong_split = Number(
    about="how many of 6 future pairs leak through a causal mask after the wrong split",
    right=(3, 3),
    right_text="three",
    why=(
        "Row t of each head goes to output t, but head 1 begins with token 2. Its first two rows bring token 2 to "
        "outputs 0 and 1, and its third row brings token 3 to output 2."
    ),
    guesses=(
        (0, 0, "The mask is right. But it hides rows, and the rows are no longer tokens."),
        (1, 2, "Each head leaks where its rows run ahead of the tokens, so count the rows of head 1, too."),
        (4, 6, "Not everything leaks: head 0 holds only early tokens, and half of the pairs stay hidden."),
    ),
    other="There are only six future pairs.",
    unit="of 6",
)

when_splits_agree = Choose(
    about="for which sizes the right and the wrong split agree",
    right="with one token or one head",
    options={
        "never": "With one token there are no rows to confuse, and with one head there is nothing to split.",
        "when T is a multiple of num_heads": (
            "Then each head holds whole tokens, but they are still a slice of the sentence."
        ),
        "with one token or one head": "Then there is only one order in which to cut the numbers.",
        "when T equals num_heads": (
            "Then the shapes would fit even with the two axes exchanged, but the contents would not."
        ),
    },
)

tests_that_the_wrong_split_passes = Choose(
    about="which of three popular tests the wrong split passes",
    right="all three",
    options={
        "all three": "None of them looks at where a single number ends up.",
        "the shape and the ones": (
            "The round trip passes as well, because the wrong merge exactly undoes the wrong split."
        ),
        "the shape only": (
            "An input of ones looks the same in every position, so it shows nothing, and in a round trip the two "
            "mistakes cancel out."
        ),
    },
)
