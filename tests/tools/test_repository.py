"""The repository as a whole: what its pages say is true, and nothing in it belongs to one machine."""

import importlib.util
import re
import subprocess
from pathlib import Path

import pytest

import mhalib
from tools import record, record_zoom
from tools.links import broken, html
from tools.make_images import PICTURES
from tools.notebooks.lessons import QUICK_WAY, lessons

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("README.md", "CONTRIBUTING.md", "notebooks/TEACHING.md", "notebooks/HANDOUT.md", "notebooks/FRONT_ENDS.md")

# Written in pieces, because this file is searched as well.
FOREIGN = {
    "a place on one machine": r"(?<![\w.~<>-])/(?:work|root|home/\w+|Users/\w+|opt|tmp|var/folders)"
    + r"/|\b[A-Z]:[\\/]+Users[\\/]",
    "the address of a package index": "|".join(
        re.escape(host) for host in ("pypi" + ".org", "pythonhosted" + ".org", "download.pytorch" + ".org")
    ),
    # The forms in which well-known services hand out keys: chance does not write them.
    "a key": r"\b(?:AKIA[0-9A-Z]{16}|gh[pousr]_\w{36}|hf_[A-Za-z]{30}|glpat-[\w-]{20}|sk-[\w-]{20}|AIza[\w-]{35})"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY",
}
# Tests that show how such a name is taken out have to hold it.
ALLOWED = {"tests/test_run_notebooks.py", "tests/test_notebooks.py", "tools/notebooks/store.py"}


def files() -> list[str]:
    """Return what git holds or would hold, so that a file counts before it is committed."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return sorted({name for name in done.stdout.split("\0") if name and (ROOT / name).is_file()})


def find_foreign(text: str) -> list[str]:
    return [what for what, pattern in FOREIGN.items() if re.search(pattern, text)]


@pytest.mark.parametrize("page", [*PAGES, "CHANGELOG.md"])
def test_links_lead_somewhere(page):
    assert broken((ROOT / page).read_text(encoding="utf-8"), ROOT / page, ROOT) == []


def test_the_readme_lists_the_lessons_as_they_say_themselves():
    rows = re.findall(r"^\| \[\d\d · .+$", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert rows == [
        f"| [{lesson.heading}](notebooks/{lesson.name}.ipynb) | {lesson.question} | {lesson.minutes} "
        f"| {lesson.counted:.0f} |"
        for lesson in lessons()
    ]


def test_the_readme_names_the_quick_way():
    named = re.search(r"quick way, ([\d, and]+):", (ROOT / "README.md").read_text(encoding="utf-8"))[1]
    assert tuple(re.findall(r"\d\d", named)) == QUICK_WAY
    assert [lesson.number for lesson in lessons() if lesson.quick] == list(QUICK_WAY)


def test_the_notes_for_teachers_go_through_the_lessons_as_they_say_themselves():
    notes = (ROOT / "notebooks" / "TEACHING.md").read_text(encoding="utf-8")
    assert re.findall(r"^### (\d\d · .+)$", notes, re.MULTILINE) == [lesson.heading for lesson in lessons()]
    memory = re.findall(r"^\| \[(\d\d)\]\((\w+)\.ipynb\) \|", notes, re.MULTILINE)
    assert memory == [(lesson.number, lesson.name) for lesson in lessons()]


def test_the_readme_describes_its_pictures_as_they_describe_themselves():
    shown = dict(re.findall(r"!\[(.+?)\]\(images/(.+?)\)", (ROOT / "README.md").read_text(encoding="utf-8")))
    assert shown and all(PICTURES[name].ALT == text for text, name in shown.items())


def test_the_readme_opens_with_the_moving_picture_and_with_a_still_one_for_who_wants_no_motion():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert text.index("<picture>") < text.index("![")
    picture = html(text).picture
    source, image = picture.find_all(True)  # GitHub evaluates the first; who knows no `picture` sees the second
    assert source.attrs == {"media": "(prefers-reduced-motion: reduce)", "srcset": "images/hero.png"}
    assert image.attrs == {"alt": record.ALT, "src": f"images/{record.NAME}", "width": str(record.WIDTH)}
    source, image = html(text).find_all("picture")[1].find_all(True)
    assert source.attrs == {"media": "(prefers-reduced-motion: reduce)", "srcset": f"images/{record_zoom.STILL}"}
    assert image.attrs == {
        "alt": record_zoom.ALT,
        "src": f"images/{record_zoom.NAME}",
        "width": str(record_zoom.WIDTH),
    }


@pytest.mark.parametrize("page", PAGES)
def test_every_command_that_a_page_names_exists(page):
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.search(r"^\.PHONY: (.+)$", makefile, re.MULTILINE).group(1).split())
    named = set(re.findall(r"(?:`|^)make ([a-z-]+)", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE))
    assert named <= targets and (named or "HANDOUT" in page)  # the handout is for reading, not for running


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "notebooks/TEACHING.md", "postBuild", "Makefile"])
def test_every_tool_that_a_page_calls_exists(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    modules = set(re.findall(r"-m ((?:tools|mhalib)(?:\.\w+)*)", text))
    scripts = {name.replace("\\", "/") for name in re.findall(r"\btools[/\\]\w+\.py", text)}
    assert modules and [name for name in modules if importlib.util.find_spec(name) is None] == []
    assert [name for name in scripts if not (ROOT / name).is_file()] == []


def test_every_command_is_explained_by_make_help():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.search(r"^\.PHONY: (.+)$", makefile, re.MULTILINE).group(1).split()
    public = [target for target in targets if target not in ("help", "setup", "setup-dev")]
    assert [target for target in public if not re.search(rf"'make {target}\b", makefile)] == []
    assert [target for target in targets if not re.search(rf"^{target}:", makefile, re.MULTILINE)] == []


def test_nothing_names_one_machine_or_a_package_index():
    found = {}
    for name in files():
        if name in ALLOWED or name.endswith((".png", ".gif")):
            continue
        foreign = find_foreign((ROOT / name).read_text(encoding="utf-8"))
        if foreign:
            found[name] = foreign
    assert found == {}


def test_such_names_would_be_found():
    assert find_foreign("see /" + "root/x") == ["a place on one machine"]
    assert find_foreign("C:" + r"\\Users\\ada") == find_foreign("/" + "tmp/x") == ["a place on one machine"]
    assert find_foreign('token = "ghp' + "_" + 36 * "a" + '"') == ["a key"]
    assert find_foreign("-----BEGIN RSA " + "PRIVATE KEY-----") == ["a key"]
    assert find_foreign("https://files.pythonhosted" + ".org/x") == ["the address of a package index"]
    assert find_foreign("https://example.org/work/x and a/root/x") == []


def test_the_version_stands_once():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(r"^version: (.+)$", citation, re.MULTILINE).group(1) == mhalib.__version__
    assert 'dynamic = ["version"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
