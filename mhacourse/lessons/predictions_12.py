"""The predictions of lesson 12: what sharing saves and costs, what a cache keeps, when maps are what costs."""

from mhacourse.prediction import Choose, Number

head_of_keys = Choose(
    about="which of two heads of keys query head 4 of eight reads",
    right="the second",
    options={
        "the first": "So it would be if heads were dealt out in turn, 0, 1, 0, 1; here neighbours share.",
        "the second": "Heads 0 to 3 read the first, 4 to 7 the second.",
        "a mean of both": "Nothing is averaged: each head of queries reads one head of keys as it is.",
    },
)

saved_by_sharing = Choose(
    about="what becomes eight times smaller with one head of keys for eight",
    right="only what is kept",
    options={
        "only what is kept": "Keys and values shrink by the whole factor; W_q, W_o and the eight maps stay.",
        "the weights and what is kept": "Of four projections two shrink, so more than half of the weights stay.",
        "all three of them": "One would hope so. But there are still eight heads of queries and eight maps.",
    },
)

llama_that_keeps_more = Choose(
    about="which Llama 2 keeps more for each token, that of 7 or of 70 billion weights",
    right="the one of 7 billion",
    options={
        "the one of 70 billion": "It has 80 layers against 32, but only 8 heads of keys and values against 32.",
        "the one of 7 billion": "It does not share: 32 heads of keys and values in each layer.",
        "both the same": "The heads are equally wide, but neither their number nor that of the layers is the same.",
    },
)

four_with_shared_keys = Choose(
    about="how well four heads that share keys and values do two lookups",
    right="nearly all right",
    options={
        "like a single head, about a half": "They share what they look at; each has a softmax of its own.",
        "in between, about three quarters": "Half of a head is shared, but the queries decide here.",
        "nearly all right": "Four softmaxes ask four questions of the same keys.",
    },
)

changed_by_a_new_token = Choose(
    about="which numbers of earlier positions change when a new token arrives",
    right="none of them",
    options={
        "none of them": "No position hears of a later one, and so all of it can be kept.",
        "their keys and values": "These come from earlier positions alone, in every layer.",
        "their outputs": "They would, if they could see it. The mask is causal.",
    },
)

wrong_from_the_top_left = Choose(
    about="which positions are wrong with a cache and a mask aligned at the top left",
    right="all after the first piece",
    options={
        "all of them": "The first piece has as many keys as queries: there both alignments agree.",
        "all after the first piece": "Each new query is taken for query 0 and sees the first key alone.",
        "none: one query needs no mask": "It needs none, but it was given one: a single True, at the left.",
    },
)

tokens_at_which_maps_cost_more = Number(
    about="at how many tokens the maps cost as much as the projections, with 64 features",
    right=(128, 129),
    right_text="128, twice the features",
    why="4 T² d against 8 T d²: equal where T is 2 d.",
    guesses=(
        (8, 8, "The number of heads does not count: each has its own map, and each is thinner."),
        (
            64,
            64,
            "A map is T by T and a projection 64 by 64, but there are two products with maps and four projections.",
        ),
        (256, 100000, "Later than it is: the maps grow with the square of T."),
    ),
    other="Compare 4 T² d with 8 T d².",
    unit="tokens",
)

column_without_a_price = Choose(
    about="where eight wide heads cost no more than eight narrow ones",
    right="the maps",
    options={
        "the operations": "Wider heads multiply more numbers for every score: eight times as many.",
        "the cache": "Keys and values are as wide as the heads: eight times as many numbers.",
        "the maps": "A map is T by T, however wide the vectors were that made it.",
    },
)
