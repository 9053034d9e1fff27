"""The exercises of lesson 10: what a map tells you, and three measures (previous token, induction, alignment)."""

import torch

from mhacourse.exercise import Change, Choice, Exercise, Wrong
from mhacourse.inputs import draw
from mhacourse.remarks import Asked, Grows, uses, with_nothing_to_count
from mhalib.heads import alignment_agreement, induction_score, previous_token_score

what_maps_tell = Choice(
    task=(
        "A translator writes 'noire', which is right. In this step, one of its four heads gives 0.9 of its weight to "
        "'black'. Which of the five sentences follow from that? Give the letters of all that do."
    ),
    answer="AD",
    options={
        "A": "the weights of a row sum to 1, so 0.9 must be the largest weight in this row.",
        "B": "the other heads may have read 'black' as well. Take the word away and see.",
        "C": "the head passes on the weight times the value, sent through W_o. If the value is short, little arrives.",
        "D": "a row always shares out its whole weight, so 0.1 is left for all the other keys together.",
        "E": "a weight says where a head looks, not how much the answer depends on it. Lesson 18 measures that.",
    },
    hints=(
        "You know the weights but not the values, and one head is not the whole model.",
        "Two of the sentences are arithmetic within one row. The others are about causes.",
    ),
    see="What a map does not show",
)


