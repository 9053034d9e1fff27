"""The predictions of lesson 13: what a head knows of places, rotary layouts, ALiBi slopes, padded and packed texts."""

from mhacourse.prediction import Choose

the_same_word_twice = Choose(
    about="how the outputs at two equal words compare, without a mask and without positions",
    right="they are equal",
    options={
        "they differ, since their neighbours do": (
            "Both words see all twelve words, their neighbours included, and give them the same weights."
        ),
        "they are similar, but not equal": "They would be, if anything in the layer told one word from the other.",
        "they are equal": "The same word gives the same query, the same scores with all words, and the same mean.",
    },
)

exchanged_first_tokens = Choose(
    about="which model notices at its last token that tokens 0 and 1 were exchanged, under a causal mask",
    right="the two-layer model",
    options={
        "neither model": "That would be right without a mask. With it, tokens 0 and 1 see different heaps.",
        "the two-layer model": (
            "The first layer writes something different at tokens 0 and 1, and the second layer reads it."
        ),
        "both models": (
            "With one layer, the last token sees the same keys and values as before, just in a different order."
        ),
    },
)

rows_to_sort = Choose(
    about="which rows have to be reordered for the other layout",
    right="those of W_q and W_k, inside each head",
    options={
        "those of W_q, W_k and W_v, inside each head": (
            "Values are not rotated, and once reordered, they would not fit W_o."
        ),
        "those of W_q and W_k, inside each head": "Pairs are features of one head, and only q and k are rotated.",
        "those of W_q and W_k, over the whole width": "That would deal the features of one head out to others.",
    },
)

rotated_before_the_split = Choose(
    about="what a score depends on, with equal tokens, when rotate-half comes before the split into heads",
    right="the places themselves",
    options={
        "the distance, as always": "That is so only if both features of a pair are in the same head.",
        "the distance, at another speed": "That is what happens with interleaved pairs, because they stay in one head.",
        "the places themselves": (
            "A head holds only one feature of each pair, and with half a rotation nothing cancels."
        ),
    },
)

lookups_with_one_slope = Choose(
    about="which lookups two heads with the same slope learn",
    right="one at most, whatever the slope",
    options={
        "both, with a middle slope": (
            "At 1/8 the tokens close by look too much alike, at 1/3 far is out of reach, and at 1/5 neither is learned "
            "in 400 steps (in 1,200, only far is)."
        ),
        "both, with any slope": "Training can raise a score against a slope, but only so far.",
        "one at most, whatever the slope": "A slope is a reach, and the two lookups need two.",
    },
)

left_padding_uncounted = Choose(
    about="what left padding without counted positions does to a model with a learned table",
    right="much to its scores, little to its answers",
    options={
        "little to both": "The padding is hidden, but each token got the vector of a different place.",
        "much to its scores, little to its answers": "The best score often stays the best, however far it moves.",
        "much to both": "The scores move by about as much as the largest one, but most answers survive that.",
    },
)

packed_the_worst_way = Choose(
    about="which half of packing leaves a model with the fewest right answers",
    right="the new positions alone",
    options={
        "neither": "Then the second text sees the first, but at least at other places.",
        "the block mask alone": "Then the texts do not see each other; only the places are unfamiliar.",
        "the new positions alone": "Each place occurs twice, so a head that looks one place back finds two tokens.",
    },
)

rotations_of_a_cached_key = Choose(
    about="how often a key that enters a cache of turned keys must be rotated while ten more tokens are written",
    right="once",
    options={
        "once": "It is rotated at its own position, when it enters. Each new query brings the distance along.",
        "eleven times": "The distance grows with each step, but only the query has turned further.",
        "never": "Then only the query would be turned, and a score would depend on the query's place alone.",
    },
)

longer_than_trained = Choose(
    about=(
        "in which version a rotary model trained on 24 tokens reads the last third of 72 best, without further training"
    ),
    right="with the larger base",
    options={
        "as it is": (
            "It reads on, but it gets worse with each token: its second pair reaches 7 radians, and training showed "
            "only 2.3."
        ),
        "divided by 3": "Then no position is new, but every distance is: one place back has become a third of a place.",
        "with the larger base": (
            "The fastest pair still tells neighbours apart. The second, which otherwise runs past a full turn by place "
            "63, now gets only to 4 radians."
        ),
    },
)
