"""`make release`: what it refuses, that a commit gives the same files wherever it is built, and what a wheel holds."""

import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml
from nbformat.v4 import new_notebook

import mhalib
from tools import release
from tools.links import html
from tools.notebooks.colab import cell_source, put
from tools.notebooks.run import NOTEBOOKS, read, write
from tools.notebooks.which import notebook_files
from tools.site.export import PageExporter

ROOT = Path(__file__).resolve().parents[2]
CHANGELOG = (
    "# Changes\n\n## [Unreleased]\n\n## [1.2.3] - 2020-02-29\n\n### Added\n\n- One.\n\n## [1.2.2] - 2020-01-01\n"
)
KINDS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def git(folder: Path, *arguments: str) -> None:
    own = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *own, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def house(tmp_path, make_notebook):
    """A small repository that can be released as 1.2.3."""
    house = tmp_path / "a house"
    (house / "mhalib").mkdir(parents=True)
    (house / "notebooks").mkdir()
    (house / "mhalib" / "__init__.py").write_text('"""A layer."""\n\n__version__ = "1.2.3"\n')
    for name in ("pyproject.toml", "LICENSE"):
        shutil.copy(ROOT / name, house)
    (house / "README.md").write_text("Install mhalib-1.2.3-py3-none-any.whl.\n")
    (house / "CHANGELOG.md").write_text(CHANGELOG)
    (house / "CITATION.cff").write_text("version: 1.2.3\ndate-released: 2020-02-29\n")
    nb = read(NOTEBOOKS / "torch_in_ten_minutes.ipynb")
    put(nb, cell_source("1.2.3", ""))
    write(nb, house / "notebooks" / "00_one.ipynb")
    git(house, "init", "-q")
    git(house, "add", ".")
    git(house, "commit", "-qm", "first", "--date=2020-02-29T12:00:00Z")
    return house


def wrong(house: Path) -> list[str]:
    return [line for check in release.CHECKS for line in check(house)]


def test_a_house_in_order_can_be_released(house, capsys):
    assert wrong(house) == []
    assert release.main(["--check"], root=house) == 0
    assert capsys.readouterr().out.startswith("v1.2.3 can be released")
    assert not (house / "dist").exists()


def replace(name: str, old: str, new: str):
    def change(house: Path):
        text = (house / name).read_text(encoding="utf-8")
        assert old in text
        (house / name).write_text(text.replace(old, new, 1), encoding="utf-8")
        git(house, "commit", "-qam", "a change")

    return change


