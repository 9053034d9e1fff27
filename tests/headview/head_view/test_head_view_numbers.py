"""The numbers behind HeadView, against references cell by cell: codes, pyramids, what a spec shows, measures."""

import itertools

import numpy as np
import pytest
import torch

from headview.head_view import codes, combine, measures
from headview.head_view.combine import compute, exact_row
from headview.head_view.likeness import order_by_likeness
from headview.head_view.measures import measures_of
from headview.head_view.pyramid import Pyramid, overview
from mhalib.heads import attention_distance, induction_score, previous_token_score
from tests.helpers.head_view_examples import NAN, TOKENS, causal, decoded, example, part_of, some

INF = float("inf")


def same(one, two, tolerance=1e-6):
    np.testing.assert_allclose(one, two, rtol=tolerance, atol=tolerance)


def opened(cells):
    """Return the cells that are not masked."""
    return cells[~np.isneginf(cells)]


def largest(cells, signed):
    """Return the largest cell; NaN if there is one, -inf where all are masked."""
    there = opened(cells)
    if not len(there) or np.isnan(there).any():
        return NAN if len(there) else -INF
    return max(there, key=lambda x: (abs(x) if signed else x, x))


def mean(cells):
    there = opened(cells)
    return there.mean() if len(there) else -INF


def by_block(cells, pool, starts):
    """Pool each block of cells; `starts` are the first rows and the first columns of the blocks."""
    bands = np.split(cells, starts[0][1:])
    return np.array([[pool(block.ravel()) for block in np.split(band, starts[1][1:], 1)] for band in bands], "f4")


