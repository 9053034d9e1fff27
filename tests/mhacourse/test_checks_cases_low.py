"""The cases of the exercises of lessons 00 to 05: what they must tell apart, and how they are shown."""

import pytest
import torch
from torch import Tensor

import mhalib
from mhalib.checks import check
from mhalib.checks.compare import MAX_NUMBERS

EXERCISES = [exercise for exercise in check if exercise.lesson <= "05"]
FUNCTIONS = [exercise for exercise in EXERCISES if exercise.cases]
PLAIN = [(exercise, answer) for exercise in FUNCTIONS for answer in exercise.plain]
MOST_LINES = 12  # of an example


def each(exercises):
    return pytest.mark.parametrize("exercise", exercises, ids=[exercise.name for exercise in exercises])


@pytest.mark.parametrize("exercise,answer", PLAIN, ids=[f"{e.name}, {answer.__name__}" for e, answer in PLAIN])
def test_a_right_answer_in_plain_torch_passes(exercise, answer):
    note = exercise(answer)
    assert note.passed, note


@each(FUNCTIONS)
def test_the_first_case_can_be_read(exercise):
    tensors = [x for x in (*exercise.inputs[0], *_parts(exercise.right[0].value)) if isinstance(x, Tensor)]
    assert sum(x.numel() for x in tensors) <= MAX_NUMBERS
    result = next(text for label, text in exercise(lambda *given: 0.5).parts if label == "code")
    # The result is shown twice, as it should be and as it came.
    assert len(result.splitlines()) - 1 + sum(map(_rows, _parts(exercise.right[0].value))) <= MOST_LINES, result


def _parts(value):
    return value if isinstance(value, tuple) else (value,)


def _rows(value):
    return value.numel() // value.shape[-1] if isinstance(value, Tensor) else 1


# Whose result has two axes of one size whatever the inputs are: a map of a sentence onto itself.
SQUARE = {"looking_back", "window_mask"}


@each([exercise for exercise in FUNCTIONS if exercise.name not in SQUARE])
def test_the_last_case_has_no_two_axes_of_one_size(exercise):
    for part in _parts(exercise.right[-1].value):
        if isinstance(part, Tensor):
            assert len(set(part.shape)) == part.ndim, tuple(part.shape)


@each(EXERCISES)
def test_no_hint_is_the_only_one(exercise):
    assert len(exercise.hints) >= 3 or exercise.name == "head_one"


# ------------------------------------------------------------------- wrong answers that the first cases let pass


def never_is_a_number(never):
    return lambda s, m: s.masked_fill(~m[:, None], never).softmax(-1) * m[:, None]


def powers_and_sum(scores, mask):
    powers = scores.exp() * mask[:, None]
    return powers / (powers.sum(-1, keepdim=True) + 1e-9)


def permutes(order, part=slice(None)):
    def test(merge):
        heads = torch.randn(2, 3, len(order), 5)
        return torch.equal(merge(heads[:, :, order])[..., part], merge(heads)[:, order][..., part])

    return test


def changes_one(token, rows):
    def test(merge):
        heads = torch.randn(2, 3, 4, 5)
        changed = heads.clone()
        changed[:, :, token] += 1
        return torch.equal(merge(changed)[:, rows], merge(heads)[:, rows])

    return test


def moved_by(x, change):
    def count(f, T, d_model):
        before, pairs = x(1, T, d_model), 0
        for s in range(T):
            after = before.clone()
            change(after[0, s])
            pairs += int(((f(after) - f(before)).abs() > 1e-6)[0, :s].any(-1).sum())
        return pairs

    return count


def slopes(x, reduce):
    def count(f, T, d_model):
        J = torch.autograd.functional.jacobian(f, x(1, T, d_model))[0, :, :, 0]  # (T, d_model, T, d_model)
        return int((reduce(J) > 1e-6).triu(1).sum())

    return count


