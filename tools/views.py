"""Put the views' JavaScript and CSS together: one file of each for a view, in `headview/static/`.

    python -m tools.views            write what changed; needs Node.js, and the first time a network
    python -m tools.views --watch    and again at every change, for `ANYWIDGET_HMR=1 make lab`
    python -m tools.views --check    read the types in the comments with the TypeScript compiler; writes nothing

Sources are modules with `import`; a notebook takes one text a view, so esbuild joins them. What it makes is kept in
git: who learns needs no Node.js. Its first line names the sources by their hash, which a test compares.
"""

import hashlib
import json
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

ESBUILD, TYPESCRIPT = "esbuild@0.25.12", "typescript@5.9.3"
HEADVIEW = Path(__file__).resolve().parents[1] / "headview"
STATIC = HEADVIEW / "static"
VIEWS = sorted(path.parent for path in HEADVIEW.glob("*/view.js"))
_IMPORTED = re.compile(r'^(?:import|\}) ?.* from "(\.[^"]+)";$', re.MULTILINE)
_BUNDLE = "--bundle --format=esm --minify-whitespace --charset=utf8 --target=es2022 --log-level=warning"
_TYPES = "--noEmit --allowJs --checkJs --target esnext --module esnext --moduleResolution bundler "
_TYPES += "--lib esnext,dom,dom.iterable"


def colours() -> str:
    """Return the text of `headview/colours.js`: the colours of `mhalib.plots`, as rrggbb."""
    import matplotlib
    import numpy as np

    from mhalib import plots

    def shades(colours: object) -> str:
        return np.rint(255 * np.asarray(colours)[:, :3]).astype(np.uint8).tobytes().hex()

    maps = {name: shades(matplotlib.colormaps[name](np.linspace(0, 1, 256))) for name in plots.COLOUR_MAPS}
    maps["ink dark"] = shades(plots.ink_shades("dark"))
    maps[plots.DIVERGING] = shades(plots.signed_shades())
    maps[f"{plots.DIVERGING} dark"] = shades(plots.signed_shades("dark"))
    constants = {
        "MAPS": maps,
        "MASKED": _plain(plots.MASKED_COLOURS),
        "HATCH": _plain(plots.HATCH_COLOURS),
        "NAN": plots.NAN_COLOUR.removeprefix("#"),
        "GROUP_COLOURS": list(plots.COLOURS),
        "LINE_COLOURS": {"light": list(plots.LINE_COLOURS), "dark": list(plots.LINE_COLOURS_ON_DARK)},
    }
    head = "// The colours of mhalib.plots, written by `make views`; change them there.\n\n"
    return head + "".join(f"export const {name} = {json.dumps(it, indent=2)};\n" for name, it in constants.items())


def _plain(by_theme: dict[str, str]) -> dict[str, str]:
    return {theme: colour.removeprefix("#") for theme, colour in by_theme.items()}


def sources_of(view: Path) -> list[Path]:
    """Return the JavaScript that a view is made of: its `view.js`, and what that imports, and so on."""
    found, open_ = set(), [view / "view.js"]
    while open_:
        path = open_.pop()
        if path not in found:
            found.add(path)
            open_ += [(path.parent / name).resolve() for name in _IMPORTED.findall(path.read_text(encoding="utf-8"))]
    return sorted(found)


def fingerprint(paths: list[Path]) -> str:
    """Return what tells a state of these files from any other."""
    whole = hashlib.sha256()
    for path in paths:
        whole.update(path.read_bytes().replace(b"\r\n", b"\n"))
    return whole.hexdigest()[:16]


def first_line(view: Path) -> str:
    """Return the first line of what is made of a view in its present state."""
    return f"// {view.name}, joined by `make views` from sources {fingerprint(sources_of(view))}"


def style_of(view: Path) -> str:
    """Return the style sheet of a view: what all share, then its own."""
    return (HEADVIEW / "core.css").read_text(encoding="utf-8") + (view / "style.css").read_text(encoding="utf-8")


def _npx(*command: str, package: str) -> int:
    npx = shutil.which("npx")
    if npx is None:
        print("found no npx; install Node.js to put the views together", file=sys.stderr)
        return 2
    return subprocess.run([npx, "--yes", "--package", package, *command], cwd=HEADVIEW).returncode


def join(view: Path) -> int:
    """Write one file of JavaScript and one of CSS for a view; returns the exit status of esbuild."""
    STATIC.mkdir(exist_ok=True)
    (STATIC / f"{view.name}.css").write_text(style_of(view), encoding="utf-8")
    script = STATIC / f"{view.name}.js"
    made = (f"--banner:js={first_line(view)}", f"--outfile={script}")
    return _npx("esbuild", f"{view.name}/view.js", *_BUNDLE.split(), *made, package=ESBUILD)


def main(arguments: list[str]) -> int:
    if "--check" in arguments:
        return _npx("tsc", *_TYPES.split(), *(f"{view.name}/view.js" for view in VIEWS), package=TYPESCRIPT)
    (HEADVIEW / "colours.js").write_text(colours(), encoding="utf-8")
    while True:
        for view in VIEWS:
            script, style = STATIC / f"{view.name}.js", STATIC / f"{view.name}.css"
            made = script.exists() and script.read_text(encoding="utf-8").startswith(first_line(view))
            if not made or not style.exists() or style.read_text(encoding="utf-8") != style_of(view):
                if status := join(view):
                    return status
                print(f"joined {view.name}: {script.stat().st_size:,} bytes")
        if "--watch" not in arguments:
            return 0
        _wait_for_change()


def _wait_for_change() -> None:
    def state() -> list[float]:
        return [path.stat().st_mtime for path in (*HEADVIEW.glob("*.[jc]s*"), *HEADVIEW.glob("*/*.[jc]s*"))]

    before = state()
    while state() == before:
        time.sleep(0.3)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
