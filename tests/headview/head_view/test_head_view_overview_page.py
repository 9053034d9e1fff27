"""The overview of HeadView in a real browser: how large, in what order, what is said of a head, all heads at once."""

import numpy as np
import pytest
import torch

from mhalib.widgets.head_view import widget as module
from mhalib.widgets.head_view.serve import Blocks
from mhalib.widgets.head_view.widget import HeadView
from tests.helpers.browser import with_script

OVERVIEW, FOCUS = "canvas.overview", "canvas.focus"

# Keeps what a page writes on the canvas of the overview, and counts how often thumbnails are painted.
HEARD = """
globalThis.written = new Set();
globalThis.painted = 0;
const placeTextOf = placeText, paintAtlasOf = paintAtlas, layoutOf = layout;
placeText = (context, text, ...rest) => { globalThis.written.add(text); placeTextOf(context, text, ...rest); };
paintAtlas = (...rest) => { globalThis.painted++; return paintAtlasOf(...rest); };
layout = (...rest) => (globalThis.places = layoutOf(...rest));
"""


def some(*shape):
    torch.manual_seed(0)
    return (torch.linspace(0.3, 4, shape[0] * shape[1]).view(*shape[:2], 1, 1) * torch.randn(*shape)).softmax(-1)


@pytest.fixture
def described(monkeypatch):
    """Return a function that makes a HeadView whose part has other facts than the weights tell, such as `kv_heads`."""
    plain = module.as_parts

    def make(weights, tokens=None, **facts):
        def parts(*args, **options):
            made = plain(*args, **options)
            for part in made:
                for name, value in facts.items():
                    setattr(part, name, value)
            return made

        monkeypatch.setattr(module, "as_parts", parts)
        return HeadView(weights, tokens)

    return make


def opened(static_page, view, **options):
    """Open a page that says what it wrote, painted and placed."""
    return static_page(with_script(view, HEARD), **options)


def press(page, *keys):
    for key in keys:
        page.keyboard.press(key)


def chosen(page):
    return page.locator(OVERVIEW).get_attribute("aria-label").split("chosen: ")[1]


def tip_over(page, layer, head):
    """What the tooltip says in the middle of a thumbnail."""
    x, y = page.evaluate("([i, j]) => globalThis.places.grid.at(i, j)", [layer, head])
    half = page.evaluate("globalThis.places.grid.side") / 2
    box = page.locator(OVERVIEW).bounding_box()
    page.mouse.move(box["x"] + x + half, box["y"] + y + half)
    return page.locator(".tip").text_content()


# ---------------------------------------------------------------- how large


@pytest.mark.parametrize(
    ("shape", "width", "least", "beside"),
    [
        ((1, 4, 10, 10), 1000, 140, True),
        ((2, 3, 10, 10), 1500, 140, True),
        ((12, 12, 24, 24), 1000, 18, True),
        ((12, 12, 24, 24), 1500, 35, True),
        ((32, 32, 16, 16), 1000, 10, True),
        ((12, 12, 24, 24), 390, 20, False),
        ((32, 32, 16, 16), 390, 7, False),
    ],
)
def test_thumbnails_are_as_large_as_the_room_beside_the_map_allows(static_page, shape, width, least, beside):
    page = opened(static_page, HeadView(some(*shape)), width=width)
    side = page.evaluate("globalThis.places.grid.side")
    assert least <= side <= 150
    overview, focus = page.locator(OVERVIEW).bounding_box(), page.locator(FOCUS).bounding_box()
    assert (overview["x"] + overview["width"] <= focus["x"]) is beside
    assert beside or overview["y"] + overview["height"] <= focus["y"]
    assert page.evaluate("document.documentElement.scrollWidth") <= width


# ---------------------------------------------------------------- names, shared keys, windows


