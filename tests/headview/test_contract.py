"""What all widgets promise alike, tried on each: in a page without a kernel, in JupyterLab and in Notebook 7.

What one widget alone does is tested beside it, in the file of its name.
"""

import itertools
import json
from typing import NamedTuple

import pytest
import torch
from axe_playwright_python.sync_playwright import Axe

import headview
from tests.helpers.browser import ROOT, settle, until
from tests.helpers.page import FOCUSABLE, HOSTILE, UNFOLD, no_overflow, shot, some, with_traits
from tests.helpers.steady import hasty
from tools.notebooks.run import execute, write
from tools.notebooks.store import make_storable

PREPARE = """import torch
from headview import ArrowView, HeadLab, HeadSwitchboard, HeadView, PredictionView, ReshapeView, ScoreBars, SealedBox
from headview import HeadScatter, LiveModel, survey
from mhalib import MultiHeadAttention
from tests.helpers.small_sentences import small_sentences
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

torch.manual_seed(0)
two = torch.nn.Sequential(torch.nn.Embedding.from_pretrained(9 * torch.randn(6, 8)), MultiHeadAttention(8, 2))
surveyed = survey(two, ["all", "of it"], lambda text: (range(6), words), progress=False)

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
CLICKS = """(view) => {
  const parts = [...view.querySelectorAll("PARTS")];
  for (let i = 0; i <= 1000; i++) parts[i % parts.length].click();
}"""
PICKS = """(view) => {
  const choice = view.querySelector("[aria-label=Across]");
  for (let i = 0; i <= 1000; i++) {
    choice.selectedIndex = i % 9;
    choice.dispatchEvent(new Event("change", { bubbles: true }));
  }
}"""


class Case(NamedTuple):
    """A widget, and one way of each kind to change it. Controls are CSS selectors."""

    make: str
    key: tuple  # a control, a key, the trait that it changes, and to what
    click: tuple  # a canvas and a place, as shares of its size, and the trait that a click there changes
    thousand: tuple  # a script that makes a thousand events, a trait, and its value after them
    cell: tuple[str, object]  # a trait, and a value that a cell sets

    @property
    def variable(self) -> str:
        return "a_" + self.make.split("(")[0]


TEMPERATURE = float(f"{10 ** (1000 * 7 % 101 * 0.02 - 1):.3g}")
CASES = {
    "HeadView": Case(
        make="HeadView(maps, tokens=words, query=0)",
        key=("canvas.overview", "ArrowDown", "layer", 1),
        click=("canvas.overview", 0.6, 0.25, "head"),
        thousand=(WALK, "query", 3),
        cell=("scale", "maximum"),
    ),
    "HeadLab": Case(
        make="HeadLab(q, k, v, tokens=words, num_heads=2)",
        key=('[aria-label="Heads"]', "ArrowRight", "num_heads", 4),
        click=("canvas", 0.22, 0.3, "head"),
        thousand=(SLIDE.replace("LABEL", "Temperature"), "temperature", TEMPERATURE),
        cell=("mask", "causal"),
    ),
    "ReshapeView": Case(
        make="ReshapeView(tokens=4, num_heads=2, head_dim=3)",
        key=('[aria-label="Step"]', "ArrowRight", "step", 1),
        click=("canvas", 0.1, 0.15, "chosen"),
        thousand=(SLIDE.replace("LABEL", "Step"), "step", 1000 * 7 % 3),
        cell=("colour_by", "head"),
    ),
    "HeadSwitchboard": Case(
        make="HeadSwitchboard(measure, 2, 3, score_name=words[0])",
        key=('[aria-label="layer 0 head 1"]', "Space", "gates", [[1, 0, 1], [1, 1, 1]]),
        click=('[aria-label="layer 1 head 2"]', 0.5, 0.5, "gates"),
        thousand=(CLICKS.replace("PARTS", "[aria-label='layer 0 head 0']"), "gates", [[0, 1, 1], [1, 1, 1]]),
        cell=("gates", [[1, 1, 1], [1, 1, 1]]),
    ),
    "PredictionView": Case(
        make='PredictionView("which word", "cat", options=choices, words=asked)',
        key=("label:nth-child(2) input", "Space", "picked", "cat"),
        click=("label:nth-child(3)", 0.5, 0.5, "picked"),
        thousand=(CLICKS.replace("PARTS", "input"), "picked", "<img src=x onerror=alert(1)>"),
        cell=("picked", "mat"),
    ),
    "SealedBox": Case(
        make="SealedBox(box, 4, **line, heads=turned)",
        key=('[aria-label="t"]', "ArrowRight", "t", -4 + 1 * (8 / 777)),
        click=("canvas.lines", 0.5, 0.5, "t"),
        # The last event is behind the last step, so that all of them are crossed.
        thousand=(SLIDE.replace("LABEL", "t"), "t", -4 + 1000 * 7 % 778 * (8 / 777)),
        cell=("opened", True),
    ),
    "ScoreBars": Case(
        make="ScoreBars({words[0]: 4 * torch.eye(6), 'b': torch.ones(6, 6)}, words)",
        key=("[role=slider]", "ArrowRight", "dragged", [[0, 0, 0, 4.25]]),
        click=(".table > button:nth-of-type(2)", 0.5, 0.5, "query"),
        thousand=(CLICKS.replace("PARTS", ".table > button"), "query", 1000 % 6),
        cell=("query", 2),
    ),
    "ArrowView": Case(
        make="ArrowView({words[0]: (1, 1), 'b': (-1, 2)}, (1, 2))",
        key=("circle[aria-label^=query]", "ArrowRight", "query", [1.7, 1.2]),
        click=("input", 0.5, 0.5, "scaled"),
        thousand=(CLICKS.replace("PARTS", "input"), "scaled", False),
        cell=("query", [2.0, 1.0]),
    ),
    "LiveModel": Case(
        make="LiveModel(small_sentences(), head=(1, 0))",
        key=("canvas", "ArrowRight", "head", [1, 1]),
        click=("canvas", 0.3, 0.35, "head"),
        thousand=(CLICKS.replace("PARTS", ".words button"), "query", 1000 % 15),
        cell=("query", 2),
    ),
    "HeadScatter": Case(
        make="HeadScatter(surveyed)",
        key=("svg.plane", "ArrowRight", "chosen", [0, 1]),
        click=("circle.head", 0.5, 0.5, "chosen"),
        thousand=(PICKS, "x", "first token"),
        cell=("x", "distance"),
    ),
}
QUESTION = CASES["PredictionView"]  # without a kernel its first change is the last, and its picture is text
# What a kernel and a page say to each other is the same code for all: one is tried each time, all of them at night.
AT_NIGHT = {name: [pytest.mark.slow] for name in CASES if name != "HeadView"}
each_live_widget = pytest.mark.parametrize(
    "case", [pytest.param(case, id=name, marks=AT_NIGHT.get(name, [])) for name, case in CASES.items()]
)


def make(case: Case):
    space = {}
    exec(PREPARE, space)
    return eval(case.make, space)


def press_key(view, case: Case) -> None:
    control, key, *_ = case.key
    view.locator(control).first.focus()
    view.page.keyboard.press(key)


def click(view, case: Case) -> None:
    selector, x, y, _ = case.click
    canvas = view.locator(selector).first
    box = canvas.bounding_box()
    canvas.click(position={"x": x * box["width"], "y": y * box["height"]})


# For each view a text of what all its canvases show; of a view without one, its choices and its text but for the
# sentence on the control that the reader touched last.
PICTURES = """(views) => views.map((view) => {
  const sum = (canvas) => {  // of all pixels; to write them out as a picture takes ten times as long
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    return new Uint32Array(data.buffer).reduce((hash, pixel) => Math.imul(hash ^ pixel, 0x01000193), canvas.width);
  };
  const canvases = [...view.querySelectorAll("canvas")];
  if (canvases.length) return canvases.filter((canvas) => canvas.width && canvas.height).map(sum).join();
  const inputs = [...view.querySelectorAll("input")].map(({ checked, value }) => `${checked} ${value}`);
  const texts = [...view.children].filter((part) => !part.matches(".hidden, .readout")).map((part) => part.innerText);
  return [...inputs, ...texts].join();
})"""


def at_rest(view) -> str:
    """Return the picture of a view once it does not change any longer; cells may walk for a moment."""
    seen = view.evaluate_all(PICTURES)
    until(
        lambda: seen.extend(view.evaluate_all(PICTURES)) or seen[-1] == seen[-4:][0] and len(seen) > 4,
        "the picture never rests",
    )
    return seen[-1]


def until_changed(view, before: str, why: str) -> None:
    until(lambda: at_rest(view) != before, why)


def until_same(view, other, why: str = "the second view differs") -> None:
    until(lambda: at_rest(view) == at_rest(other), why)


# ---------------------------------------------------------------- a page without a kernel


def test_a_thousand_events_without_a_kernel(static_page):
    shown = [with_traits(make(case), **state) for case in CASES.values() for state in ({}, dict([case.thousand[1:]]))]
    page = static_page(*shown, reduced_motion=True)
    for number, case in enumerate(CASES.values()):
        page.locator(".mha").nth(2 * number).evaluate(case.thousand[0])
    settle(page)
    seen = page.locator(".mha").evaluate_all(PICTURES)
    pairs = zip(CASES.values(), seen[::2], seen[1::2], strict=True)
    assert [case.make for case, one, there in pairs if one != there] == [], "a thousand events end elsewhere"


def test_a_key_and_a_click_change_the_view_they_are_for_and_no_other(static_page):
    page = static_page(*(make(case) for case in CASES.values() for _ in range(2)), reduced_motion=True)
    views, failures = page.locator(".mha"), []
    after = views.evaluate_all(PICTURES)
    for (number, case), act in itertools.product(enumerate(CASES.values()), (press_key, click)):
        place, before = 2 * number + (case is QUESTION and act is click), after
        act(views.nth(place), case)
        after = views.evaluate_all(PICTURES)
        changed = [i for i in range(2 * len(CASES)) if after[i] != before[i]]
        if changed != [place]:
            failures.append((case.make, act, changed))
    assert failures == []
    ids = page.evaluate("() => [...document.querySelectorAll('[id]')].map((e) => e.id)")
    assert len(ids) == len(set(ids))


def test_tokens_are_text(static_page):
    size, failures = len(HOSTILE), []
    lab = headview.HeadLab(torch.randn(size, 8), tokens=HOSTILE)
    page = static_page(headview.HeadView(some(3, size, size), HOSTILE), lab, width=700)
    for number, name in enumerate(("canvas.focus", "canvas")):
        view = page.locator(".mha").nth(number)
        canvas = view.locator(name).first
        canvas.focus()
        for token in HOSTILE:
            labels = "[...view.querySelectorAll('[aria-label]')].map((e) => e.ariaLabel).join()"
            if token not in view.evaluate(f"(view) => view.textContent + {labels}"):
                failures.append((name, token))
            page.keyboard.press("ArrowDown")
        box = canvas.bounding_box()
        for part in range(1, 20):
            page.mouse.move(box["x"] + box["width"] * part / 20, box["y"] + box["height"] * part / 20)
    assert failures == no_overflow(page) == []
    assert page.locator(".mhalib-view").locator("img, b, script").count() == 0


def in_many_states() -> list:
    """Every widget, and HeadView as all that it can be."""
    maps, words = some(2, 4, 8, 8), "[CLS] the cat sat on the mat [SEP]".split()
    states = (
        dict(mode="lines", overlay=[[0, 1], [1, 2]]),
        dict(mode="across", hidden=["the"]),
        dict(mode="text", hidden=["the"]),
        dict(order="likeness", heads="layer"),
    )
    views = [with_traits(headview.HeadView(maps, words), **state) for state in states]
    return [*map(make, CASES.values()), *views, headview.HeadView(maps, words, compare=some(2, 4, 8, 8, seed=1))]


def unfold(page) -> None:
    page.locator(".mha").evaluate_all(f"(views) => views.forEach({UNFOLD})")
    settle(page)


CONTROLS = """(focusable) => [...document.querySelectorAll(`.mha :is(${focusable})`)]
.filter((e) => e.checkVisibility()).map((element) => ({
  element: element.outerHTML.slice(0, 150), name: element.computedName, held: element.dataset.lmSuppressShortcuts,
  byTab: element.tabIndex >= 0 && !element.disabled }))"""
REACHED = """() => {
  const here = document.activeElement;
  return [[...document.querySelectorAll("*")].indexOf(here), getComputedStyle(here).outlineStyle !== "none"];
}"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_all_can_be_used_without_eyes_or_a_mouse(static_page, theme):
    """Audits of accessibility are clean; every control has a name, keeps its keys, and is reached by the tab key."""
    page = static_page(*in_many_states(), theme=theme, width=700)
    for _ in range(2):
        audit = Axe().run(page)
        assert audit.violations_count == 0, audit.generate_report()
        unfold(page)
    if theme == "dark":
        return  # it has other colours, which is the audit's business, but the same controls
    found, reached = page.evaluate(CONTROLS, FOCUSABLE), {}
    assert len(found) >= 5 * len(CASES)
    assert [control for control in found if not control["name"] or control["held"] != "true"] == []
    count = sum(control["byTab"] for control in found)
    page.evaluate("document.activeElement.blur()")
    with hasty(page):  # where the focus is needs no frame
        for _ in range(count):
            page.keyboard.press("Tab")
            place, seen = page.evaluate(REACHED)
            reached[place] = seen
    assert len(reached) == count and all(reached.values())


