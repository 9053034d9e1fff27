"""The predictions of lesson 00: whom words look at with one, two and four heads, and what thinner heads do."""

from mhacourse.prediction import Choose, Number

one_head = Choose(
    about="whom a repeated word looks at most, with one head",
    right="itself",
    options={
        'the other two "the"': (
            "They are spelled alike, and that counts. But they stand elsewhere, and a single head adds both up: alike "
            "in one thing only is beaten by alike in both."
        ),
        "its neighbours": (
            "They stand near, and that counts. But they are spelled differently, and a single head adds both up: alike "
            "in one thing only is beaten by alike in both."
        ),
        "itself": "Only the word itself is alike in both, in spelling and in place, and the one head adds them up.",
        "all words about equally": (
            "So it would be if no word stood out in the sum of both likenesses. One does: the word itself, which has "
            "the largest of both."
        ),
    },
)

spelling_share = Number(
    about="how much a repeated word gives to the same word, in the spelling head",
    right=(85, 100),
    right_text="over 85 %",
    unit="%",
    why="In this head nothing is as much alike as the same word, and the weights favour the largest score strongly.",
    guesses=(
        (
            0,
            30,
            "One or two of the eleven other words are the same, so 9 or 18 % would be blind chance. But this head sees "
            "nothing but spelling, and nothing is spelled as much alike as the same word.",
        ),
        (
            30,
            85,
            'Other words share letters, too: "bridge" and "while" end like "the". They do score something, but a '
            "weight grows much faster than its score: half the likeness is far less than half the weight.",
        ),
    ),
    other="A share lies between 0 and 100 %: what goes to others is cut up among them.",
)

painter_endings = Choose(
    about='whom "painter" looks at by its ending',
    right="baker",
    options={
        "painted": (
            "To a reader it is the closest word. But what is alike is how the two begin, and this head was given "
            "nothing but endings: -ter and -ted share no piece."
        ),
        "no other word": (
            "No other word ends with -ter, true. But one, two and three last letters are counted apart, and -r and -er "
            "are shared."
        ),
        "baker": "Both end with -r and with -er: two of the three pieces that the head compares.",
        "The, the word before it": "That is near, but this head does not know where a word stands; heads 2 and 3 do.",
    },
)

paler = Choose(
    about="what more heads do to the maps of this lesson",
    right="they get paler",
    options={
        "they get paler": (
            "A word's score with itself is the root of head_dim, because here the query of a word equals its key. "
            "Fewer features, a smaller lead."
        ),
        "they get sharper": (
            "Specialists should know better, one thinks. Here a narrow head has fewer numbers to tell words apart, and "
            "the lead of a word over the others shrinks."
        ),
        "they stay as they are": (
            "The 64 numbers do stay. But each head divides its score by the root of its own size, and the score of a "
            "word with itself is then that very root: 8 for 64 features, 2 for 4."
        ),
    },
)

two_matrices = Choose(
    about="what thinner heads do when queries and keys come out of two matrices",
    right="as sharp with 16 heads as with 1",
    options={
        "paler with 16 heads, as before": (
            "So it was while a query equalled its key: the lead of a word on the diagonal came from that. Two matrices "
            "take the lead away, and the division by the root of head_dim keeps all else alike."
        ),
        "sharper with 16 heads than with 1": (
            "Fewer features make each score noisier, one may think. The division by the root of head_dim makes up for "
            "exactly that; lesson 02 shows it."
        ),
        "as sharp with 16 heads as with 1": (
            "Now a word has no lead with itself, and the division by the root of head_dim keeps the spread of all "
            "scores the same. That is what it is for: lesson 02."
        ),
    },
)