REFUSED = {
    "a dirty tree": (lambda house: (house / "new.txt").touch(), r"1 files differ from what git holds, '\?\? new"),
    "a tag that is there": (lambda house: git(house, "tag", "v1.2.3"), "the tag v1.2.3 is there already"),
    "an older version": (lambda house: git(house, "tag", "v1.10.0"), "expected a version above 1.10.0, got 1.2.3"),
    "no section": (replace("CHANGELOG.md", "[1.2.3]", "[1.2.4]"), r"under ## \[1.2.3\] - YYYY"),
    "no Unreleased": (replace("CHANGELOG.md", "## [Unreleased]\n", ""), r"must open with the section ## \[Unreleased"),
    "something left": (replace("CHANGELOG.md", "eased]\n", "eased]\n\n- More.\n"), "still holds something under Unre"),
    "no date": (replace("CHANGELOG.md", " - 2020-02-29", ""), r"must give \[1.2.3\] its date"),
    "no such date": (replace("CHANGELOG.md", "2020-02-29", "2021-02-29"), r"its date, as .*; it says 2021-02-29"),
    "a date to come": (replace("CHANGELOG.md", "2020-02-29", "2999-02-28"), "2999-02-28, which is still to come"),
    "another citation": (replace("CITATION.cff", "1.2.3", "1.2.2"), "CITATION.cff says version: 1.2.2, expected 1.2.3"),
    "cited on another day": (replace("CITATION.cff", "02-29", "02-28"), "date-released: 2020-02-28, expected"),
    "another wheel": (replace("README.md", "1.2.3", "1.2.2"), "README.md names the wheel of 1.2.2, expected 1.2.3"),
    "stale outputs": (replace("notebooks/00_one.ipynb", "torch", "Torch"), "00_one.ipynb: its source changed since"),
    "another edition": (replace("notebooks/00_one.ipynb", "v1.2.3", "v1.2.2"), "Colab fetches another than v1.2.3"),
    "another version shown": (
        replace("notebooks/00_one.ipynb", '"outputs": []', '"outputs": [{"output_type": "stream", "name": "stdout", '
                '"text": "mhalib   1.2.2   ok"}]'),
        "00_one.ipynb shows mhalib 1.2.2, expected 1.2.3",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_it_refuses(house, capsys, name):
    change, said = REFUSED[name]
    change(house)
    assert any(re.search(said, line) for line in wrong(house)), wrong(house)
    assert release.main([], root=house) == 1
    assert "Nothing was built." in capsys.readouterr().out and not (house / "dist").exists()


def test_it_refuses_a_version_that_is_none(house):
    replace("mhalib/__init__.py", "1.2.3", "1.2.3.dev0")(house)
    with pytest.raises(ValueError, match="three numbers"):
        release.version_of(house)


def test_a_commit_gives_the_same_files_wherever_and_whenever_it_is_built(house, tmp_path):
    first = release.build(house, tmp_path / "first")
    git(tmp_path, "clone", "-q", str(house), "elsewhere")
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "mhalib" / "left_behind.py").touch()  # git does not hold it
    again = release.build(elsewhere, tmp_path / "again")
    assert [path.name for path in first] == ["mhalib-1.2.3-py3-none-any.whl", "mhalib-1.2.3.tar.gz"]
    assert release.digests(first) == release.digests(again)
    replace("mhalib/__init__.py", "A layer", "A new layer")(house)
    assert release.digests(first) != release.digests(release.build(house, tmp_path / "changed"))


def test_what_is_handed_out_is_listed_and_the_next_step_is_told(house, monkeypatch, capsys):
    run, called = subprocess.run, []

    def listed(command, **options):
        if "tools.licences" not in command:
            return run(command, **options)
        called.append(command)
        Path(command[-1]).write_text("{}")

    monkeypatch.setattr(subprocess, "run", listed)
    (house / "dist").mkdir()
    (house / "dist" / "old.whl").touch()
    (house / ".gitignore").write_text("dist/\n")
    git(house, "add", ".")
    git(house, "commit", "-qm", "ignore")
    assert release.main([], root=house) == 0
    names = sorted(path.name for path in (house / "dist").iterdir())
    wheel, source, bill = "mhalib-1.2.3-py3-none-any.whl", "mhalib-1.2.3.tar.gz", "mhalib-1.2.3.cdx.json"
    assert names == sorted(["SHA256SUMS", wheel, bill, source]) and len(called) == 1
    sums = (house / "dist" / "SHA256SUMS").read_text()
    assert re.findall(r"^[0-9a-f]{64}  (.+)$", sums, re.MULTILINE) == [wheel, source, bill]
    assert "git tag -a v1.2.3 -m v1.2.3" in capsys.readouterr().out
    assert release.git(house, "tag") == "", "a tag is for who releases"


# ------------------------------------------------------------------------------------------ this repository


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Wheel and source of the last commit."""
    return release.build(ROOT, tmp_path_factory.mktemp("dist"))


def test_the_wheel_holds_the_package_and_nothing_more(built):
    held = set(zipfile.ZipFile(built[0]).namelist())
    package = set(release.git(ROOT, "ls-tree", "-r", "--name-only", "HEAD", "mhalib").splitlines())
    about = {name.partition("dist-info/")[2] for name in held - package}
    assert package <= held and about == {"METADATA", "RECORD", "WHEEL", "licenses/LICENSE"}
    assert {path.rpartition(".")[2] for path in package} <= {
        "py",
        "js",
        "css",
        "typed",
    } and "mhalib/py.typed" in package


def test_the_source_holds_what_the_wheel_is_built_of(built):
    with tarfile.open(built[1]) as source:
        held = {name.partition("/")[2] for name in source.getnames()}
        owners = {(member.uid, member.gid, member.uname, member.gname) for member in source.getmembers()}
    assert {name for name in held if not name.startswith("mhalib/")} == {
        *("LICENSE", "PKG-INFO", "README.md", "pyproject.toml")
    }
    assert owners == {(0, 0, "", "")}, "a name of the machine that built it"


def test_the_wheel_works_alone(built, tmp_path):
    """Unpacked into an empty folder, with the packages that it asks for beside it."""
    with zipfile.ZipFile(built[0]) as wheel:
        wheel.extractall(tmp_path)
    code = (
        f"import sys; sys.path[:] = [p for p in sys.path if p not in ('', {str(ROOT)!r})]; sys.path.insert(0, '.')\n"
        "import mhalib, torch; from mhalib.widgets import HeadView; from mhalib.doctor.__main__ import main\n"
        "assert 'site' not in mhalib.__file__ and mhalib.__file__.startswith(sys.argv[1]), mhalib.__file__\n"
        "page = HeadView(torch.randn(1, 2, 3, 3).softmax(-1)).to_html(); assert '<script' in page\n"
        "sys.exit(main(['mhalib:MultiHeadAttention']))"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_changelog_is_in_the_form_of_keep_a_changelog():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    names = [each["name"] for each in release.EDITION.finditer(text)]
    dates = [each["date"] for each in release.EDITION.finditer(text)]
    assert names[:2] == ["Unreleased", mhalib.__version__] and names[-1] == "0.1.0"
    assert names[1:] == sorted(names[1:], key=lambda name: [int(part) for part in name.split(".")], reverse=True)
    assert dates[0] is None and dates[1:] == sorted(dates[1:], reverse=True)
    assert set(re.findall(r"^### (.+)$", text, re.MULTILINE)) <= KINDS
    assert len(re.findall(r"^## ", text, re.MULTILINE)) == len(names), "a section that is no edition"
    assert max(len(line) for line in text.splitlines() if line.startswith("- ")) <= 420


def test_the_stored_lessons_show_this_version():
    shown = {
        version
        for path in notebook_files(NOTEBOOKS)
        for cell in read(path).cells
        for output in cell.get("outputs", [])
        for version in release.SHOWN.findall(output.get("text", ""))
    }
    assert shown == {mhalib.__version__}, "execute lesson 00 again"


def test_the_pages_of_the_site_name_this_version():
    page = {"name": "one", "title": "One", "prefix": "", "lessons": [], "others": []}
    made, _ = PageExporter().from_notebook_node(new_notebook(), {"page": page})
    assert html(made).find("meta", {"name": "generator"})["content"] == f"mhalib {mhalib.__version__}"


def test_version_citation_and_readme_agree():
    assert release.version_of(ROOT) == mhalib.__version__
    assert release.citation(ROOT) + release.readme(ROOT) == []
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))["cff-version"] == "1.2.0"
