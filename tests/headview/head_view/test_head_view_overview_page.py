"""The overview of HeadView in a real browser: how large, in what order, what is said of a head, all heads at once."""

import matplotlib
import numpy as np
import pytest
import torch

from headview.head_view import widget as module
from headview.head_view.serve import Blocks
from headview.head_view.widget import HeadView
from mhalib.plots import COLOUR_MAP
from tests.helpers.browser import with_script
from tests.helpers.page import limits, pixels, press, readout, with_traits

OVERVIEW, FOCUS = "canvas.overview", "canvas.focus"

# The canvas of the overview keeps what its view writes, where it places heads, and how often it paints thumbnails.
HEARD = """
const heard = { written: new Set(), painted: 0 };
const placeTextOf = placeText, drawThumbsOf = drawThumbs, drawOverviewOf = drawOverview;
placeText = (context, text, ...rest) => { heard.written.add(text); placeTextOf(context, text, ...rest); };
drawThumbs = (...rest) => { heard.painted++; return drawThumbsOf(...rest); };
drawOverview = (canvas, scene) => {
  canvas.heard = Object.assign(heard, { grid: scene.layout.grid });
  drawOverviewOf(canvas, scene);
};
"""


def some(*shape):
    torch.manual_seed(0)
    return (torch.linspace(0.3, 4, shape[0] * shape[1]).view(*shape[:2], 1, 1) * torch.randn(*shape)).softmax(-1)


@pytest.fixture
def described(monkeypatch):
    """Return a function that makes a HeadView whose part has other facts than the weights tell, such as `kv_heads`."""
    plain = module.as_parts

    def make(weights, **facts):
        def parts(*args, **options):
            return [with_traits(part, **facts) for part in plain(*args, **options)]

        monkeypatch.setattr(module, "as_parts", parts)
        return HeadView(weights)

    return make


def opened(static_page, *views, **options):
    """Open a page whose views say what they wrote, painted and placed; returns the one, or all."""
    page = static_page(*(with_script(view, HEARD) for view in views), **options)
    return page if len(views) == 1 else page.locator(".mha").all()


def heard(view, what):
    return view.locator(OVERVIEW).evaluate(f"({{ heard: {{ grid, painted, written }} }}) => {what}")


def chosen(page):
    return page.locator(OVERVIEW).get_attribute("aria-label").split("chosen: ")[1]


def place_of(view, layer, head):
    return heard(view, f"grid.at({layer}, {head})")


def tip_over(view, layer, head):
    """What the tooltip says in the middle of a thumbnail."""
    x, y = place_of(view, layer, head)
    half = heard(view, "grid.side") / 2
    view.locator(OVERVIEW).hover(position={"x": x + half, "y": y + half})
    return view.locator(".tip").text_content()


def written(view) -> set:
    return set(heard(view, "[...written]"))


# ---------------------------------------------------------------- how large


def test_thumbnails_are_as_large_as_the_room_allows_and_stay_inside(static_page):
    for shape, width, least, beside in (
        ((2, 3, 10, 10), 1500, 140, True),
        ((32, 32, 16, 16), 1000, 10, True),
        ((12, 12, 24, 24), 390, 15, False),
        ((128, 128, 4, 4), 390, 0, False),
    ):
        page = opened(static_page, HeadView(some(*shape)), width=width)
        assert least <= heard(page, "grid.side") <= 150, shape
        overview, focus = page.locator(OVERVIEW).bounding_box(), page.locator(FOCUS).bounding_box()
        assert (overview["x"] + overview["width"] <= focus["x"]) is beside, shape
        assert beside or overview["y"] + overview["height"] <= focus["y"], shape
        assert overview["height"] <= 1000 and page.evaluate("document.documentElement.scrollWidth") <= width, shape
        last = [shape[0] - 1, shape[1] - 1]
        x, y = place_of(page, *last)
        page.locator(OVERVIEW).click(position={"x": x + 0.5, "y": y + 0.5})
        assert chosen(page) == f"layer {last[0]} head {last[1]}"


