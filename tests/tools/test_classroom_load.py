"""A simulated class: who does what when, what is measured of it, and what is expected of a larger one."""

import os
import runpy
from pathlib import Path

import pytest
from traitlets.config import Config

from tools import classroom
from tools.classroom.learners import ClassroomError, Learner, Round, hold, phases
from tools.classroom.load import forecast, main, memory_for, seconds_for

CONFIG = Path(classroom.__file__).with_name("jupyterhub_config.py")
LESSON = (
    "import os",
    "def train_model(steps):\n    return sum(range(steps))",
    "shown = 1",
    "loss = train_model(10**6)",
    "after = loss + 1",
    "def head_one(x):\n    ...\n\ncheck.head_one(head_one)",
    "'the end'",
)


def test_the_cells_of_a_lesson_fall_into_the_phases_of_a_class(make_notebook):
    found = phases(make_notebook(*LESSON))
    assert {phase: len(cells) for phase, cells in found.items()} == {"open": 1, "read": 2, "train": 2, "exercises": 2}
    assert "check.head_one.answer" in found["exercises"][0]
    assert list(phases(make_notebook("import os", "model.train(True)"))) == ["open", "read"]


def test_two_learners_are_measured_and_then_gone(make_notebook, monkeypatch):
    path = make_notebook("import os", "big = bytearray(60_000_000)", "def train(): ...", "train()")
    seen = []
    monkeypatch.setattr(Learner, "end", lambda self, end=Learner.end: (end(self), seen.append(self.process)))
    before = dict(os.environ)
    monkeypatch.setattr("tools.classroom.learners.EVERY", 0.01)
    found = hold(phases(path), 2, path.parent, threads=1)
    assert {phase: len(seconds) for phase, seconds in found.seconds.items()} == {"open": 2, "read": 2, "train": 2}
    assert found.learners == 2 and all(second > 0 for second in found.seconds["open"] + found.cpu["open"])
    assert found.machine > 2 * 60 and 60 < found.largest < found.machine
    assert len(seen) == 2 and not any(process.is_running() for process in seen)
    assert dict(os.environ) == before


def test_a_learner_has_the_threads_that_were_asked_for(make_notebook):
    path = make_notebook("import os", "assert os.environ['OMP_NUM_THREADS'] == os.environ['LOKY_MAX_CPU_COUNT'] == '3'")
    hold(phases(path), 1, path.parent, threads=3)
    with pytest.raises(ClassroomError, match="learner 1: KeyError: 'OMP_NUM_THREADS', in the cell"):
        hold({"open": ["import os; os.environ['OMP_NUM_THREADS']"]}, 1, path.parent)


def rounds() -> list[Round]:
    return [
        Round(1, 400.0, 400.0, {"train": [10.0]}, {"train": [9.0]}),
        Round(8, 2000.0, 420.0, {"train": [40.0] * 8}, {"train": [10.0] * 8}),
        Round(16, 4000.0, 420.0, {"train": [80.0] * 16}, {"train": [12.0] * 16}),
    ]


def test_a_larger_class_is_extrapolated_from_the_last_two():
    assert memory_for(rounds(), 40) == 4000 + 250 * 24
    assert seconds_for(rounds(), "train", 40, cores=8) == 40 * 12 / 8
    assert seconds_for(rounds(), "train", 2, cores=8) == 10
    assert forecast(rounds(), 40, 8).endswith("10.0 GB for the kernels; train 60 s")
    with pytest.raises(ValueError, match="at least two numbers"):
        memory_for(rounds()[:1], 40)


def test_the_command_prints_a_line_for_each_phase_and_stops_at_a_cell_that_fails(make_notebook, capsys):
    path = make_notebook("import os", "1 / 0")
    assert main([str(path), "--learners", "1"]) == 1
    assert "stopped: learner 1: ZeroDivisionError: division by zero, in the cell '1 / 0'" in capsys.readouterr().err


def test_a_class_without_room_is_refused(make_notebook, capsys):
    path = make_notebook("import os", "2 + 2")
    assert main([str(path), "--learners", "1", "100000"]) == 1
    printed = capsys.readouterr()
    assert "100000 learners would take about" in printed.err
    assert [line.split()[0] for line in printed.out.splitlines()] == ["learners", "1", "read"]


def test_the_hub_binds_to_this_machine_and_lets_nobody_in_by_itself():
    config = Config()
    runpy.run_path(str(CONFIG), {"get_config": lambda: config})
    assert config.JupyterHub.bind_url.startswith("http://127.0.0.1:") and config.JupyterHub.hub_ip == "127.0.0.1"
    assert config.Authenticator.allow_all is False and config.Authenticator.admin_users == set()
    assert config.JupyterHub.admin_access is False and "authenticator_class" not in config.JupyterHub
    assert config.Spawner.environment["OMP_NUM_THREADS"] == "1"
