"""The predictions of lesson 18: how much one sentence tells, a model without heads, and a token without weight."""

from mhacourse.prediction import Choose, Number

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
