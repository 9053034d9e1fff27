"""The predictions of lesson 07: what more heads cost, what they change, and what they are good for."""

from mhacourse.prediction import Choose

parameters_of_heads = Choose(
    about="how the number of parameters grows from 1 to 8 heads",
    right="not at all",
    options={
        "eight times as many": (
            "Pictures draw a set of matrices for each head, so this is the natural guess. But each of these matrices "
            "is an eighth as tall as the one of a single head, and eight of them make up that one."
        ),
        "a few more, to join the heads": (
            "Something has to join the heads, true. It is W_o, and a layer with one head has it as well."
        ),
        "not at all": "Four matrices and four biases, and num_heads only says how their outputs are cut.",
        "an eighth as many": "One of the eight heads is that small. But there are eight of them.",
    },
)

same_weights_more_heads = Choose(
    about="how far 2, 4 and 8 heads are from one head with the same weights",
    right="between a quarter and two thirds",
    options={
        "not at all, rounding apart": (
            "The same weights and the same input, and a split only says which number belongs to whom. That is right of "
            "the features. But behind the split each head takes a softmax of its own."
        ),
        "by one to five percent": (
            "A cut looks like a detail of storage. But the scores are cut, too, and the maps that come of them have "
            "little in common."
        ),
        "between a quarter and two thirds": (
            "The values and W_o are the same; the maps by which the values are mixed are other ones."
        ),
        "as far as two layers with other weights": (
            "Those would be further apart, since not even their values would be the same. Here only the maps are "
            "other ones."
        ),
    },
)

one_map_for_all = Choose(
    about="how far eight heads that share the map of one head are from that head",
    right="not at all",
    options={
        "not at all": "All features are mixed by the same map, so it does not matter how they were cut for it.",
        "about half as far": (
            "It seems fair to give half of the change to the split and half to the softmax. But what is split and "
            "merged again is where it was."
        ),
        "just as far": (
            "The split is what one sees in the code, so it looks like the cause. It only says which feature belongs to "
            "which head."
        ),
    },
)

operations_of_heads = Choose(
    about="how the operations change from 1 head to 8",
    right="they stay the same",
    options={
        "eight times as many": (
            "There are eight maps in place of one, true. But each of their scores is a dot product of an eighth of the "
            "features."
        ),
        "an eighth as many": (
            "Heads are often called a way to compute in parallel. Each of them is an eighth of the work, and all eight "
            "have to be done."
        ),
        "they stay the same": "Eight times as many maps, each from an eighth of the features.",
    },
)

heads_after_training = Choose(
    about="how far apart four equal heads are after 50 steps of training",
    right="they are still equal",
    options={
        "they are still equal": "Equal weights get equal gradients, at every step.",
        "a little apart, and more with each step": (
            "It would be so if the smallest difference were there to begin with. Here is none, at any step."
        ),
        "clearly apart: each has its own task": (
            "In trained models heads do differ, so training seems to part them. But it can only follow gradients, and "
            "equal heads get equal ones."
        ),
    },
)

lookups_by_heads = Choose(
    about="what 1, 2, 4 and 8 heads reach on two lookups, with the same number of parameters",
    right="one about a half, the others nearly all",
    options={
        "all four about the same": (
            "They have the same parameters, the same steps and the same data, so it is a fair guess. But one head has "
            "one map, and the task needs two."
        ),
        "one about a half, the others nearly all": (
            "The task needs two maps. Two heads have them; more heads have some to spare."
        ),
        "a little more with each head, eight the most": (
            "More heads, more maps: but only two places have to be looked at, and the second head brings all that was "
            "missing."
        ),
        "one the most, since its head is the widest": (
            "Thin heads do aim less well, as lesson 09 shows. Four features are still enough here, and the width of "
            "the one head does not give it a second map."
        ),
    },
)

wrong_answers = Choose(
    about="which tokens a single head names where it is wrong",
    right="the token of the other lookup",
    options={
        "any token, as in guessing": (
            "That would be so if it looked at one source and guessed the other. It scores the same, but its loss is "
            "twice as large, and the loss is what training lowers."
        ),
        "a token that stands next to the right one": (
            "As if it aimed badly. But its map is sharp enough: nearly all weight lies on the two right places."
        ),
        "the token of the other lookup": (
            "It has both tokens in one mixture and cannot tell which came from where: a coin decides."
        ),
    },
)

what_helps_one_head = Choose(
    about="which of the four changes reaches 99 %",
    right="one lookup in place of two",
    options={
        "one lookup in place of two": "Then one map is all that is needed.",
        "three times as many steps": (
            "The loss had stopped falling long before. More steps help where something is still to be learned."
        ),
        "a head four times as wide, with three times the parameters": (
            "A wider head aims better, but it still gives each position one mixture."
        ),
        "a second head that is tied to the first": (
            "There are two heads then, but both have the same map: together they know no more than one."
        ),
    },
)

saved_projections = Choose(
    about="which saved projection does harm to two lookups with four heads",
    right="q = k alone",
    options={
        "all but the merged matrix": (
            "The three are drawn apart in every picture. But a head that reads what it is found by, or asks with the "
            "token as it is, still looks where it wants."
        ),
        "v = x alone": (
            "Then what is read is the token itself. W_o and the readout come after it and can turn it as they like."
        ),
        "the merged matrix alone": (
            "It has more freedom than its two factors, and starts from the same scores. It trains as well as they do."
        ),
        "q = k alone": "Its scores are the same in both directions, and a lookup goes one way.",
    },
)
