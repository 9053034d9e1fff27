"""What all widgets promise alike, tried on each: in JupyterLab, in Notebook 7 and in a page without a kernel.

What one widget alone does is tested beside it, in the file of its name.
"""

import json
import shutil
from dataclasses import dataclass

import pytest
import torch
from axe_playwright_python.sync_playwright import Axe

from mhalib import widgets
from tests.helpers.browser import ROOT, settle, until
from tests.helpers.steady import hasty
from tools.notebooks.run import execute, write
from tools.notebooks.store import make_storable

PREPARE = """import torch
from mhalib.widgets import HeadLab, HeadSwitchboard, HeadView, PredictionView, ReshapeView, SealedBox
generator = torch.Generator().manual_seed(0)
q, k, v = torch.randn(3, 6, 8, generator=generator)
maps = torch.randn(2, 4, 6, 6, generator=generator).mul(2).softmax(-1)
words = ["<img src=x onerror=alert(1)>", "cat", "\u05e9\u05dc\u05d5\u05dd", "", "e\u0301\u0323", "mat"]

def measure(gates):
    score = float((gates * torch.arange(1, 7).view(2, 3)).sum()) / 21
    return score, [(word, words[int(gates.sum()) - i - 1], score > i / 6) for i, word in enumerate(words)]

choices = {word: f"{word} is as good as any." for word in words if word}
asked = ("Your guess: which word?", "<b>Your guess: which word?</b>")

def turned(c):
    return torch.sigmoid(50 * (c + torch.arange(-2, 2)))

def box(tokens):
    return turned(tokens) * (tokens.shape[1] - 1)

line = dict(start=torch.zeros(4), direction=torch.ones(4), probe=torch.ones(4), reach=4.0, points=778)"""


# Events as fast as the browser takes them. Each script is a function of the view.
SLIDE = """(view) => {
  const slider = view.querySelector('[aria-label="LABEL"]');
  const steps = Math.round((slider.max - slider.min) / slider.step);
  for (let i = 1; i <= 1000; i++) {
    slider.value = Number(slider.min) + ((i * 7) % (steps + 1)) * slider.step;
    slider.dispatchEvent(new Event("input", { bubbles: true }));
  }
}"""
WALK = """(view) => {
  const canvas = view.querySelector("canvas.focus");
  const press = (key) => canvas.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  press("PageUp");
  for (let i = 0; i < 498; i++) press("ArrowDown"), press("ArrowUp");
  for (let i = 0; i < 3; i++) press("ArrowDown");
}"""
SWITCH = """(view) => {
  [...view.querySelectorAll("button")].find((button) => button.textContent === "All on").click();
  for (let i = 0; i < 999; i++) view.querySelector('[aria-label="layer 0 head 0"]').click();
}"""
GUESS = """(view) => {
  const choices = [...view.querySelectorAll("input")];
  for (let i = 0; i < 1000; i++) choices[i % 3].click();
}"""


@dataclass(frozen=True)
class Case:
    """A widget, and one way of each kind to change it. Controls are CSS selectors."""

    make: str
    key: tuple[str, str]  # a control, and a key that changes ...
    by_key: tuple[str, object]  # ... this trait to this value
    click: tuple[str, float, float]  # a canvas and a place, as shares of its size, where a click changes ...
    by_click: str  # ... this trait
    thousand: str  # a script that makes a thousand events, after which ...
    at_last: tuple[str, object]  # ... this trait has this value
    cell: tuple[str, object]  # a trait, and a value that a cell sets
    beside: str = "image/png"  # what stands beside it, for readers where nothing runs
    once: bool = False  # without a kernel, the first change is the last

    @property
    def variable(self) -> str:
        return "a_" + self.make.split("(")[0]


