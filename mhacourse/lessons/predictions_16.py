"""The predictions of lesson 16: which tests see a bug, which bug none of them sees, and what the doctor leaves out."""

from mhacourse.prediction import Choose, Number

toy_test = Number(
    about="how many of nine broken layers give the right numbers for inputs of ones",
    right=(3, 3),
    right_text="3: the wrong scale, the mask ignored and the mask inverted",
    why="All values are the same vector, so any weights that sum to 1 give that vector back.",
    guesses=(
        (
            0,
            0,
            "All nine are broken. But with inputs of ones all values are alike, so the weights need not be right as "
            "long as they sum to 1.",
        ),
        (1, 2, "There are three. Which mistakes change the weights but leave each row with a sum of 1?"),
        (
            4,
            8,
            "Equal tokens hide less than that. Their features still differ, so a number in the wrong place shows, and "
            "so do weights that do not sum to 1.",
        ),
        (9, 9, "The shape is right for all nine. The numbers are not: even equal tokens have features that differ."),
    ),
    other="There are nine layers, so the answer lies between 0 and 9.",
    unit="of 9",
)

same_picture = Number(
    about="for how many of the nine a change of one token gives the healthy picture",
    right=(2, 2),
    right_text="2: the wrong scale and the unused W_o",
    why=(
        "The wrong scale changes how much a token reads, and a missing W_o changes where the result is written, but "
        "neither changes who reads whom."
    ),
    guesses=(
        (
            0,
            0,
            "Each of the nine computes something wrong, but two of them still read exactly the tokens that they may.",
        ),
        (1, 1, "One of them is easy to find. There is another, which reads the right tokens but leaves out a matrix."),
        (
            3,
            4,
            "The softmax over queries seems to respect the mask. But its weights are divided by a sum that includes "
            "later queries, so it reads the future, too. And dropout moves outputs even if no token has changed.",
        ),
        (5, 9, "This probe sees more than you would think: seven of the nine move an output that must stay still."),
    ),
    other="There are nine broken layers, so the answer lies between 0 and 9.",
    unit="of 9",
)

reordered = Number(
    about="how many of the nine do not follow the order of their tokens",
    right=(3, 3),
    right_text="3: the wrong split, the merge without a transpose, and dropout",
    why="Two of them mix tokens by their place in the row, and one never gives the same answer twice.",
    guesses=(
        (
            0,
            2,
            "The wrong split and the merge without a transpose do break the rule. So does dropout: two calls give two "
            "answers, whatever the order of the tokens.",
        ),
        (
            4,
            4,
            "Your fourth may be the refold, which exchanges heads between samples. But within each sample, the tokens "
            "keep their order.",
        ),
        (
            5,
            9,
            "Without a mask, the two mask mistakes do no harm, and a wrong scale, a wrong axis or a missing W_o treats "
            "all places alike.",
        ),
    ),
    other="There are nine broken layers, so the answer lies between 0 and 9.",
    unit="of 9",
)

repeated_token = Choose(
    about="whether a repeated token betrays a softmax over queries, without a mask",
    right="no, rows and columns are alike here",
    options={
        "yes, the rows no longer sum to 1": (
            "In general they don't. But here all scores are equal, so every weight is 1/6, whichever way you sum."
        ),
        "no, rows and columns are alike here": (
            "All scores are equal and there are as many queries as keys, so every weight is 1/6 either way."
        ),
        "only with several heads": (
            "Each head has its own softmax, and in every head all scores are equal, so the number of heads changes "
            "nothing."
        ),
    },
)

unseen_bug = Choose(
    about="which of the nine passes all six tests",
    right="scale 1/√d_model",
    options={
        "scale 1/√d_model": (
            "Every map is still a legal attention map, only flatter. A healthy layer with a smaller W_q makes the same "
            "one."
        ),
        "W_o unused": (
            "A legal layer could give the same outputs, but no gradient reaches W_o, and the sixth test looks at that."
        ),
        "another sample's heads": (
            "Within a sample nothing looks wrong, not even the order of the tokens. But change one sample, and another "
            "sample's output moves."
        ),
        "dropout left on": (
            "Dropout seems to hide in the randomness. But a layer in eval mode must give the same answer twice, and "
            "this one does not."
        ),
    },
)

forgetful = Choose(
    about="what the doctor says about a cross-attention that reads only one text",
    right="no finding, but it asks a question",
    options={
        "a finding: an input is not used": (
            "It would be a finding if the doctor knew that there are two texts. But a layer that is called with three "
            "inputs may be a self-attention, which has only one text."
        ),
        "no finding, and not a word more": (
            "There is indeed no finding. But the doctor noticed that keys and values came from the same input, and "
            "asks about it."
        ),
        "no finding, but it asks a question": (
            "If the layer is meant to be a self-attention, nothing is wrong with it. But the doctor lists what it did "
            "not examine, and there it asks whether yours is one."
        ),
        "an error: the shapes do not fit": (
            "The shapes do fit: the output is as long as the queries, and nobody can see from it where the keys came "
            "from."
        ),
    },
)
