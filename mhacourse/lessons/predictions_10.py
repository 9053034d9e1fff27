"""The predictions of lesson 10: what heads learn, what controls score, and what a map shows."""

from mhacourse.prediction import Choose, Number

who_is_tired = Choose(
    about='where "it" goes when the sentence speaks of the street first',
    right='mostly to "street"',
    options={
        'still mostly to "animal"': (
            'Streets are never tired, so you know who is meant. The head does not: it sends .64 to "street" and .14 to '
            '"animal".'
        ),
        'mostly to "street"': ('It sends .64 to "street" and .14 to "animal", although no street was ever tired.'),
        "about half to each": (
            'Torn between grammar and sense: a good guess. But it hardly hesitates: .64 to "street", .14 to "animal".'
        ),
    },
)

layers_that_learn = Choose(
    about="which models learn to repeat",
    right="only the one with two layers",
    options={
        "both": (
            "A head can look anywhere, so one look seems enough: find my letter further left, take what follows. But "
            "a head finds places by their keys, and the key of a letter does not know its neighbours."
        ),
        "only the one with one layer": (
            "Fewer weights are easier to train, that is often true. But here two looks must come one after the other."
        ),
        "only the one with two layers": (
            "It names nearly all letters rightly, and one layer less than four in ten: it takes two looks, one after "
            "the other."
        ),
        "neither": (
            "No position and no fixed distance tells what comes next, so it looks hard. But heads compare contents, "
            "and that is all it takes, twice."
        ),
    },
)

induction_heads = Choose(
    about="how many heads of the second layer look behind the twin",
    right="all four",
    options={
        "one": (
            "One would do, and then the others would be free for something else. But there is nothing else to do here, "
            "and each of them gets a smaller loss by helping."
        ),
        "all four": (
            "One would do, but each of them lowers the loss by doing it, and all four end up with the same pattern."
        ),
        "none: it is the first layer that finds the place": (
            "The first layer cannot: the keys do not know their neighbours before it has run."
        ),
    },
)

heads_and_alignment = Choose(
    about="what four heads of a translator show of the alignment",
    right="several heads show pieces of it, none all",
    options={
        "one head shows all of it, the others something else": (
            "That would be tidy, and it is how such maps are often told. But nobody hands out the roles: what counts "
            "is what arrives from all heads together."
        ),
        "several heads show pieces of it, none all": (
            "Nearly every word is found by some head, and no head finds all of them."
        ),
        "every head shows all of it": (
            "All four get the same input and could. But once one head has found a word, the others are free to look at "
            "its noun, or anywhere."
        ),
        "no head shows any of it": (
            "A map need not show what a model does, that is true. But the English word has to come from somewhere, and "
            "cross-attention is the only way."
        ),
    },
)

straight_ahead = Number(
    about="how often a head that looks straight ahead agrees with the alignment",
    right=(55, 75),
    right_text="about 67 of 100",
    why="French and English mostly keep their order: only colours and negations move words.",
    guesses=(
        (0, 30, "It knows nothing, so one expects next to nothing. But the two languages mostly keep their order."),
        (30, 55, "Some words move, but fewer than you think: only colours and negations break the order."),
        (75, 100, "Most words do stay. But each colour changes places with its noun, and a negation moves two words."),
    ),
    other="It is a number of rows among 100.",
    unit="of 100 rows",
)

strongest_cell = Choose(
    about="the largest weight of an untrained head, drawn on a scale of its own",
    right="less than .5",
    options={
        "less than .5": "The ink only says that no other cell of this panel has more.",
        "about .75": "There is no way to see it in the picture: each panel has a scale of its own.",
        "nearly 1 as well": (
            "It has as much ink. But each panel has a scale of its own: the most ink is its own largest weight."
        ),
    },
)

silenced_map = Choose(
    about="what changes in the map of a head that is silenced",
    right="nothing",
    options={
        "its weights get smaller": (
            "The head has no say any more, so its map should fade. But the map is made from queries and keys, before "
            "W_o comes in."
        ),
        "all its keys get the same weight": (
            "That is what zero queries or keys would do. W_o comes after the map, and cannot change it."
        ),
        "nothing": "It stays the same to the last bit: the map is finished before W_o decides what becomes of it.",
    },
)

typical_separator = Number(
    about="the weight that a typical head of MiniLM leaves on the separators",
    right=(35, 65),
    right_text="about half",
    why="A row must sum to 1: a head that finds nothing to do leaves its weight where it does no harm.",
    guesses=(
        (0, 9, "They are no words, so nothing should be there. But a row must sum to 1, and has to put it somewhere."),
        (
            9,
            35,
            "Two of some fourteen tokens make 14 %, and that is what an untrained head gives them. Trained ones "
            "give them far more.",
        ),
        (65, 100, "The first column is strong. But about half of the weight still goes to words."),
    ),
    other="It is a share of the weight, from 0 to 100 %.",
    unit="%",
)

cls_arrives = Choose(
    about="which share of what arrives comes from [CLS]",
    right="less than .15",
    options={
        "more than a third, like its weight": (
            "If all values were equally long, yes. But what arrives is weight times value, and the value of [CLS] is "
            "short."
        ),
        "less than .15": "Its value is short: a place where weight does no harm.",
        "over a half: it stands for the whole sentence": (
            "In some models [CLS] is the answer that is read out. This one takes the mean over all tokens, and its "
            "heads use [CLS] to rest."
        ),
    },
)

encoder_maps = Choose(
    about="which of its maps nn.TransformerEncoder hands out",
    right="none of them",
    options={
        "all of them, one for each head": (
            "nn.MultiheadAttention can do that. But the layer around it asks for no weights, and has no argument with "
            "which you could."
        ),
        "their mean over the heads": (
            "That is what nn.MultiheadAttention gives unless told otherwise. But the layer around it asks for none."
        ),
        "none of them": (
            "It returns its output alone. Its layers ask for no weights, and their fast path has none to give."
        ),
    },
)
