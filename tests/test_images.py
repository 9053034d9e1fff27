"""Pictures: the same bytes on every run, and the stored files are what the generator draws today."""

import re
import subprocess
import sys
from itertools import combinations
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib import ft2font
from matplotlib.text import Text
from PIL import Image

from tools import make_images

ROOT = Path(__file__).parent.parent
STORED = ROOT / "images"
DRAWN_WITH = "2.14.3"  # the FreeType inside the pinned matplotlib, which drew the stored files


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    folder = tmp_path_factory.mktemp("images")
    make_images.main(folder)
    return folder


def differing_pixels(one: Path, other: Path) -> int:
    """Count the pixels that differ by more than rounding; all of them where the sizes differ."""
    a, b = (np.asarray(Image.open(path).convert("RGB")).astype(int) for path in (one, other))
    return int((abs(a - b).max(-1) > 32).sum()) if a.shape == b.shape else a.size


def allowed(path: Path) -> int:
    """One changed letter is some 40 pixels. Another FreeType moves the edges of every letter."""
    width, height = Image.open(path).size
    return 20 if ft2font.__freetype_version__ == DRAWN_WITH else width * height // 30


def test_two_runs_give_the_same_bytes(drawn, tmp_path):
    command = [sys.executable, "-m", "tools.make_images", tmp_path]
    subprocess.run(command, check=True, cwd=tmp_path)  # another process, another folder
    assert {path.name for path in tmp_path.iterdir()} == set(make_images.ALT)
    for name in make_images.ALT:
        assert (tmp_path / name).read_bytes() == (drawn / name).read_bytes(), name


def test_a_readers_own_matplotlib_settings_change_nothing(drawn, tmp_path):
    settings = {"savefig.dpi": 50, "savefig.bbox": "tight", "font.family": "serif", "text.color": "red"}
    with matplotlib.rc_context(settings):
        make_images.main(tmp_path)
        assert matplotlib.rcParams["savefig.dpi"] == 50
    assert all((tmp_path / name).read_bytes() == (drawn / name).read_bytes() for name in make_images.ALT)


def test_the_folder_holds_the_listed_pictures_and_no_others():
    assert {path.name for path in STORED.iterdir()} == set(make_images.ALT)


@pytest.mark.parametrize("name", make_images.ALT)
def test_stored_picture_is_what_the_generator_draws(drawn, name):
    different = differing_pixels(drawn / name, STORED / name)
    assert different <= allowed(STORED / name), f"images/{name} is stale ({different} pixels): run `make images`"
    for folder in (drawn, STORED):  # the alternative text, and neither a date nor a version
        assert Image.open(folder / name).text == {"Description": make_images.ALT[name]}, "run `make images`"


def test_one_changed_letter_makes_a_stored_picture_stale(monkeypatch, tmp_path):
    (title, question), *others = make_images.LESSONS
    monkeypatch.setattr(make_images, "LESSONS", [(title, question.replace("do", "da")), *others])
    monkeypatch.setattr(make_images, "ALT", {"roadmap.png": "changed"})
    make_images.main(tmp_path)
    assert differing_pixels(tmp_path / "roadmap.png", STORED / "roadmap.png") > 20


@pytest.mark.parametrize("name", make_images.ALT)
def test_picture_fits_a_page_and_has_a_description(name):
    path = STORED / name
    image = Image.open(path)
    assert image.width <= 1400 and path.stat().st_size <= 120_000
    assert np.asarray(image.convert("RGBA"))[..., 3].min() == 255  # opaque, so that it can be read on a dark page
    assert 80 <= len(make_images.ALT[name]) <= 250


@pytest.mark.parametrize("name", make_images.ALT)
def test_text_has_8_points_is_not_cut_off_and_does_not_overlap(name):
    figure = getattr(make_images, name.removesuffix(".png"))()
    figure.draw_without_rendering()  # tick labels are written only now
    written = figure.findobj(lambda artist: isinstance(artist, Text) and artist.get_visible() and artist.get_text())
    assert min(text.get_fontsize() for text in written) >= 8
    places = [(text.get_text(), text.get_window_extent()) for text in written]
    for text, place in places:
        assert place.x0 >= 0 <= place.y0 and place.x1 <= figure.bbox.x1 and place.y1 <= figure.bbox.y1, text
    for (one, a), (other, b) in combinations(places, 2):
        assert min(a.x1, b.x1) - max(a.x0, b.x0) < 2 or min(a.y1, b.y1) - max(a.y0, b.y0) < 2, (one, other)


def test_road_map_shows_the_lessons_as_they_are():
    notebooks = sorted((ROOT / "notebooks").glob("*.ipynb"))
    assert [path.name[:2] for path in notebooks] == [f"{number:02}" for number in range(len(make_images.LESSONS))]
    for path, (title, _) in zip(notebooks, make_images.LESSONS, strict=True):
        assert re.search(rf"# {path.name[:2]} · {re.escape(title)}(\\n)?\"", path.read_text(encoding="utf-8")), (
            path.name
        )
