"""Remarks on right answers: useful where there is something to say, and silent for the solution and everywhere else."""

import itertools
import math
import re
import sys
import time

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

import mhalib
from mhalib.checks import calls, check, probes, remarks
from mhalib.checks.calls import traces
from mhalib.checks.exercise import Exercise
from mhalib.checks.probes import Probe, on_an_empty_row
from mhalib.checks.remarks import Asked, Grows, remarks_on, uses
from mhalib.heads import alignment_agreement, induction_score, previous_token_score
from tests.mhacourse.test_checks import VARIANTS

FUNCTIONS = [exercise for exercise in check if exercise.cases]


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """Checking shapes makes all of mhalib slower than it is for a reader."""
    for module in (calls, probes, remarks):
        monkeypatch.setattr(module, "SECONDS", 60.0)


def of_kind(kind):
    pairs = [(exercise, remark) for exercise in FUNCTIONS for remark in exercise.remarks if isinstance(remark, kind)]
    return pytest.mark.parametrize("exercise,remark", pairs, ids=[exercise.name for exercise, _ in pairs])


def said_of(exercise, answer):
    note = getattr(check, exercise)(answer)
    assert note.passed and note.code == "right", note
    return [text for label, text in note.parts if label == "Remark:"]


# ----------------------------------------------------------------------------------------------------- silence


@pytest.mark.parametrize("exercise", FUNCTIONS, ids=[exercise.name for exercise in FUNCTIONS])
def test_nothing_is_remarked_of_the_solution(exercise):
    assert remarks_on(exercise, exercise.answer) == []


QUIET = [
    ("fused_kv", lambda m, k, v: torch.einsum("btd,pod->pbto", m, torch.stack([k, v])).unbind(0)),
    ("attend", lambda q, k, v: torch.einsum("bhqk,bhkd->bhqd", (q @ k.mT * q.shape[-1] ** -0.5).softmax(3), v)),
    ("split_heads", lambda x, h: torch.stack(x.chunk(h, -1), 1)),
    ("split_heads", lambda x, h: x.view(*x.shape[:2], h, -1).transpose(1, 2)),
    ("masked_softmax", lambda s, m: s.masked_fill(~m[:, None], torch.finfo(s.dtype).min).softmax(-1) * m[:, None]),
    ("by_heads", lambda x, w: sum(x[:, i] @ w.chunk(x.shape[1], 1)[i].T for i in range(x.shape[1]))),
    ("by_heads", lambda x, w: torch.einsum("bhtd,ohd->bto", x, w.unflatten(1, (x.shape[1], -1)))),
    ("future_pairs", VARIANTS["future_pairs"][0]),
]


@pytest.mark.parametrize("exercise,answer", QUIET)
def test_nothing_is_remarked_where_there_is_nothing_to_say(exercise, answer):
    assert said_of(exercise, answer) == []


def test_nothing_is_remarked_of_a_wrong_answer():
    note = check.attend(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, scale=1.0))
    assert not note.passed and "Remark:" not in repr(note)


# ------------------------------------------------------------------------------------- another way than asked


def helper(q, k, v):
    return F.scaled_dot_product_attention(q, k, v)


class Hidden(nn.Module):
    def forward(self, q, k, v):
        return helper(q, k, v)


def only_a_comment(q, k, v):
    # F.scaled_dot_product_attention(q, k, v) would do all this, and mhalib.scaled_dot_product_attention too.
    "scaled_dot_product_attention"
    return (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1) @ v


def by_functional(mha, x, mask):
    blocked = ~mask.repeat_interleave(mha.num_heads, dim=0)
    y = x.transpose(0, 1)
    out, weights = F.multi_head_attention_forward(
        *(y, y, y, mha.embed_dim, mha.num_heads, mha.in_proj_weight, mha.in_proj_bias, None, None, False, 0.0),
        *(mha.out_proj.weight, mha.out_proj.bias),
        attn_mask=blocked,
        average_attn_weights=False,
    )
    return out.transpose(0, 1), weights


OTHER_WAYS = [
    ("attend", helper, "yours calls scaled_dot_product_attention"),
    ("attend", Hidden(), "yours calls scaled_dot_product_attention"),
    ("attend", lambda q, k, v: mhalib.scaled_dot_product_attention(q, k, v)[0], "calls scaled_dot_product_attention"),
    ("stable_softmax", lambda s: F.softmax(s, -1), "exp and sum only; yours calls softmax"),
    ("stable_softmax", lambda s: (s - s.logsumexp(-1, keepdim=True)).exp(), "yours calls logsumexp"),
    ("stable_softmax", nn.Softmax(-1), "yours calls softmax"),
    ("fused_kv", lambda m, k, v: (m @ k.T, m @ v.T), "from one product; yours makes 2 products"),
    ("fused_kv", lambda m, k, v: [F.linear(m, W) for W in (k, v)], "yours makes 2 products"),
    ("by_heads", lambda x, w: F.linear(mhalib.merge_heads(x), w), "yours multiplies all 12 features at once"),
    ("call_torch", by_functional, "yours never calls it"),
    ("repaired", lambda layer, x, mask: layer(x, mask=mask), "the layer's own forward"),
    ("masked_heads", VARIANTS["masked_heads"][0], "yours takes unflatten"),
    ("masked_heads", VARIANTS["masked_heads"][1], "yours takes chunk"),
    ("masked_heads", VARIANTS["masked_heads"][2], "yours takes slices of the features"),
    ("previous_token", lambda maps: previous_token_score(maps), "previous_token_score of the library"),
    ("induction", lambda maps, tokens: induction_score(maps, tokens), "induction_score of the library"),
    ("aligned", lambda maps, alignment: alignment_agreement(maps, alignment), "alignment_agreement of the library"),
]


