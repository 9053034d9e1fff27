"""Look whether this state of the repository can be released, and build what a release consists of into `dist/`.

    python -m tools.release [--check]

All that is wrong is said at once. Wheel and source come from `build`, `twine check` looks at them as an index would,
pip-licenses refuses a licence that pyproject.toml does not allow, CycloneDX lists what is installed. Nothing is
uploaded and no tag is set: at the end stands what to type.
"""

import argparse
import datetime
import hashlib
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import mhalib
from mhalib.pretrained.minilm import MINILM
from tools.notebooks.colab import lacks_cell
from tools.notebooks.run import read
from tools.notebooks.which import notebook_files

ROOT = Path(__file__).resolve().parents[1]
EDITION = re.compile(r"^## \[(?P<name>[^\]]+)\](?: - (?P<date>\S+))?$", re.MULTILINE)


def git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=True, encoding="utf-8")
    return done.stdout.strip()


def what_is_wrong(root: Path, version: str) -> list[str]:
    """Return why this state is no release, a line each; what tests hold (stale lessons, versions that differ) aside."""
    found = []
    if changed := git(root, "status", "--porcelain").splitlines():
        found.append(f"{len(changed)} files differ from what git holds, {changed[0]!r} first; commit them")
    known = re.findall(r"^v(\d+)\.(\d+)\.(\d+)$", git(root, "tag", "--list", "v*"), re.MULTILINE)
    newest = max((tuple(map(int, numbers)) for numbers in known), default=(0, 0, 0))
    if tuple(map(int, version.split("."))) <= newest:
        found.append(f"expected a version above {'.'.join(map(str, newest))}, got {version}; see mhalib/__init__.py")
    text = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    editions = [*EDITION.finditer(text)][:2]
    if [edition["name"] for edition in editions] != ["Unreleased", version]:
        found.append(f"CHANGELOG.md must open with ## [Unreleased], then ## [{version}] - YYYY-MM-DD")
    else:
        if text[editions[0].end() : editions[1].start()].strip():
            found.append(f"CHANGELOG.md still holds something under Unreleased; move it to [{version}]")
        try:
            late = datetime.date.fromisoformat(editions[1]["date"] or "") > datetime.date.today()
        except ValueError:
            late = True
        if late or f"date-released: {editions[1]['date']}" not in (root / "CITATION.cff").read_text(encoding="utf-8"):
            found.append(f"CHANGELOG.md and CITATION.cff must give [{version}] one date, of today or before")
    bench = root / "BENCHMARKS.md"
    if not bench.is_file() or f"Versions: mhalib {version}," not in bench.read_text(encoding="utf-8"):
        found.append(f"BENCHMARKS.md was not measured with {version}; run `make bench` on a quiet machine")
    for path in notebook_files(root / "notebooks"):
        if reason := lacks_cell(read(path), version):
            found.append(f"{path.name}: {reason}; run `python -m tools.notebooks.colab`")
    return found


def build(root: Path, out: Path) -> None:
    """Build wheel and source, look at them, and list what is installed; each tool says itself what is wrong."""
    shutil.rmtree(out, ignore_errors=True)
    bill = str(out / f"mhalib-{mhalib.__version__}.cdx.json")
    for module, *arguments in (
        ("build", "--no-isolation", "--outdir", str(out)),
        ("twine", "check", "--strict", f"{out}/*"),
        ("piplicenses", "--python", sys.executable),
        ("cyclonedx_py", "environment", "--output-reproducible", "--of", "JSON", "-o", bill),
    ):
        subprocess.run([sys.executable, "-m", module, *arguments], cwd=root, check=True)
    add_model(Path(bill))
    files = sorted(out.iterdir())
    sums = "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files)
    (out / "SHA256SUMS").write_text(sums, encoding="utf-8", newline="\n")


def add_model(bill: Path) -> None:
    """Add the real model to a bill of materials: the package that carries it tells the licence of its own code only."""
    told = json.loads(bill.read_text(encoding="utf-8"))
    told.setdefault("components", []).append(
        {
            "type": "machine-learning-model",
            "bom-ref": MINILM.name,
            "name": MINILM.name,
            "version": MINILM.revision,
            "purl": f"pkg:huggingface/{MINILM.repository}@{MINILM.revision}",
            "licenses": [{"license": {"id": "Apache-2.0"}}],
            "hashes": [{"alg": "SHA-256", "content": MINILM.sha256["model.safetensors"]}],
        }
    )
    bill.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8", newline="\n")


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(description="Check whether this state can be released, and build it into dist/.")
    parser.add_argument("--check", action="store_true", help="build nothing, only say what is wrong")
    options = parser.parse_args(arguments)
    wrong, name = what_is_wrong(root, mhalib.__version__), f"v{mhalib.__version__}"
    print(*(f"- {line}" for line in wrong), sep="\n")
    if wrong or options.check:
        print(f"Not released: {len(wrong)} to mend." if wrong else f"{name} can be released: python -m tools.release")
        return bool(wrong)
    build(root, root / "dist")
    print(f"Built in dist/; nothing was uploaded. Once `make test-all` has passed on this commit:\n  git tag -a {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
