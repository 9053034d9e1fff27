"""Each example in a docstring of the packages runs, and gives what it says."""

import ast
import doctest

from tools.notebooks.run import PACKAGES, ROOT


def test_every_example_gives_what_it_says(one_thread):
    failures, tried = [], 0
    for path in sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and (said := ast.get_docstring(node)):
                name = f"{path.stem}.{getattr(node, 'name', '')}"
                place = {"filename": str(path), "lineno": node.body[0].lineno - 1}
                example = doctest.DocTestParser().get_doctest(said, {"__name__": "__main__"}, name, **place)
                result = doctest.DocTestRunner(verbose=False).run(example, out=failures.append)
                tried += result.attempted
    assert failures == [] and tried > 80