PASSED_ONCE = {
    "-100 for never": ("masked_softmax", never_is_a_number(-100.0)),
    "-1e4 for never": ("masked_softmax", never_is_a_number(-1e4)),
    "exp without the largest score": ("masked_softmax", powers_and_sum),
    "looks before the last token": ("keeps_tokens_apart", changes_one(-1, slice(-1))),
    "looks behind the first token": ("keeps_tokens_apart", changes_one(0, slice(1, None))),
    "exchanges the first two": ("keeps_tokens_apart", permutes([1, 0, 2, 3, 4, 5])),
    "exchanges the last two as well": ("keeps_tokens_apart", permutes([2, 0, 3, 1, 5, 4])),
    "compares the first feature": ("keeps_tokens_apart", permutes([3, 0, 4, 1, 2], 0)),
    "compares the last feature": ("keeps_tokens_apart", permutes([3, 0, 4, 1, 2], -1)),
    "exchanges two of two": ("keeps_tokens_apart", permutes([1, 0])),
    "changes the first feature": ("future_pairs", moved_by(torch.randn, lambda token: token[:1].add_(1))),
    "adds a constant to zeros": ("future_pairs", moved_by(torch.zeros, lambda token: token.add_(1))),
    "adds a constant": ("future_pairs", moved_by(torch.randn, lambda token: token.add_(1))),
    "puts zeros into ones": ("future_pairs", moved_by(torch.ones, lambda token: token.zero_())),
    "slopes at zeros": ("future_pairs", slopes(torch.zeros, lambda J: J.abs().amax((1, 3)))),
    "slopes at ones": ("future_pairs", slopes(torch.ones, lambda J: J.abs().amax((1, 3)))),
    "slopes summed before abs": ("future_pairs", slopes(torch.randn, lambda J: J.sum((1, 3)).abs())),
    "slopes of the sum of an output": ("future_pairs", slopes(torch.randn, lambda J: J.sum(1).abs().amax(-1))),
    "slopes of the first feature": ("future_pairs", slopes(torch.randn, lambda J: J[:, 0].abs().amax(-1))),
}


@pytest.mark.parametrize("name,answer", PASSED_ONCE.values(), ids=PASSED_ONCE)
def test_what_passed_once_is_refused(name, answer):
    assert not getattr(check, name)(answer).passed


# Wrong answers that stop, or that coincided with another mistake: they have names of their own.
NAMED = {
    "two heads, as in the lesson": (
        "split_heads",
        lambda x, h: x.view(*x.shape[:2], 2, x.shape[-1] // 2).transpose(1, 2),
        "Two heads, whatever is asked",
    ),
    "samples taken for heads": ("merge_heads", lambda x: torch.cat(x.unbind(0), -1), "Samples joined"),
    "a slice from below 0": (
        "window_mask",
        lambda T, w: torch.stack([torch.isin(torch.arange(T), torch.arange(T)[t - w + 1 : t + 1]) for t in range(T)]),
        "A slice that begins below 0",
    ),
    "pieces of rows": (
        "by_heads",
        lambda x, w: sum(x[:, i] @ piece.T for i, piece in enumerate(w.chunk(x.shape[1]))),
        "Cut along the outputs",
    ),
    "columns of the turned weight": (
        "by_heads",
        lambda x, w: sum(x[:, i] @ w.T[:, i * x.shape[3] : (i + 1) * x.shape[3]] for i in range(x.shape[1])),
        "Cut along the outputs",
    ),
    "output token 0 only": (
        "future_pairs",
        lambda f, T, d: int(slopes_of(f, T, d)[0, 1:].sum()),
        "The first output only",
    ),
    "trained, not counted": ("leaky_loss", 1.397, "As training leaves it"),
    "two digits": ("leaky_loss", 1.4, "As training leaves it"),
    "places in a row without its own word": (
        "most_looked_at",
        lambda w: torch.stack(
            [torch.stack([torch.cat([row[:t], row[t + 1 :]]).argmax() for t, row in enumerate(m)]) for m in w]
        ),
        "Counted without the word itself",
    ),
    "the words rolled": (
        "looking_back",
        lambda f, w: mhalib.scaled_dot_product_attention(
            *(mhalib.split_heads(f(words), 2) for words in ([w[-1], *w[:-1]], w, w))
        )[1][0],
        "The words moved, not their places",
    ),
}


def slopes_of(f, T, d_model):
    return torch.autograd.functional.jacobian(f, torch.randn(1, T, d_model)).abs().amax((0, 2, 3, 5)) > 0


@pytest.mark.parametrize("name,answer,mistake", NAMED.values(), ids=NAMED)
def test_what_was_misread_once_has_its_name(name, answer, mistake):
    assert getattr(check, name)(answer).code == f"wrong: {mistake}"


def test_samples_are_never_what_betrays_a_merge():
    # A test with a single sample is right: the task speaks of tokens.
    note = check.keeps_tokens_apart(permutes([2, 4, 5, 0, 3, 1]))
    assert note.passed, note
    assert all(merge(torch.randn(1, 3, 4, 2)).shape == (1, 4, 6) for (merge,) in check.keeps_tokens_apart.inputs)
