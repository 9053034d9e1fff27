"""The predictions of lesson 15: what a sealed box reveals of its heads, and what it never reveals."""

from mhacourse.prediction import Choose, Number

heads_in_the_unknown_box = Number(
    about="how many heads are in the box that you questioned along a line",
    right=(5, 5),
    right_text="5, one for each step that the answer takes",
    why="Each head makes one step on the line, and each step has a vector of its own.",
    guesses=(
        (1, 1, "Then there would be only one step: a single head can only look at the second token or away from it."),
        (4, 4, "Count again, from one end of the line to the other. Between five steps there are four plateaus."),
        (6, 6, "The answer stands still at six heights, counting both ends, and takes five steps between them."),
        (32, 32, "That is the number of features. They all move at the same few places."),
    ),
    other="Drag from one end to the other: at how many places does the answer move?",
    unit="heads",
)

box_alone = Choose(
    about="what a single token can tell you about a layer",
    right="the sum of all heads' values",
    options={
        "nothing: with one key there is no attention": (
            "There is none to see, because every weight is 1. But then you see plainly what the values do."
        ),
        "the sum of all heads' values": (
            "Every weight is 1, so the heads' contributions are simply added up, and a single matrix can stand for all "
            "heads."
        ),
        "the values of each head": (
            "You get only their sum, and a sum does not show its parts. To see the parts, you must change the weights."
        ),
    },
)

sum_of_shares = Choose(
    about="what the four shares of one token sum to",
    right="about 2",
    options={
        "exactly 1": (
            "In each head, the softmax sums to 1 over the tokens. Over the heads, no sum is fixed: here each head "
            "gives the second of two tokens about half."
        ),
        "a little less than 1": (
            "Each head does leave the rest to the first token, but each has a whole softmax to give away."
        ),
        "about 2": (
            "Each of the four heads has its own softmax over two tokens, and with fresh weights the second token gets "
            "about half of each. With trained heads the sum could be any number between 0 and 4."
        ),
    },
)

shared_keys_seen = Choose(
    about="whether you can tell from outside that two heads share their keys",
    right="yes, by the rank of both forms together",
    options={
        "no, keys never come out of the box": (
            "They do not, but the form of the scores does, and the keys are part of it."
        ),
        "yes, by the rank of both forms together": (
            "Both forms read a token through the same head_dim rows, so their joint rank is no greater than that of "
            "either form alone."
        ),
        "yes, the two look at the same tokens": "Each has its own queries, so they look at different tokens.",
    },
)

unseen_from_outside = Choose(
    about="which of these changes, made in all heads, shows from outside",
    right="doubling W_q",
    options={
        "doubling W_q and halving W_k": "Only their product enters the scores, and that stays the same.",
        "changing the bias of the keys": (
            "It adds the same number to all of a query's scores, and the softmax ignores that."
        ),
        "doubling W_q": "All scores are twice as large, so each softmax is sharper.",
        "changing the order of the heads": (
            "All four weight matrices are reordered together, so the same terms are added in a different order."
        ),
    },
)

residual_around = Choose(
    about="what is counted if the box returns x + f(x), with four heads in f",
    right="4 heads",
    options={
        "nothing: the sum over heads is spoilt": (
            "It would be if anything apart from the heads changed when the second token comes in."
        ),
        "5 heads": (
            "The residual connection adds c both times, alone and with a second token, so the difference does not "
            "contain it."
        ),
        "4 heads": "The added part is the same with and without the second token, so it drops out of the difference.",
    },
)

steps_along_one_line = Number(
    about="how many different steps a walk has where two of four heads write along one line",
    right=(4, 4),
    right_text="4, though the rank is 3",
    why="They look at different tokens, so they switch at different places, although both write along one line.",
    guesses=(
        (
            3,
            3,
            "That is the rank. But a walk also shows where a head switches, and these two switch at different places.",
        ),
        (2, 2, "The other two heads make steps, too."),
    ),
    other="How often does the answer move, and where?",
    unit="steps",
)

missed_by_one_head = Choose(
    about="how much the best single head misses of what eight heads add",
    right="over half",
    options={
        "next to nothing": (
            "That would be so if all eight wrote along nearly the same line, but each has its own values."
        ),
        "about a fifth": "The first direction is the largest, but seven others follow and together make up over half.",
        "over half": "A single head can move along only one line. In the seven other directions it stands still.",
    },
)