TOUCHING = """(focusable) => {
  const boxes = [...document.querySelectorAll(focusable)].filter((e) => e.checkVisibility())
    .map((e) => [e, e.getBoundingClientRect()]);
  return boxes.flatMap(([one, a], i) => boxes.slice(i + 1)
    .filter(([other, b]) => !one.contains(other) && a.left < b.right - 1 && b.left < a.right - 1
      && a.top < b.bottom - 1 && b.top < a.bottom - 1)
    .map(([other]) => [one, other].map((e) => e.outerHTML.slice(0, 100)).join(" over ")));
}"""


def test_nothing_overflows_or_overlaps(static_page):
    shapes = (4, 8, 13, 13), (1, 16, 32, 32), (2, 2, 1, 300), (2, 2, 90, 2)
    large = [*(headview.HeadView(some(*shape)) for shape in shapes), headview.HeadLab(torch.randn(5, 64), num_heads=16)]
    page, failures = static_page(*in_many_states(), *large, width=1100), {}
    unfold(page)
    for width in (1100, 700, 360):
        page.set_viewport_size({"width": width, "height": 900})
        settle(page)
        failures[width] = no_overflow(page) + page.evaluate(TOUCHING, FOCUSABLE)
    assert failures == {1100: [], 700: [], 360: []}


