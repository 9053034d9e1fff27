"""What a learner sees of a check, whatever the answer is: stubs, other kinds of answers, hints, progress, looks."""

import html
import re

import pytest
import torch
import torch.nn.functional as F

import mhalib
from mhacourse import check
from mhacourse.exercise import Choice
from mhacourse.note import Note
from tests.helpers.exercises import typed

STUBS = [
    "def mine(x, h):\n    # (B, T, d) -> (B, h, T, d / h)\n    ...",
    'def mine(x, h):\n    """Split.\n\nInto heads.\n    """\n    pass',
    "def mine(x: torch.Tensor, h: int = sum([1, 2])) -> torch.Tensor:\n    heads: torch.Tensor\n    return None",
    "mine, other = [\n    lambda x, h: None,\n    lambda: 1]",
]
LOOKED_THROUGH = ["@torch.no_grad()\ndef mine(x, h):\n    ..."]
NO_STUBS = [
    "class Layer:\n    def __call__(self, x, h): ...\nmine = Layer()",
    "mine = print",
    "def mine(x, h):\n    x @ x.mT",
    "def mine(x, h):\n    y: int = 1",
    "def mine(x, h):\n    x.heads: print(h)",
    'def mine(x, h):\n    """Split."""\n    print(x)',
    "mine = lambda x, h: print(x)",
]


def test_an_untouched_stub_is_no_mistake_and_leads_to_the_hints():
    failures = []
    for exercise in check:
        arguments = ", ".join(exercise.parameters if exercise.cases else [])
        stubs = [typed(f"def mine({arguments}):\n    ...  # a comment")] if exercise.cases else []
        notes = [exercise(), *map(exercise, [..., None, *stubs, *[exercise.given] * bool(exercise.given)])]
        failures += [note for note in notes if note.mood != "open" or exercise.solved]
        failures += [note for note in notes[1:] if f"check.{exercise.name}.hint()" not in repr(note)]
    assert failures == []


def test_what_computes_nothing_yet_is_a_stub_and_what_computes_is_none():
    failures = []
    for kept, stubs in ((True, STUBS + LOOKED_THROUGH), (False, STUBS)):  # a terminal keeps no source
        said = [check.split_heads(typed(source, keep_source=kept)) for source in stubs]
        failures += [note for note in said if "not yet written" not in note.title]
        said = [check.split_heads(typed(source, keep_source=kept)) for source in NO_STUBS]
        failures += [note for note in said if "return missing" not in repr(note)]
    assert failures == []


def yielding(x, num_heads):
    yield mhalib.split_heads(x, num_heads)


def sometimes(x, num_heads):
    if x.shape[1] == 2:
        return mhalib.split_heads(x, num_heads)


def of_the_right(change):
    return lambda x, n: change(mhalib.split_heads(x, n))


OTHER_KINDS = [
    (yielding, "a generator"),
    (sometimes, "expected a tensor, got None"),
    (lambda x: x, "passes x, num_heads (2 in all); your function takes (x)"),
    (mhalib.split_heads(torch.zeros(1, 2, 4), 2), "give the function itself, without calling it"),
    ("split_heads", "expected a function, got text"),
    (of_the_right(lambda y: y.tolist()), "expected a tensor, got a list; torch.as_tensor"),
    (of_the_right(lambda y: y.int()), "expected a floating tensor, got torch.int32"),
    (of_the_right(lambda y: y.numpy()), "a NumPy array; torch.as_tensor"),
    (of_the_right(lambda y: (1, y)), "in a tuple; part [1] of it is the tensor asked for"),
    (of_the_right(lambda y: y[..., :1, :1]), "expected the shape (1, 2, 2, 2), got (1, 2, 1, 1)"),
    (of_the_right(lambda y: y.transpose(0, 2)), "The axes are in the order (token, head, sample, feature)"),
    (of_the_right(lambda y: y.to("meta")), "cannot be read"),
    (lambda x, n: mhalib.split_heads(x, n) + (x.shape[0] > 1), "at sample 0, head 0, token 0, feature 0"),
    (of_the_right(lambda y: y.where(y != 22, 12)), "at sample 0, head 1, token 2, feature 0: expected 22, got 12"),
    (lambda x, n: x.reshape(x.shape[0], n, x.shape[1], -1), "x = [[[0, 1, 2, 3],\n          [10, 11, 12, 13]]]\n"),
]


def test_what_came_instead_is_said_in_words_with_its_place_and_an_example():
    notes = [(words, check.split_heads(answer)) for answer, words in OTHER_KINDS]
    assert [(words, note) for words, note in notes if note.mood != "wrong" or words not in repr(note)] == []
    text = repr(check.fused_kv(lambda m, k, v: tuple((m[:, :1] @ W.T).expand_as(m) for W in (k, v))))
    assert "    expected: ([[[1, 3],\n                 [2, 4]]],\n               [[[5, 7],\n" in text


