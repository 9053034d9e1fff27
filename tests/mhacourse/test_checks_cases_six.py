"""The exercises of lesson 06: what their cases tell apart, and what is said of each line of the layer to repair."""

import math
from itertools import combinations

import pytest
import torch
import torch.nn.functional as F
from einops import rearrange

import mhalib
from mhalib.checks import check
from mhalib.checks.repairs import RIGHT, UNTOUCHED

FUNCTIONS = [check.call_torch, check.share_heads, check.repaired, check.count_heads]
LINES = check.repaired.lines
BROKEN = [name for name, line in LINES.items() if line.given is not None]
INTACT = [name for name in LINES if name not in BROKEN]
PLAIN = [(exercise, plain) for exercise in FUNCTIONS for plain in exercise.plain]


@pytest.fixture(autouse=True)
def fresh(seeds):
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    for exercise in FUNCTIONS:
        exercise.solved = False
    yield
    torch.set_num_threads(threads)


# ----------------------------------------------------------------------------------------------- the cases


@pytest.mark.parametrize("exercise,plain", PLAIN, ids=[plain.__name__ for _, plain in PLAIN])
def test_the_plain_forms_are_right(exercise, plain):
    note = exercise(plain)
    assert note.passed, note


@pytest.mark.parametrize("exercise", FUNCTIONS, ids=lambda exercise: exercise.name)
def test_every_function_has_a_plain_form(exercise):
    assert exercise.plain


def test_all_sizes_of_a_case_differ():
    for mha, x, _ in check.call_torch.inputs[1:]:
        different(*x.shape, mha.num_heads, mha.head_dim)
    for k, num_heads in check.share_heads.inputs[1:-2]:  # the last two are for heads that are one, or as many
        different(*k.shape, num_heads)
        assert num_heads // k.shape[1] > 1
    for layer, x, _ in check.repaired.inputs[3:]:  # of the others one has one head, one as many as tokens
        different(*x.shape, layer.num_heads, layer.head_dim)


def different(*sizes):
    assert len(set(sizes)) == len(sizes) and 1 not in sizes, sizes


def tensors_of(parts):
    return [part for part in parts if isinstance(part, torch.Tensor)]


@pytest.mark.parametrize("exercise", FUNCTIONS, ids=lambda exercise: exercise.name)
def test_the_first_case_can_be_read(exercise):
    value = exercise.right[0].value
    inputs, results = map(tensors_of, (exercise.inputs[0], value if isinstance(value, tuple) else (value,)))
    assert sum(tensor.numel() for tensor in inputs + results) <= 40
    assert all(torch.equal(tensor, tensor.float().round()) for tensor in inputs)
    wrong = exercise.made(next(iter(exercise.wrong.values())).answer)
    (example,) = [text for label, text in exercise(wrong).parts if label == "code"]
    # Two tensors of four axes need a line for each of their rows.
    assert len(example.splitlines()) <= (20 if exercise is check.call_torch else 12), example


# ------------------------------------------------------------------------------------------ right answers


def masked_after_and_shared_anew(layer, x, mask):
    q, k, v = (mhalib.split_heads(W(x), layer.num_heads) for W in (layer.W_q, layer.W_k, layer.W_v))
    weights = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) * mask
    return layer.W_o(mhalib.merge_heads(weights / weights.sum(-1, keepdim=True) @ v))


def torch_one_sample_at_a_time(mha, x, mask):
    pairs = [mha(y, y, y, attn_mask=~m, average_attn_weights=False) for y, m in zip(x, mask, strict=True)]
    outputs, weights = zip(*pairs, strict=True)
    return torch.stack(outputs), torch.stack(weights)


def many_heads_by_singular_values(f, d_model):
    c, d = torch.randn(2, 80, 1, d_model).double()
    moved = f(torch.cat([c, c + d[:1]], 1))[:, 1:] - f(c + d[:1])
    sizes = torch.linalg.svdvals(moved[:, 0])
    return len(sizes[sizes > sizes[0] * 1e-8])