# ---------------------------------------------------------------- JupyterLab and, at night, Notebook 7


@pytest.fixture(scope="module", params=["lab", pytest.param("notebook7", marks=pytest.mark.slow)])
def shared(request):
    """One notebook with every widget, each shown twice in its cell; opened once for all tests of this part."""
    server = request.getfixturevalue(f"{request.param}_server")
    shown = [f"{case.variable} = {case.make}\ndisplay({case.variable}, {case.variable})" for case in CASES.values()]
    notebook = server.open(server.write(PREPARE, *shown, "'the last cell'"), width=1280, height=1800)
    yield notebook
    notebook.close()


def views(notebook, case: Case) -> list:
    return notebook.views(list(CASES.values()).index(case) + 1)


def becomes(notebook, case: Case, trait: str, expected) -> None:
    """Wait until Python has this value."""
    notebook.prints(f"print(repr({case.variable}.{trait}))", repr(expected))


@each_live_widget
def test_python_and_both_views_follow_a_key_a_click_a_cell_and_a_thousand_events(notebook, case):
    def value(trait: str) -> str:
        return notebook.python(f"print(repr({case.variable}.{trait}))")

    one, other = views(notebook, case)
    before = at_rest(one)
    assert at_rest(other) == before
    press_key(one, case)
    becomes(notebook, case, *case.key[2:])
    until_changed(one, before, "a key did not change the picture")
    until_same(other, one)

    before = value(case.click[-1])
    click(one, case)
    until(lambda: value(case.click[-1]) != before, "a click did not reach Python")
    click(other, case)  # the cursor belongs to each view
    until_same(other, one)

    trait, wanted = case.cell
    before = at_rest(one)
    assert value(trait) != repr(wanted)
    notebook.python(f"{case.variable}.{trait} = {wanted!r}")
    until_changed(one, before, "a cell did not change the picture")
    until_same(other, one)

    one.evaluate(case.thousand[0])
    becomes(notebook, case, *case.thousand[1:])
    until_same(other, one)
    becomes(notebook, case, *case.thousand[1:])  # and stays: nothing that is long past comes back
    before = at_rest(one)
    notebook.page.set_viewport_size({"width": 1280, "height": 300})
    notebook.show_cell(0 if case != CASES["HeadView"] else len(CASES) + 1)
    notebook.page.set_viewport_size({"width": 1280, "height": 1800})
    one, _ = views(notebook, case)
    until(lambda: at_rest(one) == before, "the picture is not what it was")


