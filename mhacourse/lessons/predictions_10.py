"""The predictions of lesson 10: what heads learn, what controls score, and what a map shows."""

from mhacourse.prediction import Choose, Number

who_is_tired = Choose(
    about='where the weight of "it" goes when the sentence mentions the street first',
    right='mostly to "street"',
    options={
        'still mostly to "animal"': "Streets are never tired. You know that, but the head does not.",
        'mostly to "street"': ('It sends .64 to "street" and .14 to "animal", although no street was ever tired.'),
        "about half to each": "Torn between grammar and sense? It hardly hesitates.",
    },
)

layers_that_learn = Choose(
    about="which models learn to repeat",
    right="only the one with two layers",
    options={
        "both": "One look seems enough, but a letter's key does not know its neighbours.",
        "only the one with one layer": (
            "Fewer weights are often easier to train, but here two looks must follow each other."
        ),
        "only the one with two layers": (
            "It names nearly all letters correctly, and the model with one layer only about one in five. The task "
            "needs two looks, one after the other."
        ),
        "neither": "No fixed distance tells what comes next, but heads compare contents, and that is enough.",
    },
)

induction_heads = Choose(
    about="how many heads of the second layer look at the token after the twin",
    right="all four",
    options={
        "one": "One would do, but each of the others also lowers the loss by helping.",
        "all four": (
            "One head would do, but each head that helps lowers the loss, so all four end up with the same pattern."
        ),
        "none: it is the first layer that finds the place": (
            "The first layer cannot find it, because no key knows its neighbours before that layer has run."
        ),
    },
)

heads_and_alignment = Choose(
    about="what four heads of a translator show of the alignment",
    right="several heads show pieces of it, none all",
    options={
        "one head shows all of it, the others something else": "That would be tidy, but nobody hands out the roles.",
        "several heads show pieces of it, none all": (
            "Nearly every word is found by some head, but no head finds all of them."
        ),
        "every head shows all of it": "All four could, but the others need not look for what one head has found.",
        "no head shows any of it": "The English word has to come from somewhere, and these heads are its only way in.",
    },
)

straight_ahead = Number(
    about="how often a head that looks straight ahead agrees with the alignment",
    right=(55, 75),
    right_text="about 67 of 100",
    why="French and English mostly keep the same order; only colours and negations move words.",
    guesses=(
        (
            0,
            30,
            "It knows nothing, so you would expect few hits. But the two languages mostly keep the same order.",
        ),
        (30, 55, "Some words move, but fewer than you think: only colours and negations break the order."),
        (75, 100, "Most words do stay. But each colour changes places with its noun, and a negation moves two words."),
    ),
    other="It is a number of rows out of 100.",
    unit="of 100 rows",
)

strongest_cell = Choose(
    about="the largest weight of the untrained head",
    right="less than .5",
    options={
        "less than .5": "The ink only says that no other cell in this panel has more weight.",
        "about .75": "You cannot see it in the picture, because each panel has a scale of its own.",
        "nearly 1 as well": "It gets as much ink, but in each panel, the largest weight gets the most ink.",
    },
)

silenced_map = Choose(
    about="what changes in the map of a head that is silenced",
    right="nothing",
    options={
        "its weights get smaller": "The map is made from queries and keys, before W_o comes in.",
        "all its keys get the same weight": "Queries or keys of zeros would do that, but W_o comes after the map.",
        "nothing": "It stays the same to the last bit, because it is finished before W_o decides what becomes of it.",
    },
)

typical_separator = Number(
    about="the weight that a typical head of MiniLM leaves on the separators",
    right=(35, 65),
    right_text="about half",
    why="A row must sum to 1, so a head that finds nothing to do leaves its weight where that does no harm.",
    guesses=(
        (
            0,
            9,
            "They are not words, so they should get nothing. But a row must sum to 1 and has to put its weight "
            "somewhere.",
        ),
        (9, 35, "An untrained head gives these two of some fourteen tokens 14 %; trained heads give them far more."),
        (65, 100, "The first column is strong, but about half of the weight still goes to words."),
    ),
    other="It is a share of the weight, from 0 to 100 %.",
    unit="%",
)

cls_arrives = Choose(
    about="how much of what arrives comes from [CLS]",
    right="less than .15",
    options={
        "more than a third, like its weight": (
            "It would be if all values were equally long, but the value of [CLS] is short."
        ),
        "less than .15": "Its value is short, which makes it a place where weight does no harm.",
        "over a half: it stands for the whole sentence": (
            "In some models it does, but in this one the heads use it as a place to rest."
        ),
    },
)

rows_for_a_sentence = Choose(
    about="which single rows of MiniLM's last layer do nearly as well as the mean of all rows",
    right="those of [CLS] and [SEP]",
    options={
        "none": "Training the mean shapes each row in it, and each row has seen the whole sentence.",
        "only that of [CLS]": "That of [SEP] does as well: it, too, has nothing of its own to say.",
        "those of [CLS] and [SEP]": (
            "Each row has seen the whole sentence, and these two have no word of their own to speak for."
        ),
    },
)

encoder_maps = Choose(
    about="which of its maps nn.TransformerEncoder hands out",
    right="none of them",
    options={
        "all of them, one for each head": (
            "nn.MultiheadAttention can hand them out, but the layer around it asks for no weights."
        ),
        "their mean over the heads": (
            "nn.MultiheadAttention would do that by default, but the layer around it asks for no weights."
        ),
        "none of them": (
            "It returns only its output. Its layers ask for no weights, and their fast path has none to give."
        ),
    },
)
