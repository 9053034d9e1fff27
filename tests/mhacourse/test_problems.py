"""The problem set: each layer is broken where it says and nowhere else, and each answer hears what it should."""

import inspect
import linecache
import re
import textwrap

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from mhalib import MultiHeadAttention, causal_mask
from mhalib.checks import Problems, problem
from mhalib.checks.broken import Problem, rewritten
from mhalib.checks.compare import difference
from mhalib.checks.exercise import Change
from mhalib.checks.lessons.problems import cases, layers
from mhalib.checks.trial import Subject, made, tried
from mhalib.doctor import adapt, examine
from tools.notebooks.run import NOTEBOOKS, clear, play, read

PATH = NOTEBOOKS / "ten_broken_layers.ipynb"
NAMES = [each.name for each in problem]
SICK = [name for name in NAMES if name != "atlas"]
LETTERS = "ABCDE"

# The cases in which the broken layer does what the healthy one does.
UNSEEN = {
    "triage": ["two calls differ in training"],
    "tickets": ["without a mask"],
    "letters": ["without a mask", "one mask for all"],
    "captions": ["self-attention", "self-attention, padded", "cross-attention"],
    "drafts": ["without a mask", "one mask for all", "padding, a mask for each sample"],
    "dictation": ["all at once"],
}
DOCTOR = {
    "reviews": ["mixes-tokens"],
    "triage": ["not-deterministic"],
    "sensors": ["mixes-samples"],
    "verses": ["mixes-tokens-on-merge"],
    "tickets": ["mask-leaks"],
    "letters": ["mask-order"],
    "atlas": [],
    "captions": ["mask-inverted"],
    "drafts": ["mutates-input"],
    "archive": [],
    "dictation": ["cache-differs"],
}


@pytest.fixture(autouse=True)
def afresh(one_thread, monkeypatch):
    monkeypatch.setattr("mhalib.checks.trial.SECONDS", 300.0)  # on however busy a machine
    monkeypatch.setattr("mhalib.checks.run.SECONDS", 300.0)
    for each in problem:
        each.done.clear()
        each.hints_shown = 0


def of(name) -> Problem:
    return getattr(problem, name)


def typed(source, name="my_test"):
    """Return what a cell defines, with its source where Python looks for it."""
    source = textwrap.dedent(source).strip() + "\n"
    file = f"<cell {hash(source)}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    space = {"torch": torch, "F": F, "nn": nn, "examine": examine, "MultiHeadAttention": MultiHeadAttention}
    exec(compile(source, file, "exec"), space)
    return space[name]


