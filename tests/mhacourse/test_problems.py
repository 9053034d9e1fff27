"""The problem set: each layer is broken where it says and nowhere else, and each answer hears what it should."""

import inspect
import re
from dataclasses import replace

import pytest
from torch import nn

from attention_doctor import examine
from mhacourse import check, problem
from mhacourse.attempt import recognise, same_results
from mhacourse.compare import difference
from mhacourse.exercise import OUR_SECONDS, SOLVED_BEFORE, Change, Wrong, rewritten
from mhacourse.judge_mend import outcomes_of
from mhacourse.lessons.problems import layers
from mhacourse.problem_set import STILL
from tests.helpers.exercises import typed
from tools.notebooks.run import NOTEBOOKS, clear, play, read

PATH = NOTEBOOKS / "ten_broken_layers.ipynb"

# What the doctor finds in each, and the cases in which the broken layer does what the healthy one does.
LAYERS = {
    "reviews": (["mixes-tokens"], []),
    "triage": (
        ["not-deterministic"],
        [
            "two calls differ in training",
            "two calls differ in training, padded",
            "in training it drops whole weights, one in five",
        ],
    ),
    "sensors": (["mixes-samples"], []),
    "verses": (["mixes-tokens-on-merge"], []),
    "tickets": (["mask-leaks"], ["without a mask"]),
    "letters": (["mask-order"], ["without a mask", "one mask for all"]),
    "atlas": ([], None),
    "captions": (["mask-inverted"], ["self-attention", "self-attention, padded", "cross-attention"]),
    "drafts": (["mutates-input"], ["without a mask", "one mask for all", "padding, a mask for each sample"]),
    "archive": ([], []),
    "dictation": (["cache-differs"], ["all at once"]),
}


def of(name):
    return getattr(problem, name)


def my_test(body):
    return typed(f"def my_test(layer):\n    {body}", "my_test", examine=examine)


def my_class(source, name):
    return typed(source, of(name).healthy.__name__)


def test_each_layer_differs_in_the_cases_that_show_it_and_in_no_others_and_the_doctor_says_so():
    failures = []
    for name, (codes, hidden) in LAYERS.items():
        each, size = of(name), len(of(name).sizes) - 1
        pairs = zip(each.right_outcomes, each.given_outcomes, strict=True)
        same = [difference(right.value, given.value) is None for right, given in pairs]
        unseen = [hidden is None or case in hidden for case in each.cases]
        failures += [] if same == [one for one in unseen for _ in range(size)] else [(name, same)]
        said = each.report().codes, each.report(each.healthy).ok, "No finding." in repr(each.doctor())
        failures += [] if said == (codes, True, not codes) else [(name, said)]
    assert failures == [] and dir(problem) == sorted(LAYERS)
    assert "cycled" in {remark.code: remark.text for remark in of("archive").report().remarks}["grouped-heads"]


def test_the_right_letter_is_accepted_however_it_is_spelled_and_each_wrong_one_is_answered():
    assert {each.right for each in problem} == set("ABCDE"), "no letter is always wrong"
    said = [(each, letter, each.cause(letter)) for each in problem for letter in "ABCDE"]
    wrong = [note for each, letter, note in said if note.passed != (letter == each.right)]
    assert [note for each, letter, note in said if each.options[letter] not in repr(note)] == wrong == []
    right = problem.reviews.options["B"]
    spelled = {letter: right for letter in ("b", " B ", "B)", "(b)", "B: the split", "b - the split", "'B'")}
    spelled |= {letter: "One letter, please" for letter in ("AB", "A and B", "A, B", "a b c")}
    spelled |= {letter: "expected one letter out of A, B, C, D, E" for letter in ("F", "", "the split", 2, True, len)}
    said = [(words, problem.reviews.cause(letter)) for letter, words in spelled.items()]
    assert [(words, note) for words, note in said if words not in repr(note)] == []


def test_untouched_stubs_are_left_open_the_test_of_the_solution_is_right_and_what_never_looks_is_refused():
    stub, failures = typed("def my_test(layer):  # -> True where it is fine\n    ...", "my_test"), []
    for each in problem:
        notes = [each.cause(...), each.cause(), each.test(), each.test(None), each.mend(), each.test(stub)]
        failures += [note for note in notes if note.mood != "open" or f"problem.{each.name}.hint()" not in repr(note)]
        if each.name != "atlas":  # which is right as it was given
            given = [each.given, my_class(f"class Mine:\n    pass\n{each.source}", each.name)]
            failures += [note for note in map(each.mend, given) if note.mood != "open"]
        for answer in ("True", "False", "hasattr(layer, 'num_heads')", "str(layer).count('Lin') > 3"):
            said = each.test(my_test(f"return {answer}"))
            failures += [] if "your test never calls the layer." in said.title and said.mood == "wrong" else [said]
        failures += [f"{each.name} counts as done"] if each.done else []
        said = each.test(each.shown_by)
        failures += [] if said.passed and "Note:" not in repr(said) else [said]
    assert failures == []