CASES = {
    "HeadView": Case(
        make="HeadView(maps, tokens=words)",
        key=("canvas.overview", "ArrowDown"),
        by_key=("layer", 1),
        click=("canvas.overview", 0.6, 0.25),
        by_click="head",
        thousand=WALK,
        at_last=("query", 3),
        cell=("scale", "maximum"),
    ),
    "HeadLab": Case(
        make="HeadLab(q, k, v, tokens=words, num_heads=2)",
        key=('[aria-label="Heads"]', "ArrowRight"),
        by_key=("num_heads", 4),
        click=("canvas", 0.3, 0.3),
        by_click="head",
        thousand=SLIDE.replace("LABEL", "Temperature"),
        at_last=("temperature", float(f"{10 ** (1000 * 7 % 101 * 0.02 - 1):.3g}")),
        cell=("mask", "causal"),
    ),
    "ReshapeView": Case(
        make="ReshapeView(tokens=4, num_heads=2, head_dim=3)",
        key=('[aria-label="Step"]', "ArrowRight"),
        by_key=("step", 1),
        click=("canvas", 0.1, 0.15),
        by_click="chosen",
        thousand=SLIDE.replace("LABEL", "Step"),
        at_last=("step", 1000 * 7 % 3),
        cell=("colour_by", "head"),
    ),
    "HeadSwitchboard": Case(
        make="HeadSwitchboard(measure, 2, 3, score_name=words[0])",
        key=('[aria-label="layer 0 head 1"]', "Space"),
        by_key=("gates", [[1, 0, 1], [1, 1, 1]]),
        click=('[aria-label="layer 1 head 2"]', 0.5, 0.5),
        by_click="gates",
        thousand=SWITCH,
        at_last=("gates", [[0, 1, 1], [1, 1, 1]]),
        cell=("gates", [[1, 1, 1], [0, 0, 1]]),
    ),
    "PredictionView": Case(
        make='PredictionView("which word", "cat", options=choices, words=asked)',
        key=("label:nth-child(2) input", "Space"),
        by_key=("picked", "cat"),
        click=("label:nth-child(3)", 0.5, 0.5),
        by_click="picked",
        thousand=GUESS,
        at_last=("picked", "<img src=x onerror=alert(1)>"),
        cell=("picked", "mat"),
        beside="text/html",
        once=True,
    ),
    "SealedBox": Case(
        make="SealedBox(box, 4, **line, heads=turned)",
        key=('[aria-label="t"]', "ArrowRight"),
        by_key=("t", -4 + 1 * (8 / 777)),
        click=("canvas.lines", 0.5, 0.5),
        by_click="t",
        thousand=SLIDE.replace("LABEL", "t"),
        at_last=("t", -4 + 1000 * 7 % 778 * (8 / 777)),  # behind the last step, so that all of them are crossed
        cell=("opened", True),
    ),
}
each_widget = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
# What a kernel and a page say to each other is the same code for all: two are tried each time, all of them at night.
TRIED_LIVE = ("HeadView", "HeadLab")
each_live_widget = pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=name, marks=[] if name in TRIED_LIVE else [pytest.mark.slow])
        for name, case in CASES.items()
    ],
)


def make(case: Case):
    space = {}
    exec(PREPARE, space)
    return eval(case.make, space)


def click(view, case: Case) -> None:
    selector, x, y = case.click
    canvas = view.locator(selector).first
    box = canvas.bounding_box()
    canvas.click(position={"x": x * box["width"], "y": y * box["height"]})


PIXELS = """(view) => {
  const sum = (canvas) => {  // of all pixels; to write them out as a picture takes ten times as long
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    return new Uint32Array(data.buffer).reduce((hash, pixel) => Math.imul(hash ^ pixel, 0x01000193), canvas.width);
  };
  const canvases = [...view.querySelectorAll("canvas")];
  if (canvases.length) return canvases.filter((canvas) => canvas.width && canvas.height).map(sum).join();
  const inputs = [...view.querySelectorAll("input")].map(({ checked, value }) => `${checked} ${value}`);
  const texts = [...view.children].filter((part) => !part.matches(".hidden")).map((part) => part.innerText);
  return [...inputs, ...texts].join();
}"""


def picture(view) -> int:
    """Return a number for what all canvases of a view show; of a view without one, its choices and its text."""
    return hash(view.evaluate(PIXELS))


def at_rest(view) -> int:
    """Return the picture once it no longer changes; cells may walk for a moment."""
    return all_at_rest([view])[0]


def all_at_rest(views: list) -> list[int]:
    """Return the picture of each view once none of them changes any longer."""
    seen = [list(map(picture, views))]
    until(
        lambda: seen.append(list(map(picture, views))) or seen[-1] == seen[-4:][0] and len(seen) > 4,
        "the picture never rests",
    )
    return seen[-1]


FOCUSABLE = "a[href], button, input, select, textarea, summary, [tabindex]"


# ---------------------------------------------------------------- a page without a kernel


def test_a_thousand_events_without_a_kernel(static_page):
    shown = []
    for case in CASES.values():
        there = make(case)
        setattr(there, *case.at_last)
        shown += [make(case), there]
    views = static_page(*shown).locator(".mha")
    for number, case in enumerate(CASES.values()):
        one, there = views.nth(2 * number), views.nth(2 * number + 1)
        one.evaluate(case.thousand)
        until(lambda one=one, there=there: at_rest(one) == at_rest(there), f"{case.make}: they end elsewhere")


