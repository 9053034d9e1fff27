"""The numbers of HeadView in the page: what `codes.js` and `combine.js` compute is what Python computes."""

import base64
import itertools
import re
from pathlib import Path

import numpy as np
import pytest
import torch

import headview.head_view
from headview.head_view import codes, combine
from headview.head_view.combine import compute
from headview.head_view.pyramid import Pyramid
from tests.helpers.browser import watch
from tests.helpers.head_view_examples import TOKENS, decoded, example, some

FOLDER = Path(headview.head_view.__file__).parent
READ = """
const bytesFrom = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
const textOf = (array) => {
  const bytes = new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
  let text = "";
  for (let i = 0; i < bytes.length; i += 4096) text += String.fromCharCode(...bytes.subarray(i, i + 4096));
  return btoa(text);
};
function setFrom({ codes, tops, storage, norms, ...plain }) {
  const read = (texts, kind) => Object.fromEntries(Object.entries(texts).map(
    ([side, text]) => [side, new kind(bytesFrom(text).buffer)]));
  const [coded, largest] = [read(codes, KINDS[storage]), read(tops, Float32Array)];
  return { ...plain, levels: LEVELS[storage], norms: norms && new Float32Array(bytesFrom(norms).buffer),
    codes: (side) => coded[side], tops: (side) => largest[side] };
}"""


@pytest.fixture(scope="module")
def page(browser):
    """A page that holds the scripts, joined as a view joins them."""
    opened = browser.new_page()
    problems = watch(opened, ("about:", "data:"))
    names = ("../core.js", "codes.js", "combine.js")
    scripts = [(FOLDER / name).read_text(encoding="utf-8") for name in names]
    scripts = [re.sub(r"^import \{[^}]*\} from .*;$|^export ", "", text, flags=re.MULTILINE) for text in scripts]
    opened.add_script_tag(content="\n".join([*scripts, READ]))
    yield opened
    opened.close()
    assert problems == []


def as_text(numbers) -> str:
    return base64.b64encode(numbers if isinstance(numbers, bytes) else np.ascontiguousarray(numbers).tobytes()).decode()


def as_cells(text: str, *shape: int) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), "<f4").reshape(shape)


def set_of(part, other=None, *, storage="float32") -> dict:
    """What the page is told of the second sample of a part that is whole in it."""
    coded = {side: combine.whole(one, 1, storage) for side, one in (("a", part), ("b", other or part))}
    layers, heads, queries, keys = part.shape
    return {
        **dict(layers=layers, heads=heads, queries=queries, keys=keys, kind=part.kind, signed=part.kind == "signed"),
        **dict(tokens=part.tokens[1], keyTokens=part.key_tokens[1], words=part.words[1]),
        **dict(codes={side: as_text(pair[0]) for side, pair in coded.items()}, storage=storage),
        "tops": {side: as_text(pair[1]) for side, pair in coded.items()},
        "norms": None if part.values is None else as_text(combine.norms(part, 1)),
    }


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("kind", ["weights", "signed", "positive"])
def test_the_page_shows_what_python_shows(page, kind, masked, missing):
    part, other = example(kind, masked, missing), example(kind, masked, missing)
    other.values = part.values  # the page knows one set of lengths
    choices = {
        "side": ("a", "b", "difference"),
        "heads": ([[1, 2]], [[1, 2], [0, 0], [1, 1]]),
        "combine": ("maximum", "mean"),
        "values": ("weights", "values") if kind == "signed" else ("weights", "values", "rollout"),
        "hidden": ([], ["[CLS]", "[SEP]", "a"], TOKENS),
        "renormalise": (False, True),
        "words": (False, True),
        "sample": (1,),
    }
    specs = [dict(zip(choices, chosen, strict=True)) for chosen in itertools.product(*choices.values())]
    found = page.evaluate(
        """({ set, specs }) => {
          const whole = setFrom(set);
          return specs.map((spec) => {
            const { cells, ...plain } = computeShown(whole, { part: 0, ...spec });
            return { ...plain, cells: textOf(cells) };
          });
        }""",
        {"set": set_of(part, other), "specs": specs},
    )
    for spec, got in zip(specs, found, strict=True):
        expected = compute(part, spec, other)
        cells = as_cells(got["cells"], len(got["rows"]), len(got["columns"]))
        np.testing.assert_allclose(cells, expected.cells, rtol=2e-6, atol=2e-6, err_msg=str(spec))
        assert (got["rows"], got["columns"]) == (expected.rows, expected.columns), spec
        assert got["signed"] == expected.signed and got["top"] == pytest.approx(expected.top, rel=1e-5), spec


@pytest.mark.parametrize("storage", ["uint8", "uint16", "float32"])
@pytest.mark.parametrize("kind", ["weights", "signed"])
def test_the_page_reads_the_codes_that_python_writes(page, storage, kind):
    part = example(kind, True, True)
    part.layers[0][1, 1] = 0  # a head of zeros
    found = page.evaluate(
        """({ set }) => {
          const whole = setFrom(set);
          return Array.from({ length: 6 }, (_, i) => textOf(decodeHead(whole, "a", Math.floor(i / 3), i % 3)));
        }""",
        {"set": set_of(part, storage=storage)},
    )
    coded, tops = combine.whole(part, 1, storage)
    maps = np.frombuffer(coded, np.dtype(storage).newbyteorder("<")).reshape(6, 7, 7)
    expected = decoded(maps, np.frombuffer(tops, "<f4"), storage, signed=kind == "signed")
    np.testing.assert_allclose([as_cells(text, 7, 7) for text in found], expected, rtol=1e-6)
    assert np.isneginf(expected).any() and np.isnan(expected).any()
    assert page.evaluate("[LEVELS, POWER, MASKED]") == [codes.LEVELS, codes.POWER, -np.inf]