def test_rows_have_what_tells_the_names_of_layers_apart(static_page, described):
    names = [f"encoder.layer.{i}.attention.self" for i in (3, 7)]
    heads = ["subject", "object"]
    page = opened(static_page, described(some(2, 2, 6, 6), layer_names=names, head_names=heads))
    written = set(page.evaluate("[...globalThis.written]"))
    assert {"3", "7", "subject", "object"} <= written
    assert tip_over(page, 1, 1).startswith(f"layer 7 object ({names[1]}), ")
    page.locator(OVERVIEW).focus()
    press(page, "ArrowDown")
    assert page.locator("[role=status]").text_content().startswith("layer 7 subject")
    told = page.locator(OVERVIEW).get_attribute("aria-label")
    assert told == "Overview of 2 × 2 layers and heads; chosen: layer 7 subject"


@pytest.mark.parametrize(
    ("names", "short"),
    [
        (["layer 0", "layer 1", "layer 12"], ["0", "1", "12"]),
        (["model.layers.0.self_attn", "model.layers.1.self_attn"], ["0", "1"]),
        (["encoder.0.attn", "decoder.0.attn"], ["encoder", "decoder"]),
        (["text.layers.1.attn", "text.layers.1.cross", "text.layers.2.attn"], ["1.attn", "1.cross", "2.attn"]),
        (["a", "b"], ["a", "b"]),
        (["down.attn", "up"], ["down.attn", "up"]),
        (["h.5.attn"], ["5"]),
    ],
)
def test_names_are_cut_to_what_tells_them_apart(static_page, names, short):
    view = with_script(HeadView(some(1, 2, 4, 4)), "globalThis.tell = tellingParts;")
    assert static_page(view).evaluate("(names) => globalThis.tell(names)", names) == short


def test_heads_that_share_keys_are_bracketed_and_told(static_page, described):
    weights = some(2, 8, 6, 6)
    plain = opened(static_page, HeadView(weights))
    shared = opened(static_page, described(weights, kv_heads=[2, 2]))
    assert tip_over(shared, 0, 5).endswith(
        "shares its keys with heads 4–7, largest weight " + tip_over(plain, 0, 5).split()[-1]
    )
    assert "shares" not in tip_over(plain, 0, 5)
    rows = opened(static_page, described(weights, kv_heads=[8, 4]))
    assert "shares" not in tip_over(rows, 0, 2)
    assert "shares its keys with head 3," in tip_over(rows, 1, 2)
    heights = [
        page.evaluate("[globalThis.places.grid.bracket, globalThis.places.grid.rowBracket]")
        for page in (plain, shared, rows)
    ]
    assert heights == [[0, False], [6, False], [0, True]]
    # The bracket over heads 4 to 7 is one line that ends between 3 and 4.
    ink = shared.evaluate(
        """() => { const { grid } = globalThis.places, canvas = document.querySelector("canvas.overview");
        const [x] = grid.at(0, 4), y = grid.top - grid.bracket - 1, context = canvas.getContext("2d");
        const on = (x) => context.getImageData(Math.round(x), y, 1, 1).data[3] > 0;
        return [on(x - 2), on(x + 3), on(grid.at(0, 5)[0] - 2), on(grid.at(0, 7)[0] + grid.side - 3)]; }"""
    )
    assert ink == [False, True, True, True]


def test_sliding_windows_are_marked_and_told(static_page, described):
    page = opened(static_page, described(some(3, 4, 6, 6), windows=[None, 512, 1024]))
    assert {"≤ 512", "≤ 1024"} <= set(page.evaluate("[...globalThis.written]"))
    assert "sees at most 512 keys (sliding window)" in tip_over(page, 1, 0)
    assert "sliding" not in tip_over(page, 0, 0)
    limits = page.locator(".limits")
    assert "sliding" not in (limits.text_content() or "")
    page.locator(OVERVIEW).focus()
    press(page, "ArrowDown")
    assert "layer 1 sees at most 512 keys (sliding window)" in limits.text_content()


# ---------------------------------------------------------------- in what order


def drawn_order(page):
    return page.evaluate("globalThis.places.grid.list")


def facts_of(view, side="a"):
    return Blocks.answer(view._blocks, f"facts 0 0 {side}")[0]


