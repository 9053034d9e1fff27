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
        "not at all": "Four matrices and four biases; num_heads only says how their outputs are cut.",
        "an eighth as many": "One of the eight heads is that small. But there are eight of them.",
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
            "The task needs two maps. Two heads have them, if training finds the second one; more heads have some to "
            "spare."
        ),
        "a little more with each head, eight the most": (
            "More heads, more maps: but only two places have to be looked at, and the second head brings all that was "
            "missing."
        ),
        "one the most, since its head is the widest": (
            "Narrow heads do aim less well, as lesson 09 shows. Four features are still enough here, and the width of "
            "the one head does not give it a second map."
        ),
    },
)

two_of_eight = Choose(
    about="what is left of eight trained heads with only the best two of them on",
    right="between 60 and 90 %",
    options={
        "about 99 %, as with two heads from the start": (
            "Two heads can do it if they have to, and these two did not have to: each of them learned a part of a "
            "lookup and relied on the others for the rest."
        ),
        "between 60 and 90 %": (
            "Each lookup is the work of several heads, and what they hand on is added up. One of them brings a part of "
            "it, often enough for the right answer, but not always."
        ),
        "about a half, as with a single head": (
            "Two of them do have two maps, so they know which token came from where. That is more than a single head "
            "knows."
        ),
        "6 %, as in guessing": (
            "That would be so if all eight were needed together. But their parts are added up, and two parts are worth "
            "something."
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
        "a token next to the right one": (
            "As if it aimed badly. But its map is sharp enough: nearly all of the weight is on the two right places."
        ),
        "the token of the other lookup": (
            "It looks at both places, so it has both tokens in one mixture and cannot tell which came from where: a "
            "coin decides."
        ),
    },
)

what_helps_one_head = Choose(
    about="which of the four changes reaches 99 %",
    right="one lookup in place of two",
    options={
        "one lookup in place of two": (
            "Then one map is all that is needed, and one head finds it every time. The three others stay where the "
            "single head was before."
        ),
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

same_weights_more_heads = Choose(
    about="how far 2, 4 and 8 heads are from one head with the same weights",
    right="between a quarter and two thirds",
    options={
        "not at all, rounding apart": (
            "The same weights and the same input, and a split only says which number belongs to which head. That is "
            "right about the features. But behind the split each head takes a softmax of its own."
        ),
        "by one to five percent": (
            "A cut looks like a detail of storage. But the scores are cut, too, and the maps that come out of them "
            "have little in common."
        ),
        "between a quarter and two thirds": (
            "The values and W_o are the same; only the maps that mix the values are different."
        ),
        "as far as two layers with other weights": (
            "Those would be further apart, since not even their values would be the same. Here only the maps are "
            "different."
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
            "merged again is back where it was."
        ),
        "just as far": (
            "The split is what you see in the code, so it looks like the cause. It only says which feature belongs to "
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
            "It would be so if there were the smallest difference to begin with. There is none, at any step."
        ),
        "clearly apart: each has its own task": (
            "In trained models heads do differ, so training seems to part them. But it can only follow gradients, and "
            "equal heads get equal ones."
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
