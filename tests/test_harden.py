"""What `tools.notebooks.harden` makes of lessons of a few cells that hold, and of some that do not."""

import shutil

import nbformat
import pytest

from tools.notebooks import harden
from tools.notebooks.harden import VARIANTS, main, order

# For each variant a lesson that does not stand it.
FALLS = {
    "seeds": "import torch\ntorch.manual_seed(0)\nassert abs(torch.randn(1).item() - 1.541) < 1e-3",
    "warnings": "import warnings\nwarnings.warn('old', DeprecationWarning)",
    "hashseed": "import os\nassert os.environ['PYTHONHASHSEED'] == '0'",
    "threads": "import os\nassert os.environ.get('OMP_NUM_THREADS') == '2'",
    "locale": "open('written.txt', 'w').write('√')",
    "readonly": "open('written.txt', 'w')",
    "together": "import locale\nassert 'UTF' in locale.getpreferredencoding(False).upper()",
}


@pytest.fixture
def tries(make_notebook, tmp_path):
    """Return a function that tries one lesson in one variant and returns what failed in each try."""
    folder = tmp_path / "checkout" / "notebooks"
    folder.mkdir(parents=True)

    def try_it(variant, source):
        path = shutil.copy(make_notebook(source), folder)
        return [failure for _, failure in VARIANTS[variant](type(tmp_path)(path), 1)]

    return try_it


def test_a_lesson_that_holds(tries):
    assert tries("together", "import os\nassert os.environ['PYTHONHASHSEED'] == '1'") == [None]


@pytest.mark.parametrize("variant", FALLS)
def test_a_lesson_that_does_not(tries, variant):
    failures = tries(variant, FALLS[variant])
    assert failures[0] is not None and "failed: " in failures[0], failures


def test_a_generator_of_its_own_gets_another_seed_as_well(tries):
    draw = "torch.randn(1, generator=torch.Generator().manual_seed(0)).item()"
    (failure,) = tries("seeds", f"import torch\nassert abs({draw} - 1.541) < 1e-3")
    assert "AssertionError" in failure


SWEEP = """\
import tempfile, time
from mhalib.experiments import sweep
def run(seed, n):
    return {"seconds": time.perf_counter()}
folder = tempfile.TemporaryDirectory()
sweep(run, {"a": {"n": 1}}, range(5), folder=%s, workers=1, progress=False)
time.sleep(1)
"""


def test_what_was_stored_outlives_a_killed_kernel_tool_and_sweep(tries):
    assert tries("kill", SWEEP % "folder.name") == [None, None, None]


def test_a_sweep_that_stores_nothing_is_noticed(make_notebook):
    assert "expected a dead kernel" in harden._sweep_goes_on(make_notebook(SWEEP % "None"))


def test_lessons_in_one_kernel_that_hurt_each_other(make_notebook, tmp_path):
    paths = [tmp_path / f"{number:02}_lesson.ipynb" for number in range(3)]
    for path in paths:  # whichever comes second falls over what the first left
        shutil.copy(make_notebook("assert 'left' not in globals()", "left = 1"), path)
    said = order(paths)
    first, second, third = [what for [(_, what)] in said.values()]
    assert first is None and "AssertionError" in second and third == "not reached"
    assert sorted(said) == [path.stem for path in paths]


def test_the_table(make_notebook, monkeypatch, capsys):
    good, bad = make_notebook("print(1)").with_stem("01_good"), make_notebook("1 / 0")
    nb = nbformat.read(bad, as_version=4)
    nb.cells[1].source = "print(1)"
    nbformat.write(nb, good)
    monkeypatch.setitem(harden.VARIANTS, "hashseed", lambda path, number: iter([("plain", harden.plainly(path))]))
    assert main([str(bad), str(good), "--only", "hashseed"]) == 1
    header, line, row, *rest = capsys.readouterr().out.splitlines()
    assert header == "| variant | 00 | 01 |" and row == "| hashseed | 1 of 1 failed | ok |"
    assert "**hashseed, 00_a_notebook, plain**: cell 2 failed: ZeroDivisionError" in "\n".join(rest)