X = "x = torch.randn(2, 4, layer.d_model)\n    "
TURNED = "x = torch.randn(2, 6, layer.d_model); o = [3, 0, 5, 1, 4, 2]\n    "
SAME = "torch.allclose(layer(x[:, o]), layer(x)[:, o], atol=1e-4)"
ENDED = f"{X}y = x.clone(); y[:, -1] += 1\n    "
ROW_0 = "x = torch.randn(1, 24, layer.d_model); y = x.clone(); y[:, -1] += 1\n    "
HIDDEN = f"{ENDED}m = torch.ones(4, 4).bool(); m[:, -1] = False\n    "
OPEN = "m = torch.ones(2, 4, 4).bool()"
EMPTY = "m = torch.ones(2, 4, 4).bool(); m[:, 0] = False"
ALIKE = f"{X}{OPEN}; m[..., -1] = False\n    return torch.allclose(layer(x, m)[:, :3], layer(x[:, :3]), atol=1e-4)"

CUT_OFF = "torch.allclose(layer(x, m)[:, :2], layer(x)[:, :2], atol=1e-4)"
LATER_ALIKE = "torch.allclose(layer(x)[:, 1:], layer(y)[:, 1:], atol=1e-4)"
SEEDED = "torch.manual_seed(0); x = torch.randn(2, 4, layer.d_model)"
AS_HIDDEN = (
    f"{X}m = torch.zeros(4, 4).bool(); m[:, 2:] = True\n    "
    "return torch.allclose(layer(x, m)[:, :2], layer(x[:, :2]), atol=1e-4)"
)
FLIPPED = "torch.allclose(layer(x.flip(1)), layer(x).flip(1), atol=1e-4)"
ROWS = "m = torch.zeros(4, 4).bool(); m[:2] = True"
ZERO = "torch.allclose(layer(x, m)[:, -1], torch.zeros(1))"
PADDED = "m = torch.ones(2, 4, 4).bool(); m[1, :, 2:] = False"
ALONE = "torch.allclose(layer(x, m)[1:, :2], layer({})[:, :2], atol=1e-4)"
OTHER = "torch.allclose(layer(x, m)[1, :2], layer(y, m)[1, :2], atol=1e-4)"
CAUSAL = "m = torch.ones(4, 4).bool().tril()"
LAST = "torch.allclose(layer(x, m)[:, -1], layer(y, m)[:, -1], atol=1e-4)"
COPIED = "y.load_state_dict(layer.state_dict())\n    return torch.allclose(layer(x), y(x), atol=1e-4)"
NEIGHBOURS = (
    f"{X}parts = (layer.W_q(x), layer.W_k(x), layer.W_v(x))\n    "
    "q, k, v = (y.view(2, 4, layer.num_heads, -1).transpose(1, 2) for y in parts)\n    "
    "o = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v\n    "
    "return torch.allclose(layer(x), layer.W_o(o.transpose(1, 2).flatten(2)), atol=1e-4)"
)

MEMORY = f"{X}r = torch.randn(2, 4, layer.d_model); m = torch.ones(2, 4, 4).bool(); m[..., 2:] = False\n    "
ACROSS = "torch.allclose(layer(x, r, m), layer({}, m), atol=1e-4)"
KNOWN = "mhalib.MultiHeadAttention(layer.d_model, layer.num_heads, num_kv_heads=layer.num_kv_heads)"
ALONG = f"{X}return torch.allclose(layer(x), y(x), atol=1e-4)"
STEPS = (
    f"{X}all, c = layer(x)[0], None\n    for t in range(4):\n        out, c = {{}}\n        "
    "first = c if t == 0 else first\n        if (out[:, -1] - all[:, t]).norm() > 1e-3: return False\n    return True"
)

