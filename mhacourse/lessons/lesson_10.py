"""The exercises of lesson 10: what a map tells, and three measures: previous token, induction, alignment."""

import torch

from mhacourse.exercise import Change, Choice, Exercise, Wrong
from mhacourse.inputs import draw
from mhacourse.other_inputs import with_nothing_to_count
from mhacourse.remarks import Asked, Grows, uses
from mhalib.heads import alignment_agreement, induction_score, previous_token_score

what_maps_tell = Choice(
    task=(
        "A translator writes 'noire', right; one of its four heads gives 0.9 of its weight to 'black' there. "
        "Which of the five sentences follow from that? All of them, as letters."
    ),
    answer="AD",
    options={
        "A": "in this row no key can have more: the weights of a row sum to 1, so 0.9 is the largest.",
        "B": "the other heads may have read 'black' as well: take it away and look.",
        "C": "what arrives is the weight times the value, through W_o. A short value makes it little.",
        "D": "each row is shared out completely, so 0.1 is left for all other keys together.",
        "E": "a weight says where a head looks, not how much the answer depends on it. Lesson 11 measures that.",
    },
    hints=(
        "Weights are known, values are not, and one head is not the model.",
        "Two of the sentences are arithmetic of one row. The others are about causes.",
    ),
    see="What a map does not show",
)


def previous_token_solution(maps):
    return maps.diagonal(-1, -2, -1).mean(-1)  # (num_heads, T, T) -> (num_heads, T - 1) -> (num_heads,)


def _previous_token_by_loop(maps):
    num_heads, T, _ = maps.shape
    total = torch.zeros(num_heads)
    for query in range(1, T):
        total = total + maps[:, query, query - 1]
    return total / (T - 1)


def _previous_token_by_stack(maps):
    T = maps.shape[-1]
    weights = []
    for query in range(1, T):
        weights.append(maps[:, query, query - 1])  # (num_heads,)
    weights = torch.stack(weights)  # -> (T - 1, num_heads)
    return weights.mean(0)


def _maps(seed, *shape):
    return draw(seed, *shape).mul(2).softmax(-1)


def _previous_cases():
    by_hand = torch.tensor(
        [[[0.5, 0.3, 0.2], [0.8, 0.1, 0.1], [0.1, 0.6, 0.3]], [[0.2, 0.7, 0.1], [0.3, 0.2, 0.5], [0.3, 0.4, 0.3]]]
    )
    # On itself, on the token before, on the first token: a weight of 0 counts like any other.
    sharp = torch.stack([torch.eye(4), torch.eye(4).roll(1, 0), torch.eye(4)[:1].expand(4, 4)])
    return [(by_hand,), (sharp,), (_maps(0, 4, 6, 6),), (_maps(5, 1, 7, 7),), (_maps(1, 2, 9, 9),)]


previous_token = Exercise(
    task=(
        "Write previous_token(maps): from maps (num_heads, T, T) the mean weight of each head on the token just before "
        "the query, over the queries that have one, (num_heads,)."
    ),
    answer=previous_token_solution,
    plain=(previous_token_solution, _previous_token_by_loop, _previous_token_by_stack),
    cases=_previous_cases,
    axes=("head",),
    hints=(
        "Rows are queries, columns are keys. Query 1 finds its previous token in column 0, query 2 in column 1, ...",
        "So for each query t that has one, the weight is maps[:, t, t - 1]. Which t have one, and how many are they?",
        "These cells are a diagonal below the main one, of T - 1 cells: maps.diagonal(-1, -2, -1). Take its mean.",
    ),
    wrong={
        "The first query counts": Wrong(
            Change(".mean(-1)", ".sum(-1) / maps.shape[-1]"),
            "the sum is divided by T.",
            "The first query has no token before it, so T - 1 queries count. A perfect head would not reach 1.",
        ),
        "The last token before the first": Wrong(
            Change("maps.diagonal(-1, -2, -1)", "maps.roll(1, -1).diagonal(0, -2, -1)"),
            "query 0 counts with its weight on the last token.",
            "Place -1 is the last one: begin at query 1.",
        ),
        "The next token": Wrong(
            Change("maps.diagonal(-1,", "maps.diagonal(1,"),
            "these are the weights on the token after the query.",
            "Rows are queries: the token before query 2 is column 1, below the main diagonal.",
        ),
        "The strongest key only": Wrong(
            lambda maps: (maps[:, 1:].argmax(-1) == torch.arange(maps.shape[-1] - 1)).float().mean(-1),
            "this counts the queries whose strongest key is the previous token.",
            "Asked is the weight itself: a head with 0.4 there every time should not score 1.",
        ),
        "All earlier tokens": Wrong(
            Change("maps.diagonal(-1, -2, -1).mean(-1)", "maps.tril(-1).mean((-1, -2))"),
            "the weights on all tokens before the query are in it.",
            "One cell for each query: the column just before. tril(-1) keeps everything below the main diagonal.",
        ),
    },
    see="A score for each pattern",
    remarks=(
        Asked("The task asks to write it; yours calls {found} of the library.", uses(previous_token_score)),
        Grows(lambda heads=3, tokens=4: (draw(0, heads, tokens, tokens).softmax(-1),)),
    ),
)


