"""The predictions of lesson 13: what a head knows of places, rotary layouts, ALiBi slopes, caches and longer texts."""

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
        "neither model": "Without a mask, yes. With a causal mask, token 0 sees only itself, and token 1 sees both.",
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
            "Values are not rotated, and if you reordered them, they would no longer match W_o."
        ),
        "those of W_q and W_k, inside each head": "Each pair lies inside one head, and only q and k are rotated.",
        "those of W_q and W_k, over the whole width": "That would hand features of one head to other heads.",
    },
)

rotated_before_the_split = Choose(
    about="what a score depends on, with equal tokens, when rotate-half comes before the split into heads",
    right="the places themselves",
    options={
        "the distance, as always": "That is so only if both features of a pair are in the same head.",
        "the distance, with other speeds of rotation": (
            "That is what happens with interleaved pairs, because they stay in one head."
        ),
        "the places themselves": (
            "A head then has only one feature of each pair, so it gets half of each rotated pair, and the positions no "
            "longer cancel."
        ),
    },
)

found_again_far_away = Choose(
    about="how often a word is found again 1,000 tokens later if all features are rotated",
    right="in about three of ten cases",
    options={
        "always: rotating changes no length": (
            "No length changes, but the angle between query and key does, and so does their product."
        ),
        "in about three of ten cases": (
            "By then, fast pairs have turned to anywhere; only slow ones still help. Without rotation, all are found."
        ),
        "hardly ever, as by chance": "By chance it would be one in fifty, but the slow pairs have hardly turned.",
    },
)

lookups_with_one_slope = Choose(
    about="which lookups two heads with the same slope learn",
    right="one at most, whatever the slope",
    options={
        "both, with a medium slope": (
            "With a slope of 1/8, nearby tokens look too much alike; with 1/3, the far token is out of reach; and with "
            "1/5, neither lookup is learned in 400 steps (in 1,200, only the far one is)."
        ),
        "both, with any slope": "Training can raise a score against a slope, but only so far.",
        "one at most, whatever the slope": "A slope sets how far a head reaches, and the two lookups need two reaches.",
    },
)

rotations_of_a_cached_key = Choose(
    about="how often a key that enters a cache of rotated keys must be rotated while ten more tokens are written",
    right="once",
    options={
        "once": "It is rotated by its position when it enters. The rotation of each new query sets the distance.",
        "eleven times": "The distance grows with each step, but only the query is rotated further.",
        "never": "Then only the query would be rotated, and a score would depend on the query's place alone.",
    },
)

longer_than_trained = Choose(
    about=("which version of a rotary model, trained on texts of 24 tokens, reads the last third of 72 tokens best"),
    right="with the larger base",
    options={
        "as it is": (
            "It gets worse with each further token: its second pair now turns by up to 7 radians, and in training it "
            "never turned by more than 2.3."
        ),
        "divided by 3": "Then no position is new, but every distance is: one place back has become a third of a place.",
        "with the larger base": (
            "The fastest pair still tells neighbours apart. The second, which would otherwise run past a full turn by "
            "place 63, now reaches only 4 radians."
        ),
    },
)