FEATURES = "torch.allclose(layer(x[..., o]), layer(x)[..., o], atol=1e-4)"
MOVED_ALONG = "torch.allclose(layer(x, r, m), layer(x, r[:, o], m[..., o]), atol=1e-4)"
HALF_MASKED = "torch.allclose(layer(x, m)[:, :3], layer(y)[:, :3], atol=1e-4)"
REFERENCE = (
    f"{X}h, g = layer.num_heads, layer.num_kv_heads\n    "
    "q, k, v = (W(x).unflatten(-1, (n, -1)).transpose(1, 2).repeat_interleave(h // n, 1) "
    "for W, n in ((layer.W_q, h), (layer.W_k, g), (layer.W_v, g)))\n    "
    "o = ((q @ k.mT).softmax(-1) @ v).transpose(1, 2).flatten(2)\n    "
    "return torch.allclose(layer(x), layer.W_o(o), atol=1e-4)"
)
# The problem, the body of a learner's test that does not do, and words that are said.
REFUSED = [
    ("reviews", "x = torch.ones(2, 4, layer.d_model); print(layer(x).shape)", "return hands it"),
    ("reviews", f"{X}return layer(x).shape == x.shape", "other than its shape"),
    ("reviews", f"{TURNED}return torch.isclose(layer(x[:, o]), layer(x)[:, o], atol=1e-4)", ".all() makes one answer"),
    ("reviews", f"{TURNED}print({SAME})", "You printed"),
    ("tickets", f"{X}return torch.allclose(layer(x), layer(x))", "No call has a mask"),
    (
        "tickets",
        f"{X}return torch.allclose(layer(x), layer(x, torch.ones(4, 4)), atol=1e-4)",
        "mask must be a boolean",
    ),
    ("captions", f"{X}return layer(x, torch.randn(2, 6, layer.d_model)).shape == x.shape", "memory has a mask"),
    ("drafts", f"{X}{OPEN}.tril(); k = m.clone(); layer(x, m)\n    return m.equal(k)", "already hide the future"),
    ("dictation", f"{X}return layer(x).shape == x.shape", "This layer returns a pair: out, cache = layer(x)."),
    ("reviews", "x = torch.ones(2, 4, layer.d_model); return layer(x).shape == x.shape", "other than its shape"),
    (
        "reviews",
        "x = torch.randn(4, 1, layer.d_model); return torch.allclose(layer(x), layer(x))",
        "T = 1 hides the mistake",
    ),
    ("reviews", f"{X}o = [2, 0, 3, 1]\n    return {SAME}", "if T = num_heads"),
    ("reviews", f"{TURNED}return torch.allclose(layer(x[:, o]), layer(x), atol=1e-4)", "reorder one side"),
    ("reviews", f"{TURNED}return torch.equal(layer(x[:, o]), layer(x)[:, o])", "saw rounding"),
    ("reviews", f"{TURNED}return not {SAME}", "True means: the layer is fine"),
    ("reviews", f"{TURNED}return 'fine' if {SAME} else 'broken'", "without quotes"),
    ("reviews", "return torch.allclose(layer(torch.randn(2, 4, 12)), torch.ones(1))", "take the sizes from the layer"),
    ("sensors", "return layer.W_q is not None", "it raises on the broken layer"),
    ("triage", f"{X}return torch.equal(layer(x), layer(x))", "call layer.eval() first"),
    ("sensors", "x = torch.randn(1, 4, layer.d_model)\n    return layer(x).equal(layer(x))", "B = 1 has no neighbours"),
    ("verses", f"{ENDED}return torch.allclose(layer(x), layer(y), atol=1e-4)", "Compare only earlier"),
    ("tickets", f"{X}return torch.allclose(layer(x), layer(x, torch.ones(4, 4).bool()))", "The masks hide nothing"),
    (
        "tickets",
        f"{HIDDEN}return torch.allclose(layer(x, m), layer(y, m), atol=1e-4)",
        "A hidden token still has a query",
    ),
    ("letters", ALIKE, "All samples have the same mask"),
    ("atlas", f"{X}return layer(x).shape == x.shape", "not yet: your test says the same of every layer."),
    ("captions", f"{HIDDEN}return torch.allclose(layer(x, mask=m)[:, :3], layer(y, mask=m)[:, :3])", "has a memory"),
    ("drafts", f"{X}{OPEN}; kept = m; layer(x, m)\n    return m.equal(kept)", "kept = m gives one tensor a second"),
    ("drafts", f"{X}{OPEN}; a = layer(x, m)\n    return layer(x, m).equal(a)", "the very mask"),
    ("archive", f"{TURNED}return {SAME}", "Compare it with a known layer"),
    ("archive", f"{X}return layer(x).shape == x.shape", "A layer whose outputs are random numbers passes as well"),
    ("verses", f"{ROW_0}return torch.allclose(layer(x)[:, 0], layer(y)[:, 0])", "Your test looks only at row 0"),
    (
        "letters",
        f"{HIDDEN}return torch.allclose(layer(x, m)[:, :3], layer(x)[:, :3])",
        "once with a mask and once without",
    ),
    ("tickets", f"{X}{EMPTY}\n    return bool(layer(x, m)[:, 0].isnan().all())", "nothing to see, a layer may"),
    (
        "dictation",
        f"{ENDED}return torch.allclose(layer(x)[0][:, 0], layer(y)[0][:, 0])",
        "None of your calls gets a cache",
    ),
    (
        "reviews",
        "x = torch.randn(3, 5, layer.d_model); return torch.allclose(layer(x.flip(0)), layer(x).flip(0))",
        "axis 1",
    ),
    ("sensors", f"{X}return torch.allclose(layer(x.flip(0)), layer(x).flip(0))", "the same company"),
    (
        "triage",
        f"layer.eval(); {SEEDED}; a = layer(x); {SEEDED}\n    return layer(x).equal(a)",
        "chance repeats itself",
    ),
    ("verses", f"{X}return torch.allclose(layer(x), layer(x.clone()))", "Each call gets the same numbers"),
    ("tickets", AS_HIDDEN, "it would be right if True meant hidden"),
    ("reviews", NEIGHBOURS, "A different order is just as good if the merge undoes it."),
    ("triage", "layer.eval()\n    return getattr(layer, 'dropout', 0.0) == 0.0", "judges by how the layer is made"),
    ("sensors", f"{TURNED}return {SAME}", "so each moment still has the same neighbours in the batch"),
    ("sensors", f"{X}y = x.clone(); y[:, 0] *= -1\n    return {LATER_ALIKE}", "Those machines must not matter"),
    ("tickets", f"{ENDED}return torch.allclose(layer(x)[:, :-1], layer(y)[:, :-1])", "so each token sees all"),
    (
        "atlas",
        f"{ENDED}m = torch.eye(4).bool()\n    return torch.equal(layer(x, m)[:, 0], layer(y, m)[:, 0])",
        "causal",
    ),
    ("tickets", f"{X}m = torch.ones(4, 4).bool(); m[2:] = False\n    return {CUT_OFF}", "rows are queries"),
    # What is said of a test that accuses a healthy layer holds of the rows that it compares, and of what it changes.
    ("reviews", f"{ENDED}return torch.allclose(layer(x)[:, :-1], layer(y)[:, :-1])", "But their order must not"),
    ("reviews", f"{TURNED}return bool((layer(x[:, o]) == layer(x)[:, o]).all())", "saw rounding"),
    (
        "reviews",
        f"x = torch.randn(3, layer.num_heads, layer.d_model)\n    return {FLIPPED}",
        "T = num_heads hides the mistake",
    ),
    ("triage", f"{X}a = layer(x); layer.eval()\n    return torch.allclose(a, layer(x))", "call layer.eval() first"),
    ("tickets", f"{X}{ROWS}\n    return torch.allclose(layer(x, m)[:, :2], layer(x[:, :2]))", "rows are queries"),
    ("tickets", f"{X}{OPEN}; m[..., -1] = False\n    return {ZERO}", "its own output changes with it"),
    ("letters", f"{X}{PADDED}\n    return {ALONE.format('x[1:]')}", "once with a mask and once without"),
    ("letters", f"{X}{PADDED}\n    return {ALONE.format('x[1:], m[:1]')}", "two different masks"),
    (
        "letters",
        f"{X}{PADDED}; y = x.clone(); y[0] += 1\n    return {OTHER}",
        "the outputs of the sample that it changes",
    ),
    ("atlas", f"{X}{CAUSAL}; y = x.clone(); y[:, 0] += 1\n    return {LAST}", "can see the token that you change"),
    ("drafts", f"{X}{OPEN}; kept = x.detach().clone(); layer(x, m)\n    return x.equal(kept)", "the very mask"),
    ("archive", f"{X}y = type(layer)(layer.d_model, layer.num_heads); {COPIED}", "A second layer of the same class"),
    # A reason is said only where that one thing, done otherwise, makes the test right.
    ("reviews", f"layer = ReviewAttention(8, 2); {TURNED}return {SAME}", "makes a layer of its own"),
    ("sensors", f"{X}layer(x)\n    return layer.attention.batch_first", "does not look at the outputs"),
    (
        "reviews",
        f"{X}o = [1, 2, 3, 0]\n    return torch.allclose(layer(x[:, o])[:, o], layer(x), atol=1e-4)",
        "argsort",
    ),
    (
        "triage",
        f"layer.eval(); layer.dropout = 0.0; {X}return layer(x).equal(layer(x))",
        "Your test changes layer.drop",
    ),
    ("triage", f"layer.eval(); {X}x *= 0; return layer(x).equal(layer(x))", "All your inputs are 0"),
    (
        "sensors",
        f"{X}y = x.clone(); y[1] += 2; a = layer(y)\n    return layer(x)[0].allclose(a[0], atol=1e-4)",
        "LayerNorm",
    ),
    ("captions", f"{MEMORY}y = torch.randn_like(x)\n    return {ACROSS.format('y, r')}", "Change memory instead"),
    ("captions", f"{MEMORY}o = r.clone(); o[:, 2:] = 0\n    return not {ACROSS.format('x, o')}", "the wrong way round"),
    ("drafts", f"{X}{OPEN}; m[..., -1] = False; layer(x, m)\n    return bool(m.all())", "a copy from before the call"),
    (
        "archive",
        f"y = {KNOWN}\n    for p in [*y.parameters(), *layer.parameters()]: p.data.fill_(0.1)\n    {ALONG}",
        "alike",
    ),
    (
        "tickets",
        f"{X}out, w = layer(x)\n    return w.sum(-1).allclose(torch.ones(4))",
        "unpacks it into its samples",
    ),
    ("dictation", f"{X}_, c = layer(x); _, c = layer(x, c)\n    return c[0].shape[2] == 8", "random numbers passes"),
    ("dictation", STEPS.format("layer(x[:, : t + 1], c)"), "Hand over each token once"),
    ("dictation", STEPS.format("layer(x[:, t : t + 1], c if t < 2 else first)"), "Several calls get the same cache"),
    (
        "verses",
        f"{X}x.requires_grad_(); layer(x)[:, 1].sum().backward()\n    return x.grad[:, 0].norm() == 0",
        "t + 1 :",
    ),
    # What is believed of a test was seen: what it moves, cuts and allows for, and whether it looks at all.
    ("reviews", f"{X}o = torch.randperm(layer.d_model)\n    return {FEATURES}", "Each weight belongs to one feature"),
    (
        "verses",
        f"{X}return torch.allclose(layer(x)[:, 2:], layer(x[:, 2:]), atol=1e-4)",
        "only some of the tokens of another",
    ),
    ("reviews", f"{TURNED}return {SAME.replace('1e-4', '5')}", "such a large difference that the mistake fits"),
    (
        "sensors",
        f"{X}y = x.clone(); y[0] = -x[1]\n    return bool(torch.isclose(layer(x)[1], layer(y)[1], atol=0.1).any())",
        "any()",
    ),
    ("drafts", f"{X}{OPEN}; kept = m.clone(); layer(x, m.clone())\n    return m.equal(kept)", "the very mask"),
    ("drafts", f"{X}{OPEN}; layer(x, m)\n    return bool(m[:, -1].all())", "only some entries"),
    ("captions", f"{MEMORY}o = [2, 0, 3, 1]\n    return {ACROSS.format('x, r[:, o]')}", "Reorder the columns"),
    (
        "captions",
        f"{MEMORY}o = [2, 0, 3, 1]\n    return {MOVED_ALONG}",
        "In calls 1 and 2 the layer makes the same mistake",
    ),
    ("tickets", f"{HIDDEN}y[:, -1] = 0\n    return {HALF_MASKED}", "even one of zeros"),
    ("archive", f"{REFERENCE}", "That computation agrees with a layer in which the scores are not divided at all"),
    ("triage", f"layer.eval; {SEEDED}; a = layer(x); {SEEDED}\n    return layer(x).equal(a)", "with its brackets"),
    ("atlas", f"{X}layer(x); return True", "random numbers passes as well. Decide which outputs must be equal"),
    ("drafts", f"{X}{OPEN}; y = x.clone(); y[:, 0] += 1\n    return {OTHER.replace('1, :2', ':, 1:')}", "only earlier"),
    ("dictation", f"{X}a = layer(x[:, 2:])[0]\n    return torch.allclose(a, layer(x)[0][:, 2:])", "begins anew"),
    (
        "archive",
        f"{X}a = layer(x); layer.W_k.weight.data += 2\n    return torch.allclose(a, layer(x))",
        "need not hold",
    ),
]
# The problem, the body of a test that stops, and which argument is said not to fit.
STOPPED = [
    ("verses", "return layer(torch.randn(1, 65, layer.d_model)).isfinite().all()", "T at most 64; yours is a floating"),
    ("tickets", f"{X}return layer(x, torch.ones(3, 4).bool()).isfinite().all()", "or (2, 4, 4); yours is a boolean"),
    (
        "captions",
        f"{X}{OPEN}\n    return layer(x, m).isfinite().all()",
        "layer(x, memory, mask): memory must be a floating",
    ),
    ("reviews", f"{X}return layer(x, mask=x).isfinite().all()", "call this layer as layer(x), with"),
    (
        "atlas",
        "import inspect; return 'softmax(-1)' in inspect.getsource(type(layer).forward)",
        "judge a layer by its outputs",
    ),
    ("archive", f"y = mhalib.MultiHeadAttention(layer.d_model, layer.num_heads); {COPIED}", "if it has one, num_kv"),
]
BY_HAND = (
    f"{X}torch.nn.init.eye_(layer.W_o.weight); a = layer(x)\n    d = layer.d_model // layer.num_heads\n    "
    "layer.W_v.weight.data[:d] += 1; moved = (layer(x) - a).abs().amax((0, 1)) > 1e-4\n    "
    "return bool(moved[: layer.d_model // layer.num_kv_heads].all())"
)
IN_PIECES = (
    f"{X}a, cache = layer(x[:, :2]); b, _ = layer(x[:, 2:], cache)\n    "
    "return torch.allclose(torch.cat([a, b], 1), layer(x)[0], atol=1e-4)"
)
EACH_SAMPLE = (
    "l = torch.randint(1, 6, (3,)); m = (torch.arange(5) < l[:, None])[:, None].expand(3, 5, 5)\n    "
    "x = torch.randn(3, 5, layer.d_model); each = [layer(x[i : i + 1], m[i : i + 1]) for i in range(3)]\n    "
    "return torch.allclose(layer(x, m), torch.cat(each), atol=1e-4)"
)
ACCEPTED = [
    ("reviews", f"{TURNED}torch.testing.assert_close(layer(x[:, o]), layer(x)[:, o], atol=1e-4, rtol=1e-4)"),
    ("reviews", f"{TURNED}return torch.isclose(layer(x[:, o]), layer(x)[:, o], atol=1e-4).all()"),
    ("reviews", f"{TURNED}print(x.shape)\n    return int({SAME})"),
    ("reviews", f"{TURNED}return abs((layer(x[:, o]) - layer(x)[:, o]).detach().numpy()).max() < 1e-4"),
    ("reviews", f"x = torch.randn(2, 5, layer.d_model); o = torch.randperm(5)\n    return {SAME}"),
    ("archive", BY_HAND),
    ("dictation", IN_PIECES),
    ("drafts", f"{X}{OPEN}; layer(x, m)\n    return bool(m.all())"),
    ("letters", EACH_SAMPLE),
]


