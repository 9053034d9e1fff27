"""A worker that dies takes one test with it: the run ends, and says which."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
LESSONS = """
import os, pytest

@pytest.mark.parametrize("lesson", range(6))
def test_runs_offline_and_says_so(lesson):
    if lesson == DIES:
        os._exit(1)
"""
OTHERS = """
def test_one(): ...
def test_two(): assert False
def test_three(): ...
"""


@pytest.mark.parametrize("order", ["test_lessons.py test_a.py test_b.py", "test_a.py test_b.py test_lessons.py"])
@pytest.mark.parametrize("dies", [0, 5])
def test_a_run_ends_and_names_the_test_in_which_a_worker_died(dies, order, tmp_path):
    (tmp_path / "test_lessons.py").write_text(LESSONS.replace("DIES", str(dies)))
    for name in ("test_a.py", "test_b.py"):
        (tmp_path / name).write_text(OTHERS)
    command = f"-m pytest -p scheduling -n 2 --dist loadfile --no-loadscope-reorder {order}"
    outside = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    done = subprocess.run(
        [sys.executable, *command.split()],
        cwd=tmp_path,
        env=outside | {"PYTHONPATH": str(HERE)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert re.search(r"^=+ 3 failed, 9 passed", done.stdout, re.MULTILINE), done.stdout
    assert done.stdout.count("replacing crashed worker") == 1
    assert f"test_lessons.py::test_runs_offline_and_says_so[{dies}]" in done.stdout.split("short test summary")[1]