@pytest.mark.first_look
def test_the_overview_has_one_scale_on_the_page_and_in_the_picture(static_page):
    """As large as the largest weight of a head is, so dark is its darkest spot."""

    def darkest(drawn, places, side):
        spots = [drawn[round(y) : round(y + side), round(x) : round(x + side), :3].reshape(-1, 3) for x, y in places]
        return np.array([spot[spot.sum(-1).argmin()] for spot in spots])

    pairs = [(0, 0), (0, 1), (1, 0), (1, 1)]
    for sharpness, scale in ((0.1, "maximum"), (0.6, "root"), (8, "fixed")):
        weights = (sharpness * torch.linspace(0.5, 1, 4).view(2, 2, 1, 1) * torch.randn(2, 2, 120, 120)).softmax(-1)
        view, tops = HeadView(weights), weights.amax((-2, -1)).flatten()
        shares = {"maximum": tops / tops, "root": (tops / tops.max()).sqrt(), "fixed": tops}[scale]
        wanted = np.rint(255 * matplotlib.colormaps[COLOUR_MAP](shares.numpy())[:, :3])
        page = opened(static_page, view, width=1200)
        places, side = [place_of(page, *pair) for pair in pairs], heard(page, "grid.side")
        assert np.abs(darkest(pixels(page.locator(OVERVIEW)), places, side) - wanted).max() <= 6, scale
        sheet = np.asarray(view.figure().axes[0].images[0].get_array()).astype(int)
        step = sheet.shape[1] / 2
        places = [(step * head, step * layer) for layer, head in pairs]
        assert np.abs(darkest(sheet, places, step) - wanted).max() <= 6, scale


def test_a_chosen_head_moves_a_frame_and_paints_nothing_anew(static_page):
    page = opened(static_page, HeadView(some(4, 4, 8, 8)))
    shot = "document.querySelector('canvas.overview').toDataURL()"
    page.locator(OVERVIEW).focus()
    before, painted = page.evaluate(shot), heard(page, "painted")
    press(page, "ArrowRight", "Space", "ArrowDown", "l")
    moved = page.evaluate(shot)
    press(page, "l", "ArrowUp", "Space", "ArrowLeft")
    assert heard(page, "painted") == painted > 0
    assert moved != before == page.evaluate(shot)  # nothing is left of the frames in between


# ---------------------------------------------------------------- names, shared keys, windows


def test_names_are_cut_to_what_tells_them_apart_and_windows_told(static_page, described):
    names = [f"encoder.layer.{i}.attention.self" for i in (3, 7)]
    heads = ["subject", "object"]
    page = opened(static_page, described(some(2, 2, 6, 6), layer_names=names, head_names=heads, windows=[None, 512]))
    assert {"3", "7", "subject", "object", "≤ 512"} <= written(page)
    tip = tip_over(page, 1, 1)
    assert f", layer 7 object ({names[1]}), " in tip and "sees at most 512 keys (sliding window)" in tip
    assert "sliding" not in tip_over(page, 0, 0) + (limits(page) or "")
    page.locator(OVERVIEW).focus()
    press(page, "ArrowDown")
    assert page.locator("[role=status]").text_content().startswith("layer 7 subject")
    assert chosen(page) == "layer 7 subject"
    assert "layer 7 sees at most 512 keys (sliding window)" in limits(page)


def test_heads_that_share_keys_are_bracketed_and_told(static_page, described):
    weights = some(2, 8, 6, 6)
    rows, shared = opened(static_page, *(described(weights, kv_heads=own) for own in ([8, 4], [2, 2])))
    assert "shares" not in tip_over(rows, 0, 2)
    assert "shares its keys with head 3," in tip_over(rows, 1, 2)
    largest = f"largest weight {weights[0, 5].max():.4f}"
    assert tip_over(shared, 0, 5).endswith(f"shares its keys with heads 4–7, {largest}")
    assert [heard(view, "[grid.bracket, grid.once]") for view in (rows, shared)] == [[6, False], [6, True]]
    # The bracket over heads 4 to 7 is one line that ends between 3 and 4.
    ink = shared.locator(OVERVIEW).evaluate(
        """(canvas) => { const { grid } = canvas.heard;
        const [x] = grid.at(0, 4), y = grid.top - grid.bracket - 1, context = canvas.getContext("2d");
        const on = (x) => context.getImageData(Math.round(x), y, 1, 1).data[3] > 0;
        return [on(x - 2), on(x + 3), on(grid.at(0, 5)[0] - 2), on(grid.at(0, 7)[0] + grid.side - 3)]; }"""
    )
    assert ink == [False, True, True, True]


