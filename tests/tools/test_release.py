"""What a release consists of, and what is refused before it is built."""

import json
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import mhalib
from tools import release
from tools.notebooks.run import PACKAGES

ROOT = Path(__file__).resolve().parents[2]
VERSION = mhalib.__version__
CHANGES = f"# Changes\n\n## [Unreleased]\n\n## [{VERSION}] - 2026-01-02\n\n- All.\n"


@pytest.fixture
def house(tmp_path):
    """A repository in order, without notebooks."""
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "CHANGELOG.md").write_text(CHANGES)
    (tmp_path / "BENCHMARKS.md").write_text(f"Versions: mhalib {VERSION}, torch\n")
    (tmp_path / "CITATION.cff").write_text(f"version: {VERSION}\ndate-released: 2026-01-02\n")
    own = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    for command in (["init", "-q"], ["add", "."], [*own, "commit", "-qm", "first"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True, capture_output=True)
    return tmp_path


def test_what_is_no_release_is_refused_and_a_house_in_order_is_one(house, capsys):
    assert release.main(["--check"], house) == 0 and "can be released" in capsys.readouterr().out
    wrong = []
    for file, text, word in (
        ("left", "anything", "differ from what git holds"),
        ("CHANGELOG.md", CHANGES.replace("## [Unreleased]\n", "## [Unreleased]\n\n- New.\n"), "under Unreleased"),
        ("CHANGELOG.md", CHANGES.replace("2026-01-02", "2999-01-02"), "one date"),
        ("CITATION.cff", "date-released: 2026-01-03\n", "one date"),
        ("CHANGELOG.md", "# Changes\n", "must open with"),
        ("BENCHMARKS.md", "Versions: mhalib 0.0.1, torch\n", "was not measured"),
    ):
        (house / file).write_text(text)
        if release.main([], house) != 1 or word not in capsys.readouterr().out or (house / "dist").exists():
            wrong.append(word)
        subprocess.run(["git", "clean", "-fdq"], cwd=house, check=True)
        subprocess.run(["git", "checkout", "-q", "--", "."], cwd=house, check=True)
    assert wrong == []
    subprocess.run(["git", "tag", f"v{VERSION}"], cwd=house, check=True)
    assert release.main([], house) == 1 and "expected a version above" in capsys.readouterr().out


def test_the_bill_of_materials_knows_the_real_model_and_its_licence(tmp_path):
    bill = tmp_path / "bill.cdx.json"
    bill.write_text('{"bomFormat": "CycloneDX", "components": [{"name": "torch"}]}')
    release.add_model(bill)
    _, model = json.loads(bill.read_text())["components"]
    assert model["name"] == "all-MiniLM-L6-v2" and model["licenses"] == [{"license": {"id": "Apache-2.0"}}]


@pytest.mark.slow
def test_wheel_and_source_hold_the_package_with_its_views_and_the_wheel_works_alone(tmp_path):
    house = tmp_path / "house"
    subprocess.run(["git", "clone", "-q", str(ROOT), str(house)], check=True)
    release.build(house, tmp_path / "dist")
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    (source,) = (tmp_path / "dist").glob("*.tar.gz")
    held = set(zipfile.ZipFile(wheel).namelist())
    paths = [path for package in PACKAGES for path in (house / package).rglob("*") if path.is_file()]
    files = {path.relative_to(house).as_posix() for path in paths}
    assert files <= held and all(name.startswith(PACKAGES) for name in held)
    assert any(name.endswith("pyproject.toml") for name in tarfile.open(source).getnames())
    assert (tmp_path / "dist" / "SHA256SUMS").is_file() and list((tmp_path / "dist").glob("*.cdx.json"))
    place = tmp_path / "alone"
    shutil.unpack_archive(wheel, place, "zip")
    code = "import sys; sys.path.insert(0, '.'); import mhalib; from headview import HeadView; import torch\n"
    code += "assert '<script' in HeadView(torch.ones(1, 1, 2, 2) / 2).to_html(); print(mhalib.__file__)"
    done = subprocess.run([sys.executable, "-I", "-c", code], cwd=place, capture_output=True, text=True)
    assert done.stdout.startswith((str(place), ".")), done.stderr