def pair(name, size=(12, 3), **options):
    """Return the broken and the healthy layer with equal weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        healthy, broken = of(name).healthy(*size, **options), of(name).given(*size, **options)
    broken.load_state_dict(healthy.state_dict())
    return broken.eval(), healthy.eval()


def agree(a, b):
    return torch.allclose(a, b, atol=1e-5)


# ------------------------------------------------------------------------------------------- broken here, not there


def test_ten_are_broken_and_one_is_healthy():
    assert len(SICK) == 10 and len(NAMES) == 11
    assert [name for name in NAMES if not of(name).changes] == ["atlas"] == [n for n in NAMES if of(n).right == "E"]
    assert isinstance(problem, Problems) and dir(problem) == sorted(NAMES)
    assert {of(name).right for name in NAMES} == set(LETTERS)  # no letter is always wrong


@pytest.mark.parametrize("name", NAMES)
def test_the_broken_layer_differs_in_the_cases_that_show_it_and_in_no_others(name):
    each, size = of(name), len(of(name).sizes) - 1
    pairs = zip(each.right_outcomes, each.given_outcomes, strict=True)
    same = [difference(right.value, given.value) is None for right, given in pairs]
    unseen = [all(same[i : i + size]) for i in range(0, len(same), size)]
    seen = [not any(same[i : i + size]) for i in range(0, len(same), size)]
    expected = [case in UNSEEN.get(name, []) or not each.changes for case in each.cases]
    assert unseen == expected
    assert seen == [not hidden for hidden in expected]


@pytest.mark.parametrize("name", NAMES)
def test_shapes_are_right_nothing_raises_and_a_page_is_enough(name):
    broken, healthy = pair(name, of(name).sizes[1])
    x = torch.randn(3, 7, broken.d_model)
    outs = [out[0] if isinstance(out, tuple) else out for out in (broken(x), healthy(x))]
    assert outs[0].shape == outs[1].shape == x.shape and all(out.isfinite().all() for out in outs)
    assert 8 <= len(of(name).source.splitlines()) <= 25


def test_one_head_one_token_or_one_sample_hide_it():
    x, one = torch.randn(3, 5, 12), torch.randn(1, 5, 12)
    for name in ("reviews", "verses"):
        broken, healthy = pair(name, (12, 1))
        assert agree(broken(x), healthy(x))
        broken, healthy = pair(name)
        assert agree(broken(x[:, :1]), healthy(x[:, :1])) and not agree(broken(x), healthy(x))
    broken, healthy = pair("letters")
    mask = cases.padding((3,), 5, 5)
    assert agree(broken(one, mask), healthy(one, mask))
    broken, healthy = pair("tickets")
    open_mask = torch.ones(5, 5, dtype=torch.bool)
    assert agree(broken(x, open_mask), broken(x)) and agree(broken(x), healthy(x))
    for shared in (1, 6):
        broken, healthy = pair("archive", (12, 6), num_kv_heads=shared)
        assert agree(broken(x), healthy(x))


def test_what_is_said_against_the_wrong_letters_is_so():
    x = torch.randn(2, 5, 12)
    course = MultiHeadAttention(12, 3, bias=True)

    def like_the_course(name):
        broken, healthy = pair(name)
        course.load_state_dict(broken.state_dict(), strict=True)
        return broken

    order = torch.tensor([3, 0, 4, 1, 2])
    broken, _ = pair("reviews")
    assert agree(broken.W_o(x[:, order]), broken.W_o(x)[:, order]) and not agree(
        broken(x[:, order]), broken(x)[:, order]
    )
    still, _ = pair("triage", dropout=0.0)
    assert torch.equal(still(x), still(x))
    assert agree(like_the_course("letters")(x), course(x))
    assert agree(like_the_course("drafts")(x), course(x, mask=causal_mask(5)))
    tickets, _ = pair("tickets")
    plain = MultiHeadAttention(12, 3)
    plain.load_state_dict(tickets.state_dict())
    assert agree(tickets(x), plain(x))
    archive, _ = pair("archive", num_kv_heads=3)
    plain.load_state_dict(archive.state_dict())
    assert agree(archive(x), plain(x)) and agree(
        pair("archive", (12, 6))[0](x[:, order]), pair("archive", (12, 6))[0](x)[:, order]
    )
    captions, _ = pair("captions")
    W_k, W_v = captions.W_kv.weight.chunk(2)
    b_k, b_v = captions.W_kv.bias.chunk(2)
    parts = {"W_q": captions.W_q.state_dict(), "W_o": captions.W_o.state_dict()}
    parts |= {"W_k": {"weight": W_k, "bias": b_k}, "W_v": {"weight": W_v, "bias": b_v}}
    course.load_state_dict({f"{W}.{key}": value for W, part in parts.items() for key, value in part.items()})
    memory = torch.randn(2, 7, 12)
    assert agree(captions(x, memory), course(x, memory))
    dictation, _ = pair("dictation")
    _, cache = dictation(x)
    assert dictation(x[:, :1], cache)[1][0].shape[2] == 6
    with pytest.raises(RuntimeError):
        dictation(torch.randn(1, 65, 12))
    norm = pair("sensors")[0].norm
    assert agree(norm(x)[0], norm(torch.cat([x[:1], 9 * x[1:]]))[0])


@pytest.mark.parametrize("name", NAMES)
def test_the_doctor_says_what_the_problem_says_of_it(name):
    assert of(name).report().codes == DOCTOR[name]
    said = repr(of(name).doctor())
    assert ("No finding." in said) == (DOCTOR[name] == []) and of(name).word in said
    assert of(name).report(of(name).healthy).ok


def test_what_the_doctor_needs_to_see_more():
    captions = pair("captions", (16, 4))[0]
    assert examine(adapt(lambda x, mask=None: captions(x, None, mask)), 16, 4, module=captions).ok
    remarks = {remark.code: remark.text for remark in of("archive").report().remarks}
    assert "cycled" in remarks["grouped-heads"]


# ------------------------------------------------------------------------------------------- what is wrong?


@pytest.mark.parametrize("name", NAMES)
def test_the_right_letter_is_accepted_and_each_wrong_one_is_answered(name):
    each = of(name)
    assert list(each.options) == list(LETTERS)
    for letter in LETTERS:
        said = each.cause(letter)
        assert said.passed == (letter == each.right)
        assert said.code == ("right" if letter == each.right else f"not {letter}")
        assert each.options[letter] in repr(said) and f"{name}, cause:" in said.title
    assert len(set(each.options.values())) == 5


@pytest.mark.parametrize(
    "letter", ["b", " B ", "B)", "(b)", "B.", "B: the split", "b - the split", ["B"], ("b",), "'B'"]
)
def test_a_letter_in_another_spelling(letter):
    assert problem.reviews.cause(letter).passed


@pytest.mark.parametrize("letter", ["AB", "A and B", "A, B", ["A", "B"], "BD", "a b c"])
def test_several_letters_are_no_cause(letter):
    said = problem.reviews.cause(letter)
    assert said.code == "type" and "One letter, please" in repr(said)


@pytest.mark.parametrize("letter", ["F", "", "the split", 2, True, len, {"A": 1}, "?", torch.ones(2), b"B"])
def test_what_is_no_letter_is_refused_in_words(letter):
    said = problem.reviews.cause(letter)
    assert said.code == "type" and "expected one letter out of A, B, C, D, E" in repr(said)


def test_untouched_stubs_are_left_open():
    for each in problem:
        for note in (each.cause(...), each.cause(), each.test(), each.test(None), each.mend()):
            assert note.mood == "open" and f"problem.{each.name}.hint()" in repr(note)
        for comment in ("-> True where it is fine", "assert something"):
            assert each.test(typed(f"def my_test(layer):  # {comment}\n    ...")).code == "stub"
        assert not each.done


# ------------------------------------------------------------------------------------------- show it


@pytest.mark.parametrize("name", NAMES)
def test_the_test_of_the_solution_is_right(name):
    said = of(name).test(of(name).shown_by)
    assert said.passed, said
    assert "Note:" not in repr(said)  # nor does it stop in a layer of another style
    assert re.search(r"It finds (none|\d) of the other", repr(said))


ANSWERS_OF_ALL = {
    "always True": ("def my_test(layer):\n    return True", "passes", "It never calls the layer"),
    "always False": ("def my_test(layer):\n    return False", "accuses", "says False of every layer"),
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("answer", ANSWERS_OF_ALL)
def test_a_test_that_always_says_the_same_is_refused(name, answer):
    source, code, words = ANSWERS_OF_ALL[answer]
    said = of(name).test(typed(source))
    assert said.code == code and words in repr(said)


X = "x = torch.randn(2, 4, layer.d_model)\n    "
TURNED = "x = torch.randn(2, 6, layer.d_model); o = [3, 0, 5, 1, 4, 2]\n    "
SAME = "torch.allclose(layer(x[:, o]), layer(x)[:, o], atol=1e-4)"
ENDED = f"{X}y = x.clone(); y[:, -1] += 1\n    "
HIDDEN = f"{ENDED}m = torch.ones(4, 4).bool(); m[:, -1] = False\n    "

PAIR = "This layer returns a pair: out, cache = layer(x)."

# The problem, the body of a learner's test, what is found, and words that are said.
REFUSED = {
    "a printed shape": (
        "reviews",
        "x = torch.ones(2, 4, layer.d_model); print(layer(x).shape)",
        "none",
        "return hands it",
    ),
    "a shape of ones": (
        "reviews",
        "x = torch.ones(2, 4, layer.d_model); return layer(x).shape == x.shape",
        "passes",
        "alike",
    ),
    "a shape": ("reviews", f"{X}return layer(x).shape == x.shape", "passes", "other than its shape"),
    "one token": (
        "reviews",
        "x = torch.randn(4, 1, layer.d_model); return torch.allclose(layer(x), layer(x), atol=1e-4)",
        "passes",
        "T = 1 hides it",
    ),
    "neighbours exchanged": (
        "reviews",
        f"{X}o = [1, 0, 3, 2]\n    return {SAME}",
        "passes",
        "It does see it in the broken layer, d_model=12, num_heads=3: what is different there? In a head lie",
    ),
    "as many tokens as heads": ("reviews", f"{X}o = [2, 0, 3, 1]\n    return {SAME}", "passes", "Where T = num_heads"),
    "not put in order": (
        "reviews",
        f"{TURNED}return torch.allclose(layer(x[:, o]), layer(x), atol=1e-4)",
        "accuses",
        "reorder one side",
    ),
    "torch.equal": ("reviews", f"{TURNED}return torch.equal(layer(x[:, o]), layer(x)[:, o])", "accuses", "is rounding"),
    "no tolerance": (
        "reviews",
        f"{TURNED}return torch.allclose(layer(x[:, o]), layer(x)[:, o])",
        "accuses",
        "is rounding",
    ),
    "too much tolerance": (
        "reviews",
        f"{TURNED}return torch.allclose(layer(x[:, o]), layer(x)[:, o], atol=10)",
        "passes",
        "tolerance is too large",
    ),
    "the wrong way round": ("reviews", f"{TURNED}return not {SAME}", "opposite", "True means: the layer is fine"),
    "printed": ("reviews", f"{TURNED}print({SAME})", "none", "You printed"),
    "a tensor of answers": (
        "reviews",
        f"{TURNED}return torch.isclose(layer(x[:, o]), layer(x)[:, o], atol=1e-4)",
        "answer",
        ".all() makes one answer",
    ),
    "a number": ("reviews", f"{TURNED}return (layer(x[:, o]) - layer(x)[:, o]).abs().max()", "answer", "compare it"),
    "a word": ("reviews", f"{TURNED}return 'fine' if {SAME} else 'broken'", "answer", "without quotes"),
    "a pair": ("reviews", f"{TURNED}return {SAME}, x", "answer", "return one True or False"),
    "a size of its own": (
        "reviews",
        "x = torch.randn(2, 4, 12)\n    return torch.allclose(layer(x), layer(x))",
        "raised",
        "take them from the layer",
    ),
    "an attribute that is not there": (
        "sensors",
        "return layer.W_q is not None",
        "raised",
        "it raises on the broken layer",
    ),
    "in training mode": ("triage", f"{X}return torch.equal(layer(x), layer(x))", "accuses", "call layer.eval() first"),
    "called once": (
        "triage",
        f"layer.eval()\n    {X}return layer(x).isfinite().all()",
        "passes",
        "calls the layer once",
    ),
    "a batch of one": (
        "sensors",
        "x = torch.randn(1, 4, layer.d_model)\n    return torch.allclose(layer(x), layer(x.clone()))",
        "passes",
        "B = 1 has no neighbours",
    ),
    "its own output": (
        "sensors",
        f"{X}y = x.clone(); y[0] += torch.randn(4, 1)\n    return torch.allclose(layer(x), layer(y), atol=1e-4)",
        "accuses",
        "may change its own output",
    ),
    "the last output too": (
        "verses",
        f"{ENDED}return torch.allclose(layer(x), layer(y), atol=1e-4)",
        "accuses",
        "Compare earlier",
    ),
    "no mask": ("tickets", f"{X}return torch.allclose(layer(x), layer(x))", "passes", "No call has a mask"),
    "an open mask": (
        "tickets",
        f"{X}return torch.allclose(layer(x), layer(x, torch.ones(4, 4).bool()), atol=1e-4)",
        "passes",
        "The masks hide nothing",
    ),
    "what a hidden token asks": (
        "tickets",
        f"{HIDDEN}return torch.allclose(layer(x, m), layer(y, m), atol=1e-4)",
        "accuses",
        "A hidden token still asks",
    ),
    "a mask of numbers": (
        "tickets",
        f"{X}return torch.allclose(layer(x), layer(x, torch.ones(4, 4)), atol=1e-4)",
        "raised",
        "dtype=torch.bool",
    ),
    "one letter": (
        "letters",
        "x = torch.randn(1, 4, layer.d_model); m = torch.ones(1, 4, 4).bool(); m[..., -1] = False\n    "
        "return torch.allclose(layer(x, m)[:, :3], layer(x[:, :3]), atol=1e-4)",
        "passes",
        "there is no other mask",
    ),
    "letters of one length": (
        "letters",
        f"{X}m = torch.ones(2, 4, 4).bool(); m[..., -1] = False\n    "
        "return torch.allclose(layer(x, m)[:, :3], layer(x[:, :3]), atol=1e-4)",
        "passes",
        "All samples have the same mask",
    ),
    "a blind look at a healthy layer": (
        "atlas",
        f"{X}return layer(x).shape == x.shape",
        "passes",
        "not yet: your test says the same of every layer.",
    ),
    "a healthy layer accused": (
        "atlas",
        f"{HIDDEN}return torch.allclose(layer(x, m), layer(y, m), atol=1e-4)",
        "accuses",
        "look at problem.atlas.cause first.",
    ),
    "an order that is seldom far": (
        "reviews",
        f"far = torch.rand(()) < 0.3\n    {TURNED}o = o if far else range(6)\n    return {SAME}",
        "passes",
        "It depends on the draw: of 9 draws your test sees it in 1.",
    ),
    "the old order, drawn each time": (
        "reviews",
        f"torch.manual_seed(4); o = torch.randperm(3)\n    x = torch.randn(2, 3, layer.d_model)\n    return {SAME}",
        "passes",
        "or where the order that you drew is the old one (print it)",
    ),
    "self-attention alone": (
        "captions",
        f"{HIDDEN}return torch.allclose(layer(x, mask=m)[:, :3], layer(y, mask=m)[:, :3], atol=1e-4)",
        "passes",
        "No call has a memory",
    ),
    "a memory without a mask": (
        "captions",
        f"{X}return layer(x, torch.randn(2, 6, layer.d_model)).shape == x.shape",
        "passes",
        "No call with a memory has a mask",
    ),
    "the same mask twice": (
        "drafts",
        f"{X}m = torch.ones(2, 4, 4).bool()\n    return torch.equal(layer(x, m), layer(x, m))",
        "passes",
        "is the mask the same afterwards?",
    ),
    "a second name, no copy": (
        "drafts",
        f"{X}m = torch.ones(2, 4, 4).bool(); kept = m; layer(x, m)\n    return torch.equal(m, kept)",
        "passes",
        "is the mask the same afterwards?",
    ),
    "a mask that is causal already": (
        "drafts",
        f"{X}m = torch.ones(2, 4, 4).bool().tril(); kept = m.clone(); layer(x, m)\n    return torch.equal(m, kept)",
        "passes",
        "hide the future already",
    ),
    "from outside": (
        "archive",
        f"{TURNED}return torch.allclose(layer(x[:, o]), layer(x)[:, o], atol=1e-4)",
        "passes",
        "Compare it with a known layer",
    ),
    "in one go": (
        "dictation",
        f"{ENDED}return torch.allclose(layer(x)[0][:, :-1], layer(y)[0][:, :-1], atol=1e-4)",
        "passes",
        "No call has a cache",
    ),
    "each step anew": (
        "dictation",
        f"{X}a = torch.cat([layer(x[:, t : t + 1])[0] for t in range(4)], 1)\n    "
        "return torch.allclose(a, layer(x)[0], atol=1e-4)",
        "accuses",
        "hand on the cache",
    ),
    "the pair not taken apart": ("dictation", f"{X}return layer(x).shape == x.shape", "raised", PAIR),
    "the pair asked for numbers": ("dictation", f"{X}return torch.isfinite(layer(x)).all()", "raised", PAIR),
    "a piece of the pair": ("dictation", f"{X}return bool(layer(x)[:, :1].sum())", "raised", PAIR),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_naive_test_is_refused_in_fitting_words(case):
    name, body, code, words = REFUSED[case]
    test = typed(f"def my_test(layer):\n    {body}")
    said = of(name).test(test)
    assert (said.code, said.passed) == (code, False), said
    assert words in repr(said), said
    assert "test" not in of(name).done


ACCEPTED = {
    "assert": ("reviews", f"{TURNED}assert {SAME}"),
    "assert with words, then True": ("reviews", f"{TURNED}assert {SAME}, 'broken'\n    return True"),
    "assert_close": (
        "reviews",
        f"{TURNED}torch.testing.assert_close(layer(x[:, o]), layer(x)[:, o], atol=1e-4, rtol=1e-4)",
    ),
    "a tensor of one": (
        "reviews",
        f"{TURNED}return torch.isclose(layer(x[:, o]), layer(x)[:, o], atol=1e-4).all()",
    ),
    "False or nothing": ("reviews", f"{TURNED}if not {SAME}:\n        return False"),
    "True or nothing": ("reviews", f"{TURNED}if {SAME}:\n        return True"),
    "0 or 1": ("reviews", f"{TURNED}return int({SAME})"),
    "a number of NumPy": (
        "reviews",
        f"{TURNED}a, b = layer(x[:, o]), layer(x)[:, o]\n    return abs((a - b).detach().numpy()).max() < 1e-4",
    ),
    "prints as well": ("reviews", f"{TURNED}print(x.shape)\n    return {SAME}"),
    "with forward": ("reviews", f"{TURNED}".replace("layer(", "layer.forward(") + f"return {SAME}"),
    "by hand": (
        "archive",
        f"{X}torch.nn.init.eye_(layer.W_o.weight); a = layer(x)\n    d = layer.d_model // layer.num_heads\n    "
        "layer.W_v.weight.data[:d] += 1; moved = (layer(x) - a).abs().amax((0, 1)) > 1e-4\n    "
        "return bool(moved[: layer.d_model // layer.num_kv_heads].all())",
    ),
    "in pieces": (
        "dictation",
        f"{X}a, cache = layer(x[:, :2]); b, _ = layer(x[:, 2:], cache)\n    "
        "return torch.allclose(torch.cat([a, b], 1), layer(x)[0], atol=1e-4)",
    ),
    "the second look": (
        "drafts",
        f"{X}m = torch.ones(2, 4, 4).bool(); layer(x, m)\n    return bool(m.all())",
    ),
}


@pytest.mark.parametrize("case", ACCEPTED)
def test_a_good_test_is_accepted_however_it_is_written(case):
    name, body = ACCEPTED[case]
    said = of(name).test(typed(f"def my_test(layer):\n    {body}"))
    assert said.passed, said


@pytest.mark.parametrize("T", [5, 6, 7, 8])
@pytest.mark.parametrize("first", ["x", "p"])
@pytest.mark.parametrize("B", [1, 2, 3])
def test_an_order_that_is_drawn_is_as_good_as_one_that_is_written_down(T, first, B):
    x, p = f"x = torch.randn({B}, {T}, layer.d_model)", f"p = torch.randperm({T})"
    lines = f"{x}; {p}" if first == "x" else f"{p}; {x}"
    test = f"def my_test(layer):\n    {lines}\n    return torch.allclose(layer(x[:, p]), layer(x)[:, p], atol=1e-4)"
    assert problem.reviews.test(typed(test)).passed


def test_what_is_drawn_first_is_drawn_again_where_it_shows_nothing(monkeypatch):
    calls = f"{X}p = torch.randperm(5); x = torch.randn(2, 5, layer.d_model)\n    "
    for answer in ("assert {}", "return {}", "if not {}: return False", "if {}: return True"):
        same = "torch.allclose(layer(x[:, p]), layer(x)[:, p], atol=1e-4)"
        test = typed(f"def my_test(layer):\n    {calls}{answer.format(same)}")
        passed = []
        for seed in range(100, 110):
            monkeypatch.setattr("mhalib.checks.trial.SEED", seed)
            passed.append(problem.reviews.test(test).passed)
        assert all(passed)
    # x first, then the order: what is drawn with 0 at d_model=12 is 0, 1, 2, 3, 4
    monkeypatch.setattr("mhalib.checks.trial.SEED", 0)
    x = "x = torch.randn(2, 5, layer.d_model); p = torch.randperm(5)"
    test = typed(f"def my_test(layer):\n    {x}\n    return {same}")
    subjects = problem.reviews.ill
    assert tried(test, subjects).said == [False, True, False] and problem.reviews.test(test).passed


DRAWN = {
    "tickets": "l = torch.randint(1, 5, (3,))",
    "letters": "l = torch.randint(1, 6, (3,))",
}


@pytest.mark.parametrize("name", DRAWN)
def test_a_mask_that_is_drawn_is_as_good_as_one_that_is_written_down(name):
    x = "x = torch.randn(3, 5, layer.d_model)"
    mask = "m = (torch.arange(5) < l[:, None])[:, None].expand(3, 5, 5)"
    alone = {
        "tickets": "all(torch.allclose(layer(x, m)[i : i + 1, :n], layer(x[i : i + 1, :n]), atol=1e-4) "
        "for i, n in enumerate(l))",
        "letters": "torch.allclose(layer(x, m), torch.cat([layer(x[i : i + 1], m[i : i + 1]) for i in range(3)]), "
        "atol=1e-4)",
    }[name]
    for lines in (f"{x}; {DRAWN[name]}; {mask}", f"{DRAWN[name]}; {mask}; {x}"):
        said = of(name).test(typed(f"def my_test(layer):\n    {lines}\n    return {alone}"))
        assert said.passed, said


def test_a_healthy_layer_is_given_away_only_to_who_has_found_it():
    bodies = {
        "return True": ("says the same of every layer.", "passes every layer"),
        "return False": ("says the same of every layer.", "which does what it should"),
        REFUSED["a blind look at a healthy layer"][1]: ("says the same of every layer.", "passes every layer"),
        REFUSED["a healthy layer accused"][1]: ("look at problem.atlas.cause first.", "which does what it should"),
        "return layer.nothing": ("it raises on a layer, d_model=8, num_heads=2", "it raises on the layer with the"),
        "return 'fine'": ("For a layer, d_model=8, num_heads=2 your test", "For the layer with the softmax over"),
    }
    for body, (before, after) in bodies.items():
        test = typed(f"def my_test(layer):\n    {body}")
        problem.atlas.done.clear()
        for letter in "ABCD":
            problem.atlas.cause(letter)
            said = repr(problem.atlas.test(test))
            assert before in said and after not in said
            assert not re.search("softmax|turned|as it is|mended|should", said), said
        problem.atlas.cause("E")
        assert after in repr(problem.atlas.test(test))


def test_what_is_no_test_is_refused_in_words():
    for answer, words in {
        True: "the answer of your test",
        nn.Linear: "the class Linear",
        lambda: True: "with one argument",
        lambda layer, x: True: "with one argument",
        3: "an integer",
    }.items():
        said = problem.reviews.test(answer)
        assert said.mood == "wrong" and words in repr(said)


def test_a_test_that_never_ends_is_stopped(monkeypatch):
    monkeypatch.setattr("mhalib.checks.trial.SECONDS", 0.3)
    said = problem.reviews.test(typed("def my_test(layer):\n    while True: pass"))
    assert said.code == "time" and "it does not end on the broken layer" in said.title


def test_a_good_test_tells_what_else_it_finds_and_where_it_cannot_be_used():
    both = typed(
        f"def my_test(layer):\n    {HIDDEN}return torch.allclose(layer(x, m)[:, :3], layer(y, m)[:, :3], atol=1e-4)"
    )
    assert "It finds none of the other 9" in repr(problem.tickets.test(both))
    assert "1 of the other 10 as well: tickets" in repr(problem.atlas.test(both))
    inside = typed(f"def my_test(layer):\n    {TURNED}assert layer.W_q is not None\n    return {SAME}")
    assert problem.reviews.test(inside).passed
    stops = typed(f"def my_test(layer):\n    layer.split\n    {TURNED}return {SAME}")
    said = problem.reviews.test(stops)
    assert said.passed and "in another style" in repr(said) and "Note:" in repr(said)


def test_a_layer_comes_to_each_test_as_it_was_made():
    spoils = typed("def my_test(layer):\n    layer.W_q.weight.data.zero_()\n    return True")
    problem.reviews.test(spoils)
    assert problem.reviews.ill[0].layer.W_q.weight.abs().sum() > 0


def test_calls_are_written_down_in_copies_of_a_layer_as_well():
    subject = Subject(made(layers.TicketAttention, (8, 2), 0), "it", (8, 2))
    trial = tried(
        typed("def my_test(layer):\n    layer.eval()(torch.ones(1, 3, 8), mask=torch.ones(3, 3).bool())"), [subject]
    )
    (call,) = subject.calls
    assert str(call) == "x (1, 3, 8), mask (3, 3)" and not call.training and trial.said == [None]


# ------------------------------------------------------------------------------------------- mend it


@pytest.mark.parametrize("name", SICK)
def test_the_mended_layer_is_right_and_the_given_one_is_as_given(name):
    each = of(name)
    assert each.mend(each.given).code == "as given"
    assert each.mend(typed(f"class Mine:\n    pass\n{each.source}", each.healthy.__name__)).code == "as given"
    assert each.mend(typed(each.healed, each.healthy.__name__)).passed
    assert "mend" in each.done


HALF = {
    "only the split": (
        "reviews",
        [Change("view(B, self.num_heads, T, -1)", "view(B, T, self.num_heads, -1).transpose(1, 2)")],
        "the merge of the heads mixes the tokens",
    ),
    "only the merge": (
        "reviews",
        [Change("heads.reshape(x.shape)", "heads.transpose(1, 2).reshape(x.shape)")],
        "the split into heads mixes the tokens",
    ),
    "no dropout at all": ("triage", [Change("self.dropout\n", "0.0\n")], "Two calls differ in training: wrong"),
    "another axis": ("verses", [Change("weights @ v", "(weights @ v).transpose(2, 3)")], "wrong"),
    "made to sum to 1 again, too late for none": (
        "tickets",
        [Change("weights * mask.unsqueeze(-3)", "weights * ~mask.unsqueeze(-3)")],
        "Without a mask: right",
    ),
    "the first mask for all": (
        "letters",
        [Change("mask.expand(B, T, T).repeat(self.num_heads, 1, 1)", "mask.expand(B, T, T)[:1]")],
        "a mask for each sample: wrong",
    ),
    "all branches turned": (
        "captions",
        [Change("mask == 0 if memory is None else mask == 1", "mask == 1")],
        "Self-attention, padded: wrong",
    ),
    "no mask of padding any more": (
        "drafts",
        [Change("allowed &= torch.ones", "allowed = torch.ones")],
        "the mask changes nothing",
    ),
    "repeated along the tokens": (
        "archive",
        [Change("repeat(1, share, 1, 1)", "repeat_interleave(share, dim=2)")],
        "stopped",
    ),
    "sees all that was said": ("dictation", [Change("self.tril[:T, :S]", "self.tril[S - 1 : S, :S]")], "wrong"),
}


@pytest.mark.parametrize("case", HALF)
def test_a_half_mended_layer_hears_what_is_still_wrong(case):
    name, changes, words = HALF[case]
    said = of(name).mend(typed(rewritten(of(name).source, changes), of(name).healthy.__name__))
    assert said.mood == "wrong" and not said.passed
    assert words in repr(said), said


def test_a_renormalised_ticket_is_mended():
    """Erased weights that are made to sum to 1 again are those of a softmax over the keys in sight."""
    again = Change("weights * mask.unsqueeze(-3)", "F.normalize(weights * mask.unsqueeze(-3), p=1, dim=-1)")
    assert problem.tickets.mend(typed(rewritten(problem.tickets.source, [again]), "TicketAttention")).passed


def test_what_is_no_mended_class_is_refused_in_words():
    for answer, words in {
        layers.ReviewAttention(8, 2): "a layer that is already made",
        len: "expected the class ReviewAttention itself",
        int: "expected the class ReviewAttention itself",
        nn.Linear: "keep the parameters as they were given: W_q.weight (12, 12)",
    }.items():
        said = problem.reviews.mend(answer)
        assert said.mood == "wrong" and words in repr(said)
    other = typed(problem.reviews.healed.replace("W_q", "queries"), "ReviewAttention")
    said = repr(problem.reviews.mend(other))
    assert said.count("keep the parameters") == 1
    silent = typed(problem.reviews.healed.replace("return self.W_o", "self.W_o"), "ReviewAttention")
    assert "Is a return missing?" in repr(problem.reviews.mend(silent))
    stops = typed(problem.reviews.healed.replace("weights @ v", "weights @ nothing"), "ReviewAttention")
    assert "NameError: name 'nothing' is not defined (line" in repr(problem.reviews.mend(stops))


def test_the_healthy_layer_needs_no_mending_and_says_so_only_to_who_knows_it():
    atlas = problem.atlas
    assert atlas.mend(layers.AtlasAttention).code == "as given" and not atlas.done
    assert "was right" not in repr(atlas) and "healthy" not in repr(atlas.mend(layers.AtlasAttention))
    wrong = typed(atlas.healed.replace("softmax(1)", "softmax(2)"), "AtlasAttention")
    assert atlas.mend(wrong).mood == "wrong"
    atlas.cause("E")
    assert atlas.done == {"cause", "mend"}
    assert atlas.mend(layers.AtlasAttention).passed
    atlas.test(atlas.shown_by)
    assert atlas.is_solved


CUT = "unflatten(-1, (-1, self.num_heads))"
NEEDLESS = {
    "the split alone": ([Change(CUT, "unflatten(-1, (self.num_heads, -1))")], "gives each head other features"),
    "neighbours": ([Change(CUT, "unflatten(-1, (self.num_heads, -1)).mT")], "gives each head other features"),
    "neighbours, to the end": (
        [Change(CUT, "unflatten(-1, (self.num_heads, -1)).mT"), Change(".flatten(2)", ".mT.flatten(2)")],
        "gives each head other features",
    ),
    "the softmax": ([Change("softmax(1)", "softmax(2)")], "makes another function of it"),
    "the scale": ([Change("0.25", "0.5")], "makes another function of it"),
}


@pytest.mark.parametrize("case", NEEDLESS)
def test_who_mends_what_is_healthy_hears_what_the_change_does(case):
    changes, words = NEEDLESS[case]
    said = problem.atlas.mend(typed(rewritten(problem.atlas.source, changes), "AtlasAttention"))
    assert f"As it was given, it was right at these weights; your change {words}." in repr(said), said
    assert "As it was given" not in repr(problem.reviews.mend(typed(problem.verses.healed, "VerseAttention")))


# ------------------------------------------------------------------------------------------- hints and the notebook


@pytest.mark.parametrize("name", NAMES)
def test_hints_come_one_at_a_time_and_the_solution_holds_all_three_answers(name):
    each = of(name)
    assert len(each.hints) == 3  # of the healthy one as well, which nothing is to give away
    first = repr(each.hint())
    assert each.hints[0] in first and each.hints[1] not in first
    for _ in each.hints:
        last = repr(each.hint())
    assert f"problem.{name}.solution()" in last
    said = repr(each.solution())
    assert each.options[each.right] in said and "def my_test(layer):" in said
    before, after = set(each.source.splitlines()), set(each.healed.splitlines())
    for sign, lines in (("-", before - after), ("+", after - before)):
        assert all(f"{sign} {line}" in said for line in lines)
    assert each.healthy.__name__ in repr(each.code())


def test_a_name_that_is_not_there():
    with pytest.raises(TypeError, match=r"three questions: write problem\.reviews\.cause"):
        problem.reviews("B")
    with pytest.raises(AttributeError, match=r"did you mean problem\.letters\?"):
        problem.leters  # noqa: B018
    with pytest.raises(AttributeError, match="choose from archive, atlas"):
        problem.xyz  # noqa: B018
    with pytest.raises(ValueError, match="does not hold"):
        rewritten("a = 1", [Change("b", "c")])


def test_the_list_counts_what_is_done():
    problem.reviews.cause("B")
    lines = repr(problem).splitlines()
    assert len(lines) == 11 and "■□□ 1 of 3" in lines[0] and "■" not in "".join(lines[1:])
    assert "■□□ 1 of 3" in repr(problem.reviews)
    assert "<b>" in problem.reviews.cause("A")._repr_html_()


def cell(nb, name):
    (found,) = [cell for cell in nb.cells if cell.id == name]
    return found


def test_the_notebook_shows_each_layer_as_the_check_knows_it():
    nb = read(PATH)
    for each in problem:
        assert cell(nb, f"{each.name}-layer").source.strip() == each.source.strip()
        choices = re.findall(r"^- ([A-E]): ", cell(nb, f"{each.name}-cause").source, re.MULTILINE)
        assert choices == list(each.options)
        assert f"problem.{each.name}.mend({each.healthy.__name__})" in cell(nb, f"{each.name}-mend").source
    order = [cell.id.removesuffix("-layer") for cell in nb.cells if cell.id.endswith("-layer")]
    assert order == NAMES


def test_what_stands_above_a_test_gives_no_letter_away():
    nb = read(PATH)
    assert cell(nb, "triage-show").source == "**Show it.** Call it twice."
    assert cell(nb, "drafts-show").source == "**Show it.** Look at more than outputs."
    assert "training mode" in problem.triage.hints[1] and "outputs of this layer are right" in problem.drafts.hints[0]


def test_the_notebook_is_short_and_stored_with_open_answers():
    nb = read(PATH)
    words = sum(len(cell.source.split()) for cell in nb.cells if cell.cell_type == "markdown")
    assert words <= 3000 and PATH.stat().st_size <= 300_000
    said = [output.data["text/plain"] for cell in nb.cells for output in cell.get("outputs", []) if "data" in output]
    assert sum("not yet chosen." in text for text in said) == 11
    assert sum("not yet written." in text for text in said) == 11
    assert sum("still the code that was given." in text for text in said) == 11
    assert not any("right" in text.splitlines()[0] for text in said)


def test_the_notebook_runs_with_all_solutions(tmp_path):
    nb = clear(read(PATH))
    for each in problem:
        cell(nb, f"{each.name}-layer").source = each.healed
        letter, test, mended = (cell(nb, f"{each.name}-{part}") for part in ("cause-cell", "test", "mend"))
        letter.source = f'assert problem.{each.name}.cause("{each.right}").passed'
        source = inspect.getsource(each.shown_by)
        test.source = f"{source}\n\nassert problem.{each.name}.test({each.shown_by.__name__}).passed"
        mended.source = f"assert {mended.source}.passed"
    cell(nb, "set-progress").source = "assert all(each.is_solved for each in problem)"
    play(nb, NOTEBOOKS, to_the_end=False)
