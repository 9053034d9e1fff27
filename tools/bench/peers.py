"""Bring what we are measured beside: the packages of others, and the JavaScript that bertviz loads from the network.

All of it goes into a folder of its own, never into .venv.
"""

import platform
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# What bertviz asks for: the end of the address, the npm package, the file in it. npm has no jQuery 2.0.0.
LIBRARIES = {
    "/require.min.js": ("requirejs@2.3.6", "require.js"),
    "/d3.min.js": ("d3@5.7.0", "dist/d3.min.js"),
    "/jquery.min.js": ("jquery@2.1.0", "dist/jquery.min.js"),
}


def prepare(folder: Path) -> None:
    """Install the peers into `folder`, once for each state of the requirement file and version of Python."""
    wanted = (ROOT / "requirements-bench.txt").read_text(encoding="utf-8") + platform.python_version()
    stamp = folder / "installed.txt"
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted:
        return
    if folder.exists() and not stamp.is_file() and any(folder.iterdir()):
        sys.exit(f"{folder} holds other files; they would be lost, so name an empty or a new folder with --peers")
    print(f"Installing what is measured beside us into {folder.name}", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    stamp.touch()  # from now on it is ours, also if the installation breaks off
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
    command += ["--no-deps", "--target", str(folder), "-r", str(ROOT / "requirements-bench.txt")]
    if subprocess.run(command).returncode:
        sys.exit("pip could not install requirements-bench.txt; the lines above say why")
    stamp.write_text(wanted, encoding="utf-8")


def libraries(folder: Path) -> dict[str, str]:
    """Return the JavaScript that bertviz asks for, by the end of its address."""
    if not (folder / "node_modules").is_dir():
        command = [shutil.which("npm") or "npm", "install", "--no-save", "--ignore-scripts", "--prefix", str(folder)]
        subprocess.run([*command, *(package for package, _ in LIBRARIES.values())], check=True, capture_output=True)
    return {
        ending: (folder / "node_modules" / package.partition("@")[0] / file).read_text(encoding="utf-8")
        for ending, (package, file) in LIBRARIES.items()
    }
