"""Remarks on right answers: useful where there is something to say, and silent for the solution and everywhere else."""

import itertools
import math
import sys

import torch
import torch.nn.functional as F
from torch import nn

import mhalib
from mhacourse import check
from mhalib.heads import alignment_agreement, induction_score, previous_token_score
from tests.helpers.right_answers import count_pairs, loop_attend


def said_of(name, answer):
    note = getattr(check, name)(answer)
    assert note.passed, note
    return [text for label, text in note.parts if label == "Remark:"]


def only_a_comment(q, k, v):
    "scaled_dot_product_attention"  # F.scaled_dot_product_attention(q, k, v) would do all this
    return (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1) @ v


def attended(layer, x, mask, never):
    q, k, v = (mhalib.split_heads(W(x), layer.num_heads) for W in (layer.W_q, layer.W_k, layer.W_v))
    weights = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~mask, never).softmax(-1).nan_to_num()
    return layer.W_o(mhalib.merge_heads(weights @ v))


QUIET = [
    ("attend", only_a_comment),
    ("split_heads", lambda x, n: mhalib.split_heads(x.clone() if n > 3 else x, n)),  # one call more is no loop
    ("masked_softmax", lambda s, m: s.masked_fill(~m[:, None], torch.finfo(s.dtype).min).softmax(-1) * m[:, None]),
    ("by_heads", lambda x, w: sum(x[:, i] @ w.chunk(x.shape[1], 1)[i].T for i in range(x.shape[1]))),
    ("future_pairs", count_pairs),
    ("repaired", lambda layer, x, mask: attended(layer, x, mask, -torch.inf)),
]


def test_nothing_is_remarked_where_there_is_nothing_to_say_or_the_answer_is_wrong():
    solutions = [(exercise.name, exercise.answer) for exercise in check if exercise.cases]
    said = [(name, said_of(name, answer)) for name, answer in solutions + QUIET]
    assert [(name, remarked) for name, remarked in said if remarked] == []
    note = check.attend(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, scale=1.0))
    assert not note.passed and "Remark:" not in repr(note)


class Hidden(nn.Module):
    forward = staticmethod(lambda q, k, v: F.scaled_dot_product_attention(q, k, v))


OTHER_WAYS = [
    ("attend", Hidden(), "function calls scaled_dot_product_attention"),
    ("attend", lambda q, k, v: mhalib.scaled_dot_product_attention(q, k, v)[0], "calls scaled_dot_product_attention"),
    ("stable_softmax", nn.Softmax(-1), "function calls softmax"),
    ("repaired", lambda layer, x, mask: layer(x, mask=mask), "the layer's own forward"),
    ("previous_token", lambda maps: previous_token_score(maps), "calls the library's previous_token_score"),
    ("induction", lambda maps, tokens: induction_score(maps, tokens), "calls the library's induction_score"),
    (
        "aligned",
        lambda maps, alignment: alignment_agreement(maps, alignment),
        "calls the library's alignment_agreement",
    ),
]


def test_another_way_than_asked_is_said_and_counts():
    failures = []
    for name, answer, words in OTHER_WAYS:
        said = said_of(name, answer)
        first = said[0] if said else ""
        if not (first.startswith("The task asks") and words in first and "It counts as solved" in first):
            failures.append((name, words, said))
        assert getattr(check, name).solved
    assert failures == []


def test_a_loop_is_named_by_what_grows_and_the_solution_stands_below():
    def loops(x, num_heads):
        size = x.shape[-1] // num_heads
        return torch.stack([x[..., i * size : (i + 1) * size] for i in range(num_heads)], dim=1)

    (label, words), (below, code) = check.split_heads(loops).parts[-2:]
    assert (label, below) == ("Remark:", "code")
    assert "its torch calls grow with the number of heads: 4 for 3 heads, 7 for 6. The solution always makes 2" in words
    assert "x.unflatten(-1, (num_heads, -1)).transpose(1, 2)" in code and "Returns:" not in code
    assert "grow with the number of heads, samples and tokens: " in "".join(said_of("attend", loop_attend))


def by_numpy(scores):
    powers = torch.from_numpy(scores.numpy())
    return (powers - powers.logsumexp(-1, keepdim=True)).exp()


def divides(maps, alignment):
    counted = int(alignment.any(-1).sum())
    hits = alignment[torch.arange(len(alignment)), maps.argmax(-1)]
    return torch.stack([hit.sum() for hit in hits]).float() * (1 / counted)


def poor(scores):
    rows = [torch.softmax(row.double(), -1) for row in scores.detach().flatten(0, -2)]
    return torch.stack(rows).unflatten(0, scores.shape[:-1])


OTHER_INPUTS = [
    (
        "masked_softmax",
        lambda s, m: s.masked_fill(~m[:, None], -1e9).softmax(-1) * m[:, None],
        "With float16 numbers, your fun",
    ),
    ("masked_softmax", lambda s, m: s.double().masked_fill(~m[:, None], -1e9).softmax(-1) * m[:, None], "is float64"),
    ("stable_softmax", by_numpy, "gradient is needed, your function stops: RuntimeErr"),
    ("split_heads", lambda x, h: mhalib.split_heads(x.detach(), h), "none flows back through your result"),
    ("aligned", divides, "If no query counts, your function stops: ZeroDivisionError"),
]


def test_what_other_inputs_do_is_said_in_few_remarks():
    said = [(words, said_of(name, answer)) for name, answer, words in OTHER_INPUTS]
    assert [(words, texts) for words, texts in said if not any(words in text for text in texts)] == []
    first, second = said_of("stable_softmax", poor)  # of which more could be said
    assert "function calls softmax" in first and "loops" in second


def for_ever():
    while True:
        torch.zeros(())


def test_watching_an_answer_neither_stops_a_check_nor_waits_nor_prints_nor_draws_random_numbers(capsys, monkeypatch):
    monkeypatch.setattr("mhacourse.remarks.SECONDS", 0.2)
    state = torch.get_rng_state()
    for then, remarks in ((for_ever, 0), (sys.exit, 0), (lambda: print(torch.rand(2)), 1)):
        count = itertools.count()

        def answer(q, k, v, count=count, then=then):
            if next(count) >= len(check.attend.inputs):  # it is watched, and no longer judged
                then()
            return F.scaled_dot_product_attention(q, k, v)

        assert len(said_of("attend", answer)) == remarks
    assert capsys.readouterr().out == "" and torch.equal(state, torch.get_rng_state())
    assert check.attend(loop_attend).passed
