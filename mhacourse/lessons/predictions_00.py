"""The predictions of lesson 00: which words attend to which with one, two and four heads, and what thin heads do."""

from mhacourse.prediction import Choose, Number

one_head = Choose(
    about="which word a repeated word looks at most, with one head",
    right="itself",
    options={
        'the other two "the"': "Alike in spelling, but far away: a word that is alike in both respects scores higher.",
        "its neighbours": "Close, but spelled differently: a word that is alike in both respects scores higher.",
        "itself": (
            "Almost all the ink is on the diagonal. Only the word itself is alike in both, in spelling and in place, "
            "and the single head adds them up."
        ),
        "all words about equally": "That needs a sum in which no word stands out, and the word itself does.",
    },
)

spelling_share = Number(
    about="how much a repeated word gives to the same word, in the spelling head",
    right=(85, 100),
    right_text="over 85 %",
    unit="%",
    why="In this head nothing is as similar as the same word, and weights strongly favour the largest score.",
    guesses=(
        (0, 30, "By chance it would be 9 or 18 %, but this head sees nothing except spelling."),
        (30, 85, "Other words share letters, too, but a weight grows much faster than its score."),
    ),
    other="A share is between 0 and 100 %: it is one part of what goes to the other words.",
)

painter_endings = Choose(
    about='which word "painter" looks at by its ending',
    right="baker",
    options={
        "painted": (
            "Alike in how they begin, but this head was given nothing but endings: -ter and -ted share no piece."
        ),
        "no other word": "No other word ends with -ter, but -r and -er count as well, and they are shared.",
        "baker": (
            "Both end with -r and with -er: two of the three pieces that the head compares. (In nearly all draws; with "
            "SEED = 6, chance puts another word in front.)"
        ),
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
        "they get sharper": "Specialists should know better, but a narrow head has fewer numbers to tell words apart.",
        "they stay as they are": (
            "The 64 numbers do, but a word scores itself by the root of its head's size: 8 for 64 features, 2 for 4."
        ),
    },
)

two_matrices = Choose(
    about="what thinner heads do when queries and keys come out of two matrices",
    right="as sharp with 16 heads as with 1",
    options={
        "paler with 16 heads, as before": "That took a query that equals its key; two matrices take this lead away.",
        "sharper with 16 heads than with 1": (
            "Fewer features make a noisier score, but the root of head_dim makes up for exactly that (lesson 02)."
        ),
        "as sharp with 16 heads as with 1": (
            "So the fading belonged to our picture, not to thin heads. Now a word has no lead with itself, and the "
            "division by the root of head_dim keeps the spread of all scores the same."
        ),
    },
)
