"""Whatever a learner's function does, the kernel survives it, and the learner reads what happened and where."""

import signal
import sys
import threading
import time

import pytest
import torch

import mhalib
from mhalib.checks import check, run
from tests.helpers.exercises import typed

pytestmark = pytest.mark.usefixtures("as_shipped")


@pytest.fixture
def short(monkeypatch):
    monkeypatch.setattr(run, "SECONDS", 0.4)


def busy(x, num_heads):
    while True:
        num_heads += 1


def deaf(x, num_heads):
    while True:
        try:
            num_heads += 1
        except:  # noqa: E722  the point of this function
            continue


def second_input_hangs(x, num_heads):
    while x.shape[1] == 3:
        pass
    return mhalib.split_heads(x, num_heads)


@pytest.mark.parametrize("answer", [busy, deaf, second_input_hangs])
def test_an_answer_that_hangs_is_stopped_in_any_thread(answer, short):
    notes = [check.split_heads(answer)]
    thread = threading.Thread(target=lambda: notes.append(check.split_heads(answer)))
    thread.start()
    thread.join(60)
    assert len(notes) == 2
    assert all("no result after 0.4 seconds" in repr(note) and "line " in repr(note) for note in notes)
    for _ in range(10):  # an exception that came too late would show here
        time.sleep(0.01)
    assert check.split_heads(mhalib.split_heads).passed


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no alarms here")
def test_an_answer_that_sleeps_is_woken_and_the_alarms_of_others_are_kept(short):
    def asleep(x, num_heads):
        time.sleep(3600)

    rang = []
    before = signal.signal(signal.SIGALRM, lambda *_: rang.append(1))
    signal.setitimer(signal.ITIMER_REAL, 60)
    try:
        assert "no result after" in repr(check.split_heads(asleep))
        assert 0 < signal.getitimer(signal.ITIMER_REAL)[0] <= 60
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        deadline = time.monotonic() + 30
        while not rang and time.monotonic() < deadline:
            time.sleep(0.01)
        assert rang == [1]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.skipif(sys.platform != "linux", reason="the limit of memory is Linux's")
def test_an_answer_that_eats_memory_is_stopped(monkeypatch):
    import resource

    def hoard(x, num_heads):
        lists = []
        while True:
            lists.append([0] * 10**7)

    monkeypatch.setattr(run, "SECONDS", 120.0)
    monkeypatch.setattr(run, "HEAD_ROOM", 1 << 28)
    before = resource.getrlimit(resource.RLIMIT_AS)
    for answer in (hoard, lambda x, n: torch.zeros(10**14)):
        note = check.split_heads(answer)
        assert not note.passed and "more memory" in repr(note) and "line " in repr(note)
    assert resource.getrlimit(resource.RLIMIT_AS) == before
    assert torch.zeros(10**8).numel() == 10**8


# -------------------------------------------------------------------------------------------- exceptions


def test_an_exception_shows_the_line_of_the_learner_and_none_of_ours():
    mine = typed(
        """
        def helper(x, n):
            return x.reshape(n, -1, 7)  # seven?

        def mine(x, num_heads):
            return helper(x, num_heads)
        """
    )
    text = repr(check.split_heads(mine))
    assert "line 2:  return x.reshape(n, -1, 7)  # seven?" in text and "RuntimeError" in text
    assert "Traceback" not in text and "run.py" not in text and "mhalib/checks" not in text and len(text) < 700
    mine = typed("def mine(x, num_heads):\n    y = x + 0\n    return torch.nn.functional.normalize(y, dim=9)")
    assert "line 3:  return torch.nn.functional.normalize(y, dim=9)" in repr(check.split_heads(mine))
    mine = typed("def mine(x, n):\n    return 1 / 0\n", keep_source=False)
    text = repr(check.split_heads(mine))
    assert "line 2" in text and "ZeroDivisionError" in text


def test_an_exception_on_a_later_input_comes_with_that_input():
    def mine(x, num_heads):
        assert x.shape[1] == 2, "only two tokens"
        return mhalib.split_heads(x, num_heads)

    text = repr(check.split_heads(mine))
    assert "AssertionError: only two tokens" in text and "[20, 21, 22, 23, 24, 25, 26, 27]" in text


def test_a_known_mistake_that_raises_keeps_its_name_and_shows_the_line():
    mine = typed("def mine(x):\n    y = x.transpose(1, 2)\n    return y.view(x.shape[0], x.shape[2], -1)")
    note = check.merge_heads(mine)
    assert "The error that view raises" in note.title and "line 3:  return y.view" in repr(note)


class Shout(BaseException):
    pass


class Unreadable(Exception):
    def __str__(self):
        raise ValueError("no")


def test_nothing_that_is_raised_reaches_the_kernel_but_an_interrupt():
    def raises(error):
        def mine(x, num_heads):
            raise error

        return mine

    for error in (SystemExit(1), GeneratorExit(), Shout("!"), RecursionError("deep"), StopIteration(3), Unreadable()):
        note = check.split_heads(raises(error))
        assert note.mood == "wrong" and type(error).__name__ in repr(note)
    with pytest.raises(KeyboardInterrupt):
        check.split_heads(raises(KeyboardInterrupt()))


def test_endless_recursion_ends():
    def mine(x, num_heads):
        return mine(x, num_heads)

    text = repr(check.split_heads(mine))
    assert "RecursionError" in text and len(text) < 1000


def test_common_errors_come_with_advice():
    advice = {
        "x.view(x.shape[0], x.shape[1], n, x.shape[2] / n)": "Use //",
        "x - x.max(-1)": "amax and amin return the numbers alone",
        "x.bool() and x.bool()": "Between tensors write &",
        "torch.sqrt(x.shape[-1])": "the module math",
        "x & x": "dtype=torch.bool",
        "x[0] @ x[0]": "in a product A @ B",
        "(x > 0).mean()": ".float().mean()",
    }
    notes = [(words, check.split_heads(typed(f"def mine(x, n):\n    return {line}"))) for line, words in advice.items()]
    assert [(words, note) for words, note in notes if words not in repr(note)] == []


# ------------------------------------------------------------------------------------- output and state


def test_what_is_printed_is_shown_within_bounds_behind_the_advice(capsys, short):
    def talks(x, num_heads):
        print("shape", tuple(x.shape))
        print("!" * 10_000, file=sys.stderr)
        return x

    def floods(x, num_heads):
        while True:
            print("more and more")

    def right(x, num_heads):
        print("hello")
        return mhalib.split_heads(x, num_heads)

    text = repr(check.split_heads(talks))
    assert "shape (1, 2, 4)" in text and "more characters" in text and len(text) < 3500
    text = repr(check.split_heads(floods))
    assert "no result after" in text and len(text) < 3500
    note = check.split_heads(right)
    assert note.passed and "hello" in repr(note)
    text = repr(check.split_heads(typed("def mine(x, n):\n    print('seen')\n    return x.view(n, x.shape[-1] / n)")))
    assert 0 < text.index("Use //") < text.index("seen")
    assert capsys.readouterr() == ("", "")


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
