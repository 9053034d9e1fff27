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

    def install(self, name: str, version: str, code: str = "") -> None:
        about = self.packages / f"{name}-{version}.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        (self.packages / f"{name}.py").write_text(code)

    def remove(self, name: str) -> None:
        (self.packages / f"{name}.py").unlink()
        shutil.rmtree(next(self.packages.glob(f"{name}-*.dist-info")))

    def check(self, before: str = "", cwd: Path | None = None) -> tuple[int, str]:
        """Return the exit code and what is printed, of a Python that runs the code `before` first."""
        script = self.course / "tools" / "check_machine.py"
        code = f"import runpy, sys\n{before}\nrunpy.run_path({str(script)!r}, run_name='__main__')"
        command = [BASE_PYTHON, "-I", "-S", "-c", f"import sys; sys.path.append({str(self.packages)!r})\n{code}"]
        done = subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert "Traceback" not in done.stdout, done.stdout
        return done.returncode, done.stdout


@pytest.fixture
def machine(tmp_path):
    machine = Machine(tmp_path)
    machine.install("torch", "2.13.0+cpu", TORCH)  # a build of the same version
    machine.install("anywidget", "0.11.0")
    machine.install("mhalib", "0.2.0")
    return machine


def test_a_machine_that_has_all_wherever_it_is_asked_and_whatever_torch_computes_on(machine, tmp_path):
    for place in (tmp_path, machine.course, machine.course / "my"):
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
    machine.remove("anywidget")
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


def test_another_python_is_all_that_is_said(machine):
    for version, word in (((3, 6, 9), "old"), ((3, 15, 0), "new")):
        code, said = machine.check(f"sys.version_info = {version}")
        assert code == 1 and re.match(rf"Python +{'.'.join(map(str, version))} +too {word}\n\n", said)
        assert "needs Python 3.11, 3.12, 3.13 or 3.14" in said and "    make lab PYTHON=python3.12\n" in said
        assert "torch" not in said


def test_a_torch_that_does_not_start(machine):
    (machine.packages / "torch.py").write_text("raise OSError('libgomp.so.1: cannot open shared object file\\nmore')")
    code, said = machine.check()
    assert code == 1 and "torch is installed and does not start: libgomp.so.1: cannot open shared object file\n" in said
    assert "Everything" not in said and ".venv, then type: make lab" in said


RUN = """
import sys
sys.path.append({packages!r})
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance(history_length=0)
shell.run_cell("ROOT = main = 'mine'")
before = set(shell.user_ns)
result = shell.run_cell("%run ../tools/check_machine.py")
assert result.success, result
print("left:", sorted(set(shell.user_ns) - before), shell.user_ns["ROOT"], shell.user_ns["main"])
"""


def test_in_a_lesson_it_stops_nothing_and_leaves_no_names_behind(machine, tmp_path):
    """In a process of its own: IPython changes the one in which it runs."""
    (machine.course / "requirements.txt").write_text("surely-nobody-has-this==1.0\n")
    code = RUN.format(packages=str(machine.packages))
    env = {"IPYTHONDIR": str(tmp_path / "ipython"), "PATH": "", "HOME": str(tmp_path)}
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "env": env}
    done = subprocess.run([sys.executable, "-c", code], cwd=machine.course / "my", **options)
    assert "\nMissing: surely-nobody-has-this\n" in done.stdout, done.stdout
    assert "Then choose Kernel > Restart Kernel and run this cell again.\n" in done.stdout
    assert "left: [] mine mine" in done.stdout and "SystemExit" not in done.stdout and done.returncode == 0
