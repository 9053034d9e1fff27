"""The check of the machine: what it says of a machine that lacks something, wherever it is called from.

Each machine is a folder of a few made-up packages and a Python that sees no others.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BASE_PYTHON = getattr(sys, "_base_executable", sys.executable)
PINS = "torch==2.13.0  # the layer\nanywidget==0.11.0\n\n-e .\n"
# As much of torch as the check asks for.
TORCH = """
from types import SimpleNamespace
class ones:
    def __init__(self, *shape, device="cpu"):
        if device == "broken":
            raise RuntimeError("no kernel image is available for this GPU")
    sum = lambda self: 6
DEVICE = None
def current_accelerator(check_available=False):
    return DEVICE and SimpleNamespace(type=DEVICE)
accelerator = SimpleNamespace(current_accelerator=current_accelerator)
"""


class Machine:
    """A course folder with a space in its path, and a folder of packages."""

    def __init__(self, folder: Path):
        self.course, self.packages = folder / "my course", folder / "packages"
        for place in (self.course / "tools", self.course / "my", self.packages):
            place.mkdir(parents=True)
        shutil.copy(ROOT / "tools" / "check_machine.py", self.course / "tools")
        (self.course / "requirements.txt").write_text(PINS)
        self.install("torch", "2.13.0+cpu", TORCH)  # a build of the same version
        self.install("anywidget", "0.11.0")
        self.install("mhalib", "0.2.0")

    def install(self, name: str, version: str, code: str = "") -> None:
        about = self.packages / f"{name}-{version}.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        (self.packages / f"{name}.py").write_text(code)

    def check(self, before: str = "", cwd: Path | None = None) -> tuple[int, str]:
        """Return the exit code and what is printed, of a Python that runs the code `before` first."""
        script = self.course / "tools" / "check_machine.py"
        code = f"import runpy, sys\nsys.path.append({str(self.packages)!r})\n{before}\n"
        code += f"print('left:', runpy.run_path({str(script)!r}, run_name='__main__'))"
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        done = subprocess.run([BASE_PYTHON, "-I", "-S", "-c", code], cwd=cwd, **options)
        assert "Traceback" not in done.stdout, done.stdout
        return done.returncode, done.stdout


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def test_a_machine_that_has_all_wherever_it_is_asked_and_whatever_torch_computes_on(machine):
    for place in (machine.packages, machine.course / "my"):
        code, said = machine.check(cwd=place)
        rows = re.findall(r"^(\w+) +(\S+) +ok$", said, re.MULTILINE)[1:]
        assert rows == [("torch", "2.13.0"), ("anywidget", "0.11.0"), ("mhalib", "0.2.0")]
        assert code == 0 and said.endswith("Everything is here.\n")
    for device, where in {
        "None": "the processor (cpu)",
        "'cuda'": "a GPU (cuda)",
        "'mps'": "the GPU of this Mac (mps)",
        "'broken'": "the processor (cpu)",  # a GPU for which this torch has no code
        "None\ndel accelerator": "the processor (cpu)",  # a torch from before there was such a question
    }.items():
        (machine.packages / "torch.py").write_text(f"{TORCH}\nDEVICE = {device}\n")
        code, said = machine.check()
        assert code == 0 and f"torch can compute on {where}." in said


def test_what_is_missing_and_what_to_type_and_another_version_is_a_remark(machine):
    shutil.rmtree(machine.packages / "anywidget-0.11.0.dist-info")
    code, said = machine.check()
    assert code == 1 and re.search(r"^anywidget +missing$", said, re.MULTILINE)
    assert "\nMissing: anywidget\n" in said and f"in the course folder {machine.course}, type:\n    make lab\n" in said
    assert re.search(r"^    \S.* -m pip install -r requirements\.txt$", said, re.MULTILINE)
    assert said.endswith("Then run this once more.\n") and "Everything" not in said
    machine.install("anywidget", "0.9.1")
    code, said = machine.check()
    assert code == 0 and re.search(r"^anywidget +0\.9\.1 +the course was run with 0\.11\.0$", said, re.MULTILINE)
    assert said.endswith("Everything is here. Other versions than the course's may well do.\n")
    (machine.course / "requirements.txt").unlink()
    code, said = machine.check()
    assert code == 1 and "git checkout -- requirements.txt" in said and "Everything" not in said


def test_another_python_is_all_that_is_said_and_a_torch_that_does_not_start_is_told(machine):
    for version, word in (((3, 6, 9), "old"), ((3, 15, 0), "new")):
        code, said = machine.check(f"sys.version_info = {version}")
        assert code == 1 and re.match(rf"Python +{'.'.join(map(str, version))} +too {word}\n\n", said)
        assert "needs Python 3.11, 3.12, 3.13 or 3.14" in said and "    make lab PYTHON=python3.12\n" in said
        assert "torch" not in said
    (machine.packages / "torch.py").write_text("raise OSError('libgomp.so.1: cannot open shared object file\\nmore')")
    code, said = machine.check()
    assert code == 1 and "torch is installed and does not start: libgomp.so.1: cannot open shared object file\n" in said
    assert "Everything" not in said and ".venv, then type: make lab" in said


def test_in_a_lesson_it_stops_nothing_and_leaves_no_names_behind(machine):
    shutil.rmtree(machine.packages / "anywidget-0.11.0.dist-info")
    code, said = machine.check("import builtins\nbuiltins.get_ipython = None")
    assert code == 0 and "\nMissing: anywidget\n" in said
    assert said.endswith("Then choose Kernel > Restart Kernel and run this cell again.\nleft: {}\n")