@pytest.mark.parametrize("exercise,answer,words", OTHER_WAYS)
def test_another_way_than_asked_is_said_and_counts(exercise, answer, words):
    getattr(check, exercise).solved = False
    first, *_ = said_of(exercise, answer)
    assert first.startswith("The task asks") and words in first and "It counts as solved" in first
    assert getattr(check, exercise).solved


def test_every_way_that_a_task_asks_for_is_tried():
    asked = {exercise.name for exercise in FUNCTIONS if any(isinstance(r, Asked) for r in exercise.remarks)}
    assert {exercise for exercise, *_ in OTHER_WAYS} == asked


def test_what_counts_is_what_is_called_and_not_what_is_written():
    assert said_of("attend", only_a_comment) == []


# ---------------------------------------------------------------------------------- a loop where none is needed


def head_by_head(x, num_heads):
    size = x.shape[-1] // num_heads
    return torch.stack([x[..., i * size : (i + 1) * size] for i in range(num_heads)], dim=1)


def test_a_loop_is_named_by_what_grows_and_the_solution_stands_below():
    note = check.split_heads(head_by_head)
    (label, words), (below, code) = note.parts[-2:]
    assert (label, below) == ("Remark:", "code")
    assert words == (
        "Your function loops: its calls of torch grow with heads, 4 for 3 heads, 7 for 6. "
        "The solution makes 2, however many there are:"
    )
    assert "x.unflatten(-1, (num_heads, -1)).transpose(1, 2)" in code and "Returns:" not in code
    compile(code, "shown", "exec")


def test_all_that_grows_is_named():
    (words,) = [text for text in said_of("attend", VARIANTS["attend"][0]) if "loops" in text]
    assert "grow with heads, samples and tokens, " in words


@of_kind(Grows)
def test_every_size_that_is_named_can_be_seen_to_grow(exercise, remark):
    def busy(*inputs):
        for _ in range(int(sum(x.numel() if isinstance(x, Tensor) else x for x in inputs))):
            torch.zeros(())
        return exercise.answer(*inputs)

    (_, words), (_, code) = remark.parts(exercise, busy)
    sizes = re.search(r"grow with (.+?), \d+ for", words)[1]
    assert re.split(", | and ", sizes) == list(remark.case.__code__.co_varnames[: remark.case.__code__.co_argcount])
    assert code.startswith(f"def {exercise.answer.__name__}(")


def test_a_few_calls_more_are_no_loop():
    def branches(x, num_heads):
        if num_heads > 3:
            x = x.clone()
        return mhalib.split_heads(x, num_heads)

    assert said_of("split_heads", branches) == []


def test_a_loop_that_the_solution_has_as_well_is_left_alone():
    assert (
        Grows(lambda heads=2: (torch.ones(1, heads, 2, 2), torch.ones(2, 2 * heads))).parts(
            check.by_heads,
            lambda heads, weight: sum(h @ w.T for h, w in zip(heads[0], weight.chunk(2, 1), strict=False)),
        )
        == []
    )


# ----------------------------------------------------------------------------------------------- other inputs


def no_gradient(x, num_heads):
    return mhalib.split_heads(x.detach(), num_heads)


def flat(q, k, v):
    heads = [x.view(-1, *x.shape[2:]) for x in (q, k, v)]
    return ((heads[0] @ heads[1].mT / q.shape[-1] ** 0.5).softmax(-1) @ heads[2]).view(q.shape)


def strided(x, num_heads):
    B, T, d = x.shape
    return x.as_strided((B, num_heads, T, d // num_heads), (T * d, d // num_heads, d, 1))


def filled(layer, x, mask, never=-1e9):
    q, k, v = (mhalib.split_heads(W(x), layer.num_heads) for W in (layer.W_q, layer.W_k, layer.W_v))
    weights = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~mask, never).softmax(-1)
    return layer.W_o(mhalib.merge_heads(weights @ v))


def zeros_for_nothing(layer, x, mask):
    q, k, v = (mhalib.split_heads(W(x), layer.num_heads) for W in (layer.W_q, layer.W_k, layer.W_v))
    weights = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~mask, -torch.inf).softmax(-1).nan_to_num()
    return layer.W_o(mhalib.merge_heads(weights @ v))