@pytest.mark.filterwarnings("ignore")  # torch's own, of the rarer kinds of tensors
def test_whatever_a_function_returns_a_short_note_comes_of_it():
    deep, x = [], torch.ones(2)
    deep.append(deep)
    odd = [torch.zeros(2, 3, device="meta"), torch.nested.nested_tensor([x, x]), x * 1j, (None, x), deep, "x" * 10**6]
    odd += [[10**5000, float("nan"), float("inf")], torch.zeros(10**4) + torch.nan]
    exercises = (check.merge_heads, check.fused_kv, check.torch_padding)
    notes = [exercise(lambda *x, value=value: value) for exercise in exercises for value in odd]
    assert [note for note in notes if note.mood != "wrong" or len(repr(note)) > 3000 or not note._repr_html_()] == []
    notes = [exercise(lambda *x: 0.5) for exercise in (check.cut_heads, check.own_matrices, check.cached_step)]
    assert [note for note in notes if len(dict(note.parts)["code"].splitlines()) > 14] == []


def test_a_changed_input_is_named_and_the_next_check_gets_it_unchanged():
    def mine(scores, mask):
        weights = check.masked_softmax.answer(scores, mask)
        mask.zero_()
        return weights

    for _ in range(2):
        note = check.masked_softmax(mine)
        assert not note.passed and "changes its caller's mask" in repr(note)
    note = check.masked_softmax(lambda s, m: s.masked_fill_(~m[:, None], -1e9).softmax(-1))
    assert "Changed on the way: scores" in repr(note) and "The result is right" not in repr(note)
    note = check.deserved_labels(lambda shares: (check.deserved_labels.answer(shares), shares.nan_to_num_())[0])
    assert "changes its caller's shares" in repr(note)  # a NaN that stays is no change


def test_an_answer_runs_once_on_each_input_and_hears_the_same_words_each_time():
    ran = []
    check.split_heads(lambda x, n: ran.append(x.shape) or x)
    assert len(ran) == len(check.split_heads.inputs)
    assert len({repr(check.attend(lambda q, k, v: q + torch.rand(q.shape))) for _ in range(2)}) == 1


def test_hints_come_one_at_a_time_and_then_point_to_the_solution():
    failures = []
    for exercise in check:
        n = len(exercise.hints)
        shown = [repr(exercise.hint()) for _ in range(n + 1)]
        counts = [sum(hint in text for hint in exercise.hints) for text in shown]
        last = [".solution()" in text for text in shown]
        if not n or counts != [*range(1, n + 1), n] or last != [False] * (n - 1) + [True] * 2:
            failures.append(exercise.name)
        reasons = exercise.options.items() if isinstance(exercise, Choice) else ()
        said = repr(exercise.solution())
        if exercise.task not in repr(exercise) or not all(f"{key}: {reason}" in said for key, reason in reasons):
            failures.append(exercise.name)
    assert failures == []
    assert "mhalib.attention.merge_heads" in repr(check.merge_heads.solution())


def test_progress_counts_the_exercises_of_the_lesson_and_names_are_corrected():
    assert check.split_heads(...).footer == "Lesson 03: □□□□ 0 of 4"
    check.split_heads(mhalib.split_heads)
    check.split_heads(mhalib.split_heads)
    check.attend(F.scaled_dot_product_attention)
    assert check.merge_heads(mhalib.merge_heads).footer == "Lesson 03: ■■□□ 2 of 4"
    assert "Solved before" in check.merge_heads(lambda x: x).footer, "no bar, which might be full, beside not yet"
    assert "03  ■■□□ 2 of 4  head_one, split_heads" in repr(check)
    assert dir(check) == sorted(exercise.name for exercise in check) and len(set(dir(check))) > 25
    with pytest.raises(AttributeError, match=r"did you mean check\.split_heads\?"):
        _ = check.split_head
    assert not hasattr(check, "_repr_html_") and not hasattr(check, "__wrapped__")


def text_of(page):
    """Return the text of a note in a notebook, which is made of boxes, bold labels and code."""
    assert {*re.findall(r"<(\w+)", page)} <= {"div", "b", "pre"}
    return html.unescape(re.sub(r"<[^>]+>", "", page))


def test_what_a_learner_writes_is_text_and_never_html():
    hostile = "<img src=x onerror=alert(1)></pre><script>alert(1)</script>"

    def mine(x, num_heads):
        print(hostile)
        raise ValueError(hostile)

    assert text_of(check.split_heads(mine)._repr_html_()).count(hostile) >= 2
    assert text_of(check.causal_maps([hostile])._repr_html_())


def test_terminal_and_notebook_say_the_same_in_the_colours_of_the_theme():
    for answer in (mhalib.split_heads, lambda x, n: x, lambda x, n: x.view(x.shape[0], n, x.shape[1], -1), ...):
        note = check.split_heads(answer)
        page = text_of(note._repr_html_())
        for text in [text for label, text in note.parts if label != "code"] + [note.title, note.footer]:
            assert text in repr(note) and text in page
    for mood in ("right", "wrong", "open"):
        text = Note("title", [("", "text"), ("code", "x")], mood=mood)._repr_html_()
        colours = re.findall(r"(?:color|background|border-left):\s*([^;\"]+)", text)
        assert colours and all(c in ("inherit", "none") or "var(--jp-" in c for c in colours), colours