# ---------------------------------------------------------------- in what order


def drawn_order(view):
    return heard(view, "grid.list")


def facts_of(view):
    return Blocks.answer(view._blocks, "facts 0 0 a")[0]


def test_heads_are_sorted_by_what_is_said_of_them_and_walked_in_that_order(static_page):
    weights = some(3, 4, 12, 12).flip(0, 1)  # so that the sorted order is another one
    weights[1, 3] = torch.nan
    view = HeadView(weights)
    page, facts = opened(static_page, view, width=1200), facts_of(view)
    assert drawn_order(page) == list(range(12))
    page.get_by_role("button", name="More").click()
    for by, sign in (("sparsity", -1), ("distance", -1), ("entropy", 1)):
        page.get_by_label("Order heads").select_option(f"by {by}")
        numbers, order = np.array(facts["measures"][by], dtype=float), drawn_order(page)
        assert order[-1] == 7 and np.isnan(numbers[7])  # what is said of nothing is not told as zero
        assert sorted(order) == list(range(12)) and (np.diff(sign * numbers[order[:-1]]) >= 0).all()
        known = numbers[~np.isnan(numbers)]
        shown = {f"{int(100 * x + 0.5)} %" if by == "sparsity" else f"{x:.2f}" for x in known}
        assert np.ptp(known) > 0 and shown | {f"{i}·{j}" for i in range(3) for j in range(4)} <= written(page)
        assert f"sorted by {by}" in page.locator(OVERVIEW).get_attribute("aria-label")
    tip = tip_over(page, 2, 1)
    assert f"entropy {facts['measures']['entropy'][9]:.2f} of what is possible" in tip
    assert f"{int(100 * facts['measures']['sparsity'][9] + 0.5)} % of the weights below 0.01" in tip
    assert "entropy" not in tip_over(page, 1, 3)
    page.locator(OVERVIEW).focus()
    press(page, "Home")
    seen = [chosen(page)]
    for _ in range(12):  # once more than there are heads
        press(page, "ArrowRight")
        seen.append(chosen(page))
    assert order != list(range(12))
    assert seen == [f"layer {i // 4} head {i % 4}" for i in (*order, order[-1])]


def test_heads_are_sorted_by_their_weight_at_the_chosen_cell(static_page, monkeypatch):
    weights, words = some(3, 4, 6, 6), "it was the animal in question".split()
    best, cell = weights[:, :, 2, 3].flatten().argsort(descending=True).tolist(), {"query": 2, "key": 3}
    with monkeypatch.context() as patch:  # where the maps of all heads do not travel, that cell does
        patch.setattr("headview.head_view.serve.WHOLE_UP_TO", 10)
        view = opened(static_page, HeadView(weights, words, order="cell", **cell), width=1200)
    assert drawn_order(view) == best
    view = opened(static_page, HeadView(weights, words, order="cell", **cell), width=1200)
    assert drawn_order(view) == best
    assert "sorted by the chosen cell" in view.locator(OVERVIEW).get_attribute("aria-label")
    assert {f"{x:.2f}" for x in weights[:, :, 2, 3].flatten().tolist()} <= written(view)
    assert tip_over(view, 1, 2).startswith(f"“the” → “animal”: {weights[1, 2, 2, 3]:.2f}, layer 1 head 2, ")
    view.locator(FOCUS).focus()
    press(view, "ArrowDown", "ArrowRight")  # the cursor moves, and the order with it
    assert drawn_order(view) == weights[:, :, 3, 4].flatten().argsort(descending=True).tolist()


def test_what_heads_are_sorted_by_stands_below_thumbnails_of_28_pixels_too(static_page):
    view = with_traits(HeadView(some(8, 8, 16, 16)), order="entropy")
    page = opened(static_page, view, width=1000)
    assert 28 <= heard(page, "grid.side") < 40
    assert {f"{x:.2f}" for x in facts_of(view)["measures"]["entropy"]} <= written(page)


