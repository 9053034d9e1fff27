"""A real browser for the widgets: a page without a kernel, JupyterLab and Notebook 7, all cut off from the network.

    static_page(widget, width=700, theme="dark") -> playwright Page     # to_html(), opened from a file
    lab("code of a cell", "code of another")     -> OpenNotebook        # in JupyterLab, all cells executed
    notebook7(...)                               -> OpenNotebook        # the same in Notebook 7

An error on the page, a dialog, or a request that leaves this machine fails the test, at the latest when it ends.
Without a browser the tests are skipped; where CI is set, they fail.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import sync_playwright

from tests.helpers.steady import make_steady, patch, settle

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
    # No name resolves: what wants to leave this machine fails there, and is seen by `watch`.
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
    "--enable-blink-features=ComputedAccessibilityInfo",  # element.computedName: what a screen reader would say
]
# Errors that Notebook 7.6 makes on its own, in an empty notebook as well: one of its settings has no schema.
NOISE = ("Cannot read properties of undefined (reading 'schema')",)
GUARD = 60  # seconds after which a hanging server or page is given up; no measure of speed


@pytest.fixture(scope="session")
def browser():
    """Chromium, from the environment variable CHROMIUM or from the PATH."""
    path = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        without = pytest.fail if os.environ.get("CI") else pytest.skip
        without(f"found no Chromium: none of {', '.join(NAMES)} is on the PATH and CHROMIUM is not set")
    with sync_playwright() as playwright, pytest.MonkeyPatch.context() as monkeypatch:
        patch(monkeypatch)
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


def watch(page, allowed: tuple[str, ...], script: bool = True) -> list[str]:
    """Return a list that fills with what goes wrong in `page`: errors, dialogs, requests to other than `allowed`.

    From now on whoever looks at the page sees it drawn (`steady.py`), if `script`s may run in it.
    """
    problems = []
    if script:
        make_steady(page)

    def request(made) -> None:
        if not made.url.startswith(allowed):
            problems.append(f"asked the network for {made.url[:200]}")

    def console(message) -> None:
        if message.type == "error":
            problems.append(f"console error: {message.text} ({message.location.get('url', '')[-80:]})")

    def page_error(error) -> None:
        if error.message not in NOISE:
            problems.append(f"page error: {error.stack or error.message}")

    def dialog(opened) -> None:
        problems.append(f"opened a dialog: {opened.message}")
        opened.dismiss()

    heard = {"request": request, "websocket": request, "pageerror": page_error, "console": console, "dialog": dialog}
    for name, hear in heard.items():
        page.on(name, hear)
    return problems


# ---------------------------------------------------------------- a page without a kernel

PAGE = """<!doctype html>
<html lang="en" data-theme="{theme}">
<head><meta charset="utf-8"><title>Widgets without a kernel</title>
<style>html {{ color-scheme: {theme} }} body {{ margin: 0 }} h1 {{ font: 16px sans-serif; margin: 8px }}</style></head>
<body><main><h1>Widgets without a kernel</h1>
{fragments}</main></body></html>
"""


@pytest.fixture(scope="session")
def profiles(browser):
    """Return a function that gives the browser profile of a kind, cut off from the network; each is made once.

    One for each page would cost more than the page.
    """
    made = {}

    def profile(**kind):
        key = tuple(kind.items())
        if key not in made:
            made[key] = browser.new_context(**kind)
            made[key].set_default_timeout(GUARD * 1000 / 4)
            made[key].set_offline(True)
        return made[key]

    yield profile
    for context in made.values():
        context.close()


@pytest.fixture
def open_file(profiles):
    """Return a function that opens an address of this machine without a network, in a page that remembers nothing.

    `page.problems` lists what went wrong so far.
    """
    pages = []

    def open_file(address: str, width: int = 900, theme: str = "light", script: bool = True, motion: bool = True):
        motion = "no-preference" if motion else "reduce"
        page = profiles(color_scheme=theme, reduced_motion=motion, java_script_enabled=script).new_page()
        page.set_viewport_size({"width": width, "height": 900})
        page.problems, page.with_script = watch(page, ("file:", "blob:", "data:"), script), script
        pages.append(page)
        page.goto(address)
        return page

    yield open_file
    problems = [problem for page in pages for problem in page.problems]
    for page in pages:
        if page.with_script:
            page.evaluate("localStorage.clear()")  # shared by all files, and by the tests after this one
        page.close()
    assert problems == []


@pytest.fixture
def static_page(open_file, tmp_path):
    """Return a function that opens what `to_html()` of widgets gives, and returns the page once every view is drawn."""

    def open_page(*widgets, width: int = 900, theme: str = "light", reduced_motion: bool = False):
        file = tmp_path / f"page_{len(list(tmp_path.glob('page_*')))}.html"
        fragments = "\n".join(widget.to_html() for widget in widgets)
        file.write_text(PAGE.format(theme=theme, fragments=fragments), encoding="utf-8")
        page = open_file(file.as_uri(), width, theme, motion=not reduced_motion)
        page.wait_for_function(
            """() => [...document.querySelectorAll(".mhalib-view")].every((view) => view.childNodes.length)"""
        )
        undrawn = page.locator(".mhalib-view:not(:has(.mha))")
        assert undrawn.count() == 0, f"a view was not drawn: {page.problems}"
        settle(page)
        return page

    return open_page


def with_script(widget, script: str):
    """Return a widget whose module ends in `script`, which reads what no reader is shown and nobody has to ship."""
    widget._esm = f"{widget._esm}\n{script}"
    return widget


def until(condition, what: str) -> None:
    """Wait until `condition()` holds; fail with `what` if it never does. View and kernel follow each other late."""
    start = time.monotonic()
    while not condition():
        assert time.monotonic() - start < GUARD / 2, what
        time.sleep(0.02)


# ---------------------------------------------------------------- JupyterLab and Notebook 7

EVALUATE = """async (code) => {
  const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel;
  const future = kernel.requestExecute({ code, store_history: false });
  let printed = "", failed = null;
  future.onIOPub = ({ header, content }) => {
    if (header.msg_type === "stream" && content.name === "stdout") printed += content.text;
    if (header.msg_type === "error") failed = `${content.ename}: ${content.evalue}`;
  };
  await future.done;
  if (failed) throw new Error(failed);
  return printed;
}"""


class OpenNotebook:
    """A notebook in a browser: `page` for playwright, and what it takes to run cells and to ask the kernel."""

    def __init__(self, page, path: Path, problems: list[str]):
        self.page, self.path, self.problems = page, path, problems

    def command(self, name: str) -> None:
        """Run a command of JupyterLab, such as `"notebook:run-all-cells"`, to its end."""
        self.page.evaluate("(name) => window.jupyterapp.commands.execute(name)", name)

    def wait_for_kernel(self) -> None:
        self.page.wait_for_function(
            """() => window.jupyterapp?.shell?.currentWidget?.sessionContext?.session?.kernel?.status === "idle" """
        )

    def run_all(self) -> None:
        self.command("notebook:run-all-cells")
        self.wait_for_kernel()
        settle(self.page)

    def python(self, code: str) -> str:
        """Run `code` in the kernel, after all that the views have sent so far, and return what it prints."""
        settle(self.page)  # a view may send at the next frame
        printed = self.page.evaluate(EVALUATE, code).strip()
        settle(self.page)
        return printed

    def prints(self, code: str, expected: str) -> None:
        """Wait until the kernel prints `expected` for `code`; fail with what it prints instead."""
        start = time.monotonic()
        while (said := self.python(code)) != expected:
            assert time.monotonic() - start < GUARD / 2, f"{code} prints {said!r}, not {expected!r}"

    def cells(self) -> list[tuple[str, str]]:
        """Return type and source of every cell, as the notebook holds them at the moment."""
        found = self.page.evaluate(
            """() => [...window.jupyterapp.shell.currentWidget.content.model.cells]
              .map((cell) => [cell.type, cell.sharedModel.source])"""
        )
        return [tuple(cell) for cell in found]

    def show_cell(self, number: int) -> None:
        """Scroll to a cell; JupyterLab takes cells far away out of the page."""
        self.page.evaluate("(at) => window.jupyterapp.shell.currentWidget.content.scrollToItem(at, 'start')", number)
        settle(self.page)

    def views(self, number: int, count: int = 2) -> list:
        """Return the views below a cell, scrolled to."""
        self.show_cell(number)
        found = self.page.locator(f'[data-windowed-list-index="{number}"] .mha')
        until(lambda: found.count() == count, f"cell {number} does not show {count} views")
        return found.all()

    def close(self) -> None:
        """Close it without saving and fail on what went wrong."""
        problems = list(self.problems)  # not those of a kernel that is shut down while JupyterLab talks to it
        self.page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.shutdown()")
        self.page.context.close()
        assert problems == []


@contextmanager
def serving(command: Callable[[int], list[str]], health: str, folder: Path, patience: float = GUARD, **own: str):
    """Yield the address of a server on this machine, which `python -m *command(port)` starts in `folder`.

    It has the environment variables `own`, and no settings of anybody's; it answers at `health` once it is there.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    foreign = ("JUPYTER_PATH", "JUPYTER_CONFIG_PATH", "PYTHONSTARTUP", "MPLBACKEND")
    environment = {name: value for name, value in os.environ.items() if name not in foreign} | own
    environment["PYTHONPATH"] = str(ROOT)  # the kernels import this checkout
    address, log = f"http://127.0.0.1:{port}", folder.parent / f"log_{folder.name}.txt"
    with log.open("w") as output:
        started = [sys.executable, "-m", *command(port)]
        process = subprocess.Popen(started, cwd=folder, env=environment, stdout=output, stderr=subprocess.STDOUT)
    start = time.monotonic()
    try:
        while True:
            try:
                urllib.request.urlopen(f"{address}{health}", timeout=5).close()
                break
            except (urllib.error.URLError, OSError):
                if process.poll() is not None or time.monotonic() - start > patience:
                    raise RuntimeError(f"no answer from {started}:\n{log.read_text()[-3000:]}") from None
                time.sleep(0.1)
        yield address
    finally:
        process.terminate()  # it ends its kernels
        try:
            process.wait(GUARD)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class Jupyter:
    """A JupyterLab or Notebook 7 at an address of this machine, whose notebooks are in the folder `root`."""

    TOKEN = "a-token-of-the-tests"

    def __init__(self, browser, kind: str, address: str, root: Path):
        self.browser, self.kind, self.address, self.root = browser, kind, address, root

    def write(self, *cells: str) -> Path:
        """Write a notebook with these code cells and return its path."""
        path = self.root / f"case_{len(list(self.root.iterdir()))}.ipynb"
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
        notebook.metadata["kernelspec"] = {"display_name": "Python 3", "language": "python", "name": "python3"}
        nbformat.write(notebook, path)
        return path

    def open(self, path: Path, *, run: bool = True, width: int = 1280, height: int = 1000) -> OpenNotebook:
        """Open a notebook below `root` in a fresh browser profile and, unless told not to, run all its cells."""
        context = self.browser.new_context(viewport={"width": width, "height": height})
        context.set_default_timeout(GUARD * 1000)
        page = context.new_page()
        own = (self.address + "/", self.address.replace("http", "ws") + "/", "blob:", "data:")
        problems = watch(page, own)
        where, reset = ("lab/tree", "&reset") if self.kind == "lab" else ("notebooks", "")
        file = path.relative_to(self.root).as_posix()
        page.goto(f"{self.address}/{where}/{file}?token={self.TOKEN}{reset}")
        opened = OpenNotebook(page, path, problems)
        opened.wait_for_kernel()
        if run:
            opened.run_all()
        return opened


