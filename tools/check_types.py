"""Check the views' JavaScript against the types in their comments, with the TypeScript compiler.

    python -m tools.check_types

Nothing is built: each view is joined as the browser gets it and only read. TypeScript comes by npx, which needs npm
and, the first time, a network; so this is a command of its own and not a part of `make test`.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import headview

TYPESCRIPT = "typescript@5.9.3"
OPTIONS = "--noEmit --allowJs --checkJs --target esnext --module esnext --lib esnext,dom".split()


def main() -> int:
    npx = shutil.which("npx")
    if npx is None:
        print("found no npx; install Node.js to check the types of the views", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        for name in headview.__all__:
            if view := getattr(getattr(headview, name), "_esm", ""):
                Path(folder, f"{name}.mjs").write_text(str(view), encoding="utf-8")
        views = sorted(path.name for path in Path(folder).iterdir())
        return max(
            subprocess.run([npx, "--yes", "--package", TYPESCRIPT, "tsc", *OPTIONS, view], cwd=folder).returncode
            for view in views
        )


if __name__ == "__main__":
    sys.exit(main())