def test_widgets_on_one_page_do_not_disturb_each_other(static_page):
    page = static_page(*(make(case) for case in CASES.values() for _ in range(2)))
    views = [page.locator(".mha").nth(i) for i in range(2 * len(CASES))]
    after = all_at_rest(views)
    for number, case in enumerate(CASES.values()):
        before = after
        control, key = case.key
        views[2 * number].locator(control).focus()
        page.keyboard.press(key)
        until(lambda number=number, before=before: at_rest(views[2 * number]) != before[2 * number], "nothing changed")
        after = all_at_rest(views)
        changed = [i for i in range(len(views)) if after[i] != before[i]]
        assert changed == [2 * number]
    assert page.evaluate("() => [...document.querySelectorAll('[id]')].map((e) => e.id)").__len__() == len(
        page.evaluate("() => [...new Set([...document.querySelectorAll('[id]')].map((e) => e.id))]")
    )


HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(1)</script>",
    "<b>bold</b>&amp;",
    "\U0001f469\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466",  # one family, seven code points
    "\u05e9\u05dc\u05d5\u05dd",  # right to left
    "e\u0301\u0302\u0323",  # combining marks
    "",
    "long" * 50,
]


@pytest.mark.parametrize(("make", "canvas"), [("HeadView", "canvas.focus"), ("HeadLab", "canvas")])
def test_tokens_are_text(static_page, make, canvas):
    size = len(HOSTILE)
    given = torch.randn(size, 8) if make == "HeadLab" else torch.randn(3, size, size).softmax(-1)
    page = static_page(getattr(widgets, make)(given, tokens=HOSTILE), width=700)
    view = page.locator(".mha")
    place = view.locator(canvas).first
    place.focus()
    for token in HOSTILE:
        heard = view.evaluate(
            """(view) => view.textContent + [...view.querySelectorAll("[aria-label]")].map((e) => e.ariaLabel).join()"""
        )
        assert token in heard
        page.keyboard.press("ArrowDown")
    box = place.bounding_box()
    for share in range(1, 20):
        page.mouse.move(box["x"] + box["width"] * share / 20, box["y"] + box["height"] * share / 20)
    assert page.locator(".mhalib-view").locator("img, b, script").count() == 0
    assert no_overflow(page) == []