def test_a_naive_test_is_refused_in_fitting_words_and_a_good_one_accepted_however_it_is_written():
    failures = []
    for name, body, words in REFUSED:
        said = of(name).test(my_test(body))
        failures += [] if said.mood == "wrong" and words in repr(said) and not of(name).done else [(body, said)]
    stopped = [(words, of(name).test(my_test(body))) for name, body, words in STOPPED]
    failures += [(words, said) for words, said in stopped if said.code != "raised" or words not in repr(said)]
    failures += [said for name, body in ACCEPTED if not (said := of(name).test(my_test(body))).passed]
    assert failures == []


def test_beside_not_yet_nobody_reads_that_it_is_all_done():
    problem.reviews.test(problem.reviews.shown_by)
    said = problem.reviews.test(my_test("return layer(torch.ones(1, 2, layer.d_model)) is not None"))
    assert said.footer == SOLVED_BEFORE and problem.reviews.done == {"test"}


def test_a_healthy_layer_is_given_away_only_to_who_has_found_it():
    bodies = {
        "return layer(torch.ones(1, 2, layer.d_model)) is not None": ("the same of every layer.", "passes every layer"),
        "return layer.nothing": ("it raises on a layer, d_model=8, num_heads=2", "it raises on the layer with the"),
    }
    for body, (before, after) in bodies.items():
        problem.atlas.done.clear()
        problem.atlas.cause("A")
        said = repr(problem.atlas.test(my_test(body)))
        assert before in said and after not in said
        assert not re.search("softmax|turned|as it is|mended|should", said), said
        problem.atlas.cause("E")
        assert after in repr(problem.atlas.test(my_test(body)))


