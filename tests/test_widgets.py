"""What all widgets share on the Python side: the bundle, the page without a kernel, and how they are shipped."""

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import torch

from mhalib.widgets import HeadLab, HeadView, ReshapeView

ROOT = Path(__file__).resolve().parent.parent
HOSTILE = "</script><script>alert(1)</script>"


def widgets():
    return [
        HeadView(torch.eye(2), tokens=[HOSTILE, "b"]),
        HeadLab(torch.randn(2, 4), tokens=[HOSTILE, "b"]),
        ReshapeView(),
    ]


each_widget = pytest.mark.parametrize("number", range(3), ids=["HeadView", "HeadLab", "ReshapeView"])


@each_widget
def test_the_bundle_holds_the_live_view_and_a_described_picture(number):
    widget = widgets()[number]
    data, metadata = widget._repr_mimebundle_()
    assert data["application/vnd.jupyter.widget-view+json"]["model_id"] == widget.model_id
    assert data["image/png"].startswith(b"\x89PNG")
    assert metadata["image/png"]["alt"] == data["text/plain"] == widget.figure().alt != ""


@each_widget
def test_the_page_without_a_kernel_is_one_script_that_needs_no_network(number):
    html = widgets()[number].to_html()
    assert html.count("<script>") == html.count("</script>") == 1
    assert "alert(1)" not in html or "\\u003c/script>\\u003cscript>alert(1)" in html
    assert re.findall(r"https?://", html) == []
    assert not re.search(r"\bsrc\s*=|@import|\burl\(", html)


@each_widget
def test_no_view_reads_html(number):
    source = str(widgets()[number]._esm)
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|\beval\(", source)
    assert not re.search(r"^\s*import\b", source, re.MULTILINE)  # relative imports do not resolve in a notebook


def run(code: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120)


def test_without_anywidget_the_error_says_what_to_install():
    done = run("import sys; sys.modules['anywidget'] = None; import mhalib; import mhalib.widgets")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("ModuleNotFoundError: mhalib.widgets needs the package anywidget")
    assert "pip install 'mhalib[widgets]'" in done.stderr


def test_the_layer_comes_without_the_widgets():
    done = run("import sys, mhalib; print([name for name in ('anywidget', 'matplotlib') if name in sys.modules])")
    assert done.stdout == "[]\n", done.stderr


def test_the_wheel_holds_every_file_of_the_package(tmp_path):
    done = run(f"from flit_core.buildapi import build_wheel; print(build_wheel({str(tmp_path)!r}))")
    assert done.returncode == 0, done.stderr
    held = set(zipfile.ZipFile(tmp_path / done.stdout.strip()).namelist())
    files = [path for path in (ROOT / "mhalib").rglob("*.*") if "__pycache__" not in path.parts]
    assert {path.relative_to(ROOT).as_posix() for path in files} <= held
    assert "mhalib/widgets/core.js" in held
