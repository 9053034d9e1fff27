"""The predictions of lesson 19: padded and packed texts."""

from mhacourse.prediction import Choose

left_padding_uncounted = Choose(
    about="what left padding does to a model with a learned table if its positions simply run from 0 to 23",
    right="much to its scores, little to its answers",
    options={
        "little to both": "The padding is hidden, but each token got the vector of a different place.",
        "much to its scores, little to its answers": "The best score often stays the best, however far it moves.",
        "much to both": "The scores do move, by about the size of the largest score, but most answers survive that.",
    },
)

packed_the_worst_way = Choose(
    about="with which parts of packing a model gives the fewest right answers",
    right="the new positions alone",
    options={
        "neither": "Then the second text sees the first, but at least the two have different places.",
        "the block mask alone": "Then the texts do not see each other; only the places are unfamiliar.",
        "the new positions alone": "Each place occurs twice, so a head that looks one place back finds two tokens.",
    },
)