UNFOLD = """(view) => view.querySelectorAll("summary, [aria-expanded=false]").forEach((element) => element.click())"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_audit_of_accessibility_is_clean_folded_and_unfolded(static_page, theme):
    page = static_page(*(make(case) for case in CASES.values()), theme=theme, width=700)
    for _ in range(2):
        found = Axe().run(page)
        assert found.violations_count == 0, found.generate_report()
        for view in page.locator(".mha").all():
            view.evaluate(UNFOLD)
        settle(page)


NAMES = """([view, focusable]) => [...view.querySelectorAll(focusable)]
.filter((e) => e.checkVisibility()).map((element) => ({
  element: element.outerHTML.slice(0, 150), name: element.computedName, held: element.dataset.lmSuppressShortcuts }))"""


def test_every_control_has_a_name_keeps_its_keys_and_is_reached_by_tab(static_page):
    page = static_page(*(make(case) for case in CASES.values()))
    for view in page.locator(".mha").all():
        found = page.evaluate(NAMES, [view.element_handle(), FOCUSABLE])
        assert len(found) >= 4
        assert [control for control in found if not control["name"] or control["held"] != "true"] == []
    count = page.evaluate(
        """(focusable) => [...document.querySelectorAll(focusable)]
        .filter((e) => e.tabIndex >= 0 && !e.disabled && e.checkVisibility()).length""",
        FOCUSABLE,
    )
    reached = set()
    for _ in range(count):
        page.keyboard.press("Tab")
        reached.add(
            page.evaluate(
                """() => { const style = getComputedStyle(document.activeElement);
                const all = [...document.querySelectorAll("*")];
                return all.indexOf(document.activeElement) + (style.outlineStyle === "none" ? " unseen" : ""); }"""
            )
        )
    assert len(reached) == count
    assert not [place for place in reached if "unseen" in str(place)]


WIDE = """() => {
  const wide = [...document.querySelectorAll(".mha, .mha *")].filter((element) => {
    const root = element.closest(".mha").getBoundingClientRect();
    const box = element.getBoundingClientRect();
    if (!element.checkVisibility() || element.matches(".hidden, .tip, option, table, tr")) return false;
    for (let e = element.parentElement; !e.matches(".mha, .mhalib-view"); e = e.parentElement)
      if (["auto", "scroll"].includes(getComputedStyle(e).overflowX)) return false;
    return box.right > root.right + 1 || box.left < root.left - 1;
  });
  const page = document.documentElement;
  return [...wide.map((e) => e.outerHTML.slice(0, 150)), ...(page.scrollWidth > page.clientWidth ? ["page"] : [])];
}"""


def no_overflow(page) -> list[str]:
    """Return what stands out of its view, or makes the page wider than the window."""
    return page.evaluate(WIDE)


TOUCHING = """(focusable) => {
  const boxes = [...document.querySelectorAll(focusable)].filter((e) => e.checkVisibility())
    .map((e) => [e, e.getBoundingClientRect()]);
  return boxes.flatMap(([one, a], i) => boxes.slice(i + 1)
    .filter(([other, b]) => !one.contains(other) && a.left < b.right - 1 && b.left < a.right - 1
      && a.top < b.bottom - 1 && b.top < a.bottom - 1)
    .map(([other]) => [one, other].map((e) => e.outerHTML.slice(0, 100)).join(" over ")));
}"""


@pytest.mark.parametrize("width", [360, 1100])
def test_nothing_overflows_or_overlaps(static_page, width):
    page = static_page(*(make(case) for case in CASES.values()), width=width)
    for view in page.locator(".mha").all():
        view.evaluate(UNFOLD)
    settle(page)
    assert no_overflow(page) == []
    assert page.evaluate(TOUCHING, FOCUSABLE) == []


# ---------------------------------------------------------------- JupyterLab and Notebook 7


@pytest.fixture(scope="module", params=["lab", pytest.param("notebook7", marks=pytest.mark.slow)])
def shared(request):
    """One notebook with every widget, each shown twice in its cell; opened once for all tests of this part."""
    server = request.getfixturevalue(f"{request.param}_server")
    shown = [f"{case.variable} = {case.make}\ndisplay({case.variable}, {case.variable})" for case in CASES.values()]
    notebook = server.open(server.write(PREPARE, *shown, "'the last cell'"), width=1280, height=1800)
    yield notebook
    notebook.close()


@pytest.fixture
def notebook(shared):
    yield shared
    assert shared.problems == []


def views(notebook, case: Case) -> list:
    """Return both views of a widget, scrolled to."""
    number = list(CASES.values()).index(case) + 1
    notebook.show_cell(number)
    found = notebook.page.locator(f'[data-windowed-list-index="{number}"] .mha')
    until(lambda: found.count() == 2, f"{case.variable} was not displayed twice")
    return [found.nth(0), found.nth(1)]


def value(notebook, case: Case, trait: str):
    return eval(notebook.python(f"print(repr({case.variable}.{trait}))"))


def becomes(notebook, case: Case, trait: str, expected) -> None:
    """Wait until Python has this value."""
    notebook.prints(f"print(repr({case.variable}.{trait}))", repr(expected))


@each_live_widget
def test_a_key_a_click_and_a_cell_change_the_trait_and_both_views(notebook, case):
    one, other = views(notebook, case)
    before = at_rest(one)
    assert at_rest(other) == before
    control, key = case.key
    one.locator(control).focus()
    notebook.page.keyboard.press(key)
    becomes(notebook, case, *case.by_key)
    until(lambda: at_rest(one) != before, "the picture did not change")
    until(lambda: at_rest(other) == at_rest(one), "the second view differs")

    before = value(notebook, case, case.by_click)
    click(one, case)
    until(lambda: value(notebook, case, case.by_click) != before, "a click did not reach Python")
    click(other, case)  # the cursor belongs to each view
    until(lambda: at_rest(other) == at_rest(one), "the second view differs")

    trait, wanted = case.cell
    before = at_rest(one)
    assert value(notebook, case, trait) != wanted
    notebook.python(f"{case.variable}.{trait} = {wanted!r}")
    until(lambda: at_rest(one) != before, "the picture did not change")
    until(lambda: at_rest(other) == at_rest(one), "the second view differs")


@each_live_widget
def test_a_thousand_events_end_in_the_last_state(notebook, case):
    one, other = views(notebook, case)
    one.evaluate(case.thousand)
    trait, expected = case.at_last
    becomes(notebook, case, trait, expected)
    until(lambda: at_rest(other) == at_rest(one), "the second view differs")
    assert value(notebook, case, trait) == expected  # and stays: nothing that is long past comes back


@each_live_widget
def test_no_key_reaches_the_notebook(notebook, case):
    one, _ = views(notebook, case)
    page, before = notebook.page, notebook.cells()
    own = list(CASES.values()).index(case) + 1
    keys = ["ArrowDown", "ArrowUp", "ArrowLeft", "ArrowRight", *"abddmxyz00cv", "Enter", "Space", "Shift+Enter"]
    places = one.locator(FOCUSABLE)
    for number in range(places.count()):
        place = places.nth(number)
        if number >= places.count() or not place.is_visible() or not place.is_enabled():
            continue
        with hasty(page):
            for key in keys:
                place.focus()
                page.keyboard.press(key)
        page.keyboard.press("Escape")  # closes the list of a choice
        assert page.locator(".jp-Dialog").count() == 0
        assert page.evaluate("() => window.jupyterapp.shell.currentWidget.content.activeCellIndex") == own
        assert notebook.cells() == before, f"keys in {place.evaluate('(e) => e.outerHTML.slice(0, 200)')}"


@each_live_widget
def test_scrolled_away_and_back(notebook, case):
    one, other = views(notebook, case)
    before = at_rest(one)
    notebook.page.set_viewport_size({"width": 1280, "height": 300})
    notebook.show_cell(0 if case != list(CASES.values())[0] else len(CASES) + 1)
    notebook.page.set_viewport_size({"width": 1280, "height": 1800})
    one, other = views(notebook, case)
    until(lambda: at_rest(one) == before, "the picture is not what it was")


@pytest.mark.slow
def test_restart_and_run_again(notebook):
    notebook.restart_and_run_all()
    for case in CASES.values():
        one, other = views(notebook, case)
        fresh = at_rest(one)
        control, key = case.key
        other.locator(control).focus()
        notebook.page.keyboard.press(key)
        trait, expected = case.by_key
        becomes(notebook, case, trait, expected)
        until(lambda one=one, fresh=fresh: at_rest(one) != fresh, "the picture did not change")


# ---------------------------------------------------------------- a notebook that was stored


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A notebook with every widget, executed and stored as `make notebooks` does."""
    import nbformat

    path = tmp_path_factory.mktemp("stored") / "stored.ipynb"
    cells = [nbformat.v4.new_code_cell(source) for source in (PREPARE, *(case.make for case in CASES.values()))]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    write(make_storable(execute(path, env={"PYTHONPATH": str(ROOT)})), path)
    return path


