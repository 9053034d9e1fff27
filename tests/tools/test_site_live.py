"""The page with the real model, as the site brings it: here a small one in its place. In a browser, from files."""

import re
import shutil

import pytest
from bs4 import BeautifulSoup

from mhalib.pretrained import WeightsMissing
from tests.helpers.browser import settle, until
from tools.site import build as build_site
from tools.site import live, real_model


def read(path):
    return BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")


def test_the_model_lies_beside_the_pages_with_its_licence_and_is_made_once(site, tmp_path, monkeypatch):
    assert [path.name for path in sorted((site / "live").iterdir())] == ["00.js", "LICENSE.txt", "NOTICE.txt"]
    assert "Apache License" in (site / "live/LICENSE.txt").read_text(encoding="utf-8")
    notice = (site / "live/NOTICE.txt").read_text(encoding="utf-8")
    assert "all-MiniLM-L6-v2" in notice and "Changed: the weights are rounded" in notice
    page = read(site / "live.html")
    assert page.select_one("main .mhalib-view") and [h.text for h in page.find_all("h2")] == ["Below#"]
    assert read(site / "index.html").main.find("a", href="live.html")
    monkeypatch.setattr(live, "KEPT", site.parent / "kept")
    monkeypatch.setattr(real_model, "load_minilm", None)  # it is not asked for again
    assert "mhalib-view" in real_model.bring(tmp_path) and (tmp_path / "live/00.js").exists()
    monkeypatch.setattr(real_model, "MAX_BYTES", 10)
    assert any("pieces of the model have" in fault for fault in build_site.faults(site))


def test_without_the_weights_the_page_says_so(tmp_path, monkeypatch, capsys):
    def missing():
        raise WeightsMissing("The weights are not on this machine")

    monkeypatch.setattr(live, "KEPT", tmp_path / "kept")
    monkeypatch.setattr(real_model, "load_minilm", missing)
    assert real_model.bring(tmp_path) is None and not (tmp_path / "live").exists()
    assert "no page with the real model: The weights are not on this machine" in capsys.readouterr().out
    cells = real_model.around(None, f"# Live\n\n{real_model.PLACE}\n\nBelow.")
    assert [cell.source.strip() for cell in cells] == ["# Live", "", "Below."]
    assert "make weights" in cells[1].metadata.site.html


@pytest.mark.parametrize("place", ["live.html", "slides/live.html"])
def test_the_page_loads_the_model_from_a_disk_also_from_a_folder_below(open_file, site, tmp_path, place):
    copy = shutil.copytree(site, tmp_path / "site")
    if place.startswith("slides"):  # such as the slides of a lesson that shows the view
        text = re.sub(r'(src="|href=")(?=\w+\.(?:js|css))', r"\1../", (copy / "live.html").read_text(encoding="utf-8"))
        (copy / place).write_text(text, encoding="utf-8")
    page = open_file((copy / place).as_uri())
    page.wait_for_selector(".live-model canvas")
    settle(page)
    page.get_by_role("button", name="Load the model").click()
    page.wait_for_function("document.querySelector('.bring button').hidden")
    page.get_by_label("Sentence").fill("the dog sat")
    until(lambda: "5 tokens in" in page.locator(".bring").inner_text(), "nothing is computed")
