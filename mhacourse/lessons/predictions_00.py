"""The predictions of lesson 00: which words attend to which with one, two and four heads, and what thin heads do."""

from mhacourse.prediction import Choose, Number

one_head = Choose(
    about="which word a repeated word looks at most, with one head",
    right="itself",
    options={
        'the other two "the"': (
            "They are spelled alike, and that counts. But they are far away, and a single head adds both up: a word "
            "that is alike in one respect loses to a word that is alike in both."
        ),
        "its neighbours": (
            "They are close, and that counts. But they are spelled differently, and a single head adds both up: a word "
            "that is alike in one respect loses to a word that is alike in both."
        ),
        "itself": (
            "Almost all the ink is on the diagonal. Only the word itself is alike in both, in spelling and in place, "
            "and the single head adds them up."
        ),
        "all words about equally": (
            "That would happen if no word stood out in the sum of both likenesses. One does: the word itself, which "
            "has the largest of both."
        ),
    },
)

spelling_share = Number(
    about="how much a repeated word gives to the same word, in the spelling head",
    right=(85, 100),
    right_text="over 85 %",
    unit="%",
    why="In this head nothing is as similar as the same word, and weights strongly favour the largest score.",
    guesses=(
        (
            0,
            30,
            "One or two of the eleven other words are the same, so 9 or 18 % would be pure chance. But this head sees "
            "nothing except spelling, and nothing is spelled more like a word than the same word.",
        ),
        (
            30,
            85,
            'Other words share letters, too: "bridge" and "while" end like "the". They do score, but a weight grows '
            "much faster than its score: half the likeness makes far less than half the weight.",
        ),
    ),
    other="A share is between 0 and 100 %: it is one part of what goes to the other words.",
)

painter_endings = Choose(
    about='which word "painter" looks at by its ending',
    right="baker",
    options={
        "painted": (
            "To a reader it is the closest word. But the two are alike in how they begin, and this head was given "
            "nothing but endings: -ter and -ted share no piece."
        ),
        "no other word": (
            "It is true that no other word ends with -ter. But the last one, two and three letters count separately, "
            "and -r and -er are shared."
        ),
        "baker": "Both end with -r and with -er: two of the three pieces that the head compares.",
        "The, the word before it": "It is close, but this head does not know where a word is. Heads 2 and 3 do.",
    },
)

paler = Choose(
    about="what more heads do to the maps of this lesson",
    right="they get paler",
    options={
        "they get paler": (
            "Ask more questions, and here the answers get fainter: with fewer features to compare, the word itself has "
            "a smaller lead over the others."
        ),
        "they get sharper": (
            "Specialists should know better, one might think. But a narrow head has fewer numbers to tell words apart, "
            "and the lead of a word over the others shrinks."
        ),
        "they stay as they are": (
            "The 64 numbers do stay the same. But each head divides its score by the root of its own size, and then "
            "the score of a word with itself is that very root: 8 for 64 features, 2 for 4."
        ),
    },
)

two_matrices = Choose(
    about="what thinner heads do when queries and keys come out of two matrices",
    right="as sharp with 16 heads as with 1",
    options={
        "paler with 16 heads, as before": (
            "That happened while a query equalled its key, which gave each word its lead on the diagonal. Two "
            "different matrices take the lead away, and the division by the root of head_dim takes care of the rest."
        ),
        "sharper with 16 heads than with 1": (
            "Fewer features make each score noisier, one may think. The division by the root of head_dim makes up for "
            "exactly that; lesson 02 shows it."
        ),
        "as sharp with 16 heads as with 1": (
            "So the fading belonged to our picture, not to thin heads. Now a word has no lead with itself, and the "
            "division by the root of head_dim keeps the spread of all scores the same."
        ),
    },
)