def induction_solution(maps, tokens):
    same = tokens[:, None] == tokens  # (T, T)
    earlier = same & torch.ones_like(same).tril(-1)  # the same token, before the query
    target = earlier.roll(1, -1)  # one place to the right of it
    counted = target.any(-1)  # (T,)
    return (maps * target).sum(-1)[:, counted].mean(-1)  # (num_heads, T, T) -> (num_heads,)


def _induction_by_slices(maps, tokens):
    T = len(tokens)
    same = tokens[:, None] == tokens  # (T, T)
    earlier = same.tril(-1)
    behind = torch.zeros(T, T, dtype=torch.bool)
    behind[:, 1:] = earlier[:, :-1]
    weights = (maps * behind).sum(-1)  # (num_heads, T, T) -> (num_heads, T)
    occurred = earlier.any(-1)
    return weights[:, occurred].mean(-1)


def _induction_by_loops(maps, tokens):
    num_heads, T, _ = maps.shape
    total = torch.zeros(num_heads)
    counted = 0
    for query in range(T):
        weight = torch.zeros(num_heads)
        occurred = False
        for earlier in range(query):
            if tokens[earlier] == tokens[query]:
                weight = weight + maps[:, query, earlier + 1]
                occurred = True
        if occurred:
            total = total + weight
            counted = counted + 1
    return total / counted


def _holds_the_next(maps, tokens):
    target = (tokens[1:, None] == tokens).tril(-1)  # (T - 1, T): the last query has no next token
    return (maps[:, :-1] * target).sum(-1)[:, target.any(-1)].mean(-1)


def _induction_cases():
    # Query 1 follows its own token, so what stands behind it is query 1 itself; query 3 has two keys to find.
    looks = [[0.4, 0.3, 0.2, 0.1], [0.3, 0.6, 0.1, 0.0], [0.1, 0.2, 0.4, 0.3], [0.1, 0.5, 0.3, 0.1]]
    elsewhere = [[0.7, 0.1, 0.1, 0.1], [1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.2, 0.4, 0.2, 0.2]]
    return [
        (torch.tensor([looks, elsewhere]), torch.tensor([0, 0, 1, 0])),
        (_maps(2, 3, 5, 5), torch.tensor([0, 1, 2, 0, 1])),
        (_maps(3, 4, 7, 7), torch.tensor([0, 1, 2, 0, 3, 0, 1])),
        (_maps(5, 1, 6, 6), torch.tensor([2, 0, 2, 1, 0, 2])),  # one head keeps its axis
        (_maps(4, 2, 9, 9), torch.tensor([4, 2, 4, 1, 1, 1, 0, 4, 2])),
    ]


