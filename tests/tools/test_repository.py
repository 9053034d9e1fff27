"""The repository as a whole: its pages say what is so, nothing belongs to one machine, nothing is left open."""

import importlib.util
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import yaml

import mhalib
from mhalib.pretrained.__main__ import MODELS
from tools import check_machine, setup_env
from tools.links import broken
from tools.make_images import PICTURES
from tools.notebooks.lessons import QUICK_WAY, lessons

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "notebooks/TEACHING.md", "notebooks/HANDOUT.md")
PAGES += ("notebooks/FRONT_ENDS.md", "SECURITY.md")
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))

HOSTS = ("pypi" + ".org", "pythonhosted" + ".org", "download.pytorch" + ".org")
# What must stand nowhere, but in files whose name matches the second pattern. Written in pieces: this file is searched.
NOWHERE = {
    "a place on one machine": (
        r"(?<![\w.~<>-])/(?:work|root|home/\w+|Users/\w+|opt|tmp|var/folders)/|\b[A-Z]:[\\/]+Users[\\/]",
        r"tests/(lessons|tools)/|tools/notebooks/store\.py",  # where such a name is taken out, it has to be held
    ),
    "the address of a package index": ("|".join(map(re.escape, HOSTS)), r"$"),
    # The forms in which well-known services hand out keys: chance does not write them.
    "a key": (
        r"\b(?:AKIA[0-9A-Z]{16}|gh[pousr]_\w{36}|hf_[A-Za-z]{30}|glpat-[\w-]{20}|sk-[\w-]{20}|AIza[\w-]{35})"
        r"|-----BEGIN [A-Z ]*PRIVATE KEY",
        r"$",
    ),
    "a server for others, or without its token": (
        r"--ip=(?!127\.0\.0\.1 )|0\.0\.0\.0|\.bind\(\(|HTTPServer\(|--allow-origin|IdentityProvider\.token",
        r"tests/|notebooks/|tools/classroom/|SECURITY\.md",  # servers of a class are the teacher's
    ),
    "code that is read out of data": (
        r"(?m)^\W*(?:import|from) (?:pickle|shelve|marshal|dill|cloudpickle)\b|torch\.load\(|allow_pickle=True",
        r"tests/",
    ),
}


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def files() -> list[str]:
    """Return what git holds or would hold, so that a file counts before it is committed."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    names = {name for name in done.stdout.split("\0") if name and (ROOT / name).is_file()}
    return sorted(name for name in names if not name.endswith((".png", ".gif")))


# ------------------------------------------------------------------------------------------ what the pages say


def test_links_lead_somewhere():
    wrong = {page: broken(text(page), ROOT / page, ROOT) for page in PAGES}
    assert {page: links for page, links in wrong.items() if links} == {}


def test_readme_and_notes_for_teachers_list_the_lessons_as_they_say_themselves():
    rows = re.findall(r"^\| \[\d\d · .+$", text("README.md"), re.MULTILINE)
    assert rows == [
        f"| [{lesson.heading}](notebooks/{lesson.name}.ipynb) | {lesson.question} | {lesson.minutes} "
        f"| {lesson.counted:.0f} |"
        for lesson in lessons()
    ]
    notes = re.findall(r"^### (\d\d · .+)$", text("notebooks/TEACHING.md"), re.MULTILINE)
    assert notes == [lesson.heading for lesson in lessons()]
    named = re.search(r"quick way, ([\d, and]+):", text("README.md"))[1]
    assert re.findall(r"\d\d", named) == list(QUICK_WAY) == [lesson.number for lesson in lessons() if lesson.quick]


def test_the_readme_shows_pictures_that_are_there_and_describes_them_as_they_do():
    shown = dict(re.findall(r"!\[(.+?)\]\(images/(.+?)\)", text("README.md")))
    assert shown and all(PICTURES[name].ALT == words for words, name in shown.items())
    moving = re.findall(r'<img alt="[^"]{80,}" src="(images/\S+\.gif)"', text("README.md"))
    still = re.findall(r'<source media="\(prefers-reduced-motion: reduce\)" srcset="(\S+)">', text("README.md"))
    assert len(moving) == len(still) > 0 and all((ROOT / name).is_file() for name in (*moving, *still))


def test_every_command_and_tool_that_a_page_names_exists():
    makefile, wrong = text("Makefile"), []
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    for page in (*(page for page in PAGES if page != "CHANGELOG.md"), "postBuild", "Makefile"):
        named = re.findall(r"(?:`|^)make ([a-z][a-z-]*)", text(page), re.MULTILINE)
        modules = re.findall(r"-m ((?:tools|mhalib)(?:\.\w+)*)", text(page))
        scripts = [name.replace("\\", "/") for name in re.findall(r"(?<![\w/])tools[/\\]\w+\.py", text(page))]
        paths = re.findall(r"`((?:tests|tools|mhalib|\.ci)/[\w./-]*\w)/?`", text(page))
        wrong += [f"{page}: make {name}" for name in named if name not in targets]
        wrong += [f"{page}: {name}" for name in modules if importlib.util.find_spec(name) is None]
        wrong += [f"{page}: {name}" for name in {*scripts, *paths} if "NN" not in name and not (ROOT / name).exists()]
    assert wrong == []


def test_make_help_names_at_most_ten_commands_and_the_rest_stands_in_contributing():
    targets = re.search(r"^\.PHONY: ((?:.+\\\n)*.+)$", text("Makefile"), re.MULTILINE)[1].replace("\\\n", "").split()
    told = dict.fromkeys(re.findall(r"@echo 'make ([a-z-]+)", text("Makefile")))
    assert len(told) <= 10
    others = set(targets) - set(told) - {"help", "setup", "setup-dev"}
    assert [name for name in others if f"`make {name}" not in text("CONTRIBUTING.md")] == []


def test_the_versions_and_pythons_that_are_named_agree():
    assert re.search(r"^version: (.+)$", text("CITATION.cff"), re.MULTILINE)[1] == mhalib.__version__
    assert f"mhalib-{mhalib.__version__}-py3" in text("README.md")
    oldest, newest = (".".join(map(str, version)) for version in (setup_env.OLDEST, setup_env.NEWEST))
    assert (check_machine.OLDEST, check_machine.NEWEST) == (setup_env.OLDEST, setup_env.NEWEST)
    assert f"You need Python {oldest} to {newest}" in text("README.md")
    assert tomllib.loads(text("pyproject.toml"))["project"]["requires-python"] == f">={oldest}"
    matrix = yaml.safe_load(text(".github/workflows/nightly.yml"))["jobs"]["unit"]["strategy"]["matrix"]
    assert (matrix["python"][0], matrix["python"][-1]) == (oldest, newest)


# ------------------------------------------------------------------------------------------ what is safe


def test_nothing_names_one_machine_an_index_or_a_key_serves_others_or_reads_code_out_of_data():
    texts = {name: text(name) for name in files()}
    found = [
        f"{name}: {what}"
        for what, (pattern, aside) in NOWHERE.items()
        for name, said in texts.items()
        if not re.match(aside, name) and re.search(pattern, said)
    ]
    assert found == [] and "--ip=127.0.0.1 " in texts["Makefile"]
    for said in ("see /" + "root/x", "hf" + "_" + 30 * "a", '    "import ' + "pickle"):
        assert any(re.search(pattern, said) for pattern, _ in NOWHERE.values())
    for model in MODELS:  # what is fetched is verified
        assert all(f"`{value}`" in texts["SECURITY.md"] for value in (*model.sha256.values(), model.revision))


def test_everything_that_is_installed_is_pinned():
    loose = []
    for name in files():
        if re.fullmatch(r"requirements.*\.txt|constraints\.txt", name):
            lines = (line.partition(" #")[0].strip() for line in text(name).splitlines())
            skipped = ("#", "-r ", "-e .", "-c ")
            loose += [f"{name}: {line}" for line in lines if line and not line.startswith(skipped) and "==" not in line]
    assert loose == []
    locked = set(re.findall(r"^([\w.-]+)==", text("constraints.txt"), re.MULTILINE))
    named = set(re.findall(r"^([\w.-]+)==", text("requirements.txt") + text("requirements-dev.txt"), re.MULTILINE))
    missing = named - locked - {"torch"}
    assert missing == set(), "make lock"
    assert "numpy" in locked


def test_a_workflow_pins_its_actions_may_only_read_and_calls_what_is_there():
    wrong = []
    for path in WORKFLOWS:
        workflow, said = yaml.safe_load(path.read_text(encoding="utf-8")), path.read_text(encoding="utf-8")
        pinned = re.compile(r"actions/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+|\./\.github/workflows/\w+\.yml")
        wrong += [line for line in re.findall(r"\buses: (.+)$", said, re.MULTILINE) if not pinned.fullmatch(line)]
        if workflow["permissions"] != {"contents": "read"}:
            wrong.append(f"{path.name} may do more than read")
        for name, job in workflow["jobs"].items():
            writes = {what for what, value in job.get("permissions", {}).items() if value == "write"}
            if not (writes <= {"pages", "id-token"} and ("timeout-minutes" in job or writes)):
                wrong.append(f"{path.name}, {name}: writes {writes}, or has no end")
            for step in job.get("steps", ()):
                called = re.findall(r"\.ci/\w+", step.get("run", ""))
                wrong += [call for call in called if os.name != "nt" and not os.access(ROOT / call, os.X_OK)]
                if "${{" in step.get("run", ""):
                    wrong.append(f"{path.name}, {name}: hand it over by env: there it is no part of the command")
                if step.get("uses", "").startswith("actions/checkout@") and step["with"]["persist-credentials"]:
                    wrong.append(f"{path.name}, {name} keeps credentials")
    assert WORKFLOWS and wrong == []


# ------------------------------------------------------------------------------------------ other systems


def test_a_tool_spells_what_a_pipe_on_windows_cannot_write():
    narrow = {"PYTHONIOENCODING": "cp1252", "PYTHONUTF8": "0", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-W", "ignore", "-c", "import tools; print('a … −')"]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | narrow, capture_output=True, encoding="cp1252")
    assert (done.returncode, done.stdout) == (0, "a … \\u2212\n"), done.stderr
