"""The predictions of lesson 11: what a model loses without a head or a token, and how much one sentence tells."""

from mhacourse.prediction import Choose, Number

heads_that_cost_a_lot = Choose(
    about="how many of eight heads cost more than ten points when switched off one at a time",
    right="one or two",
    options={
        "none of them": (
            "Eight heads sound like plenty of stand-ins. But the main previous-token head has none, and everything "
            "that follows needs what this head finds."
        ),
        "one or two": "They are the previous-token heads of layer 0.",
        "about half": "Four heads do the work of layer 1, but switching off any one of them costs next to nothing.",
        "all eight": "A model can be right nearly always without needing every one of its parts.",
    },
)

all_four_of_layer_1 = Choose(
    about="what is left without four heads that cost next to nothing one at a time",
    right="next to nothing right",
    options={
        "next to nothing right": (
            "Losing one head was harmless because the others stood in for it. Now they are gone, too."
        ),
        "about half right": "This work cannot be half done: either some head does the lookup, or none does.",
        "more than 80 % right": (
            "Losing a few points four times would leave that much. But each loss was harmless only because the other "
            "heads were there."
        ),
    },
)

head_with_a_twin = Choose(
    about="how important the most important head is once it has a twin",
    right="worth a few points",
    options={
        "as important as before": "It does what it did before, but at half the strength, and its twin does the rest.",
        "half as important": "Half the strength suggests half the damage, but the softmax after it hardly changes.",
        "worth a few points": (
            "The twin stands in for it, and the softmax after them hardly changes when half the strength is lost."
        ),
    },
)

loss_while_a_gate_turns = Choose(
    about="what the loss does while the gate of the most important head goes from 1 to 0",
    right="flat at first, then steep",
    options={
        "it grows evenly": "Each step takes away the same part of the head, but not the same part of the answer.",
        "flat at first, then steep": (
            "As long as the softmax of the next layer is sure of its choice, a weaker input changes little."
        ),
        "steep at first, then flat": "Then the slope at 1 would be a good measure, but here it shows next to nothing.",
    },
)

speed_of_a_mask = Choose(
    about="how much faster a layer is with half of its heads switched off by a gate",
    right="not at all",
    options={
        "twice as fast": "Half of the heads contribute nothing, but all their products are computed first.",
        "somewhat faster": "A product with zero takes as long as any other.",
        "not at all": "Everything is computed first and then multiplied by 0, so nothing is saved.",
    },
)

labels_that_change = Number(
    about="how many of 72 labels change from one sentence to all of them",
    right=(3, 20),
    right_text="about one in eight, some 9 of 72; depending on the sentence, anything from 3 to 20",
    why="A single sentence gets most labels right, but it does not tell you which ones.",
    guesses=(
        (0, 2, "Heads are not machines with one job: a single sentence can give many of them a different label."),
        (21, 40, "One sentence is not much to go on, but most heads rest on the separators whatever they read."),
        (41, 72, "The sentence lied, but not about everything: a head's main habit shows in most sentences."),
    ),
    other="It is a number of labels out of 72.",
    unit="of 72 labels",
)

all_72_heads_off = Choose(
    about="what is left of the task of the real model with all 72 heads off",
    right="nearly all of it",
    options={
        "nearly all of it": "The words alone give most of it away, so this task tells you little about heads.",
        "about a half": (
            "That is a fair guess for a task about meaning, but the words alone tell more than that about these pairs."
        ),
        "nothing: tokens no longer meet": (
            "They do not, but the words are still there, and the model averages their vectors."
        ),
    },
)

token_without_weight = Choose(
    about=(
        "in how many of 100 texts the answer changes when you replace a token that gets next to no weight in the last "
        "layer"
    ),
    right="in more than 80",
    options={
        "in none, or a few": "Layer 1 looks at the place after the twin, but layer 0 has brought the twin there.",
        "in about half": (
            "That would be as good as tossing a coin. But without its twin the last token finds nothing, in any text."
        ),
        "in more than 80": "Layer 0 carried the twin to the place after it, and that is how layer 1 finds the place.",
    },
)