@each_live_widget
def test_no_key_reaches_the_notebook(notebook, case):
    one, _ = views(notebook, case)
    page, before = notebook.page, notebook.cells()
    own = list(CASES.values()).index(case) + 1
    places = one.locator(FOCUSABLE)
    for number in range(places.count()):
        place = places.nth(number)
        if number >= places.count() or not place.is_visible() or not place.is_enabled():
            continue
        with hasty(page):
            for key in ["ArrowDown", "ArrowUp", *"abddmyz00v", "Enter", "Space", "Shift+Enter"]:
                place.focus()
                page.keyboard.press(key)
        page.keyboard.press("Escape")  # closes the list of a choice
        assert page.locator(".jp-Dialog").count() == 0
        assert page.evaluate("() => window.jupyterapp.shell.currentWidget.content.activeCellIndex") == own
        assert notebook.cells() == before, f"keys in {place.evaluate('(e) => e.outerHTML.slice(0, 200)')}"


def test_canvases_stand_on_the_paper_of_the_theme(notebook):
    theme = "(theme) => window.jupyterapp.commands.execute('apputils:change-theme', { theme })"
    for name, paper in (("JupyterLab Dark", (27, 27, 27)), ("JupyterLab Light", (255, 255, 255))):
        notebook.page.evaluate(theme, name)
        for kind in ("HeadView", "HeadLab", "ReshapeView"):
            canvases = views(notebook, CASES[kind])[0].locator("canvas:visible").all()
            # A canvas may begin between two pixels of the screen, whose last one then belongs to what is below.
            until(
                lambda canvases=canvases, paper=paper: all(tuple(shot(c)[-3, -3]) == paper for c in canvases),
                f"the last corner of a canvas of {kind} is not {paper} in {name}",
            )


@pytest.mark.slow
def test_a_stored_notebook_shows_pictures_when_it_is_opened(lab_server):
    """Executed and stored as `make notebooks` does, it holds no widget."""
    path = lab_server.write(PREPARE, *(case.make for case in CASES.values()))
    write(make_storable(execute(path, env={"PYTHONPATH": str(ROOT)})), path)
    text = path.read_text(encoding="utf-8")
    assert "widget-view" not in text and "widget-state" not in text and "_esm" not in text
    for case, cell in zip(CASES.values(), json.loads(text)["cells"][1:], strict=True):
        (output,) = cell["outputs"]
        assert set(output["data"]) == {"text/html" if case is QUESTION else "image/png", "text/plain"}
    notebook = lab_server.open(path, run=False, height=2400)
    pictures = notebook.page.locator(".jp-OutputArea-output img")
    until(lambda: pictures.count() == len(CASES) - 1, "not every picture is there")
    for picture in pictures.all():
        assert picture.evaluate("(image) => image.decode().then(() => image.naturalWidth)") > 100
    shown = "".join(notebook.page.locator(".jp-OutputArea-output").all_inner_texts()).strip()
    assert shown == "Your guess: which word?", "text beside the pictures, such as that a model was not found"
    notebook.close()