def divides(maps, alignment):
    counted = int(alignment.any(-1).sum())
    hits = alignment[torch.arange(len(alignment)), maps.argmax(-1)]
    return torch.stack([hit.sum() for hit in hits]).float() * (1 / counted)


OTHER_INPUTS = [
    ("masked_softmax", lambda s, m: s.masked_fill(~m[:, None], -1e9).softmax(-1) * m[:, None], "float16, your fun"),
    ("masked_softmax", lambda s, m: s.double().masked_fill(~m[:, None], -1e9).softmax(-1) * m[:, None], "is float64"),
    (
        "masked_softmax",
        lambda s, m: (s + torch.tensor(-1e9).to(s) * ~m[:, None]).softmax(-1) * m[:, None],
        "no longer finite",
    ),
    ("split_heads", no_gradient, "none flows back through your result"),
    ("split_heads", lambda x, h: torch.tensor(mhalib.split_heads(x, h).tolist()), "none flows back"),
    ("stable_softmax", lambda s: torch.from_numpy(_by_numpy(s)), "gradient is wanted, your function stops: RuntimeErr"),
    ("attend", flat, "as a transpose leaves it, your function stops: RuntimeError: view size"),
    ("split_heads", strided, "as a transpose leaves it, your result is another one"),
    ("repaired", filled, "returns ordinary numbers for it"),
    ("aligned", divides, "Where no query counts, your function stops: ZeroDivisionError"),
]


def _by_numpy(scores):
    return mhalib.checks.check.stable_softmax.answer(torch.from_numpy(scores.numpy())).numpy()


@pytest.mark.parametrize("exercise,answer,words", OTHER_INPUTS)
def test_what_other_inputs_do_is_said(exercise, answer, words):
    assert any(words in text for text in said_of(exercise, answer))


@of_kind(Probe)
def test_every_probe_can_speak_because_the_solution_copes(exercise, remark):
    count = itertools.count()

    def stops(*inputs):
        if next(count):
            raise RuntimeError("no")

    ((_, words),) = remark.parts(exercise, stops)
    assert words.startswith(f"{remark.when}, your function stops: RuntimeError: no. ")


def test_zeros_for_a_query_with_nothing_to_see_are_no_ordinary_numbers():
    assert on_an_empty_row.parts(check.repaired, zeros_for_nothing) == []
    assert said_of("repaired", zeros_for_nothing) == []


def test_an_input_that_is_refused_in_words_is_no_stumble():
    (only,) = said_of("aligned", lambda maps, alignment: alignment_agreement(maps, alignment))
    assert "of the library" in only


# --------------------------------------------------------------------------------- cheap, and never in the way


def test_there_are_few_remarks_however_much_could_be_said():
    def poor(scores):
        rows = [torch.softmax(row.double(), -1) for row in scores.detach().flatten(0, -2)]
        return torch.stack(rows).unflatten(0, scores.shape[:-1])

    said = said_of("stable_softmax", poor)
    assert len(said) == remarks.MOST == 2
    assert "yours calls softmax" in said[0] and "loops" in said[1]


def exercise_with(*some):
    return Exercise(task="Add.", answer=lambda x: x + 1, hints=("+",), cases=lambda: [(torch.ones(2),)], remarks=some)


class Broken:
    def parts(self, exercise, answer):
        raise ZeroDivisionError


def test_a_remark_never_stops_a_check():
    note = exercise_with(Broken(), Asked("No.", uses("add")))(lambda x: x + 1)
    assert note.passed and [text[:3] for _, text in note.parts] == ["No."]


def test_an_answer_that_fails_when_it_is_called_again_is_right_all_the_same(capsys):
    count = itertools.count()

    def once(q, k, v):
        print("called")
        if next(count) >= len(check.attend.inputs):
            raise SystemExit
        return F.scaled_dot_product_attention(q, k, v)

    assert said_of("attend", once) == []
    assert capsys.readouterr().out == ""


def test_an_answer_that_never_ends_when_it_is_watched_is_given_up(monkeypatch):
    monkeypatch.setattr(calls, "SECONDS", 0.2)
    monkeypatch.setattr(remarks, "SECONDS", 0.1)
    before, count = sys.getprofile(), itertools.count()

    def slow(x):
        while next(count) > 0:
            torch.zeros(())
        return x + 1

    ran = time.monotonic()
    exercise = exercise_with(*[Asked("No.", uses("add"))] * 20)
    assert exercise(slow).passed
    assert time.monotonic() - ran < 60
    assert sys.getprofile() is before and not modes()


def modes():
    """Return whether a call of torch is still watched by one of ours."""
    return isinstance(torch.overrides._get_current_function_mode(), TorchFunctionMode)


def test_watching_changes_neither_inputs_nor_random_numbers():
    case = check.attend.inputs[0]
    kept, state = [x.clone() for x in case], torch.get_rng_state()
    (trace,) = traces(lambda q, k, v: q.mul_(2) + torch.rand(()), [case])
    assert all(map(torch.equal, kept, case)) and torch.equal(state, torch.get_rng_state())
    assert [call.name for call in trace.calls] == ["mul_", "rand", "add"]
