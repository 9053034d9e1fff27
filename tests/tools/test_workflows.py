"""What runs on GitHub: that it parses, calls what is there, pins what it fetches, and tries what the course says."""

import os
import re
import tomllib
from pathlib import Path

import pytest
import yaml

from tools import check_machine, setup_env

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
each_workflow = pytest.mark.parametrize("path", WORKFLOWS, ids=[path.name for path in WORKFLOWS])


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def load(path: Path) -> dict:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def steps(workflow: dict) -> list[dict]:
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


@each_workflow
def test_every_action_is_pinned_by_its_commit_with_the_release_behind_it(path):
    used = re.findall(r"^.*\buses: (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    pinned = re.compile(r"actions/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
    assert used and [line for line in used if not pinned.fullmatch(line)] == []
    assert len(used) == sum("uses" in step for step in steps(load(path)))


def test_all_workflows_pin_the_same_release_of_an_action():
    pinned = {use for path in WORKFLOWS for use in re.findall(r"uses: (\S+@\S+)", path.read_text(encoding="utf-8"))}
    assert len(pinned) == len({use.partition("@")[0] for use in pinned}), sorted(pinned)


@each_workflow
def test_a_workflow_may_read_and_no_more_and_runs_no_text_from_outside_as_a_command(path):
    workflow = load(path)
    assert workflow["permissions"] == {"contents": "read"}
    assert "cancel-in-progress" in workflow["concurrency"]
    for job in workflow["jobs"].values():
        writes = {name for name, value in job.get("permissions", {}).items() if value == "write"}
        assert writes <= {"pages", "id-token"}, "only the publishing of pages writes"
        assert job.get("timeout-minutes") or writes
    for step in steps(workflow):
        assert "${{" not in step.get("run", ""), "hand it over by env: there it is no part of the command"
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False


@each_workflow
def test_what_a_workflow_calls_is_there(path):
    commands = "\n".join(step.get("run", "") for step in steps(load(path)))
    called = re.findall(r"(?<![\w/])(?:\.ci|tools|tests)/[\w./-]+|requirements\S*\.txt", commands)
    assert [name for name in called if not (ROOT / name).exists()] == []
    for name in re.findall(r"\.ci/\w+", commands):
        assert os.name == "nt" or os.access(ROOT / name, os.X_OK), f"{name} cannot be started; chmod +x it"
    targets = re.findall(r"\bmake ([a-z-]+)", commands)
    assert [name for name in targets if f"\n{name}:" not in text("Makefile")] == []
    # Dependencies of the cache key: a pattern that matches no file would stop the job.
    patterns = [step["with"]["cache-dependency-path"] for step in steps(load(path)) if "cache" in step.get("with", {})]
    assert patterns and all(list(ROOT.glob(pattern)) for pattern in patterns)


def test_every_python_that_the_course_promises_is_tried_on_every_system():
    matrix = load(ROOT / ".github" / "workflows" / "tests.yml")["jobs"]["unit"]["strategy"]["matrix"]
    (major, oldest), (_, newest) = setup_env.OLDEST, setup_env.NEWEST
    assert matrix["python"] == [f"{major}.{minor}" for minor in range(oldest, newest + 1)]
    assert {system.partition("-")[0] for system in matrix["system"]} == {"ubuntu", "macos", "windows"}
    assert (check_machine.OLDEST, check_machine.NEWEST) == (setup_env.OLDEST, setup_env.NEWEST)
    assert f"You need Python {matrix['python'][0]} to {matrix['python'][-1]}" in text("README.md")
    assert tomllib.loads(text("pyproject.toml"))["project"]["requires-python"] == f">={matrix['python'][0]}"


def test_the_jobs_install_what_make_test_installs():
    unit = load(ROOT / ".github" / "workflows" / "tests.yml")["jobs"]["unit"]
    installed = re.findall(r"requirements\S*\.txt", unit["steps"][2]["run"])
    assert installed == re.search(r"^setup-dev:\n\t\$\(call set_up,(.+)\)", text("Makefile"), re.MULTILINE)[1].split()


def test_the_oldest_are_tried_with_every_extra_and_with_the_oldest_python():
    oldest = load(ROOT / ".github" / "workflows" / "tests.yml")["jobs"]["oldest"]
    extras = set(tomllib.loads(text("pyproject.toml"))["project"]["optional-dependencies"])
    assert {extra for row in oldest["strategy"]["matrix"]["extras"] for extra in row.split(",")} == extras
    (python,) = (step["with"]["python-version"] for step in oldest["steps"] if "python-version" in step.get("with", {}))
    assert python == ".".join(map(str, setup_env.OLDEST))


def test_line_ends_stay_as_they_are_stored():
    assert re.search(r"^\* text=auto eol=lf$", text(".gitattributes"), re.MULTILINE)