@pytest.mark.parametrize("by", ["entropy", "sparsity"])
def test_heads_are_sorted_by_what_is_said_of_them(static_page, by):
    view = HeadView(some(3, 4, 12, 12))
    page = opened(static_page, view, width=1200)
    assert drawn_order(page) == list(range(12))
    page.get_by_role("button", name="More").click()
    page.get_by_label("Order heads").select_option(f"by {by}")
    numbers = np.array(facts_of(view)[by])
    order = drawn_order(page)
    sorted_numbers = numbers[order] if by == "entropy" else -numbers[order]
    assert sorted(order) == list(range(12)) and (np.diff(sorted_numbers) >= 0).all() and np.ptp(numbers) > 0
    written = set(page.evaluate("[...globalThis.written]"))
    assert {f"{i}·{j}" for i in range(3) for j in range(4)} <= written
    shown = {f"{x:.2f}" for x in numbers} if by == "entropy" else {f"{int(100 * x + 0.5)} %" for x in numbers}
    assert shown <= written
    tip = tip_over(page, 2, 1)
    assert f"entropy {facts_of(view)['entropy'][9]:.2f} of what is possible" in tip
    assert f"{int(100 * facts_of(view)['sparsity'][9] + 0.5)} % of the weights below 0.01" in tip
    assert f"sorted by {by}" in page.locator(OVERVIEW).get_attribute("aria-label")


def test_groups_of_likeness_stand_apart_and_are_named(static_page):
    diagonal, first, flat = torch.eye(12), torch.zeros(12, 12), torch.full((12, 12), 1 / 12)
    first[:, 0] = 1
    weights = torch.stack([torch.stack([diagonal, first, flat]), torch.stack([first, flat, diagonal])])
    view = HeadView(weights)
    view.order = "likeness"
    page = opened(static_page, view)
    facts = facts_of(view)
    assert facts["groups"] == [facts["groups"][i] for i in (5, 3, 4, 3, 4, 5)]
    count = max(facts["groups"]) + 1
    assert count == 3
    written = set(page.evaluate("[...globalThis.written]"))
    assert {f"group {i + 1} of 3" for i in range(3)} <= written
    assert drawn_order(page) == facts["likeness"]
    assert f"group {facts['groups'][4] + 1} of 3" in tip_over(page, 1, 1)
    places = page.evaluate(
        "globalThis.places.grid.list.map((i) => globalThis.places.grid.at(Math.floor(i / 3), i % 3))"
    )
    step = page.evaluate("globalThis.places.grid.step")
    for i in (1, 3):  # from the last of a group to the first of the next there is more than a step
        (x0, y0), (x1, y1) = places[i], places[i + 1]
        assert x1 - x0 > step or y1 - y0 > step


# ---------------------------------------------------------------- all heads at once


def readout(page):
    return page.locator(".note").first.text_content()


@pytest.mark.parametrize(("which", "count", "of"), [("layer", 12, " of layer 3"), ("all", 144, "")])
def test_all_heads_are_shown_as_their_mean_in_one_step(static_page, which, count, of):
    weights = some(12, 12, 8, 8)
    view = HeadView(weights)
    view.layer = 3
    page = opened(static_page, view)
    page.locator(OVERVIEW).focus()
    press(page, {"layer": "l", "all": "a"}[which])
    heads = weights[3] if which == "layer" else weights.flatten(0, 1)
    assert readout(page) == f"query 0, key 0: {heads.mean(0)[0, 0]:.4f} (mean of all {count} heads{of})"
    assert f"mean of all {count} heads{of}" in page.locator(FOCUS).get_attribute("aria-label")
    page.get_by_label("Heads together as").select_option("maximum")
    assert readout(page) == f"query 0, key 0: {heads.amax(0)[0, 0]:.4f} (maximum of all {count} heads{of})"
    page.get_by_label("Show as").select_option("lines")
    assert readout(page).startswith(f"query 0, key 0: {heads.amax(0)[0, 0]:.4f}")
    page.get_by_role("button", name="More").click()
    page.get_by_label("Heads", exact=True).select_option("chosen")
    assert readout(page) == f"query 0, key 0: {weights[3, 0, 0, 0]:.4f}"


# ---------------------------------------------------------------- with a kernel
