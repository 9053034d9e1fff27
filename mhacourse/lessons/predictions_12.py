"""The predictions of lesson 12: what sharing saves, where a cache goes wrong, latents and windows."""

from mhacourse.prediction import Choose

kept_in_2026 = Choose(
    about="how many numbers a model of 2026 with 119 billion weights keeps for each token",
    right="about 11,500",
    options={
        "about 4.5 million": (
            "Seventeen times the weights, seventeen times the memory: so it would be if nothing but the size had "
            "changed. It keeps 11,520."
        ),
        "about 262,000, as many": (
            "Nobody would want more than in 2023, true. But it keeps far less: 11,520 numbers, less than a twentieth."
        ),
        "about 65,000": "A quarter would be a good saving. It keeps 11,520, less than a twentieth.",
        "about 11,500": "Less than a twentieth. There are several ways to get there, and this lesson builds them.",
    },
)

head_of_keys = Choose(
    about="which of two KV heads query head 4 of eight reads",
    right="the second",
    options={
        "the first": "So it would be if heads were dealt out in turn, 0, 1, 0, 1; here neighbours share.",
        "the second": "Heads 0 to 3 read the first, 4 to 7 the second: neighbours share.",
        "a mean of both": "Nothing is averaged: each query head reads one KV head as it is.",
    },
)

saved_by_sharing = Choose(
    about="what becomes eight times smaller with one KV head for eight query heads",
    right="only what is kept",
    options={
        "only what is kept": "Keys and values shrink by the whole factor; W_q, W_o and the eight maps stay.",
        "the weights and what is kept": "Of four projections two shrink, so more than half of the weights stay.",
        "all three of them": "One would hope so. But there are still eight query heads and eight maps.",
    },
)

four_with_shared_keys = Choose(
    about="how well four heads that share keys and values do two lookups",
    right="nearly all right",
    options={
        "like a single head, about a half": (
            "They share what they look at. But each has a softmax of its own, and that is what the single head "
            "lacks. They get above 90 %."
        ),
        "in between, about three quarters": (
            "Half of each head is shared, so it is a fair guess. But the queries decide where a head looks, and those "
            "are four. They get above 90 %."
        ),
        "nearly all right": "Four softmaxes ask four questions of the same keys.",
    },
)

wrong_from_the_top_left = Choose(
    about="which positions are wrong with a cache and a mask aligned at the top left",
    right="all after the first piece",
    options={
        "all of them": (
            "The first piece has as many keys as queries: there both alignments agree. All that come after it are "
            "wrong."
        ),
        "all after the first piece": "Each new query is taken for query 0 and sees the first key alone.",
        "none: one query needs no mask": (
            "It needs none, but it was given one: a single True, at the left. So each new token is wrong."
        ),
    },
)

keys_of_a_latent = Choose(
    about="what each step must make anew of all earlier tokens, if only latents are kept",
    right="neither keys nor values",
    options={
        "their keys and values": (
            "That is how a latent layer is trained, so it looks like the price of the small cache. But U_k can move "
            "into the question, and U_v behind the mixture: neither keys nor values are made."
        ),
        "their keys, but not their values": (
            "Values can indeed be mixed as latents first and made bigger afterwards. The same trick works on the other "
            "side: a query can be made into a question about latents."
        ),
        "neither keys nor values": (
            "U_k is moved into the question, U_v behind the mixture. The kept latent is looked at as it is."
        ),
    },
)

rotated_latents = Choose(
    about="how far off the outputs are if the folded queries and the latents are rotated",
    right="more than a quarter",
    options={
        "not at all: rotating is linear, too": (
            "It is linear, but the order matters: a rotation of 8 features after U_k is no rotation of 10 before it. "
            "The outputs are more than a quarter off."
        ),
        "a few percent": (
            "As if it were an approximation. It is another layer: the outputs are more than a quarter off."
        ),
        "more than a quarter": "Rotation stands between W_q and U_k, and there it stops the fold.",
    },
)

first_token_leaves = Choose(
    about="what happens when the start token has left the window of 8",
    right="tokens that should be silent answer",
    options={
        "nothing: what is asked for is one place back": (
            "So is what the head needs to know. But a head that looks for nothing has to look somewhere, and the start "
            "token was that place. Without it, silent tokens begin to answer."
        ),
        "tokens that ask get wrong answers": (
            "These have their answer one place back, inside the window, and they find it. It is the silent tokens that "
            "begin to answer."
        ),
        "tokens that should be silent answer": (
            "The answers stay right. What is lost is the place to look at for nothing, and the weight that lay there "
            "goes to tokens that mean something."
        ),
    },
)