induction = Exercise(
    task=(
        "Write induction(maps, tokens): the weight of each head on all keys that stand just behind an earlier "
        "occurrence of the query's token; the mean over the queries whose token occurred before. "
        "maps (num_heads, T, T), tokens (T,), result (num_heads,)."
    ),
    answer=induction_solution,
    plain=(_induction_by_slices, induction_solution, _induction_by_loops),
    cases=_induction_cases,
    axes=("head",),
    hints=(
        "Which pairs of places hold the same token? tokens[:, None] == tokens is (T, T), queries by keys.",
        "Only earlier keys count: tril(-1). What stands behind them is one column to the right: roll(1, -1).",
        "Add the weights on these cells for each query, drop the queries that have none, take the mean of the others.",
    ),
    wrong={
        "The same token": Wrong(
            Change("(maps * behind)", "(maps * earlier)"),
            "this is the weight on the earlier occurrence itself.",
            "That token is known already. What helps is the one behind it, a column further to the right.",
        ),
        "All queries count": Wrong(
            Change("weights[:, occurred]", "weights"),
            "queries whose token never occurred before count with 0.",
            "They have nothing to find. With them, no head could score 1.",
        ),
        "Later occurrences as well": Wrong(
            Change("same.tril(-1)", "same & ~torch.eye(T, dtype=torch.bool)"),
            "keys behind later occurrences count as well.",
            "Only what was said before the query can be looked up: tril(-1) before the shift.",
        ),
        "Not the query itself": Wrong(
            Change(".tril(-1)", ".tril(-2)"),
            "a key is left out where it is the query itself.",
            "In 'a a' the second a stands just behind the first, and is a key like any other.",
            also=(Change("(maps * behind)", "(maps * behind.tril(-1))"),),
        ),
        "The strongest key only": Wrong(
            Change("(maps * behind).sum(-1)", "behind[torch.arange(T), maps.argmax(-1)].float()"),
            "this counts the queries whose strongest key stands behind an earlier occurrence.",
            "Asked is the weight itself: add it up over the keys, and take the mean over the queries.",
        ),
        "Keys that hold the next token": Wrong(
            _holds_the_next,
            "this looks for keys that hold the token which in truth comes next.",
            "Asked is what stood behind the query's token before, whether it comes again or not.",
        ),
        "The last occurrence only": Wrong(
            Change("earlier[:, :-1]", "(earlier & (earlier.flip(-1).cumsum(-1).flip(-1) == 1))[:, :-1]"),
            "where a token occurred several times, only the last one counts.",
            "Add the weights behind all earlier occurrences.",
        ),
        "The first occurrence only": Wrong(
            Change("earlier[:, :-1]", "(earlier & (earlier.cumsum(-1) == 1))[:, :-1]"),
            "where a token occurred several times, only the first one counts.",
            "Add the weights behind all earlier occurrences.",
        ),
        "The mean over cells": Wrong(
            Change("weights[:, occurred].mean(-1)", "weights.sum(-1) / behind.sum()"),
            "the weights are divided by the number of cells.",
            "A query with two cells shares its weight between them: add first, then take the mean over queries.",
            also=(Change("weights[:, occurred]", "(weights / behind.sum(-1).clamp(min=1))[:, occurred]"),),
        ),
    },
    see="A score for each pattern",
    remarks=(
        Asked("The task asks to write it; yours calls {found} of the library.", uses(induction_score)),
        Grows(lambda heads=3, tokens=4: (draw(0, heads, tokens, tokens).softmax(-1), torch.arange(tokens) % 3)),
        with_nothing_to_count,
    ),
)


def aligned_solution(maps, alignment):
    strongest = maps.argmax(-1)  # (num_heads, Tq)
    hit = alignment[torch.arange(len(alignment)), strongest]  # (num_heads, Tq)
    return hit[:, alignment.any(-1)].float().mean(-1)  # (num_heads,)


_HIT = "alignment[torch.arange(len(alignment)), strongest]"  # of the solution


def _aligned_cases():
    # Key 3 is nobody's partner, and the strongest of query 0 in head 1; query 2 has no partner.
    by_hand = torch.tensor(
        [
            [[0.4, 0.3, 0.1, 0.2], [0.1, 0.3, 0.4, 0.2], [0.7, 0.1, 0.1, 0.1]],
            [[0.3, 0.1, 0.2, 0.4], [0.1, 0.6, 0.2, 0.1], [0.2, 0.3, 0.1, 0.4]],
        ]
    )
    cases = [(by_hand, torch.tensor([[1, 0, 0, 0], [0, 1, 1, 0], [0, 0, 0, 0]]).bool())]
    for seed, shape in ((4, (3, 8, 5)), (5, (2, 5, 7)), (7, (1, 6, 8)), (6, (4, 10, 9))):
        alignment = torch.eye(*shape[1:]).bool() | (draw(seed + 10, *shape[1:]) > 1)
        alignment[2], alignment[:, -1] = False, False
        cases.append((_maps(seed, *shape), alignment))
    return cases


