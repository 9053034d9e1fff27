"""Whatever a learner's function does, the kernel survives it, and the learner reads what happened and where."""

import html.parser
import re
import signal
import sys
import textwrap
import threading
import time

import pytest
import torch

import mhalib
from mhalib.checks import check, run
from mhalib.checks.compare import MAX_NUMBERS, difference, show
from mhalib.checks.exercise import Exercise, Wrong
from mhalib.checks.show import Note

POSIX = hasattr(signal, "setitimer")
LINUX = sys.platform == "linux"


@pytest.fixture
def short(monkeypatch):
    monkeypatch.setattr(run, "SECONDS", 0.4)


def busy(x, num_heads):
    while True:
        num_heads += 1


def stubborn(x, num_heads):
    while True:
        try:
            num_heads += 1
        except Exception:
            pass


def deaf(x, num_heads):
    while True:
        try:
            num_heads += 1
        except:  # noqa: E722  the point of this function
            continue


def asleep(x, num_heads):
    time.sleep(3600)


def second_input_hangs(x, num_heads):
    while x.shape[1] == 3:
        pass
    return mhalib.split_heads(x, num_heads)


@pytest.mark.parametrize("answer", [busy, stubborn, deaf, second_input_hangs])
@pytest.mark.parametrize("main", [True, False], ids=["main thread", "another thread"])
def test_an_answer_that_hangs_is_stopped(answer, main, short):
    notes = []
    if main:
        notes.append(check.split_heads(answer))
    else:
        thread = threading.Thread(target=lambda: notes.append(check.split_heads(answer)))
        thread.start()
        thread.join(60)
    assert notes and notes[0].code == "time"
    assert "no result after 0.4 seconds" in repr(notes[0]) and "line " in repr(notes[0])


@pytest.mark.skipif(not POSIX, reason="only an alarm wakes a sleeping thread")
def test_an_answer_that_sleeps_is_woken(short):
    assert check.split_heads(asleep).code == "time"