def test_what_is_no_test_is_refused_and_each_gets_the_layers_as_they_were_made(monkeypatch):
    no_tests = {True: "the result of your test", nn.Linear: "the class Linear", lambda: True: "with one argument"}
    for answer, words in no_tests.items():
        assert words in repr(problem.reviews.test(answer)) and not problem.reviews.done
    said = problem.reviews.test(my_test(f"layer.split\n    {TURNED}return {SAME}"))
    assert said.passed and "in another style" in repr(said) and "Note:" in repr(said)
    problem.reviews.test(my_test("layer.W_q.weight.data.zero_()\n    return True"))
    assert problem.reviews.test(my_test(f"{TURNED}return {SAME}")).passed, "each test gets the layers as they were made"
    monkeypatch.setattr("mhacourse.try_test.SECONDS", 0.3)
    assert "it does not end on the broken layer" in problem.reviews.test(my_test("while True: pass")).title


HALF = [
    ("triage", "self.dropout\n", "0.0\n", "Wrong in: two calls differ in training"),
    ("archive", "repeat(1, share, 1, 1)", "repeat_interleave(share, dim=2)", "It stopped: RuntimeError"),
    ("reviews", "view(B, self.num_heads, T, -1)", "view(B, T, self.num_heads, -1).transpose(1, 2)", "The merge is not"),
    ("reviews", "heads.reshape(x.shape)", "heads.transpose(1, 2).reshape(x.shape)", "The split is not mended"),
    ("reviews", "softmax(-1)", "softmax(-2)", "In the layer as given, that line was right, and another was wrong."),
    ("reviews", "weights @ v", "2 * weights @ v", "Two samples: wrong"),
    ("tickets", "weights * mask.unsqueeze(-3)", "weights * ~mask.unsqueeze(-3)", "What may be seen is erased"),
    ("captions", "mask == 0 if memory is None else mask == 1", "mask == 1", "Wrong in: self-attention, padded; cross"),
    ("drafts", "allowed &= torch.ones", "allowed = torch.ones", "The padding mask is lost"),
    ("drafts", "else mask", "else mask[:]", "Nor do [:], view(), detach()"),
    ("drafts", "-1e9", "-1e8", "still changes the caller's mask in place"),
    ("drafts", ".tril()\n", ".tril()\n        allowed = allowed.clone()\n", "clone() before that line"),
    ("triage", "num_heads, dropout\n", "num_heads, dropout if self.training else 0.0\n", "__init__ runs once"),
    ("triage", "= self.dropout\n", "= self.dropout\n        self.training\n", "still gets the same rate"),
    (
        "verses",
        "= weights @ v\n",
        "= weights @ v\n        heads.transpose(1, 2)\n",
        "(1, 2) makes a new tensor, but nothing",
    ),
    ("dictation", "self.tril[:T, :S]", "self.tril[S - 1 : S, :S]", "New tokens see each other"),
    ("triage", "self.dropout\n", "1 - self.dropout if self.training else 0.0\n", "one in five: wrong"),
]