def test_a_stored_notebook_holds_pictures_and_no_widget(stored):
    text = stored.read_text(encoding="utf-8")
    assert "widget-view" not in text and "widget-state" not in text and "_esm" not in text
    cells = json.loads(text)["cells"][1:]
    for case, cell in zip(CASES.values(), cells, strict=True):
        (output,) = cell["outputs"]
        assert set(output["data"]) == {case.beside, "text/plain"}
        text = "".join(output["data"]["text/plain"])
        if case.beside == "image/png":
            assert output["metadata"]["image/png"]["alt"] == make(case).figure().alt == text
        else:
            assert ("".join(output["data"]["text/html"]), text) == (f"<b>{text}</b>", repr(make(case)))


@pytest.mark.parametrize(
    ("front", "trusted"),
    [("lab", False), *(pytest.param(*each, marks=pytest.mark.slow) for each in (("lab", True), ("notebook7", False)))],
)
def test_a_stored_notebook_shows_pictures_whenever_it_is_opened(stored, request, front, trusted):
    server = request.getfixturevalue(f"{front}_server")
    path = server.root / f"stored_{trusted}.ipynb"
    shutil.copy(stored, path)
    if trusted:
        server.trust(path)
    for _ in range(1 if trusted else 2):
        notebook = server.open(path, run=False, height=2400)
        pictures = notebook.page.locator(".jp-OutputArea-output img")
        count = len([case for case in CASES.values() if case.beside == "image/png"])
        until(lambda found=pictures, count=count: found.count() == count, "not every picture is there")
        widths = [
            pictures.nth(i).evaluate("(image) => image.decode().then(() => image.naturalWidth)") for i in range(count)
        ]
        assert min(widths) > 100
        shown = "".join(notebook.page.locator(".jp-OutputArea-output").all_inner_texts()).strip()
        assert shown == "Your guess: which word?", "text beside the pictures, such as that a model was not found"
        marked = notebook.page.evaluate(
            "() => [...window.jupyterapp.shell.currentWidget.content.model.cells].map((cell) => cell.trusted)"
        )
        assert all(marked) if trusted else not any(marked)
        notebook.close()
