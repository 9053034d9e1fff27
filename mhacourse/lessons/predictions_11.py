"""The predictions of lesson 11: what a model loses without a head, and what a gate or a mask saves."""

from mhacourse.prediction import Choose

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