def changed(name, *changes):
    return my_class(rewritten(of(name).source, [Change(*change) for change in changes]), name)


def test_the_mended_layer_is_right_and_a_half_mended_one_hears_what_is_still_wrong():
    notes = [each.mend(my_class(each.healed, each.name)) for each in problem if each.name != "atlas"]
    assert [note for note in notes if not note.passed] == []
    said = [(words, of(name).mend(changed(name, change))) for name, *change, words in HALF]
    assert [(words, note) for words, note in said if note.mood != "wrong" or words not in repr(note)] == []


def test_a_mended_layer_with_a_known_mistake_hears_its_name():
    other = Wrong([Change("weights, v)", "weights.mT, v)")], "turns the weights.", "Rows are queries.")
    known = Wrong(
        [Change("weights, v)", "2 * weights, v)")], "doubles what is mixed.", "Once is enough.", also=(other,)
    )
    ours = replace(problem.tickets, wrong={"Doubled": known})
    for change, words in (("2 * weights, v)", known.what), ("weights.mT, v)", other.what)):
        note = ours.mend(my_class(rewritten(ours.healed, [Change("weights, v)", change)]), "tickets"))
        assert "not yet. Doubled" in note.title and words in repr(note) and note.code == "wrong: Doubled", note


def test_each_change_of_a_layer_or_an_answer_can_be_made_and_one_that_breaks_it_is_silently_no_candidate():
    for each in problem:
        for wrong in each.wrong.values():
            for changes in (getattr(one, "answer", one) for one in (wrong.answer, *wrong.also)):
                compile(rewritten(each.healed, changes), each.name, "exec")
    entries = [(each, one) for each in check for wrong in each.wrong.values() for one in (wrong.answer, *wrong.also)]
    assert all(each.made(one) is not None for each, one in entries)
    broken = Wrong([Change("weights, v)", "weights,, v)")], "is no Python.", "It never was.")
    ours = replace(problem.tickets, wrong={"Broken": broken})
    note = ours.mend(my_class(rewritten(ours.healed, [Change("weights, v)", "3 * weights, v)")]), "tickets"))
    assert note.code == "value" and "Syntax" not in repr(note)
    exercise = replace(check.split_heads, wrong={"Broken": Wrong(Change("return ", "return return "), "", "")})
    exercise.siblings = [exercise]
    assert exercise(lambda x, num_heads: x).mood == "wrong"