@pytest.mark.parametrize("side", [3, 5, 64])
@pytest.mark.parametrize("kind", ["weights", "signed"])
def test_heads_are_pooled_alike(page, kind, side):
    part = example(kind, True, True)
    found = page.evaluate(
        """({ set, side }) => {
          const { cells, rows, columns } = poolHeads(setFrom(set), side, "a");
          return { rows, columns, cells: textOf(cells) };
        }""",
        {"set": set_of(part), "side": side},
    )
    cells = as_cells(found["cells"], 2, 3, found["rows"], found["columns"])
    np.testing.assert_array_equal(cells, combine.overviews(part, 1, side))


def a_large_map(shape, signed):
    cells = torch.randn(*shape).numpy() if signed else torch.rand(*shape).numpy()
    cells[np.triu_indices_from(cells, 2)] = -np.inf
    cells[shape[0] // 2, 0] = np.nan
    return cells


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("shape", [(520, 300), (257, 513), (1, 700), (600, 170), (5, 7)])
def test_the_pyramid_of_the_page_is_that_of_python(page, shape, signed):
    pyramid = Pyramid(a_large_map(shape, signed), signed)
    found = page.evaluate(
        """({ cells, rows, columns, signed }) => {
          const whole = new Float32Array(bytesFrom(cells).buffer);
          const pyramid = new LocalPyramid(whole, rows, columns, signed);
          const tiles = [];
          for (let n = 0; n < pyramid.levels; n++) {
            const level = pyramid.level(n);
            for (let i = 0; i * TILE < level.rows; i++) {
              for (let j = 0; j * TILE < level.columns; j++) {
                const { cells, ...size } = pyramid.tile(n, i, j);
                tiles.push({ at: [n, i, j], ...size, cells: textOf(cells) });
              }
            }
          }
          return { levels: pyramid.levels, tiles };
        }""",
        {"cells": as_text(pyramid.level(0)), "rows": shape[0], "columns": shape[1], "signed": signed},
    )
    assert found["levels"] == pyramid.levels
    for tile in found["tiles"]:
        np.testing.assert_array_equal(as_cells(tile["cells"], tile["rows"], tile["columns"]), pyramid.tile(*tile["at"]))


@pytest.mark.parametrize("factor", [1e-12, 1, 1e9])
def test_the_page_reads_tiles_wherever_their_bytes_begin(page, factor):
    cells = factor * Pyramid(a_large_map((520, 300), True), True).tile(1, 0, 0)
    read = "(bytes) => textOf(readPacked(new Uint8Array([7, ...bytesFrom(bytes)]).subarray(1), true))"
    found = as_cells(page.evaluate(read, as_text(codes.pack(cells, signed=True))), *cells.shape)
    expected = decoded(*codes.encode(cells, "uint16", signed=True), "uint16", signed=True)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_numbers_are_said_with_the_digits_that_hold(page):
    said = {
        "0.1234": (0.12344, 0),
        "3.2e-5": (3.21e-5, 0),
        "−3.2e-5": (-3.21e-5, 0),
        "0": (0, 0),
        "−12.5000": (-12.5, 0),
        "2.5000e+6": (2.5e6, 0),
        "about 0.934 ± 0.006": (0.9342, 0.0056),
        "0.5000": (0.5, 2e-5),
        "about 0.0011 ± 0.0001": (0.0011, 1e-4),
        "about 3.2e-5 ± 2e-6": (3.21e-5, 2e-6),
        "about 150 ± 20": (150, 13),
        "masked": (-np.inf, 0),
        "NaN, not a number": (np.nan, 0.1),
    }
    found = page.evaluate("(all) => all.map(([value, error]) => formatWeight(value, error))", list(said.values()))
    assert found == list(said)


def errors(page, cells, storage, signed=False):
    """How far off the cells are once they were stored, and how far off the page says that they may be."""
    coded, tops = codes.encode(cells, storage, signed=signed)
    read = decoded(coded, tops, storage, signed=signed)
    said = page.evaluate(
        "([values, levels, top, signed]) => values.map((value) => errorOf(value, levels, top, signed))",
        [read.ravel().tolist(), codes.LEVELS[storage], float(tops), signed],
    )
    off = np.abs(read - cells).ravel()
    assert (off <= np.array(said) * 1.01 + 1e-7).all()
    return off, np.array(said)


@pytest.mark.parametrize("storage", ["uint8", "uint16", "float32"])
@pytest.mark.parametrize("signed", [False, True])
def test_no_number_is_farther_off_than_the_page_says(page, storage, signed):
    off, said = errors(page, (torch.randn(40, 60) if signed else some(40, 60)).numpy(), storage, signed)
    assert storage == "float32" or np.mean(off) > 0.1 * np.mean(said)  # and says no more than is needed


def test_one_byte_may_be_off_by_a_whole_step_and_the_page_says_so(page):
    """Where rounding would bias the sum of a row, its least certain codes go the other way."""
    cells = torch.rand(40, 60) * 0.02 + torch.linspace(0.2, 1, 40)[:, None]
    cells *= 0.3 / cells.sum(-1, keepdim=True)
    cells[:, 0] = 0.7
    cells /= cells.sum(-1, keepdim=True)
    off, said = errors(page, cells.numpy(), "uint8")
    assert (off > 0.55 * said).any(), "half of what is said would be too little"