def test_groups_of_likeness_stand_apart_and_are_named(static_page):
    diagonal, first, flat = torch.eye(12), torch.zeros(12, 12), torch.full((12, 12), 1 / 12)
    first[:, 0] = 1
    weights = torch.stack([torch.stack([diagonal, first, flat]), torch.stack([first, flat, diagonal])])
    view = with_traits(HeadView(weights), order="likeness")
    page, facts = opened(static_page, view), facts_of(view)
    assert facts["groups"] == [facts["groups"][i] for i in (5, 3, 4, 3, 4, 5)] and max(facts["groups"]) == 2
    assert {f"group {i + 1} of 3" for i in range(3)} <= written(page)
    assert drawn_order(page) == facts["likeness"]
    assert f"group {facts['groups'][4] + 1} of 3" in tip_over(page, 1, 1)
    places = [place_of(page, i // 3, i % 3) for i in drawn_order(page)]
    step = heard(page, "grid.step")
    for i in (1, 3):  # from the last of a group to the first of the next there is more than a step
        (x0, y0), (x1, y1) = places[i], places[i + 1]
        assert x1 - x0 > step or y1 - y0 > step


def test_a_page_says_when_it_cannot_sort(static_page, monkeypatch):
    # Over 256 heads there are no facts, unless they are sorted.
    few, many = opened(static_page, HeadView(some(20, 20, 6, 6)), HeadView(some(46, 46, 4, 4), order="likeness"))
    few.get_by_role("button", name="More").click()
    few.get_by_label("Order heads").select_option("by entropy")
    assert drawn_order(few) == list(range(400))
    assert "what sorts them by entropy is not in this page" in limits(few)
    assert drawn_order(many) == list(range(46 * 46))
    assert "So many heads are not sorted by likeness" in limits(many)
    mask = ~torch.eye(80, dtype=torch.bool)
    weights = (mask / 79).expand(2, 2, 80, 80)
    masked = HeadView(weights, mask=mask, order="cell", query=3, key=3)
    monkeypatch.setattr("headview.head_view.measures.LARGE", 1000)
    page = opened(static_page, masked)
    assert limits(page).endswith("The chosen cell is masked or NaN in every head. Heads stand in the model's order. ")
    page.get_by_role("button", name="More").click()
    page.get_by_label("Order heads").select_option("by induction")
    why = "Induction has no number: without labels, no token comes again."
    assert limits(page).endswith(f"{why} Heads stand in the model's order. ")
    page.get_by_label("Order heads").select_option("by entropy")
    assert limits(page).endswith("Entropy is measured in 64 of 80 queries. ")
    tip = tip_over(page, 1, 1)
    assert "entropy about 1.00 of" in tip and ", about 0 % of" in tip and "first token 0.01" in tip


# ---------------------------------------------------------------- all heads at once


def test_all_heads_are_shown_as_their_mean_in_one_step(static_page):
    weights = some(12, 12, 8, 8)
    page = static_page(with_traits(HeadView(weights), layer=3))
    page.get_by_role("button", name="More").click()
    of_layer, of_all = ("of its layer together", "of layer 3", weights[3]), ("there are", "", weights.flatten(0, 1))
    for does, of, heads in (of_layer, of_all):
        of = f"{len(heads)} heads {of}".strip()
        page.get_by_label("Show as").select_option("map")
        page.locator(OVERVIEW).focus()
        press(page, page.locator(".keys tr", has_text=f"all heads {does}").locator("th").text_content())  # as listed
        assert readout(page) == f"query 0, key 0: {heads.mean(0)[0, 0]:.4f} (mean of all {of})"
        assert f"mean of all {of}" in page.locator(FOCUS).get_attribute("aria-label")
        page.get_by_label("together as").select_option("maximum")
        assert readout(page) == f"query 0, key 0: {heads.amax(0)[0, 0]:.4f} (maximum of all {of})"
        page.get_by_label("Show as").select_option("lines")
        assert readout(page).startswith(f"query 0, key 0: {heads.amax(0)[0, 0]:.4f}")
        page.get_by_label("Heads", exact=True).select_option("chosen")
        assert readout(page) == f"query 0, key 0: {weights[3, 0, 0, 0]:.4f}"
