"""Bring what we are measured beside: the packages of others, and the JavaScript that bertviz loads from the network.

All of it goes into a folder of its own, never into .venv.
"""

import platform
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PEERS = ROOT / ".bench"
# What bertviz asks for: the end of the address, the npm package, the file in it. npm has no jQuery 2.0.0.
LIBRARIES = {
    "/require.min.js": ("requirejs@2.3.6", "require.js"),
    "/d3.min.js": ("d3@5.7.0", "dist/d3.min.js"),
    "/jquery.min.js": ("jquery@2.1.0", "dist/jquery.min.js"),
}


def prepare() -> None:
    """Install the peers, once for each state of the requirement file and version of Python."""
    wanted = (ROOT / "requirements-bench.txt").read_text(encoding="utf-8") + platform.python_version()
    stamp = PEERS / "installed.txt"
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted:
        return
    print(f"Installing what is measured beside us into {PEERS.name}", flush=True)
    shutil.rmtree(PEERS, ignore_errors=True)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
    command += ["--no-deps", "--target", str(PEERS), "-r", str(ROOT / "requirements-bench.txt")]
    if subprocess.run(command).returncode:
        sys.exit("pip could not install requirements-bench.txt; the lines above say why")
    stamp.write_text(wanted, encoding="utf-8")


def libraries() -> dict[str, str]:
    """Return the JavaScript that bertviz asks for, by the end of its address."""
    if not (PEERS / "node_modules").is_dir():
        command = [shutil.which("npm") or "npm", "install", "--no-save", "--ignore-scripts", "--prefix", str(PEERS)]
        subprocess.run([*command, *(package for package, _ in LIBRARIES.values())], check=True, capture_output=True)
    return {
        ending: (PEERS / "node_modules" / package.partition("@")[0] / file).read_text(encoding="utf-8")
        for ending, (package, file) in LIBRARIES.items()
    }