@pytest.mark.skipif(not POSIX, reason="there are no alarms here")
def test_the_alarms_of_others_are_kept(short):
    rang = []
    before = signal.signal(signal.SIGALRM, lambda *_: rang.append(1))
    signal.setitimer(signal.ITIMER_REAL, 60)
    try:
        check.split_heads(busy)
        assert 0 < signal.getitimer(signal.ITIMER_REAL)[0] <= 60
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        deadline = time.monotonic() + 30
        while not rang and time.monotonic() < deadline:
            time.sleep(0.01)
        assert rang == [1]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_stopped_answer_leaves_nothing_behind(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(run, "SECONDS", 0.2)
        for _ in range(3):
            assert check.split_heads(busy).code == "time"
    for _ in range(20):  # an exception that came too late would show here
        time.sleep(0.01)
    assert check.split_heads(mhalib.split_heads).passed


# ------------------------------------------------------------------------------------------------ memory


def hoard(x, num_heads):
    lists = []
    while True:
        lists.append([0] * 10**7)


def hoard_and_catch(x, num_heads):
    lists = []
    while True:
        try:
            lists.append([0] * 10**7)
        except Exception as error:
            return str(error)


def enormous(x, num_heads):
    return torch.zeros(10**14)


@pytest.mark.skipif(not LINUX, reason="the limit of memory is Linux's")
def test_an_answer_that_eats_memory_is_stopped(monkeypatch):
    import resource

    monkeypatch.setattr(run, "SECONDS", 120.0)
    monkeypatch.setattr(run, "HEAD_ROOM", 1 << 28)
    before = resource.getrlimit(resource.RLIMIT_AS)
    for answer in (hoard, enormous):
        note = check.split_heads(answer)
        assert note.code == "memory", note
        assert "more memory" in repr(note) and "line " in repr(note)
    assert not check.split_heads(hoard_and_catch).passed
    assert resource.getrlimit(resource.RLIMIT_AS) == before
    assert torch.zeros(10**8).numel() == 10**8


# -------------------------------------------------------------------------------------------- exceptions


def cell(source, name="mine"):
    """Return a function defined as a notebook's cell defines it: in a file that only linecache knows."""
    import linecache

    source, file = textwrap.dedent(source).strip() + "\n", "<cell 7>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    space = {"torch": torch, "mhalib": mhalib}
    exec(compile(source, file, "exec"), space)
    return space[name]


def test_an_exception_shows_the_line_of_the_learner_and_none_of_ours():
    mine = cell(
        """
        def helper(x, n):
            return x.reshape(n, -1, 7)  # seven?

        def mine(x, num_heads):
            return helper(x, num_heads)
        """
    )
    text = repr(check.split_heads(mine))
    assert "line 2:  return x.reshape(n, -1, 7)  # seven?" in text
    assert "RuntimeError" in text and "do not multiply to the number of elements" in text
    assert "Traceback" not in text and "run.py" not in text and "mhalib/checks" not in text and len(text) < 700


def test_an_exception_inside_a_library_shows_the_line_that_called_it():
    mine = cell("def mine(x, num_heads):\n    y = x + 0\n    return torch.nn.functional.normalize(y, dim=9)")
    assert "line 3:  return torch.nn.functional.normalize(y, dim=9)" in repr(check.split_heads(mine))


def test_an_exception_on_a_later_input_comes_with_that_input():
    def mine(x, num_heads):
        assert x.shape[1] == 2, "only two tokens"
        return mhalib.split_heads(x, num_heads)

    note = check.split_heads(mine)
    assert (
        note.code == "raised"
        and "AssertionError: only two tokens" in repr(note)
        and "[20, 21, 22, 23, 24, 25, 26, 27]" in repr(note)
    )


def test_a_known_mistake_that_raises_keeps_its_name_and_shows_the_line():
    mine = cell("def mine(x):\n    y = x.transpose(1, 2)\n    return y.view(x.shape[0], x.shape[2], -1)")
    note = check.merge_heads(mine)
    assert note.code == "wrong: The error that view raises" and "line 3:  return y.view" in repr(note)


class Shout(BaseException):
    pass


def unreadable(x, num_heads):
    class Odd(Exception):
        def __str__(self):
            raise ValueError("no")

    raise Odd


@pytest.mark.parametrize(
    "error", [SystemExit(1), GeneratorExit(), Shout("!"), RecursionError("deep"), StopIteration(3)]
)
def test_nothing_that_is_raised_reaches_the_kernel(error):
    def mine(x, num_heads):
        raise error

    note = check.split_heads(mine)
    assert note.code == "raised" and type(error).__name__ in repr(note)
    assert check.split_heads(unreadable).code == "raised"


def test_endless_recursion_ends():
    def mine(x, num_heads):
        return mine(x, num_heads)

    note = check.split_heads(mine)
    assert note.code == "raised" and "RecursionError" in repr(note) and len(repr(note)) < 1000


def test_the_reader_can_still_interrupt():
    def mine(x, num_heads):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        check.split_heads(mine)


# ------------------------------------------------------------------------------------- output and state


def test_what_is_printed_is_shown_within_bounds(capsys):
    def mine(x, num_heads):
        print("shape", tuple(x.shape))
        print("!" * 10_000, file=sys.stderr)
        return x

    note = check.split_heads(mine)
    assert "shape (1, 2, 4)" in repr(note) and "more characters" in repr(note) and len(repr(note)) < 3500
    assert capsys.readouterr() == ("", "")


def test_a_flood_of_prints_is_survived(short):
    def mine(x, num_heads):
        while True:
            print("more and more")

    note = check.split_heads(mine)
    assert note.code == "time" and len(repr(note)) < 3500


def test_prints_of_a_right_answer_are_shown_as_well():
    def mine(x, num_heads):
        print("hello")
        return mhalib.split_heads(x, num_heads)

    note = check.split_heads(mine)
    assert note.passed and "hello" in repr(note)


def test_the_state_of_torch_is_as_it_was():
    def mine(x, num_heads):
        torch.manual_seed(99)
        torch.rand(5)
        torch.set_grad_enabled(False)
        torch.set_default_dtype(torch.float64)
        return mhalib.split_heads(x, num_heads)

    expected = torch.get_rng_state()
    check.split_heads(mine)
    assert torch.equal(torch.get_rng_state(), expected)
    assert torch.is_grad_enabled() and torch.get_default_dtype() == torch.float32


def test_inputs_are_copies_and_a_change_of_them_is_named():
    def mine(scores, mask):
        weights = check.masked_softmax.answer(scores, mask)
        mask.zero_()
        return weights

    for _ in range(2):
        note = check.masked_softmax(mine)
        assert note.code == "changes its input" and "changes mask of its caller" in repr(note)
    assert check.masked_softmax(check.masked_softmax.answer).passed


# ----------------------------------------------------------------------------------- other kinds of answers


def yielding(x, num_heads):
    yield mhalib.split_heads(x, num_heads)


async def later(x, num_heads):
    return mhalib.split_heads(x, num_heads)


def forgetful(x, num_heads):
    mhalib.split_heads(x, num_heads)


def sometimes(x, num_heads):
    if x.shape[1] == 2:
        return mhalib.split_heads(x, num_heads)


class Thing:
    def __init__(self, x, num_heads):
        pass


X = torch.zeros(1, 2, 4)


@pytest.mark.parametrize(
    "answer,code,words",
    [
        (yielding, "type", "a generator"),
        (later, "type", "a coroutine"),
        (forgetful, "none", "Is a return missing?"),
        (sometimes, "type", "expected a tensor, got None"),
        (Thing, "type", "got a Thing"),
        (lambda x: x, "arity", r"2 arguments, \(x, num_heads\); yours takes \(x\)"),
        (lambda x, num_heads, d_model: x, "arity", "yours takes"),
        (mhalib.split_heads(X, 2), "type", "give the function itself, without calling it"),
        ("split_heads", "type", "expected a function, got text"),
        (lambda x, n: mhalib.split_heads(x, n).tolist(), "type", "expected a tensor, got a list; torch.as_tensor"),
        (lambda x, n: mhalib.split_heads(x, n).int(), "dtype", "expected a floating tensor, got torch.int32"),
        (lambda x, n: mhalib.split_heads(x, n).numpy(), "type", "a NumPy array; torch.as_tensor"),
        (lambda x, n: (x, mhalib.split_heads(x, n)), "type", r"in a tuple; part \[1\] of it is what is asked for"),
        (lambda x, n: tuple(x), "type", "several things in a tuple; return one, or join them"),
        (
            lambda x, n: mhalib.split_heads(x, n)[..., :1, :1],
            "shape",
            r"expected the shape \(1, 2, 2, 2\), got \(1, 2, 1, 1\)",
        ),
        (
            lambda x, n: mhalib.split_heads(x, n).transpose(0, 2),
            "wrong: but with its axes in the order (token, head, sample, feature)",
            "Its axes in the order",
        ),
        (
            lambda x, n: mhalib.split_heads(x, n).transpose(0, 2).exp(),
            "shape",
            r"the axes stand in the order \(token, head, sample, feature\)",
        ),
        (lambda x, n: mhalib.split_heads(x, n).to("meta"), "type", "cannot be read"),
        (lambda x, n: mhalib.split_heads(x, n) + (x.shape[0] > 1), "value", "at sample 0, head 0, token 0, feature 0"),
    ],
)
def test_what_came_instead_is_said_in_words(answer, code, words):
    note = check.split_heads(answer)
    assert note.code == code, note
    assert re.search(words, repr(note))


def test_the_place_of_an_unknown_difference_is_said_in_words():
    def mine(x, num_heads):
        y = mhalib.split_heads(x, num_heads).clone()
        y[0, 1, -1, 0] = 12
        return y

    text = repr(check.split_heads(mine))
    assert "First difference: at sample 0, head 1, token 1, feature 0: expected 12, got" not in text
    assert "First difference: at sample 0, head 1, token 2, feature 0: expected 22, got 12" in text


def test_a_value_that_is_wrong_does_not_give_the_right_one_away():
    assert repr(check.spread(7.5)).splitlines()[1] == "  7.5 is not right."
    note = check.bert_shapes(((4, 128, 7), (4, 128, 768), (4, 12, 128, 64)))
    assert "Shape 1: numbers 1 and 2 are right, number 3 not." in repr(note) and "2304" not in repr(note)


def test_differences_look_into_parts():
    assert difference((1, torch.ones(2)), (1, torch.ones(2).double())) is None
    assert difference((1, torch.ones(2)), (1, torch.zeros(2))).sentence() == "part [1]: at [0]: expected 1, got 0"
    assert difference((1, 2), (1, 2, 3)).kind == "shape" and difference(True, 1).kind == "type"
    assert difference(2, True).kind == "type" and difference(1.0, float("nan")).kind == "value"


def test_a_difference_has_parts_of_which_its_sentence_is_made():
    found = difference((1, (torch.eye(2), 3)), (1, (torch.tensor([[1, 0], [0, 7.0]]), 3)), ("query", "key"))
    assert (found.kind, found.expected, found.got) == ("value", "1", "7")
    assert (found.path, found.place) == ((1, 0), "query 1, key 1")
    assert found.sentence() == "part [1][0]: at query 1, key 1: expected 1, got 7"
    assert found.sentence(tell_expected=False) == "part [1][0]: at query 1, key 1: 7 is not right."
    assert difference("a", "expected b, got c").sentence(tell_expected=False) == "'expected b, got c' is not right."


def test_inputs_are_built_once_and_an_answer_runs_once_on_each():
    built, ran = [], []

    def cases():
        built.append(1)
        return [(torch.ones(2),), (torch.ones(3),)]

    def answer(x):
        ran.append(len(x))
        return x

    exercise = Exercise("Double it.", lambda x: 2 * x, ("Add.",), {"Squared": Wrong(lambda x: x**2, "a", "b")}, cases)
    assert exercise(answer).code == "wrong: Squared" and exercise(lambda x: x + 1).passed
    assert ran == [2, 3] and built == [1]


def test_long_values_are_shown_short():
    endless = []
    endless.append(endless)
    for value in (
        torch.zeros(MAX_NUMBERS + 1),
        "x" * 10**6,
        list(range(10**5)),
        10**5000,
        object(),
        [[[0] * 100] * 100] * 100,
        [endless],
    ):
        assert len(show(value)) < 1000
    assert show(torch.tensor([[True, False]])) == "[[True, False]]" and show(torch.tensor(0.123456)) == "0.1235"


# --------------------------------------------------------------------------------------------------- looks


class Tags(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.open, self.found, self.texts = [], set(), []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.found.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


HOSTILE = "<img src=x onerror=alert(1)></pre><script>alert(1)</script>"


def test_what_a_learner_writes_is_text_and_never_html():
    def mine(x, num_heads):
        print(HOSTILE)
        raise ValueError(HOSTILE)

    page = Tags(check.split_heads(mine)._repr_html_())
    assert page.found <= {"div", "b", "pre"} and page.open == []
    assert sum(HOSTILE in text for text in page.texts) == 2
    page = Tags(check.causal_maps([HOSTILE])._repr_html_())
    assert page.found <= {"div", "b", "pre"}


@pytest.mark.parametrize(
    "answer", [mhalib.split_heads, lambda x, n: x, lambda x, n: x.view(x.shape[0], n, x.shape[1], -1), ...]
)
def test_terminal_and_notebook_say_the_same(answer):
    note = check.split_heads(answer)
    words = [text for label, text in note.parts if label != "code"] + [note.title, note.footer]
    page = "".join(Tags(note._repr_html_()).texts)
    assert all(text in repr(note) and text in page for text in words)
    assert "<" not in repr(note)


def test_colours_come_from_the_theme_and_carry_no_meaning_alone():
    for mood in ("right", "wrong", "open"):
        html_text = Note("title", [("", "text"), ("code", "x")], mood=mood)._repr_html_()
        colours = re.findall(r"(?:color|background|border-left):\s*([^;\"]+)", html_text)
        assert all(c in ("inherit", "none") or "var(--jp-" in c for c in colours), colours
    assert "right." in repr(check.split_heads(mhalib.split_heads)) and "not yet." in repr(
        check.split_heads(lambda x, n: x)
    )


def test_the_same_answer_is_answered_in_the_same_words():
    def wrong(q, k, v):
        return q + torch.rand(q.shape)

    assert repr(check.attend(wrong)) == repr(check.attend(wrong))


# ------------------------------------------------------- diagnoses that were once given for another mistake

FALSE_ONCE = [
    (
        "a sum without keepdim is no key that was not turned",
        "attend",
        lambda q, k, v: (lambda e: e / e.sum(-1) @ v)((q @ k.mT / q.shape[-1] ** 0.5).exp()),
        "wrong: The sum has lost its axis",
    ),
    (
        "the mean is not the smallest score",
        "stable_softmax",
        lambda s: (s - s.mean(-1, keepdim=True)).exp() / (s - s.mean(-1, keepdim=True)).exp().sum(-1, keepdim=True),
        "wrong: Not the largest score subtracted",
    ),
    (
        "a weight that is joined rightly and not turned was not joined side by side",
        "fused_kv",
        lambda m, k, v: (m @ torch.cat([k, v])).chunk(2, -1),
        "wrong: The joined weight does not fit",
    ),
    (
        "zeros as scores are no product with the mask",
        "masked_softmax",
        lambda s, m: s.masked_fill(~m[:, None], 0.0).softmax(-1),
        "wrong: 0 for never",
    ),
    (
        "scores changed in place do not make NaN right",
        "masked_softmax",
        lambda s, m: s.masked_fill_(~m[:, None], -torch.inf).softmax(-1),
        "wrong: NaN where there is nothing to see",
    ),
    (
        "a single head is not blind to every wrong merge",
        "keeps_tokens_apart",
        lambda merge: (lambda x: torch.equal(merge(x.flip(2)), merge(x).flip(1)))(torch.randn(2, 1, 5, 3)),
        "wrong: Blind with one head",
    ),
    (
        "the seed of the features is not their shift",
        "looking_back",
        lambda f, w: mhalib.scaled_dot_product_attention(
            mhalib.split_heads(f(w, 1), 2), mhalib.split_heads(f(w), 2), mhalib.split_heads(f(w), 2)
        )[1][0],
        "wrong: The seed, not the place",
    ),
    (
        "one of two shapes wrong is the mistake of that shape",
        "first_shapes",
        ((2, 12, 4, 16), (2, 4, 12, 12)),
        "wrong: Heads behind the tokens",
    ),
]


@pytest.mark.parametrize("name,answer,code", [case[1:] for case in FALSE_ONCE], ids=[case[0] for case in FALSE_ONCE])
def test_a_diagnosis_names_the_mistake_that_was_made(name, answer, code):
    assert getattr(check, name)(answer).code == code


def test_a_change_of_the_inputs_is_told_beside_a_wrong_result():
    note = check.masked_softmax(lambda s, m: s.masked_fill_(~m[:, None], -1e9).softmax(-1))
    assert note.code == "wrong: An average of what is forbidden" and "Changed on the way: scores" in repr(note)
    assert "The result is right" not in repr(note)


def test_an_error_of_another_kind_is_another_mistake():
    def mine(q, k, v):
        if q.shape[-2] > 2:
            raise KeyError("none of the known answers raises this")
        return check.attend.answer(q, k, v)

    assert check.attend(mine).code == "raised"


@pytest.mark.parametrize(
    "line,advice",
    [
        ("x.view(x.shape[0], x.shape[1], n, x.shape[2] / n)", "Use //"),
        ("x - x.max(-1)", "amax and amin return the numbers alone"),
        ("x.bool() and x.bool()", "Between tensors write &"),
        ("torch.sqrt(x.shape[-1])", "the module math"),
        ("x & x", "dtype=torch.bool"),
        ("x[0] @ x[0]", "in a product A @ B"),
        ("(x > 0).mean()", ".float().mean()"),
    ],
)
def test_common_errors_come_with_advice(line, advice):
    mine = cell(f"def mine(x, n):\n    return {line}")
    assert advice in repr(check.split_heads(mine)), check.split_heads(mine)


def test_the_example_shows_a_matrix_row_by_row():
    text = repr(check.split_heads(lambda x, n: x.reshape(x.shape[0], n, x.shape[1], -1)))
    assert "    x = [[[0, 1, 2, 3],\n          [10, 11, 12, 13]]]\n" in text
    text = repr(check.fused_kv(lambda m, k, v: tuple((m[:, :1] @ W.T).expand_as(m) for W in (k, v))))
    assert "    expected: ([[[1, 3],\n                 [2, 4]]],\n               [[[5, 7],\n" in text


def test_what_was_printed_comes_after_the_advice():
    mine = cell("def mine(x, n):\n    print('seen')\n    return x.view(n, x.shape[-1] / n)")
    text = repr(check.split_heads(mine))
    assert 0 < text.index("Use //") < text.index("seen")


def test_a_line_typed_in_a_terminal_is_named_by_its_number():
    space = {}
    exec(compile("def mine(x, n):\n    return 1 / 0\n", "<stdin>", "exec"), space)
    text = repr(check.split_heads(space["mine"]))
    assert "line 2" in text and "ZeroDivisionError" in text
