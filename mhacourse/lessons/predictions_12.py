"""The predictions of lesson 12: what sharing saves, where a cache goes wrong, shared layers, latents and windows."""

from mhacourse.prediction import Choose

kept_in_2026 = Choose(
    about="how many numbers a 2026 model with 119 billion weights keeps for each token",
    right="about 11,500",
    options={
        "about 4.5 million": (
            "Seventeen times the weights, seventeen times the memory: that would be right if only the size had "
            "changed. The model keeps 11,520."
        ),
        "about 262,000": (
            "True, nobody would want to store more than in 2023. But the model keeps far fewer numbers: 11,520, less "
            "than a twentieth of that."
        ),
        "about 65,000": "A quarter would be a good saving, but the model keeps 11,520, not even a twentieth.",
        "about 11,500": (
            "That is less than a twentieth of the 262,144. There are several ways to get there, and this lesson builds "
            "them."
        ),
    },
)

head_of_keys = Choose(
    about="which of two KV heads query head 4 of eight reads",
    right="the second",
    options={
        "the first": (
            "That would be right if query heads were dealt out in turn, 0, 1, 0, 1, but here neighbours share."
        ),
        "the second": "Heads 0 to 3 read the first and heads 4 to 7 the second: neighbours share.",
        "a mean of both": "Nothing is averaged: each query head reads exactly one KV head.",
    },
)

saved_by_sharing = Choose(
    about="what becomes eight times smaller with one KV head for eight query heads",
    right="only what is kept",
    options={
        "only what is kept": (
            "Keys and values shrink by the full factor, but W_q, W_o and the eight maps keep their size."
        ),
        "the weights and what is kept": (
            "Only two of the four projections shrink, so more than half of the weights stay."
        ),
        "all three of them": "You might hope so, but there are still eight query heads and eight maps.",
    },
)

four_with_shared_keys = Choose(
    about="how well four heads that share keys and values do two lookups",
    right="nearly all right",
    options={
        "like a single head, about a half": (
            "They look at the same keys. But each head has its own softmax, so there are four instead of one. They get "
            "above 90 % right."
        ),
        "in between, about three quarters": (
            "Half of each head is shared, so that is a fair guess. But the queries decide where a head looks, and each "
            "head has its own. They get above 90 % right."
        ),
        "nearly all right": "Four softmaxes ask four questions of the same keys.",
    },
)

wrong_from_the_top_left = Choose(
    about="which positions are wrong with a cache and a mask aligned at the top left",
    right="all after the first piece",
    options={
        "all of them": (
            "The first piece has as many keys as queries, so both alignments agree there. Everything after it is wrong."
        ),
        "all after the first piece": "Each new query is treated as query 0, so it sees only the first key.",
        "none: one query needs no mask": (
            "One query needs no mask, but here it has one, with a single True on the left. So each new token is wrong."
        ),
    },
)

one_cache_for_two_layers = Choose(
    about="how well models do when their two layers read one cache",
    right="clearly worse",
    options={
        "as well as the others": (
            "The second layer has queries of its own, and with shared KV heads that was enough. But the keys it reads "
            "were made before any head had looked, so they do not know the token before them. The middle run of ten is "
            "under 75 % right."
        ),
        "clearly worse": (
            "The second layer reads keys that were made before any head had looked, so none knows the token before it."
        ),
        "they learn nothing, and guess": (
            "The keys do know their own token and its position, and with these the models get some answers right."
        ),
    },
)

keys_of_a_latent = Choose(
    about="what each step must recompute for all earlier tokens, if only latents are kept",
    right="neither keys nor values",
    options={
        "their keys and values": (
            "A latent layer is trained that way, so this looks like the price of the small cache. But you can apply "
            "U_k to the query and U_v to the finished mixture, and never make a key or a value."
        ),
        "their keys, but not their values": (
            "Values can indeed be mixed as latents first and expanded afterwards. The same trick works for the keys: a "
            "query can be turned into a question about latents."
        ),
        "neither keys nor values": (
            "U_k is applied to the query, and U_v to the finished mixture, so a step reads the kept latents directly."
        ),
    },
)

rotated_latents = Choose(
    about="how far off the outputs are if the folded queries and the latents are rotated",
    right="more than a quarter",
    options={
        "not at all: rotating is linear, too": (
            "It is linear, but the order matters: rotating 8 features after U_k is not the same as rotating 10 "
            "features before it. The outputs are more than a quarter off."
        ),
        "a few percent": (
            "That would make it an approximation. But it is a different layer: the outputs are more than a quarter off."
        ),
        "more than a quarter": "The rotation comes between W_q and U_k, so they can no longer be folded together.",
    },
)

first_token_leaves = Choose(
    about="what happens when the start token has left the window of 8",
    right="tokens that should be silent answer",
    options={
        "nothing: what is asked for is one place back": (
            "Tokens that ask a question do find the answer there. But a head with nothing to look for has to look "
            "somewhere, and the start token was that place. Without it, silent tokens begin to answer."
        ),
        "tokens that ask get wrong answers": (
            "Their answer is one place back, inside the window, and they find it. But tokens that should be silent "
            "begin to answer."
        ),
        "tokens that should be silent answer": (
            "The answers stay right. But the head has lost the place where it looks when there is nothing to find, so "
            "its weight now goes to tokens that mean something."
        ),
    },
)

same_as_a_rolling_cache = Choose(
    about="what gives the same scores as a cache that keeps 8 tokens in each of two layers",
    right="the whole text, with windows",
    options={
        "the last 8 tokens alone": (
            "The kept keys of the second layer were made when the tokens before these 8 were still in sight."
        ),
        "the whole text, with windows": (
            "Each kept key is the one that the full pass makes, too: it saw its own window when it was made."
        ),
        "neither: it is an approximation": (
            "It differs from a model without windows. With a window in each layer, it is exact."
        ),
    },
)

needles_found = Choose(
    about="how far back needles are found by two layers with windows of 8, trained with needles anywhere",
    right="up to 14 tokens",
    options={
        "up to 7 tokens": "The first layer can pass a needle on to a token that is in the window of the last one.",
        "up to 14 tokens": "The first layer carries a needle 7 tokens further, and the second layer 7 more.",
        "anywhere": "Two layers reach 7 tokens each, so nothing arrives from further back.",
    },
)
