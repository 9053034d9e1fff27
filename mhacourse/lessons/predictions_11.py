"""The predictions of lesson 11: what a model loses without a head or a token, and what one sentence says of it."""

from mhacourse.prediction import Choose, Number

heads_that_cost_a_lot = Choose(
    about="how many of eight heads cost more than ten points when they alone are off",
    right="one or two",
    options={
        "none of them": (
            "Eight heads sound like plenty of stand-ins. But the main previous-token head has none, and everything "
            "behind it needs what it finds."
        ),
        "one or two": "They are the previous-token heads of layer 0.",
        "about half": "Four heads do the work of layer 1, but by itself each of them costs next to nothing.",
        "all eight": "A model that is nearly always right need not use each of its parts for that.",
    },
)

all_four_of_layer_1 = Choose(
    about="what is left without four heads of which each alone costs next to nothing",
    right="next to nothing right",
    options={
        "next to nothing right": "Each was harmless because the others stood in for it, and now nobody does.",
        "about half right": "There is no half of this work: either some head looks it up, or none.",
        "more than 80 % right": "Four times a few points. But each was harmless because the others were there.",
    },
)

head_with_a_twin = Choose(
    about="how important the most important head is once it has a twin",
    right="worth a few points",
    options={
        "as important as before": "It does what it did, but at half the strength, and its twin does the rest.",
        "half as important": "Half of the strength suggests half of the loss; the softmax behind hardly minds.",
        "worth a few points": "The twin stands in for it, and the softmax behind hardly minds half of the strength.",
    },
)

loss_while_a_gate_turns = Choose(
    about="what the loss does while the gate of the most important head goes from 1 to 0",
    right="flat at first, then steep",
    options={
        "it grows evenly": "Each step takes away the same part of the head, but not of the answer.",
        "flat at first, then steep": "While the softmax behind is sure of its choice, less input changes little.",
        "steep at first, then flat": "That would make the slope at 1 a good measure; here it sees next to nothing.",
    },
)

speed_of_a_mask = Choose(
    about="how much faster a layer is with half of its heads switched off by a gate",
    right="not at all",
    options={
        "twice as fast": "Half of the heads do nothing, but they do it after all the products were computed.",
        "somewhat faster": "A product with zero takes as long as any other.",
        "not at all": "Everything is computed first and then multiplied by 0, so nothing is saved.",
    },
)

labels_that_change = Number(
    about="how many of 72 labels change from one sentence to all of them",
    right=(5, 15),
    right_text="about one in eight, some 9 of 72; from one sentence to the next it is anything from 3 to 20",
    why="A single sentence gets most labels right, and does not tell you which.",
    guesses=(
        (0, 4, "A head is no machine with one job: one sentence tips many of them over the limit."),
        (16, 40, "One sentence is little, but most heads rest on the separators whatever they read."),
        (41, 72, "The sentence lied, but not about everything: what a head does most shows in most sentences."),
    ),
    other="It is a number of labels, out of 72.",
    unit="of 72 labels",
)

all_72_heads_off = Choose(
    about="what is left of the task of the real model with all 72 heads off",
    right="nearly all of it",
    options={
        "nearly all of it": "Words alone tell most of it, so this task is no judge of heads.",
        "about a half": "A fair guess for a task of meaning. Words alone tell more of these pairs.",
        "nothing: tokens no longer meet": "They do not, but the words are still there, and their vectors are averaged.",
    },
)

token_without_weight = Choose(
    about="in how many of 100 texts the answer changes with a token that the last layer gives no weight",
    right="in more than 80",
    options={
        "in none, or a few": "What it takes from the next place came there from the twin, by the layer before.",
        "in about half": "As good as a coin. But without its twin the last token finds nothing, in any text.",
        "in more than 80": "Layer 0 carried the twin to the place behind it, and by that layer 1 finds the place.",
    },
)