RIGHT_ANSWERS = [
    ("repaired", masked_after_and_shared_anew),
    ("call_torch", torch_one_sample_at_a_time),
    (
        "share_heads",
        lambda k, h: torch.cat([k[:, [i]].expand(-1, h // k.shape[1], -1, -1) for i in range(k.shape[1])], 1),
    ),
    ("count_heads", many_heads_by_singular_values),
]


@pytest.mark.parametrize("name,answer", RIGHT_ANSWERS)
def test_other_right_ways_pass(name, answer):
    note = getattr(check, name)(answer)
    assert note.passed, note


# ------------------------------------------------------------------------------------------ wrong answers


def called(mha, x, mask, **options):
    return mha(x, x, x, **({"average_attn_weights": False} | options))


def own_causal(layer, x, mask):
    q, k, v = (mhalib.split_heads(W(x), layer.num_heads) for W in (layer.W_q, layer.W_k, layer.W_v))
    return layer.W_o(mhalib.merge_heads(F.scaled_dot_product_attention(q, k, v, is_causal=True)))


def padding_and_causal(mha, x, mask):
    after = torch.ones(x.shape[1], x.shape[1]).triu(1).bool()
    return called(mha, x, mask, key_padding_mask=~mask[:, -1], attn_mask=after)


NAMED = [
    ("call_torch", "As padding", lambda a, x, m: called(a, x, m, key_padding_mask=m.logical_not())),
    ("call_torch", "The keys that the last query may not see", padding_and_causal),
    ("call_torch", "is_causal alone", lambda a, x, m: called(a, x, m, is_causal=True)),
    ("call_torch", "One mask for all", lambda a, x, m: called(a, x, m, attn_mask=~m[0])),
    (
        "call_torch",
        "Causal, whatever mask comes",
        lambda a, x, m: called(a, x, m, attn_mask=torch.full((x.shape[1],) * 2, -math.inf).triu(1)),
    ),
    ("share_heads", "Samples repeated", lambda k, h: torch.cat([k] * (h // k.shape[1]))),
    ("share_heads", "Tokens repeated", lambda k, h: torch.cat([k] * (h // k.shape[1]), 2)),
    ("share_heads", "Divided by the number of heads of keys", lambda k, h: k[:, [i // k.shape[1] for i in range(h)]]),
    (
        "share_heads",
        "The heads averaged",
        lambda k, h: k.reshape(len(k), -1, h // k.shape[1], *k.shape[2:]).sum(2) / (h // k.shape[1]),
    ),
    ("count_heads", "Too few c", lambda f, n: min(check.count_heads.answer(f, n), 20)),
]


@pytest.mark.parametrize("name,mistake,answer", NAMED)
def test_a_mistake_has_its_name(name, mistake, answer):
    assert getattr(check, name)(answer).code == f"wrong: {mistake}"


def test_a_layer_that_does_not_read_its_mask_is_not_right():
    note = check.repaired(own_causal)
    assert note.code == "wrong: Still to repair: the mask" and "whatever mask comes" in repr(note)


# ------------------------------------------------------------------------------------- line by line


def rows(note):
    """Return what a note says of each line that it names."""
    names = {f"{name[0].upper()}{name[1:]}:": name for name in LINES}
    return {names[label]: text.removesuffix(".") for label, text in note.parts if label in names}


def said(name, state):
    if state in (RIGHT, UNTOUCHED):
        return state
    return f"{'changed, but not right' if name in BROKEN else 'was right, and is not any more'}: {state}"


def expected(states):
    """Return what should be said: of each broken line, and of the others where they are wrong."""
    return {name: said(name, states[name]) for name in LINES if name in BROKEN or states[name] != RIGHT}


MENDED = [set(some) for count in range(5) for some in combinations(BROKEN, count)]


def ids(mended):
    return "+".join(name.split()[-1] for name in sorted(mended)) or "none"


@pytest.mark.parametrize("mended", MENDED, ids=ids)
def test_every_set_of_mended_lines_is_told(mended):
    states = {name: UNTOUCHED if name in BROKEN and name not in mended else RIGHT for name in LINES}
    note = check.repaired(check.repaired.built(states))
    if len(mended) in (0, 4):
        assert note.code == ("right" if mended else "stub")
        return
    assert rows(note) == expected(states)
    left = [name for name in BROKEN if name not in mended]
    assert note.title == f"repaired: not yet. Still to repair: {', '.join(left)}"


CHANGED = [
    (set(some), name)
    for name in LINES
    for others in [[other for other in BROKEN if other != name]]
    for count in range(len(others) + 1)
    for some in combinations(others, count)
]
# Where the code stops or leaves hardly a number, what comes before cannot be seen.
HIDING = {
    "view cannot join what a transpose has moved, reshape can",
    "it runs over the heads",
}


@pytest.mark.parametrize("mended,changed", CHANGED, ids=lambda part: part if isinstance(part, str) else ids(part))
def test_a_line_that_is_changed_wrongly_is_told_beside_the_others(mended, changed):
    for form in LINES[changed].changed:
        states = {name: UNTOUCHED if name in BROKEN and name not in mended else RIGHT for name in LINES}
        states[changed] = form
        note = check.repaired(check.repaired.built(states))
        assert not note.passed and note.code != "stub"
        told = rows(note)
        if form not in HIDING:
            assert told == expected(states), form
        for name, text in told.items():
            assert text in (said(name, states[name]), "not to be seen in these results"), form


def one_head_at_a_time(scale, hidden):
    """Return the layer in another style, with other names, split and merge right."""

    def run(block, sentence, seen):
        queries, keys, values = block.W_q(sentence), block.W_k(sentence), block.W_v(sentence)
        size = queries.size(-1) // block.num_heads
        pieces = []
        for start in range(0, queries.size(-1), size):
            own = slice(start, start + size)
            match = torch.einsum("bqd,bkd->bqk", queries[..., own], keys[..., own]) / scale(sentence, size)
            pieces.append(torch.where(hidden(seen), -torch.inf, match).softmax(-1) @ values[..., own])
        return block.W_o(torch.cat(pieces, -1))

    return run


def root_of_d_model(x, size):
    return x.shape[-1] ** 0.5


STYLES = [
    (one_head_at_a_time(root_of_d_model, torch.logical_not), {"the scale": UNTOUCHED}),
    (one_head_at_a_time(root_of_d_model, lambda m: m), {"the scale": UNTOUCHED, "the mask": UNTOUCHED}),
    (
        one_head_at_a_time(lambda x, size: size, lambda m: m),
        {"the scale": "you divide by head_dim itself, without the root", "the mask": UNTOUCHED},
    ),
    (
        lambda layer, x, m: layer.W_o(
            F.scaled_dot_product_attention(
                *(
                    rearrange(W(x), "b t (d h) -> b h t d", h=layer.num_heads)
                    for W in (layer.W_q, layer.W_k, layer.W_v)
                ),
                attn_mask=m,
            ).reshape(x.shape)
        ),
        {"the split": "features are dealt out to the heads in turn", "the merge": UNTOUCHED},
    ),
]


@pytest.mark.parametrize("answer,wrong", STYLES)
def test_the_lines_are_told_in_another_style(answer, wrong):
    states = dict.fromkeys(LINES, RIGHT) | wrong
    assert rows(check.repaired(answer)) == expected(states)


def test_an_unknown_change_is_not_explained():
    for answer in (lambda layer, x, m: layer(x, mask=m) * 1.01, lambda layer, x, m: 1.01 * layer.W_o(x)):
        note = check.repaired(answer)
        assert note.code == "value" and not rows(note)
    assert check.repaired(lambda layer, x, m: layer(x, mask=m)[:, :0]).code == "shape"


def test_an_unknown_change_that_needs_several_heads_is_said_to():
    def louder(layer, x, mask):
        q, k, v = (mhalib.split_heads(W(x), layer.num_heads) for W in (layer.W_q, layer.W_k, layer.W_v))
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return layer.W_o(mhalib.merge_heads(heads * torch.arange(1, layer.num_heads + 1)[:, None, None]))

    told = "With one head your layer is right."
    assert told in repr(check.repaired(louder))
    assert told not in repr(check.repaired(lambda layer, x, m: layer(x, mask=m) * 1.01))


def test_a_code_that_always_stops_is_told_its_line_alone():
    note = check.repaired(lambda layer, x, m: layer(x, mask=not m))
    assert note.code == "raised" and not rows(note)


def test_a_right_result_that_changes_its_input_is_no_broken_line():
    def answer(layer, x, mask):
        result = layer(x, mask=mask)
        x += 1
        return result

    assert check.repaired(answer).code == "changes its input"


def test_an_error_in_one_line_leaves_the_others_unseen():
    note = check.repaired(
        lambda layer, x, m: layer.W_o(
            F.scaled_dot_product_attention(
                *(mhalib.split_heads(W(x), layer.num_heads) for W in (layer.W_q, layer.W_k, layer.W_v)), attn_mask=m
            )
            .contiguous()
            .transpose(1, 2)
            .view(x.shape)
        )
    )
    lines = rows(note)
    assert lines["the merge"].startswith("changed, but not right: view") and lines["the mask"] == RIGHT
    assert lines["the split"] == "not to be seen in these results" and "cannot be seen yet" in repr(note)
    assert "It stopped:" in repr(note) and "Often:" in repr(note)