def _server(kind: str, module: str):
    @pytest.fixture(scope="session", name=f"{kind}_server")
    def server(browser, tmp_path_factory):
        """A `Jupyter` that lives as long as the tests do."""
        folder = tmp_path_factory.mktemp(kind)
        root, settings = folder / "root", folder / "config" / "labconfig"
        root.mkdir()
        settings.mkdir(parents=True)
        news = "@jupyterlab/apputils-extension:announcements"  # would ask the network, and open a popup
        (settings / "page_config.json").write_text(json.dumps({"disabledExtensions": {news: True}}))
        own = {f"JUPYTER_{name}_DIR": str(folder / name.lower()) for name in ("CONFIG", "RUNTIME", "DATA")}
        own["IPYTHONDIR"] = str(folder / "ipython")
        command = [module, "--no-browser", "--allow-root", "--expose-app-in-browser", "--ip=127.0.0.1"]
        command += ["--ServerApp.port_retries=0", f"--ServerApp.root_dir={root}"]
        command += [f"--IdentityProvider.token={Jupyter.TOKEN}"]
        health = f"/api/status?token={Jupyter.TOKEN}"
        with serving(lambda port: [*command, f"--port={port}"], health, root, **own) as address:
            yield Jupyter(browser, kind, address, root)

    @pytest.fixture(name=kind)
    def front(request):
        """Return a function that opens a notebook with the code cells it is given, all executed."""
        server = request.getfixturevalue(f"{kind}_server")
        opened = []

        def open_notebook(*cells: str, run: bool = True, **size: int) -> OpenNotebook:
            opened.append(server.open(server.write(*cells), run=run, **size))
            return opened[-1]

        yield open_notebook
        for notebook in opened:
            notebook.close()

    return server, front


lab_server, lab = _server("lab", "jupyterlab")
notebook7_server, notebook7 = _server("notebook7", "notebook")
