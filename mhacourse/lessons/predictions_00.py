"""The predictions of lesson 00: which words attend to which with one, two and four heads, and what narrow heads do."""

from mhacourse.prediction import Choose, Number

one_head = Choose(
    about="which word a repeated word looks at most, with one head",
    right="itself",
    options={
        'the other two "the"': (
            "They match in spelling but are far away. A word that matches in both spelling and place scores higher."
        ),
        "its neighbours": (
            "They are close but spelled differently. A word that matches in both place and spelling scores higher."
        ),
        "itself": (
            "Almost all the ink is on the diagonal. Only the word itself matches in both spelling and place, and the "
            "single head adds the two similarities."
        ),
        "all words about equally": "That would be so if no word stood out in the sum, but the word itself does.",
    },
)

spelling_share = Number(
    about="how much a repeated word gives to the same word elsewhere, in the spelling head",
    right=(85, 100),
    right_text="over 85 %",
    unit="%",
    why="To this head nothing is as similar as the same word, and weights strongly favour the largest score.",
    guesses=(
        (0, 30, "By chance it would be 9 or 18 %, but this head sees nothing except spelling."),
        (30, 85, "Other words share letters, too, but a weight grows much faster than its score."),
    ),
    other="A share lies between 0 and 100 %: it is a part of the weight that the word gives to the others.",
)

painter_endings = Choose(
    about='which word "painter" looks at because of its ending',
    right="baker",
    options={
        "painted": "They begin alike, but this head was given only endings, and -ter and -ted share no piece.",
        "no other word": "No other word ends in -ter, but -r and -er count as well, and another word has those.",
        "baker": (
            "Both end in -r and in -er, two of the three pieces that the head compares. (This holds in nearly all "
            "draws; with SEED = 6, chance puts another word in front.)"
        ),
        "The, the word before it": "It is close, but this head does not know where a word is. Heads 2 and 3 do.",
    },
)

sixteen_heads = Choose(
    about="what more heads do to the maps of this lesson",
    right="they get paler",
    options={
        "they get paler": (
            "Here, the more questions you ask, the fainter the answers: with fewer features to compare, each word's "
            "score with itself has a smaller lead over its other scores."
        ),
        "they get sharper": "Specialists should know better, but a narrow head has fewer numbers to tell words apart.",
        "they stay as they are": (
            "The 64 numbers stay, but a word's score with itself is the square root of the head's size: 8 with 64 "
            "features, 2 with 4."
        ),
    },
)

two_matrices = Choose(
    about="what narrower heads do when queries and keys come from two matrices",
    right="as sharp with 16 heads as with 1",
    options={
        "paler with 16 heads, as before": (
            "They got paler because the lead of a word's own score shrank. With two matrices, there is no such lead."
        ),
        "sharper with 16 heads than with 1": (
            "Fewer features make a noisier score, but dividing by the root of head_dim makes up for exactly that "
            "(lesson 02)."
        ),
        "as sharp with 16 heads as with 1": (
            "So the maps faded because queries and keys were equal, not because heads were narrow. Now no word's score "
            "with itself has a lead, and dividing by the root of head_dim keeps the spread of all scores the same."
        ),
    },
)