def test_neither_a_comment_at_the_left_edge_nor_the_number_of_a_seed_matters():
    source = problem.drafts.source.replace("        outs = []", "# here\n        outs = list()")
    assert "The same as before" in problem.drafts.mend(my_class(source, "drafts")).title
    seeded = "torch.manual_seed(7)\n        dropout = self.dropout\n"
    assert "The same draw" in problem.triage.mend(changed("triage", ("dropout = self.dropout\n", seeded))).title


@pytest.mark.slow
def test_every_known_wrong_mending_hears_its_own_name():
    failures = []
    for each in problem:
        for name, wrong, kind in each.mended_wrongly:
            if STILL not in wrong.why:
                did = outcomes_of(each, kind, OUR_SECONDS)[0]
                found = recognise(each.catalogue(did), did, each.right_outcomes)
                alike = [
                    one
                    for one in (each.right_outcomes, each.given_outcomes)
                    if same_results(one, did, each.right_outcomes)
                ]
                failures += [(name, found)] if alike or found is None or found[0] != name else []
    assert failures == []


def test_a_layer_that_only_stops_gets_the_name_of_a_mistake_that_stops_alike():
    other = Change("torch.cat([cache[1], v], dim=2)", "v")  # which stops as some known ones do, for another reason
    note = problem.dictation.mend(my_class(rewritten(problem.dictation.healed, [other]), "dictation"))
    assert note.code == "raised" and "It stopped" not in note.title


