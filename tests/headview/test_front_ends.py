"""The widgets where notebooks become apps: in marimo, and in Voila. JupyterLab and Notebook 7 stand in `test_contract`.

What was seen in which front end, and what could not be tried, stands in notebooks/FRONT_ENDS.md.
"""

import textwrap
from contextlib import contextmanager
from pathlib import Path

import nbformat
import pytest

from tests.headview.test_contract import CASES, PREPARE, at_rest, each_widget, press_key, until_changed
from tests.helpers.browser import GUARD, serving, settle, until, watch

pytestmark = pytest.mark.slow  # other front ends than JupyterLab

# What Voila 0.5.13 does on its own: its template asks for icons, a progress bar that is through leaves its place
# behind, and JupyterLab's extension of nbdime misses JupyterLab. anywidget speaks of a view that is not ready after two
# seconds, as on a busy machine, and shows it later. All else that goes wrong is ours.
VOILA_NOISE = (
    "cdn.jsdelivr.net/npm/@fortawesome/",
    "Error: widget model not found",
    "nbdime-jupyterlab",
    "#RUNTIME-012",
    "[anywidget] Failed to initialize model.",
)
SLOW = 3 * GUARD  # a first start reads a whole front end from the disk; no measure of speed


def nobodys(folder: Path) -> dict[str, str]:
    """Return environment variables for a server that starts as if nobody had used this machine before."""
    own = "HOME XDG_CONFIG_HOME XDG_STATE_HOME JUPYTER_CONFIG_DIR JUPYTER_DATA_DIR JUPYTER_RUNTIME_DIR IPYTHONDIR"
    return {name: str(folder / "own" / name.lower()) for name in own.split()}


@contextmanager
def opened(browser, address: str, path: str = "/", noise: tuple[str, ...] = ()):
    """Yield a page of a server in a fresh browser profile; what goes wrong in it fails at the end, but for `noise`."""
    context = browser.new_context(viewport={"width": 1100, "height": 1000})
    context.set_default_timeout(SLOW * 1000)
    page = context.new_page()
    page.problems = watch(page, (address + "/", address.replace("http", "ws") + "/", "blob:", "data:"))
    page.goto(address + path)
    yield page
    problems = list(page.problems)
    context.close()
    assert but_for(noise, problems) == []


def but_for(noise: tuple[str, ...], problems: list[str]) -> list[str]:
    return [problem for problem in problems if not any(part in problem for part in noise)]


def shown(page, number: int):
    """Return the view at this place, once all are drawn. Playwright looks into shadow roots by itself."""
    until(lambda: page.locator(".mha").count() == len(CASES), "not all widgets were drawn")
    return page.locator(".mha").nth(number)


def key_and_button(page, case, said: str) -> None:
    """Press a key in a view, see Python say what came of it; let a button of Python set the view, and see it follow."""
    name = case.make.split("(")[0]
    view = shown(page, list(CASES.values()).index(case))
    before = at_rest(view)
    press_key(view, case)
    page.get_by_text(f"{name} {said}").wait_for()
    until_changed(view, before, "a key did not change the picture")
    before = at_rest(view)
    page.get_by_role("button", name=f"set {name}", exact=True).click()
    until_changed(view, before, "what Python sets does not reach the view")


# ---------------------------------------------------------------- marimo

NAMES = "torch, HeadLab, HeadSwitchboard, HeadView, PredictionView, ReshapeView, SealedBox, q, k, v, maps, words"
NAMES += ", measure, choices, asked, turned, box, line"


def marimo_cell(source: str, takes: str, gives: str = "") -> str:
    return f"@app.cell\ndef _({takes}):\n{textwrap.indent(source, '    ')}\n    return {gives}\n\n\n"


def marimo_app() -> str:
    """Return an app with every widget, behind each what marimo's value and Python say, and a button that sets it."""
    text = "import marimo\n\napp = marimo.App()\n\n\n" + marimo_cell(
        f"import marimo as mo\n{PREPARE}", "", f"mo, {NAMES}"
    )
    for name, case in CASES.items():
        key, (trait, value) = case.by_key[0], case.cell
        text += marimo_cell(
            f"{case.variable} = mo.ui.anywidget({case.make})\n{case.variable}", f"mo, {NAMES}", case.variable
        )
        said = f"f'{name} is {{{case.variable}.value[{key!r}]!r}} and {{{case.variable}.{key}!r}}'"
        text += marimo_cell(f"mo.plain_text({said.replace(repr(key) + ']', chr(34) + key + chr(34) + ']')})",
                            f"mo, {case.variable}")  # fmt: skip
        text += marimo_cell(
            f"set_{name} = mo.ui.button(label='set {name}',\n"
            f"    on_click=lambda _: setattr({case.variable}.widget, {trait!r}, {value!r}))\nset_{name}",
            f"mo, {case.variable}",
        )
    return text + "if __name__ == '__main__':\n    app.run()\n"