def previous_token_solution(maps):
    return maps.diagonal(-1, -2, -1).mean(-1)  # (num_heads, T, T) -> (num_heads, T - 1) -> (num_heads,)


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
        "Write previous_token(maps). maps is (num_heads, T, T). For each head, return the mean weight on the token "
        "just before the query, over all queries that have such a token. The result is (num_heads,)."
    ),
    answer=previous_token_solution,
    cases=_previous_cases,
    axes=("head",),
    hints=(
        "Rows are queries and columns are keys. Query 1 finds its previous token in column 0, query 2 in column 1, "
        "and so on.",
        "So for each query t that has a previous token, the weight is maps[:, t, t - 1]. Which t are these, and how "
        "many are there?",
        "These T - 1 cells form the diagonal just below the main one: maps.diagonal(-1, -2, -1). Take its mean.",
    ),
    wrong={
        "The first query counts": Wrong(
            Change(".mean(-1)", ".sum(-1) / maps.shape[-1]"),
            "you divide the sum by T.",
            "The first query has no token before it, so only T - 1 queries count. If you divide by T, even a perfect "
            "head does not reach 1.",
        ),
        "The last token before the first": Wrong(
            Change("maps.diagonal(-1, -2, -1)", "maps.roll(1, -1).diagonal(0, -2, -1)"),
            "you also count query 0, with its weight on the last token.",
            "In Python, index -1 means the last item, so begin at query 1.",
        ),
        "The next token": Wrong(
            Change("maps.diagonal(-1,", "maps.diagonal(1,"),
            "these are the weights on the token after the query.",
            "Rows are queries, so the token before query 2 is in column 1, below the main diagonal.",
        ),
        "The diagonal of two other axes": Wrong(
            lambda maps: maps.diagonal(-1).mean(0),
            "unless you name the axes, diagonal uses the first two: heads and queries.",
            "Queries and keys are the last two axes: diagonal(-1, -2, -1).",
            also=(lambda maps: maps.diagonal(-1).mean(-1),),
        ),
        "The strongest key only": Wrong(
            lambda maps: (maps[:, 1:].argmax(-1) == torch.arange(maps.shape[-1] - 1)).float().mean(-1),
            "this counts the queries whose strongest key is the previous token.",
            "The task asks for the weight itself. A head that gives 0.4 there every time should not score 1.",
        ),
        "All earlier tokens": Wrong(
            Change("maps.diagonal(-1, -2, -1).mean(-1)", "maps.tril(-1).mean((-1, -2))"),
            "you include the weights on all tokens before the query.",
            "Each query has just one such cell, in the column before its own. tril(-1) keeps everything below the "
            "main diagonal.",
        ),
    },
    see="A score for each pattern",
    remarks=(
        Asked(
            ("The task asks you to write it yourself; your function calls the library's {found}."),
            uses(previous_token_score),
        ),
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


def _later_as_well(maps, tokens):
    same = (tokens[:, None] == tokens).fill_diagonal_(False)
    behind = torch.zeros_like(same)
    behind[:, 1:] = same[:, :-1]
    return (maps * behind).sum(-1)[:, behind.any(-1)].mean(-1)


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
        "Write induction(maps, tokens), where maps is (num_heads, T, T) and tokens is (T,). For each query whose token "
        "occurred before, take a head's weight on all keys that come right after an earlier occurrence of that token. "
        "Return each head's mean over these queries, (num_heads,)."
    ),
    answer=induction_solution,
    plain=(
        _induction_by_slices,
        induction_solution,
    ),
    cases=_induction_cases,
    axes=("head",),
    hints=(
        "Which pairs of positions hold the same token? tokens[:, None] == tokens is (T, T), queries by keys.",
        "Only earlier keys count: tril(-1). The token after each of them is one column to the right: roll(1, -1).",
        "For each query, add up the weights on these cells. Drop the queries without such a cell, and take the mean of "
        "the others.",
    ),
    wrong={
        "The same token": Wrong(
            Change("(maps * behind)", "(maps * earlier)"),
            "this is the weight on the earlier occurrence itself.",
            "The query already knows that token. It needs the token after it, one column further to the right.",
        ),
        "All queries count": Wrong(
            Change("weights[:, occurred]", "weights"),
            "you count a 0 for queries whose token never occurred before.",
            "They have nothing to find. If they counted, no head could score 1.",
        ),
        "Later occurrences as well": Wrong(
            Change("same.tril(-1)", "same & ~torch.eye(T, dtype=torch.bool)"),
            "you count keys after later occurrences as well.",
            "A query can look up only what came before it, so apply tril(-1) before the shift.",
            also=(
                _later_as_well,
                *(
                    Wrong(
                        Change("earlier[:, :-1]", after),
                        "you count the keys after every occurrence, including the query itself and later ones.",
                        "A query can look up only what came before it, so apply tril(-1) before the shift.",
                    )
                    for after in ("same[:, :-1]", "same[:, :-1]\n    earlier = (same.sum(-1) > 1)[:, None]")
                ),
            ),
        ),
        "Not the query itself": Wrong(
            Change(".tril(-1)", ".tril(-2)"),
            "you leave out a key when it is the query itself.",
            "In 'a a', the second a comes right after the first, and it is a key like any other.",
            also=(Change("(maps * behind)", "(maps * behind.tril(-1))"),),
        ),
        "The strongest key only": Wrong(
            Change("(maps * behind).sum(-1)", "behind[torch.arange(T), maps.argmax(-1)].float()"),
            "this counts the queries whose strongest key comes right after an earlier occurrence.",
            "The task asks for the weight itself: add it up over the keys, then take the mean over the queries.",
        ),
        "Keys that hold the next token": Wrong(
            _holds_the_next,
            "this looks for keys holding the token that actually comes next.",
            "The task asks for the token that followed the query's token earlier, whether it follows again or not.",
        ),
        "The last occurrence only": Wrong(
            Change("earlier[:, :-1]", "(earlier & (earlier.flip(-1).cumsum(-1).flip(-1) == 1))[:, :-1]"),
            "where a token occurred several times, you count only the last occurrence.",
            "Add up the weights on the keys after all earlier occurrences.",
        ),
        "The first occurrence only": Wrong(
            Change("earlier[:, :-1]", "(earlier & (earlier.cumsum(-1) == 1))[:, :-1]"),
            "where a token occurred several times, you count only the first occurrence.",
            "Add up the weights on the keys after all earlier occurrences.",
        ),
        "The mean over cells": Wrong(
            Change("weights[:, occurred].mean(-1)", "weights.sum(-1) / behind.sum()"),
            "you divide the weights by the number of cells.",
            "A query with two such cells splits its weight between them. Add first, then take the mean over the "
            "queries.",
            also=(Change("weights[:, occurred]", "(weights / behind.sum(-1).clamp(min=1))[:, occurred]"),),
        ),
    },
    see="A score for each pattern",
    remarks=(
        Asked(
            ("The task asks you to write it yourself; your function calls the library's {found}."),
            uses(induction_score),
        ),
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
    cases.append((torch.tensor([[[0.2, 0.8]]]), torch.tensor([[False, True]])))  # the only partner comes later
    for seed, shape in ((4, (3, 8, 5)), (5, (2, 5, 7)), (7, (1, 6, 8)), (6, (4, 10, 9))):
        alignment = torch.eye(*shape[1:]).bool() | (draw(seed + 10, *shape[1:]) > 1)
        alignment[2], alignment[:, -1] = False, False
        cases.append((_maps(seed, *shape), alignment))
    return cases


aligned = Exercise(
    task=(
        "Write aligned(maps, alignment). maps is (num_heads, Tq, Tk), and alignment, (Tq, Tk), is True where a key is "
        "a partner of the query. For each head, return the share of queries whose strongest key is one of their "
        "partners. Queries without a partner do not count. The result is (num_heads,)."
    ),
    answer=aligned_solution,
    cases=_aligned_cases,
    axes=("head",),
    hints=(
        "Which key gets the most weight, and is it one of the query's partners?",
        "maps.argmax(-1) gives each query's strongest key, (num_heads, Tq). Look it up: alignment[torch.arange(Tq), "
        "strongest].",
        "Keep the queries with a partner, alignment.any(-1), and take the mean over them.",
    ),
    wrong={
        "The weight on partners": Wrong(
            Change(_HIT, "(maps * alignment).sum(-1)"),
            "this is a mean of the weights on partners.",
            "That is a measure too, but a different one. The task asks how often the strongest key is a partner.",
            also=(Change(_HIT, "(maps * alignment).amax(-1)"),),
        ),
        "Queries without a partner count": Wrong(
            Change("hit[:, alignment.any(-1)]", "hit"),
            "queries without a partner count as misses.",
            "They have no key to hit, so leave them out of the mean.",
            also=(
                Wrong(
                    Change("hit[:, alignment.any(-1)]", "(hit | ~alignment.any(-1))"),
                    "queries without a partner count as hits.",
                    "They have no key to hit, so leave them out of the mean.",
                ),
            ),
        ),
        "The first partner only": Wrong(
            Change(_HIT, "strongest == alignment.int().argmax(-1)"),
            "only the first partner of a query counts.",
            "'ne' has two partners, and either one is a hit. Look up the strongest key in the table.",
        ),
        "The last partner only": Wrong(
            Change(_HIT, "strongest == len(alignment.T) - 1 - alignment.flip(-1).int().argmax(-1)"),
            "only the last partner of a query counts.",
            "'ne' has two partners, and either one is a hit. Look up the strongest key in the table.",
        ),
        "All partners at once": Wrong(
            Change(_HIT, "((maps == maps.amax(-1, keepdim=True)) == alignment).all(-1)"),
            "a query counts as a hit only if its strongest key is its only partner.",
            "One of the partners is enough: look up the strongest key in the table.",
        ),
        "More than half": Wrong(
            Change(_HIT, "((maps > 0.5) & alignment).any(-1)"),
            "this asks whether a partner has more than half of the weight.",
            "The strongest key may have less than half: it only needs more weight than any other key.",
            also=(
                Wrong(
                    Change(_HIT, "(maps * alignment).sum(-1) > 0.5"),
                    "this asks whether the partners together have more than half of the weight.",
                    "Only the strongest key counts. It may have less than half, but it has to be a partner.",
                ),
            ),
        ),
        "Straight ahead": Wrong(
            Change(_HIT, "strongest == torch.arange(len(alignment))"),
            "this counts the queries whose strongest key is at the query's own position.",
            "That is the blind rule that heads are compared with. The task asks whether the strongest key is a "
            "partner: look it up in alignment.",
        ),
        "The strongest query of each key": Wrong(
            lambda maps, alignment: aligned_solution(maps.mT, alignment.mT),
            "you go through the keys and take the strongest query for each.",
            "Each query shares out its own weight, so take the maximum over the keys, the last axis.",
        ),
        "The share of partners found": Wrong(
            Change("hit[:, alignment.any(-1)].float().mean(-1)", "hit.sum(-1) / alignment.sum()"),
            "you divide the hits by the number of pairs.",
            "A query with two partners can hit only one of them. Divide by the number of queries that have a partner.",
        ),
        "Whole numbers": Wrong(
            Change("hit[:, alignment.any(-1)].float().mean(-1)", "hit[:, alignment.any(-1)].float().mean(-1).floor()"),
            "your shares are rounded down, so each is 0 or 1.",
            "/ keeps the fraction; // and int() drop it.",
        ),
    },
    see="A model that translates",
    remarks=(
        Asked(
            ("The task asks you to write it yourself; your function calls the library's {found}."),
            uses(alignment_agreement),
        ),
        Grows(lambda heads=3, queries=4: (draw(0, heads, queries, 5).softmax(-1), torch.ones(queries, 5) > 0)),
        with_nothing_to_count,
    ),
)
