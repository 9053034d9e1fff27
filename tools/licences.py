"""List all that is installed in this environment with its licence, and refuse a licence that nobody has looked at.

    python -m tools.licences [--out dist/bill.cdx.json]

CycloneDX makes the list, a bill of materials that other tools read; which licences are allowed is said here, as SPDX
names. What the site and the package carry besides, stands in SECURITY.md. Needs `requirements-release.txt`.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

from license_expression import ExpressionError, get_spdx_licensing

ROOT = Path(__file__).resolve().parents[1]

# They let a learner, a school and a firm use, copy and change, and ask of who hands it on no more than to name the
# authors. The Mozilla licence asks for the source of what is changed in the package itself: nothing here changes one.
ALLOWED = {
    *("MIT", "MIT-0", "MIT-CMU", "BSD-2-Clause", "BSD-3-Clause", "0BSD", "ISC", "Zlib", "BSL-1.0", "HPND", "Unlicense"),
    *("Apache-2.0", "PSF-2.0", "Python-2.0", "CNRI-Python", "CC0-1.0", "MPL-2.0", "LLVM-exception"),
}
# What packages say in the words of the index, where there is no SPDX name.
WORDS = {
    "License :: OSI Approved :: MIT License": "MIT",
    "License :: OSI Approved :: BSD License": "BSD-3-Clause",
    "License :: OSI Approved :: Apache Software License": "Apache-2.0",
    "License :: OSI Approved :: ISC License (ISCL)": "ISC",
    "License :: OSI Approved :: Python Software Foundation License": "PSF-2.0",
    "License :: OSI Approved :: Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
}
# Packages that name none in a form that can be read, or too many: looked up in the licence files that they bring.
BY_HAND = {
    "asttokens": "Apache-2.0",
    "axe-playwright-python": "MIT",  # axe-core, which it carries, is MPL-2.0; only the tests use it
    "bleach": "Apache-2.0",
    "docutils": "BSD-2-Clause AND BSD-3-Clause",  # the rest public domain; its GPL is that of a file for
    # Emacs, which is in its source and not in what is installed. twine brings it
    "overrides": "Apache-2.0",
    "partd": "BSD-3-Clause",
    "transformers": "Apache-2.0",
}
SPDX = get_spdx_licensing()


def bill_of(python: str, root: Path = ROOT) -> dict:
    """Return the bill of materials of the environment of a Python, as CycloneDX has it, without places on this machine.

    Raises:
        CalledProcessError: CycloneDX failed; it has said why.
    """
    command = ["environment", "--pyproject", str(root / "pyproject.toml"), "--output-reproducible", "--of", "JSON"]
    done = subprocess.run(
        [sys.executable, "-m", "cyclonedx_py", *command, python], stdout=subprocess.PIPE, check=True, encoding="utf-8"
    )
    bill = json.loads(done.stdout)
    for part in bill["components"]:
        links = part.get("externalReferences", [])
        part["externalReferences"] = [link for link in links if not link["url"].startswith("file:")]
    return bill


def licence_of(part: dict) -> str | None:
    """Return the licence of a component as one SPDX expression, or None where it names none at all."""
    if part["name"].lower() in BY_HAND:
        return BY_HAND[part["name"].lower()]
    licences = part.get("licenses", [])
    said = [one.get("expression") or one["license"].get("id") or one["license"].get("name") for one in licences]
    return " AND ".join(f"({WORDS.get(name, name)})" for name in dict.fromkeys(said)) or None


def allows(expression: str) -> bool:
    """Return whether an SPDX expression can be fulfilled by licences of the list alone.

    Raises:
        ExpressionError: it is none.
    """
    parsed = SPDX.parse(expression, validate=True)
    yes, no = SPDX.TRUE, SPDX.FALSE
    values = {symbol: yes if _keys(symbol) <= ALLOWED else no for symbol in parsed.symbols}
    return parsed.subs(values).simplify() == yes


def _keys(symbol) -> set[str]:
    """Return the names in a symbol: one, or a licence with its exception."""
    parts = (symbol.license_symbol, symbol.exception_symbol) if hasattr(symbol, "exception_symbol") else (symbol,)
    return {part.key for part in parts}


def refused(bill: dict) -> list[str]:
    """Return a line for each component whose licence is unknown or not on the list."""
    lines = []
    for part in bill["components"]:
        name, expression = f"{part['name']} {part.get('version', '')}".strip(), licence_of(part)
        try:
            if expression is None:
                lines.append(f"{name} names no licence that can be read; look at its files, and write it into BY_HAND")
            elif not allows(expression):
                lines.append(f"{name} is under {expression}, which is not among ALLOWED")
        except ExpressionError as error:
            lines.append(f"{name} says {expression!r}, which is no SPDX name ({error}); translate it in WORDS")
    return lines


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="List what is installed, refuse licences that nobody has allowed.")
    parser.add_argument("--out", type=Path, default=ROOT / "dist" / "mhalib.cdx.json", help="where the list goes")
    parser.add_argument("--python", default=sys.executable, help="the Python whose packages are listed")
    options = parser.parse_args(arguments)
    bill = bill_of(options.python)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(bill, indent=1, sort_keys=True) + "\n", encoding="utf-8", newline="\n")
    lines = refused(bill)
    for line in lines:
        print(f"- {line}; see tools/licences.py")
    if not lines:
        print(f"{len(bill['components'])} packages, each under a licence of the list: {options.out.name}")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