def test_what_is_no_mended_class_is_refused_in_words():
    healed = problem.reviews.healed
    answers = {
        "a layer that is already made": layers.ReviewAttention(8, 2),
        "expected the class ReviewAttention itself": len,
        "keep the parameters as they were given: W_q.weight (12, 12)": nn.Linear,
        "Is a return missing?": my_class(healed.replace("return self.W_o", "self.W_o"), "reviews"),
        "name 'a' is not defined (line": my_class(healed.replace("weights @ v", "weights @ a"), "reviews"),
    }
    said = [(words, problem.reviews.mend(answer)) for words, answer in answers.items()]
    assert [(words, note) for words, note in said if note.mood != "wrong" or words not in repr(note)] == []


CUT = "unflatten(-1, (-1, self.num_heads))"
NEEDLESS = [
    (
        [(CUT, "unflatten(-1, (self.num_heads, -1)).mT"), (".flatten(2)", ".mT.flatten(2)")],
        "not yet. Neighbouring features",
    ),
    ([("softmax(1)", "softmax(2)")], "The softmax goes over the queries"),
    ([("softmax(1)", "softmax(1) * 2")], "Without a mask: wrong"),
]


def test_the_healthy_layer_needs_no_mending_and_says_so_only_to_who_knows_it():
    atlas = problem.atlas
    note = atlas.mend(layers.AtlasAttention)
    assert note.mood == "open" and not atlas.done and "healthy" not in repr(note) and "was right" not in repr(atlas)
    for changes, words in NEEDLESS:
        note = atlas.mend(changed("atlas", *changes))
        assert "As given, the layer was right with these weights." in repr(note) and words in repr(note), note
    usual = [("0.25", "0.125"), ("q, k)", "q, k) / q.shape[2] ** 0.25")]
    assert atlas.mend(changed("atlas", *usual)).passed, "a right layer is right, whatever was to mend"
    assert atlas.done == {"mend"}, "the cause is still to be found"
    atlas.done.clear()
    atlas.cause("E")
    assert atlas.done == {"cause", "mend"} and atlas.mend(layers.AtlasAttention).passed
    atlas.test(atlas.shown_by)
    assert atlas.is_solved


def test_hints_come_one_at_a_time_the_solution_holds_all_three_answers_and_progress_is_counted():
    for each in problem:
        shown = [repr(each.hint()) for _ in each.hints]
        assert each.hints[0] in shown[0] and each.hints[1] not in shown[0]
        assert f"problem.{each.name}.solution()" in shown[-1]
        said = repr(each.solution())
        added = set(each.healed.splitlines()) - set(each.source.splitlines())
        assert all(words in said for words in (each.options[each.right], "def my_test(layer):", *added))
    with pytest.raises(TypeError, match=r"write problem\.reviews\.cause"):
        problem.reviews("B")
    with pytest.raises(AttributeError, match=r"did you mean problem\.letters\?"):
        problem.leters  # noqa: B018
    problem.reviews.cause("B")
    lines = repr(problem).splitlines()
    assert len(lines) == 11 and "■□□ 1 of 3" in lines[0] and "■" not in "".join(lines[1:])


def cell(nb, name):
    return next(cell for cell in nb.cells if cell.id == name)


def test_the_notebook_shows_each_layer_as_the_check_knows_it_with_open_answers():
    nb = read(PATH)
    for each in problem:
        assert cell(nb, f"{each.name}-layer").source.strip() == each.source.strip()
        choices = re.findall(r"^- ([A-E]): ", cell(nb, f"{each.name}-cause").source, re.MULTILINE)
        assert choices == list(each.options)
        assert f"problem.{each.name}.mend({each.healthy.__name__})" in cell(nb, f"{each.name}-mend").source
    said = [output.data["text/plain"] for cell in nb.cells for output in cell.get("outputs", []) if "data" in output]
    for words in ("not yet chosen.", "not yet written.", "still the code that was given."):
        assert sum(words in text for text in said) == 11


@pytest.mark.slow
def test_the_notebook_runs_with_all_solutions():
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
