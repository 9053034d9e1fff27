"""The widgets where notebooks become apps: in marimo, and in Voila. JupyterLab and Notebook 7 stand in `test_contract`.

What was seen in which front end, and what could not be tried, stands in notebooks/FRONT_ENDS.md.
"""

import textwrap
from contextlib import contextmanager
from pathlib import Path

import nbformat
import pytest

from tests.headview.test_contract import CASES, PREPARE, at_rest, press_key, until_changed
from tests.helpers.browser import GUARD, serving, settle, watch

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


@contextmanager
def served(browser, command, health: str, folder: Path):
    """Yield a function that opens a page of a server, which starts as if nobody had used this machine before."""
    own = "HOME XDG_CONFIG_HOME XDG_STATE_HOME JUPYTER_CONFIG_DIR JUPYTER_DATA_DIR JUPYTER_RUNTIME_DIR IPYTHONDIR"
    context = browser.new_context(viewport={"width": 1100, "height": 1000})
    context.set_default_timeout(SLOW * 1000)

    def opened(path: str = "/"):
        page = context.new_page()
        page.problems = watch(page, (address + "/", address.replace("http", "ws") + "/", "blob:", "data:"))
        page.goto(address + path)
        return page

    settings = {name: str(folder / "own" / name.lower()) for name in own.split()}
    with serving(lambda port: [*command, f"{port}"], health, folder, SLOW, **settings) as address:
        yield opened
        context.close()


def follow_each_other(page) -> None:
    """Press a key in each view, see Python say what came of it; let a button of Python set it, and see it follow."""
    views = page.locator(".mha")  # playwright looks into shadow roots by itself
    views.nth(len(CASES) - 1).wait_for()  # as long as a first start takes
    settle(page)
    for number, (name, case) in enumerate(CASES.items()):
        before = at_rest(views.nth(number))
        press_key(views.nth(number), case)
        page.get_by_text(f"{name} is {case.key[-1]!r}").wait_for()
        until_changed(views.nth(number), before, f"a key did not change the picture of {name}")
        before = at_rest(views.nth(number))
        page.get_by_role("button", name=f"set {name}", exact=True).click()
        until_changed(views.nth(number), before, f"what Python sets does not reach the view of {name}")
    assert [each for each in page.problems if not any(part in each for part in VOILA_NOISE)] == []


# ---------------------------------------------------------------- marimo


def marimo_app() -> str:
    """Return an app with every widget, behind each what marimo's value and Python say, and a button that sets it."""
    cells = [f"import marimo as mo\n{PREPARE}"]
    for name, case in CASES.items():
        one, key, (trait, value) = case.variable, case.key[2], case.cell
        said = f"mo.plain_text('{name} is ' + repr({one}.value[{key!r}]) + ' and ' + repr({one}.{key}))"
        sets = f"on_click=lambda _: setattr({one}.widget, {trait!r}, {value!r})"
        cells += [
            f"{one} = mo.ui.anywidget({case.make})\n{one}",
            f"assert {one}.value[{key!r}] == {one}.{key}\n{said}",
            f"mo.ui.button(label='set {name}', {sets})",
        ]
    texts = ["@app.cell\ndef _():\n" + textwrap.indent(cell, "    ") for cell in cells]
    return "\n\n".join(["import marimo\n\napp = marimo.App()", *texts, "if __name__ == '__main__':\n    app.run()\n"])


def test_marimo_hears_of_a_key_and_a_cell_sets_the_view(browser, tmp_path):
    (tmp_path / "app.py").write_text(marimo_app(), encoding="utf-8")
    command = ["marimo", "run", "app.py", "--headless", "--no-token", "--host=127.0.0.1", "--port"]
    with served(browser, command, "/health", tmp_path) as opened:
        follow_each_other(opened())


# ---------------------------------------------------------------- Voila


def test_voila_hears_of_a_key_and_python_sets_the_view(browser, tmp_path):
    cells = [f"from ipywidgets import Button, Label, interact\n{PREPARE}"]
    for name, case in CASES.items():
        one, key, (trait, value) = case.variable, case.key[2], case.cell
        cells += [
            f"{one} = {case.make}\n{one}",
            f"said_{name}, set_{name} = Label(), Button(description='set {name}')\n"
            f"tell_{name} = lambda _: setattr(said_{name}, 'value', f'{name} is {{{one}.{key}!r}}')\n"
            f"{one}.observe(tell_{name}, {key!r})\n"
            f"set_{name}.on_click(lambda _: setattr({one}, {trait!r}, {value!r}))\n"
            f"display(said_{name}, set_{name})",
        ]
    # As lesson 01 asks: a choice of numbers, and what the function prints and draws below it.
    cells.append(
        "@interact(num_heads=[1, 2, 4])\ndef shapes(num_heads=1):\n    print(num_heads, 'heads of', 64 // num_heads)"
    )
    nb = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nb.metadata["kernelspec"] = {"display_name": "Python 3", "language": "python", "name": "python3"}
    nbformat.write(nb, tmp_path / "all.ipynb")
    command = ["voila", ".", "--no-browser", "--Voila.ip=127.0.0.1", "--port"]
    with served(browser, command, "/voila/tree", tmp_path) as opened:
        page = opened("/voila/render/all.ipynb")
        follow_each_other(page)
        assert page.get_by_text("4 heads of 16").count() == 0
        page.locator(".widget-dropdown select").select_option("4")
        page.get_by_text("4 heads of 16").wait_for()
