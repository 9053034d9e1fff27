"""The repository as a whole: its pages say what is so, nothing belongs to one machine, nothing is left open."""

import importlib.util
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import mistune
import yaml
from PIL import Image

import mhalib
from mhalib.pretrained.minilm import MINILM
from tools import check_machine, setup_env
from tools.bench import page as bench
from tools.links import broken
from tools.make_images import PICTURES
from tools.notebooks.lessons import QUICK_ROUTE, lessons
from tools.notebooks.run import PACKAGES

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "notebooks/TEACHING.md", "notebooks/HANDOUT.md")
PAGES += ("notebooks/FRONT_ENDS.md", "notebooks/INSTALL.md", "notebooks/YOUR_MODEL.md", "notebooks/LIVE.md")
PAGES += ("SECURITY.md",)
LIKE_GITHUB = """body { margin: 0 auto; width: 832px; padding: 32px; font: 16px/1.5 "Noto Sans", sans-serif }
h1, h2 { margin: 24px 0 16px; padding-bottom: .3em; line-height: 1.25; border-bottom: 1px solid } h1 { margin-top: 0 }
p, pre, table { margin: 0 0 16px } pre { padding: 16px; font: 13.6px/1.45 monospace } img { max-width: 100% }"""

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
    "a promise that no course and no doctor keeps": (
        r"(?i)(?<!nearly )every number (here )?(in (a|the) lesson|is (checked|tested))"
        r"|examin\w+ (of )?any (attention )?layer",
        r"$",
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
    return sorted(name for name in names if not name.endswith((".png", ".gif", ".npz")))


# ------------------------------------------------------------------------------------------ what the pages say


def test_the_readme_shows_the_commands_on_its_first_screen_and_the_road_on_its_second(open_file, tmp_path):
    """A screen of 1280 × 800, with a README as narrow and as large as on GitHub."""
    page = mistune.create_markdown(escape=False, plugins=["table"])(text("README.md"))
    file = tmp_path / "readme.html"
    file.write_text(f"<style>{LIKE_GITHUB}</style>" + page.replace('"images/', f'"{(ROOT / "images").as_uri()}/'))
    sheet = open_file(file.as_uri(), 1280)
    boxes = [sheet.locator(part).first.bounding_box() for part in ("pre", "picture img", "img[src*=roadmap]")]
    commands, look, road = (box["y"] + box["height"] for box in boxes)
    assert commands < look <= 800 < road <= 1600


def test_readme_and_notes_for_teachers_list_the_lessons_as_they_say_themselves():
    rows = re.findall(r"^\| \[\d\d · .+$", text("README.md"), re.MULTILINE)
    assert rows == [
        f"| [{lesson.heading}](notebooks/{lesson.name}.ipynb) | {lesson.question} | {lesson.minutes} |"
        for lesson in lessons()
    ]
    notes = re.findall(r"^### (\d\d · .+)$", text("notebooks/TEACHING.md"), re.MULTILINE)
    assert notes == [lesson.heading for lesson in lessons()]
    named = re.search(r"quick route, ([\d, and]+):", text("README.md"))[1]
    assert re.findall(r"\d\d", named) == list(QUICK_ROUTE) == [lesson.number for lesson in lessons() if lesson.quick]
    *all_but_last, last = (str(lesson.quick_minutes) for lesson in lessons() if lesson.quick)
    for page in ("README.md", "notebooks/TEACHING.md"):
        assert f"takes {', '.join(all_but_last)} and {last} minutes" in text(page)
    hours = sum(lesson.minutes for lesson in lessons()) / 60
    assert f"The quick route takes 2 hours, and the whole course about {hours:.0f}" in text("README.md")


def test_the_readme_shows_pictures_that_are_there_and_describes_them_as_they_do():
    assert len(text("README.md").splitlines()) <= 200
    shown = dict(re.findall(r"!\[(.+?)\]\(images/(.+?)\)", text("README.md")))
    recorded = {words for words, name in shown.items() if name not in PICTURES}  # tools/record.py
    assert shown and all(PICTURES[name].ALT == words for words, name in shown.items() if words not in recorded)
    assert all(len(words) > 80 and (ROOT / "images" / shown[words]).is_file() for words in recorded)
    dark = re.findall(r'\(prefers-color-scheme: dark\)" srcset="(\S+)">', text("README.md"))
    light = re.findall(r'<img alt="[^"]{80,}" src="(images/\S+\.png)" width="(\d+)">', text("README.md"))
    assert len(dark) == len(light) > 0  # both with two pixels for each that is asked for
    assert {Image.open(ROOT / name).width for name in dark} == {2 * int(width) for _, width in light}
    assert all(Image.open(ROOT / name).width == 2 * int(width) for name, width in light)
    moving = re.findall(r'<img alt="[^"]{80,}" src="(images/\S+\.gif)"', text("README.md"))
    still = re.findall(r'<source media="\(prefers-reduced-motion: reduce\)" srcset="(\S+)">', text("README.md"))
    assert len(moving) == len(still) > 0 and all((ROOT / name).is_file() for name in (*moving, *still))


def test_the_readme_repeats_how_many_times_ours_others_take_and_a_goal_that_is_missed_is_told():
    measured = text("BENCHMARKS.md").split("\n## ")[1]
    rows = re.findall(r"^\| (bertviz model view|bertviz head view|CircuitsVis) \| (.+) \|$", measured, re.MULTILINE)
    assert len(rows) == 3
    for name, cells in rows:
        factors = [f"{float(factor):.0f} ×" for factor in re.findall(r"\((\S+) ×\)", cells)]
        assert f"| {name} | {' | '.join(factors)} |" in text("README.md")
    part = bench.Part("A part", [["", "time"], ["ours", "1 s"]], "A note.")
    part.goal("fast", 2, 1, "2 s")
    part.goal("small", 1, 2, "1 MB")
    said = bench.page([part], "Machine.")
    assert "| fast | 2 s | **not met** |" in said and "| small | 1 MB | met |" in said
    assert "## A part" in said and "| ours | 1 s |" in said


def test_links_commands_and_tools_of_pages_lead_to_what_is_there():
    wrong = [f"{page}: {link}" for page in PAGES for link in broken(text(page), ROOT / page, ROOT)]
    targets = set(re.findall(r"^([a-z-]+):", text("Makefile"), re.MULTILINE))
    for page in (*(page for page in PAGES if page != "CHANGELOG.md"), "postBuild", "Makefile"):
        named = re.findall(r"(?:`|^)make ([a-z][a-z-]*)", text(page), re.MULTILINE)
        modules = re.findall(r"-m ((?:tools|mhalib|attention_doctor)(?:\.\w+)*)", text(page))
        scripts = [name.replace("\\", "/") for name in re.findall(r"(?<![\w/])tools[/\\]\w+\.py", text(page))]
        folders = "|".join(("tests", "tools", r"\.ci", *PACKAGES))
        paths = re.findall(rf"`((?:{folders})/[\w./-]*\w)/?`", text(page))
        wrong += [f"{page}: make {name}" for name in named if name not in targets]
        wrong += [f"{page}: {name}" for name in modules if importlib.util.find_spec(name) is None]
        wrong += [f"{page}: {name}" for name in {*scripts, *paths} if "NN" not in name and not (ROOT / name).exists()]
    run = {name.replace(".", "/") + ".py" for name in re.findall(r"-m (tools\.[\w.]+)", text("Makefile"))}
    assert wrong == [] and [name for name in run if "__main__" not in text(name)] == []


def test_the_versions_and_pythons_that_are_named_agree():
    assert re.search(r"^version: (.+)$", text("CITATION.cff"), re.MULTILINE)[1] == mhalib.__version__
    assert f"mhalib-{mhalib.__version__}-py3" in text("notebooks/YOUR_MODEL.md")
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
    known = (*MINILM.sha256.values(), MINILM.revision)  # what is fetched is verified
    assert all(f"`{value}`" in texts["SECURITY.md"] for value in known)


def test_everything_that_is_installed_is_pinned_and_a_workflow_may_only_read():
    loose, ours = [], ("#", "-r ", "-e .", "-c ")
    for name in files():
        if re.fullmatch(r"requirements.*\.txt|constraints\.txt", name):
            lines = [line.strip() for line in text(name).splitlines() if line.strip() and not line.startswith(ours)]
            loose += [f"{name}: {line}" for line in lines if "==" not in line.partition(" #")[0]]
        if name.startswith(".github/workflows/"):
            pinned = re.compile(r"actions/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+|\./\.github/workflows/\w+\.yml")
            actions = re.findall(r"\buses: (.+)$", text(name), re.MULTILINE)
            loose += [f"{name}: {action}" for action in actions if not pinned.fullmatch(action)]
            workflow = yaml.safe_load(text(name))
            granted = [workflow["permissions"], *(job.get("permissions", {}) for job in workflow["jobs"].values())]
            writes = {what for rights in granted for what, right in rights.items() if right == "write"}
            loose += [f"{name} may write {what}" for what in writes - {"pages", "id-token"}]
    assert loose == []
    named = text("requirements.txt") + text("requirements-dev.txt")
    locked, named = (set(re.findall(r"^([\w.-]+)==", said, re.MULTILINE)) for said in (text("constraints.txt"), named))
    assert named - locked == {"torch"}, "make lock"


# ------------------------------------------------------------------------------------------ other systems


def test_a_tool_spells_what_a_pipe_on_windows_cannot_write():
    narrow = {"PYTHONIOENCODING": "cp1252", "PYTHONUTF8": "0", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-W", "ignore", "-c", "import tools; print('a … −')"]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | narrow, capture_output=True, encoding="cp1252")
    assert (done.returncode, done.stdout) == (0, "a … \\u2212\n"), done.stderr
