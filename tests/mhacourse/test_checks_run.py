"""Whatever a learner's function does, the kernel survives it, and the learner reads what happened and where."""

import signal
import sys
import threading
import time

import pytest
import torch

import mhalib
from mhacourse import check, run
from tests.helpers.exercises import typed


@pytest.fixture
def short(monkeypatch):
    monkeypatch.setattr(run, "SECONDS", 0.4)


def deaf(x, num_heads):
    while x.shape[1] == 3:  # on a later input only
        try:
            num_heads += 1
        except:  # noqa: E722  the point of this function
            continue
    return mhalib.split_heads(x, num_heads)


def test_an_answer_that_hangs_is_stopped_in_any_thread(short):
    notes = [check.split_heads(deaf)]
    thread = threading.Thread(target=lambda: notes.append(check.split_heads(deaf)))
    thread.start()
    thread.join(60)
    assert len(notes) == 2
    assert all("no result after 0.4 seconds" in repr(note) and "line " in repr(note) for note in notes)
    time.sleep(0.1)  # an exception that came too late would show here
    assert check.split_heads(mhalib.split_heads).passed


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no alarms here")
def test_an_answer_that_sleeps_is_woken_and_the_alarms_of_others_are_kept(short):
    before = signal.signal(signal.SIGALRM, print)
    signal.setitimer(signal.ITIMER_REAL, 60)
    try:
        assert "no result after" in repr(check.split_heads(lambda x, n: time.sleep(3600)))
        assert 0 < signal.getitimer(signal.ITIMER_REAL)[0] <= 60 and signal.getsignal(signal.SIGALRM) is print
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.skipif(sys.platform != "linux", reason="the limit of memory is Linux's")
def test_an_answer_that_eats_memory_is_stopped(monkeypatch):
    import resource

    monkeypatch.setattr(run, "HEAD_ROOM", 1 << 28)
    before = resource.getrlimit(resource.RLIMIT_AS)
    for answer in (lambda x, n: [[0] * 10**7 for _ in range(10**7)], lambda x, n: torch.zeros(10**14)):
        note = check.split_heads(answer)
        assert not note.passed and "more memory" in repr(note) and "line " in repr(note)
    assert resource.getrlimit(resource.RLIMIT_AS) == before
    assert torch.zeros(10**8).numel() == 10**8


HELPER = """
def helper(x, n):
    return x.reshape(n, -1, 7)  # seven?

def mine(x, num_heads):
    return helper(x, num_heads)
"""
LATER = """
def mine(x, num_heads):
    assert x.shape[1] == 2, "only two tokens"
    return mhalib.split_heads(x, num_heads)
"""
RAISED = [
    (typed(HELPER), "line 2:  return x.reshape(n, -1, 7)  # seven?"),
    (
        typed("def mine(x, n):\n    x = x + 0\n    return F.normalize(x, dim=9)"),
        "line 3:  return F.normalize(x, dim=9)",
    ),
    (typed("def mine(x, n):\n    return 1 / 0\n", keep_source=False), "line 2 of what you typed"),
    (typed(LATER), "AssertionError: only two tokens"),
    (typed(LATER), "[20, 21, 22, 23, 24, 25, 26, 27]"),  # the input that did it
]
ADVICE = {
    "x.view(x.shape[0], x.shape[1], n, x.shape[2] / n)": "Use //",
    "x - x.max(-1)": "amax and amin return only the values",
    "x.bool() and x.bool()": "Between tensors write &",
    "torch.sqrt(x.shape[-1])": "use the math module",
    "x[0] @ x[0]": "in a product A @ B",
    "(x > 0).mean()": ".float().mean()",
}


def test_an_exception_shows_the_line_of_the_learner_and_none_of_ours_with_advice_on_common_ones():
    raised = RAISED + [(typed(f"def mine(x, n):\n    return {line}"), words) for line, words in ADVICE.items()]
    notes = [(words, repr(check.split_heads(mine))) for mine, words in raised]
    ours = ("Traceback", "run.py", "mhacourse")
    assert [(words, text) for words, text in notes if words not in text or any(word in text for word in ours)] == []
    assert [text for _, text in notes if len(text) > 1200] == []
    mine = typed("def mine(x):\n    y = x.transpose(1, 2)\n    return y.view(x.shape[0], x.shape[2], -1)")
    note = check.merge_heads(mine)  # a known mistake that raises keeps its name
    assert "The error that view raises" in note.title and "line 3:  return y.view" in repr(note)


class Unreadable(BaseException):
    def __str__(self):
        raise ValueError("no")


def test_nothing_that_is_raised_reaches_the_kernel_but_an_interrupt():
    def judged(error):
        return check.split_heads(lambda x, num_heads: (_ for _ in ()).throw(error))

    for error in (SystemExit(1), GeneratorExit(), RecursionError("deep"), Unreadable()):
        note = judged(error)
        assert note.mood == "wrong" and type(error).__name__ in repr(note)
    with pytest.raises(KeyboardInterrupt):
        judged(KeyboardInterrupt())


def test_what_is_printed_is_shown_within_bounds_behind_the_advice(capsys, short):
    talks = "print('shape', tuple(x.shape))\n    print('!' * 10_000, file=__import__('sys').stderr)\n    return x"
    shown = {
        talks: ("shape (1, 2, 4)", "…"),
        "while True: print('more and more')": ("no result after", "more and more"),
        "print('hello')\n    return mhalib.split_heads(x, n)": ("right.", "hello"),
        "print('seen')\n    return x.view(n, x.shape[-1] / n)": ("Use //", "seen"),
    }
    for body, (first, then) in shown.items():
        text = repr(check.split_heads(typed(f"def mine(x, n):\n    {body}")))
        assert 0 <= text.find(first) < text.rfind(then) and len(text) < 1600, text
    assert capsys.readouterr() == ("", "")


def test_answers_are_tried_as_torch_starts_whatever_was_switched():
    def split_heads(x, num_heads):
        return x.unflatten(-1, (num_heads, -1)).transpose(1, 2) + torch.zeros(1)

    with torch.device("meta"):
        assert check.split_heads(split_heads).passed
        assert check.split_heads(lambda x, num_heads: x.view(len(x), num_heads, x.shape[1], -1)).code[:6] == "wrong:"
    with torch.autocast("cpu"):
        assert check.fold_keys(check.fold_keys.answer).passed


def test_the_state_of_torch_is_as_it_was():
    def mine(x, num_heads):
        torch.manual_seed(99)
        torch.rand(5)
        torch.set_grad_enabled(False)
        torch.set_default_dtype(torch.float64)
        return mhalib.split_heads(x, num_heads).exp()

    expected = torch.get_rng_state()
    check.split_heads(mine)
    assert torch.equal(torch.get_rng_state(), expected)
    assert torch.is_grad_enabled() and torch.get_default_dtype() == torch.float32
