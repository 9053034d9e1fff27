"""The predictions of lesson 19: padded and packed texts, a mask of ones, no mask, an image before a text."""

from mhacourse.prediction import Choose

left_padding_uncounted = Choose(
    about="what left padding does to a model with a learned table if its positions simply run from 0 to 23",
    right="much to its scores, little to its answers",
    options={
        "little to scores and answers": "The padding is hidden, but each token got the vector of a different place.",
        "much to its scores, little to its answers": "The best score often stays the best, however far it moves.",
        "much to both": "The scores do move, by about the size of the largest score, but most answers survive that.",
    },
)

padding_on_the_right = Choose(
    about="what padding on the right without a mask does to the logits of real tokens in a causal model",
    right="nothing",
    options={
        "nothing": "Under a causal mask no token sees what comes after it, and here the padding does.",
        "it moves those near the end": "It would if they saw the padding, but the padding comes after them.",
        "it moves all of them": "Without a causal mask, yes. With it, real tokens see only what they see alone.",
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

a_mask_of_ones = Choose(
    about="which logits move with token 12 if you pass a GPT-like model a mask of ones",
    right="those of tokens 12 to 23",
    options={
        "all of them": "The ones say that no token is padding. They do not say that tokens may see the future.",
        "those of tokens 12 to 23": "The causal mask stays: the model joins yours with it.",
        "those of token 12": "Token 12 is also a key, and all later tokens see it.",
    },
)

prompt_without_a_mask = Choose(
    about="in which of two layers the last row of a prompt changes without a causal mask",
    right="in the second",
    options={
        "in neither": "The last token may see everything. But the tokens that it looks at may not, and they did.",
        "in the second": "The second layer reads rows that have seen later tokens, and so makes other keys and values.",
        "in both": "In the first layer, the last token sees the same keys as with a mask: all of them.",
    },
)

image_before_text = Choose(
    about="which rows of the first layer change if the patches before a text see one another",
    right="those of the patches, except for the last patch",
    options={
        "those of the patches, except for the last patch": "The last patch and the words saw all patches before.",
        "those of all patches": "Nearly. But which later patch could the last one see?",
        "all rows": "The words see what they saw before: all patches, and the words up to themselves.",
    },
)