@pytest.fixture(scope="module")
def marimo(browser, tmp_path_factory):
    """A page of marimo with every widget, opened once for the tests of this part."""
    folder = tmp_path_factory.mktemp("marimo")
    (folder / "app.py").write_text(marimo_app(), encoding="utf-8")

    def command(port: int) -> list[str]:
        return ["marimo", "run", "app.py", "--headless", "--no-token", "--host=127.0.0.1", f"--port={port}"]

    with (
        serving(command, "/health", folder, SLOW, **nobodys(folder)) as address,
        opened(browser, address) as page,
    ):
        page.wait_for_function(
            """(count) => {
              const views = (root) => [...root.querySelectorAll("*")].reduce(
                (sum, e) => sum + (e.shadowRoot ? views(e.shadowRoot) : 0), root.querySelectorAll(".mha").length);
              return views(document) === count;
            }""",
            arg=len(CASES),
        )
        yield page


@each_widget
def test_marimo_hears_of_a_key_and_a_cell_sets_the_view(marimo, case):
    expected = case.by_key[1]
    key_and_button(marimo, case, f"is {expected!r} and {expected!r}")
    assert marimo.problems == []


# ---------------------------------------------------------------- Voila


def voila_command(port: int) -> list[str]:
    return ["voila", ".", "--no-browser", "--Voila.ip=127.0.0.1", f"--port={port}"]


@pytest.fixture(scope="module")
def voila(browser, tmp_path_factory):
    """The address of a Voila that serves a notebook with every widget, and one with an `interact`."""
    folder = tmp_path_factory.mktemp("voila")
    cells = [PREPARE]
    for name, case in CASES.items():
        key, (trait, value) = case.by_key[0], case.cell
        cells += [
            f"{case.variable} = {case.make}\n{case.variable}",
            f"from ipywidgets import Button, Label\nsaid_{name} = Label()\n"
            f"def tell_{name}(_=None):\n    said_{name}.value = f'{name} is {{{case.variable}.{key}!r}}'\n"
            f"{case.variable}.observe(tell_{name}, {key!r})\n"
            f"set_{name} = Button(description='set {name}')\n"
            f"set_{name}.on_click(lambda _: setattr({case.variable}, {trait!r}, {value!r}))\n"
            f"display(said_{name}, set_{name})",
        ]
    nb = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nb.metadata["kernelspec"] = {"display_name": "Python 3", "language": "python", "name": "python3"}
    nbformat.write(nb, folder / "all.ipynb")
    # As lesson 01 asks: a choice of numbers, and what the function prints and draws below it.
    nb.cells = [
        nbformat.v4.new_code_cell(
            "from ipywidgets import interact\n\n@interact(num_heads=[1, 2, 4])\n"
            "def shapes(num_heads=1):\n    print(num_heads, 'heads of', 64 // num_heads)"
        )
    ]
    nbformat.write(nb, folder / "slider.ipynb")
    with serving(voila_command, "/voila/tree", folder, SLOW, **nobodys(folder)) as address:
        yield address


@pytest.fixture(scope="module")
def voila_page(browser, voila):
    with opened(browser, voila, "/voila/render/all.ipynb", VOILA_NOISE) as page:
        page.locator(".mha").nth(len(CASES) - 1).wait_for()
        settle(page)
        yield page


@each_widget
def test_voila_hears_of_a_key_and_python_sets_the_view(voila_page, case):
    key_and_button(voila_page, case, f"is {case.by_key[1]!r}")
    assert but_for(VOILA_NOISE, voila_page.problems) == []


def test_an_interact_of_a_lesson_answers_in_voila(browser, voila):
    with opened(browser, voila, "/voila/render/slider.ipynb", VOILA_NOISE) as page:
        control = page.locator(".widget-dropdown select")
        control.wait_for()
        assert page.get_by_text("4 heads of 16").count() == 0
        control.select_option("4")
        page.get_by_text("4 heads of 16").wait_for()
