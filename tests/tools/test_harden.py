"""What `tools.notebooks.harden` makes of lessons of a few cells that hold, and of some that do not."""

import shutil

import nbformat
import pytest

from tests.helpers.systems import posix
from tools.notebooks import harden
from tools.notebooks.harden import VARIANTS, main, order

pytestmark = posix

# For each variant a lesson that does not stand it.
FALLS = {
    "seeds": "SEED = 0\nimport torch\ntorch.manual_seed(SEED)\nassert abs(torch.randn(1).item() - 1.541) < 1e-3",
    "sizes": "T = 32  # or 16, 64\nassert T > 20",
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
        return [one.failed for one in VARIANTS[variant](type(tmp_path)(path), 1)]

    return try_it


def test_a_lesson_that_holds(tries):
    assert tries("together", "import os\nassert os.environ['PYTHONHASHSEED'] == '1'") == [None]


@pytest.mark.parametrize("variant", FALLS)
def test_a_lesson_that_does_not(tries, variant):
    failures = tries(variant, FALLS[variant])
    assert failures[0] is not None and "failed: " in failures[0], failures


CLAIM = "from mhalib import claim\nSEED = 0\nT = 4  # or 5, 6\n"


def test_another_seed_or_size_may_be_told_and_is_no_failure(make_notebook):
    path = make_notebook(CLAIM + "claim.speaks_of(T=4)\nclaim(SEED + T == 4, 'it is this draw', T=T)")
    tries = [*VARIANTS["seeds"](path, 2), *VARIANTS["sizes"](path, 0)]
    assert [one.name for one in tries] == ["SEED = 100", "SEED = 200", "T = 5", "T = 6"]
    assert [one.failed for one in tries] == [None] * 4 and all(one.told == ("it is this draw",) for one in tries)


def test_a_lesson_without_its_seed_is_told_so(make_notebook):
    with pytest.raises(ValueError, match="a lesson sets its seed once"):
        list(VARIANTS["seeds"](make_notebook("seed = 0"), 1))


def test_a_walk_with_changed_numbers_finds_what_breaks_behind_them(make_notebook):
    cells = ["n = 3", "m = 4", "rows = 2", "import torch\nx = torch.ones(6).view(rows, 3)", "print(rows)"]
    changed, *after = VARIANTS["numbers"](make_notebook("import mhalib", *cells[:3], *cells[3:]), 0)
    assert changed.name == "4 -> 5 in `m = 4`" and changed.failed is None
    assert [one.failed for one in after[:2]] == [None, None]
    tries = list(VARIANTS["numbers"](make_notebook("a = 1", "b = 1", *cells[2:]), 0))
    assert [one.failed is None for one in tries] == [True, False, True] and "RuntimeError" in tries[1].failed


def test_what_mhalib_refuses_in_words_is_an_answer(make_notebook):
    source = "import torch, mhalib\nmhalib.split_heads(torch.ones(1, 2, 6), heads)"
    tries = list(VARIANTS["numbers"](make_notebook("a = 1", "b = 1", "heads = 3", source), 0))
    assert [one.failed for one in tries] == [None, None]
    plain = list(VARIANTS["numbers"](make_notebook("a = 1", "b = 1", "heads = 3", "if heads > 3: raise ValueError"), 0))
    assert plain[1].failed == "ValueError: "


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
    first, second, third = [one.failed for [one] in said.values()]
    assert first is None and "AssertionError" in second and third == "not reached"
    assert sorted(said) == [path.stem for path in paths]


def test_the_table(make_notebook, monkeypatch, capsys):
    good, bad = make_notebook("print(1)").with_stem("01_good"), make_notebook("1 / 0")
    nb = nbformat.read(bad, as_version=4)
    nb.cells[1].source = "print(1)"
    nbformat.write(nb, good)
    monkeypatch.setitem(
        harden.VARIANTS, "hashseed", lambda path, number: iter([harden.Try("plain", harden.plainly(path), ("it",))])
    )
    assert main([str(bad), str(good), "--only", "hashseed"]) == 1
    header, line, row, *rest = capsys.readouterr().out.splitlines()
    assert header == "| variant | 00 | 01 |" and row == "| hashseed | 1 of 1 failed, 1 told | ok, 1 told |"
    assert "**hashseed, 00_a_notebook, plain**: cell 2 failed: ZeroDivisionError" in "\n".join(rest)