def small(head, side, signed):
    """An overview of one head `(Tq, Tk)`, masked cells -inf."""
    starts = [[-(-i * n // min(n, side)) for i in range(min(n, side))] for n in head.shape]
    return by_block(head, lambda cells: largest(cells, signed), starts)


# ---------------------------------------------------------------- codes


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("spread", [0.0, 3.0])
@pytest.mark.parametrize("maps, tokens", [(24, 128), (3, 512), (1, 1024)])
def test_maps_with_a_sink_keep_small_weights_and_row_sums_in_one_byte(maps, tokens, spread, masked):
    scores = spread * torch.randn(maps, tokens, tokens)
    w = (scores.masked_fill(~causal(tokens), -INF) if masked else scores).softmax(-1)
    sink = torch.rand(maps, tokens, 1) * 0.099 + 0.9
    w = w * (1 - sink)
    w[..., :1] += sink
    w = w.numpy()
    read = decoded(*codes.encode(w, "uint8"), "uint8")
    assert (read[w > 1e-4] > 0).all()
    large = w > 1e-3
    assert np.median(np.abs(read - w)[large] / w[large]) <= 0.03
    assert np.abs(read.sum(-1, dtype=np.float64) - 1).max() <= 0.01


def test_no_weight_of_a_hundred_thousandth_reads_zero_and_a_code_is_at_most_one_off():
    w = np.geomspace(1e-5, 1, 4096, dtype=np.float32).reshape(1, 2, 2048)
    coded, tops = codes.encode(w, "uint8")
    assert (coded > 0).all() and tops == 1
    assert np.abs(coded - 253 * np.cbrt(w)).max() < 1


@pytest.mark.parametrize("storage", ["uint8", "uint16", "float32"])
@pytest.mark.parametrize("signed", [False, True])
def test_codes_come_back_with_masked_and_nan_where_they_were(storage, signed):
    cells = torch.randn(2, 3, 5, 7).numpy() if signed else some(2, 3, 5, 7).numpy()
    cells[0, 0, 0, :3], cells[1, 2, 4] = [-np.inf, np.nan, 0], -np.inf
    cells[1, 1] = 0
    coded, tops = codes.encode(cells, storage, signed=signed)
    assert coded.dtype == np.dtype(storage) and coded.shape == cells.shape and tops.shape == (2, 3)
    read = decoded(coded, tops, storage, signed=signed)
    # half a step of the cube root
    share = {"uint8": 0.013 * (1 + signed), "uint16": 5e-5 * (1 + signed), "float32": 0}[storage]
    finite = np.isfinite(cells)
    top = np.broadcast_to(tops[..., None, None], cells.shape)[finite]
    assert (np.abs(read[finite] - cells[finite]) <= share * top + 1e-12).all()
    assert np.isneginf(read[~finite]).sum() == 8 and np.isnan(read[~finite]).sum() == 1
    same(tops, np.abs(np.where(finite, cells, 0)).max((-2, -1)))


def test_storage_follows_the_number_of_weights():
    assert [codes.storage_for(n, False) for n in (2_000_000, 2_000_001)] == ["uint16", "uint8"]
    assert codes.storage_for(10**9, True) == "float32"


# ---------------------------------------------------------------- pyramids and overviews


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("shape", [(520, 300), (257, 513), (1, 700), (600, 170), (256, 256), (5, 7)])
def test_each_level_pools_the_one_below_along_its_long_axes(shape, signed):
    cells = torch.randn(*shape).numpy() if signed else torch.rand(*shape).numpy()
    cells[np.triu_indices_from(cells, 2)] = -np.inf
    cells[shape[0] // 2, 0], cells[-1, -1] = np.nan, -0.5 if signed else 0.5
    pyramid = Pyramid(cells, signed)
    assert pyramid.levels == 1 + max(0, int(np.ceil(np.log2(max(shape) / 256))))
    expected = cells
    for number in range(1, pyramid.levels):
        starts = [range(0, n, 2 if n > 160 else 1) for n in expected.shape]
        expected = by_block(expected, lambda x: largest(x, signed), starts)
        same(pyramid.level(number), expected, 0)
        sizes = [-(-n // cells) for n, cells in zip(shape, pyramid.block(number), strict=True)]
        assert sizes == list(expected.shape)
    assert max(pyramid.level(pyramid.levels - 1).shape) <= 256


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("kind", ["plain", "NaN", "negative NaN", "below 0", "masked", "signed"])
def test_an_overview_is_the_largest_of_each_block_in_every_precision(dtype, kind):
    signed, allowed = kind == "signed", None
    layer = (torch.randn(3, 50, 37) if signed else torch.rand(3, 50, 37)).to(dtype)
    if "NaN" in kind:
        sign = torch.tensor(-1.0 if "negative" in kind else 1.0, dtype=dtype)
        layer[1, 20:22] = torch.copysign(torch.tensor(NAN, dtype=dtype), sign)
    if kind == "below 0":
        layer[0, 7:13, 5:9], layer[1] = -1e-3, -0.0
    if kind == "masked":
        allowed = torch.ones(50, 37, dtype=torch.bool).tril()
        allowed[30:33] = False
        layer = layer * allowed
        layer[:, 30] = NAN  # of a row that sees nothing: softmax answers NaN, or an average over everything
        layer[:, 31] = 1 / 37
    expected = layer.float() if allowed is None else layer.float().masked_fill(~allowed, -INF)
    for side in (8, 64):
        found = overview(layer, side, allowed=allowed, signed=signed)
        assert found.dtype == np.float32
        same(found, np.stack([small(head.numpy(), side, signed) for head in expected]), 0)


@pytest.mark.parametrize("kind", ["weights", "signed"])
def test_overviews_are_those_of_what_is_shown(kind):
    part, other = example(kind, True, True), example(kind, True, True)
    for to in (None, other):
        found = combine.overviews(part, 1, 4, to)
        assert found.shape == (2, 3, 4, 4)
        for i, j in np.ndindex(2, 3):
            spec = {"heads": [[i, j]], "sample": 1, "side": "difference" if to else "a"}
            same(found[i, j], small(compute(part, spec, to).cells, 4, kind == "signed" or to is not None), 0)


# ---------------------------------------------------------------- what a spec shows


def expected_cells(part, spec, other):
    """What a spec shows, cell by cell, in the order that the interface gives."""
    if spec["side"] != "a":
        before, after = (expected_cells(one, {**spec, "side": "a"}, None) for one in (part, other))
        both = np.isneginf(before) & np.isneginf(after)
        zero = [np.where(np.isneginf(x), 0, x) for x in (before, after)]
        return after if spec["side"] == "b" else np.where(both, -INF, zero[1] - zero[0])
    sample, signed, maps = spec["sample"], part.kind == "signed", []
    for i, j in spec["heads"]:
        cells = part.layers[i][sample, j].double().clone()
        if spec["values"] == "values":
            cells *= part.values[i][sample, j].norm(dim=-1)
        if part.allowed[i] is not None:
            cells[~part.allowed[i].expand(2, 3, 7, 7)[sample, j]] = -INF
        maps.append(cells.numpy())
    pool = mean if spec["combine"] == "mean" else lambda cells: largest(cells, signed)
    out = np.apply_along_axis(pool, 0, np.stack(maps))
    # The tokens of each row and each column: words, without those of which all tokens are hidden.
    words = part.words[sample] if spec["words"] else (range(7), range(7))
    groups = [[[i for i in range(7) if given[i] == n] for n in sorted(set(given))] for given in words]
    labels = part.tokens[sample], part.key_tokens[sample]
    kept = [
        [group for group in axis if not all(names[i] in spec["hidden"] for i in group)]
        for axis, names in zip(groups, labels, strict=True)
    ]

    def joined(cells, parts):
        there = opened(cells)
        return -INF if not len(there) else there.sum() / (len(there) if signed else parts)

    keys = np.array([[joined(row[group], 1) for group in kept[1]] for row in out])
    done = np.array([[joined(keys[group, j], len(group)) for j in range(len(kept[1]))] for group in kept[0]])
    if spec["renormalise"] and part.kind == "weights" and kept != groups:
        sums = np.where(np.isneginf(done), 0, done).sum(1, keepdims=True)
        done = done / np.where(sums == 0, 1, sums)
    return done


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("kind", ["weights", "signed", "positive"])
def test_a_spec_shows_what_its_steps_say_one_after_the_other(kind, masked, missing):
    part, other = example(kind, masked, missing), example(kind, masked, missing)
    choices = {
        "side": ("a", "b", "difference"),
        "heads": ([[1, 2]], [[1, 2], [0, 0], [1, 1]]),
        "combine": ("maximum", "mean"),
        "values": ("weights", "values"),
        "hidden": ([], ["[CLS]", "[SEP]", "a"]),
        "renormalise": (False, True),
        "words": (False, True),
    }
    for chosen in itertools.product(*choices.values()):
        spec = dict(zip(choices, chosen, strict=True)) | {"part": 0, "sample": 1}
        found, expected = compute(part, spec, other), expected_cells(part, spec, other)
        same(found.cells, expected, 2e-6)
        assert found.cells.dtype == np.float32
        assert found.signed == (kind == "signed" or spec["side"] == "difference")
        assert found.top == pytest.approx(np.abs(expected[np.isfinite(expected)]).max(), rel=1e-5)
        for row in (0, len(found.rows) - 1):
            same(exact_row(part, spec, row, other), found.cells[row])


def test_rows_and_columns_name_their_tokens():
    part = example("weights", False, False)
    spec = {"heads": [[0, 0]], "sample": 0}
    assert compute(part, spec).rows == [[i] for i in range(7)]
    hidden = compute(part, spec | {"hidden": ["b", "[SEP]"]})
    assert hidden.columns == [[0], [1], [3], [4], [5]]
    words = compute(part, spec | {"hidden": ["b", "c"], "words": True})
    assert words.rows == [[0, 1], [3, 4, 5], [6]]  # "b" is a word of its own, "c" only part of one
    unnamed = part_of(some(1, 1, 1, 4, 4))
    assert compute(unnamed, spec | {"hidden": ["2"]}).rows == [[0], [1], [3]]
    nothing = compute(part, spec | {"hidden": TOKENS, "renormalise": True})
    assert nothing.cells.shape == (0, 0) and nothing.top == 0


def test_a_rollout_multiplies_the_layers_below():
    weights, eye = some(3, 1, 2, 5, 5, mask=causal(5)), torch.eye(5)
    part, flowed = part_of(weights, mask=causal(5)), eye
    for layer in weights[:, 0]:
        flowed = (0.5 * layer.mean(0) + 0.5 * eye) @ flowed
    spec = {"heads": [[2, 1]], "values": "rollout"}
    same(compute(part, spec).cells, flowed.masked_fill(~causal(5), -INF).numpy())
    same(exact_row(part, spec, 3), compute(part, spec).cells[3], 0)
    window = causal(5) & ~causal(5).tril(-2)
    banded = part_of(some(3, 1, 2, 5, 5, mask=window), mask=window)
    reached = compute(banded, spec).cells
    assert reached[3, 1] > 0 and reached[4, 1] > 0 and np.isneginf(reached[4, 0]) and np.isneginf(reached[0, 4])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_any_precision_is_read_and_the_numbers_of_the_reader_stay(dtype):
    weights = some(1, 1, 2, 6, 6).to(dtype)
    kept = weights.clone()
    part = part_of(weights.requires_grad_(dtype != torch.float32), mask=causal(6))
    cells = compute(part, {"heads": [[0, 1]]}).cells
    same(cells, kept[0, 0, 1].float().masked_fill(~causal(6), -INF).numpy(), 0)
    assert torch.equal(weights, kept)


# ---------------------------------------------------------------- facts


def test_measures_are_those_of_the_definition():
    weights = torch.zeros(1, 1, 4, 4, 4)
    weights[0, 0, 0] = torch.eye(4)
    weights[0, 0, 1] = 1 / 4
    weights[0, 0, 2] = causal(4) / causal(4).sum(-1, keepdim=True)
    weights[0, 0, 3] = NAN
    found, _ = measures_of(part_of(weights), 0, {})
    same(found["entropy"][0, [0, 1, 3]], [0, 1, NAN])
    same(found["sparsity"][0], [12 / 16, 0, 6 / 16, NAN])
    same(found["first token"][0, :3], [1 / 4, 1 / 4, (1 + 1 / 2 + 1 / 3 + 1 / 4) / 4])
    same(found["distance"][0, [0, 1, 3]], [0, 10 / 8, NAN])
    masked, _ = measures_of(part_of(weights, mask=causal(4)), 0, {})
    same(masked["entropy"][0, 2], 1)  # all open keys alike
    same(masked["sparsity"][0, 2], 0)


@pytest.mark.parametrize("kind", ["weights", "part"])
def test_measures_along_a_sequence_are_those_of_mhalib(kind):
    tokens, mask = list("abcabcab"), causal(8)
    weights, ids, open_ = some(2, 1, 3, 8, 8, mask=mask), torch.tensor([0, 1, 2] * 3)[:8], torch.arange(8) != 5
    hidden = mask & open_[:, None]  # a query that sees nothing, such as padding, does not count
    found, notes = measures_of(part_of(weights * hidden, mask=hidden, kind=kind, tokens=tokens), 0, {})
    same(found["previous token"], previous_token_score(weights[:, 0], open_))
    same(found["induction"], induction_score(weights[:, 0], ids, open_))
    same(found["distance"], attention_distance(weights[:, 0], open_).nanmean(-1))
    weights[1, 0, 2, 6] = NAN
    lost, _ = measures_of(part_of(weights, tokens=tokens), 0, {})
    same(lost["induction"][1, 2], induction_score(weights[1, 0, 2], ids, torch.arange(8) != 6))
    assert not notes


def test_the_induction_head_is_found_at_any_size(monkeypatch):
    size, tokens = 2048, list(map(str, range(1024))) * 2
    weights = torch.zeros(2, 1, 8, size, size, dtype=torch.float16)  # 67 million
    weights[..., 0] = 1
    weights[1, 0, 3], query = torch.eye(size).roll(-1, 1), torch.arange(1024, size)
    weights[1, 0, 6, query, 0], weights[1, 0, 6, query, query - 1023] = 0, 1
    monkeypatch.setattr(measures, "OWN_UP_TO", 60_000_000)
    found, notes = measures_of(part_of(weights, tokens=tokens), 0, {"mine": torch.mean})
    for name, head in (("previous token", 3), ("induction", 6)):
        same(found[name].ravel(), np.eye(16)[8 + head] + (name != "induction") * (np.arange(16) != 11) / 2047)
    assert notes["entropy"] == "Entropy is measured in 64 of 2,048 queries."
    assert "too large to measure, your function would be given 0.27 GB" in notes["mine"]
    monkeypatch.setattr(measures, "CELLS_UP_TO", 16 * 256)
    few, notes = measures_of(part_of(weights, tokens=tokens), 0, {})
    same(few["induction"], found["induction"])
    assert notes["induction"] == "Induction is measured in 256 of 1,024 queries whose token came before."


def test_what_cannot_be_measured_is_told_with_the_reason():
    weights, scores = some(1, 1, 2, 3, 3), torch.randn(1, 1, 2, 3, 3)
    reasons = {
        "Induction has no number: without labels": part_of(weights),
        "Induction has no number: no token comes again": part_of(weights, tokens="abc"),
        "Previous token has no number: queries and keys are not the same": part_of(weights[..., :2, :]),
        "Distance has no number: queries and keys are not the same": part_of(
            weights, kind="part", tokens="abc", key_tokens="bcd"
        ),
        "Previous token has no number: there is only one token": part_of(torch.ones(1, 1, 2, 1, 1)),
        "Distance has no number: it needs attention weights": part_of(scores, kind="signed"),
        "Entropy has no number: it needs numbers from 0 on": part_of(scores, kind="signed"),
        "Entropy has no number: no query without NaN has two open keys": part_of(weights, mask=torch.eye(3).bool()),
        "First token has no number: each query is masked": part_of(weights, mask=torch.zeros(3, 3).bool()),
        "mine has no number: it is NaN for every head": part_of(weights),
    }
    for reason, part in reasons.items():
        assert reason in " ".join(measures_of(part, 0, {"mine": lambda maps: maps[..., 0, 0] * NAN})[1].values())


def test_heads_that_are_alike_stand_together():
    kinds = torch.rand(4, 8, 8) ** 6
    which = torch.randint(4, (60,))
    heads = (kinds[which] + 0.02 * torch.rand(60, 8, 8)).numpy()
    heads[:, 0, 7], heads[0, 1, 1] = -np.inf, np.nan
    order, groups = order_by_likeness(heads)
    assert sorted(order) == list(range(60))
    assert (np.diff(groups[order]) >= 0).all() and groups.max() == 3
    assert len(set(zip(groups.tolist(), which.tolist(), strict=True))) == 4