aligned = Exercise(
    task=(
        "Write aligned(maps, alignment): for each head the share of queries whose strongest key is one of their "
        "partners; queries without any partner do not count. maps (num_heads, Tq, Tk), alignment (Tq, Tk), True for "
        "partners; result (num_heads,)."
    ),
    answer=aligned_solution,
    cases=_aligned_cases,
    axes=("head",),
    hints=(
        "Which key gets the most weight, and is it one of the query's partners?",
        "maps.argmax(-1) is the strongest key, (num_heads, Tq): look it up in alignment[torch.arange(Tq), strongest].",
        "Keep the queries with a partner, alignment.any(-1), and take the mean over them.",
    ),
    wrong={
        "The weight on partners": Wrong(
            Change(_HIT, "(maps * alignment).sum(-1)"),
            "this is a mean of weights on partners.",
            "A measure as well, but another one. Asked is how often the strongest key is a partner.",
            also=(Change(_HIT, "(maps * alignment).amax(-1)"),),
        ),
        "Queries without a partner count": Wrong(
            Change("hit[:, alignment.any(-1)]", "hit"),
            "queries without a partner count as misses.",
            "They have nothing to hit: leave them out of the mean.",
            also=(
                Wrong(
                    Change("hit[:, alignment.any(-1)]", "(hit | ~alignment.any(-1))"),
                    "queries without a partner count as hits.",
                    "They have nothing to hit: leave them out of the mean.",
                ),
            ),
        ),
        "The first partner only": Wrong(
            Change(_HIT, "strongest == alignment.int().argmax(-1)"),
            "only the first partner of a query counts.",
            "'ne' has two partners, and either is a hit. Look the strongest key up in the table.",
        ),
        "The last partner only": Wrong(
            Change(_HIT, "strongest == len(alignment.T) - 1 - alignment.flip(-1).int().argmax(-1)"),
            "only the last partner of a query counts.",
            "'ne' has two partners, and either is a hit. Look the strongest key up in the table.",
        ),
        "All partners at once": Wrong(
            Change(_HIT, "((maps == maps.amax(-1, keepdim=True)) == alignment).all(-1)"),
            "a query counts only if its strongest key is its single partner.",
            "One of the partners is enough: look the strongest key up in the table.",
        ),
        "More than half": Wrong(
            Change(_HIT, "((maps > 0.5) & alignment).any(-1)"),
            "this asks whether a partner has more than half of the weight.",
            "The strongest key may have less than half: it only has more than each of the others.",
        ),
        "Straight ahead": Wrong(
            Change(_HIT, "strongest == torch.arange(len(alignment))"),
            "this counts the queries whose strongest key is at their own place.",
            "That is the rule to compare with. Asked is whether it is a partner: look it up in alignment.",
        ),
        "The strongest query of each key": Wrong(
            lambda maps, alignment: aligned_solution(maps.mT, alignment.mT),
            "this goes through the keys and takes the strongest query of each.",
            "Each query shares out its weight: the maximum is over the keys, the last axis.",
        ),
        "The share of partners found": Wrong(
            Change("hit[:, alignment.any(-1)].float().mean(-1)", "hit.sum(-1) / alignment.sum()"),
            "the hits are divided by the number of pairs.",
            "A query with two partners can hit only one. Divide by the queries that have a partner.",
        ),
    },
    see="A model that translates",
    remarks=(
        Asked("The task asks to write it; yours calls {found} of the library.", uses(alignment_agreement)),
        Grows(lambda heads=3, queries=4: (draw(0, heads, queries, 5).softmax(-1), torch.ones(queries, 5) > 0)),
        with_nothing_to_count,
    ),
)
