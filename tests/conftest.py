"""What all tests share: shape checking while they run, seeds, and examples that are the same on every run."""

import ast
import os
import random
import sys
from pathlib import Path

import hypothesis
import jaxtyping
import pytest
import torch
from jaxtyping._import_hook import JaxtypingTransformer

from tests.helpers.scheduling import (  # noqa: F401 — the hooks are found here by their names
    pytest_xdist_auto_num_workers,
    pytest_xdist_make_scheduler,
    runs_a_lesson,
)

# Below nbformat jsonschema compiles a grammar of addresses, for two seconds, which no notebook needs.
sys.modules["rfc3987_syntax"] = None

pytest_plugins = ["tests.helpers.browser"]

# A function inside of another is made anew at each call, and would be prepared for checking each time, for 5 ms.
_check_all = JaxtypingTransformer.visit_FunctionDef


def _check_outermost(self, node):
    return node if any(isinstance(one, ast.FunctionDef) for one in self._parents) else _check_all(self, node)


JaxtypingTransformer.visit_FunctionDef = _check_outermost

# Before mhalib is first imported: what the lessons teach from checks named dimensions when it is called. To prepare
# the others as well would cost each worker seconds.
TAUGHT = "attention masks arguments plots reference heads experiments pretrained sealed".split()
jaxtyping.install_import_hook([f"mhalib.{room}" for room in TAUGHT], "beartype.beartype")

# As many workers as cores: a second thread for each would wait for the other's first.
if "PYTEST_XDIST_WORKER" in os.environ:
    torch.set_num_threads(1)

# No deadline: a slow machine is no bug. The same examples on every run: a stranger's first `make test` must not
# fail by chance.
hypothesis.settings.register_profile("house", deadline=None, derandomize=True)
hypothesis.settings.load_profile("house")


# The files that take longest, the longest first: no worker should be left alone with one at the end.
LONG = """headview/test_contract.py test_site.py test_site_live.py test_site_page.py test_head_view_page.py
test_predictions_page.py test_sick.py test_kernel_page.py test_live_model_page.py test_head_lab_page.py
test_head_view_overview_page.py test_head_view_modes_page.py test_head_view_panels_page.py test_sweeps.py""".split()


def pytest_collection_modifyitems(items):
    """Begin with the runs of the lessons, then the long files."""

    def place(item) -> int:
        if runs_a_lesson(item.nodeid):
            return -1
        return next(
            (number for number, name in enumerate(LONG) if item.path.as_posix().endswith(f"/{name}")), len(LONG)
        )

    items.sort(key=place)


@pytest.fixture(autouse=True)
def seeds():
    random.seed(0)
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """Checking shapes makes a search for a learner's mistake slower than it is for a reader."""
    monkeypatch.setattr("mhacourse.one_change.SECONDS", 60.0)


@pytest.fixture
def one_thread():
    """Compute tiny tensors on one core: sharing them costs more than it saves."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def as_shipped():
    """Switch the shape checking off, as it is for a reader, so that our own error messages can be seen."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


# Rooms that try hundreds of layers or answers: checking the shapes of all calls would cost a third of their time.
CORPORA = ("attention_doctor", "mhacourse")


@pytest.fixture(autouse=True)
def no_shapes_in_corpora(request):
    if request.path.parent.name in CORPORA:
        request.getfixturevalue("as_shipped")


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """The folder with the pages and slides of a small lesson, executed once."""
    from tests.helpers.small_site import make_site

    return make_site(tmp_path_factory.mktemp("site"))


@pytest.fixture
def course(tmp_path, monkeypatch):
    """A course of three short lessons in a path with a space."""
    from tests.helpers.small_course import make_course

    monkeypatch.delenv("MAKELEVEL", raising=False)  # the tests may run under `make test`
    return make_course(tmp_path)


@pytest.fixture
def lay(course, capsys):
    """Return a function that lays copies of these lessons, and gives the exit code and what was said."""
    from tools.notebooks.copies import main

    def lay(*arguments: str) -> tuple[int, str]:
        code = main(list(arguments), course)
        return code, capsys.readouterr().out

    return lay


@pytest.fixture
def make_notebook(tmp_path):
    """Return a function that writes a notebook with a title and these code cells, and returns its path."""

    import nbformat

    def make(*sources: str) -> Path:
        cells = [nbformat.v4.new_markdown_cell("# 00 · A notebook")]
        path = tmp_path / "00_a_notebook.ipynb"
        nbformat.write(nbformat.v4.new_notebook(cells=cells + [nbformat.v4.new_code_cell(s) for s in sources]), path)
        return path

    return make
