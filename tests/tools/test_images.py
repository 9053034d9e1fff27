"""Pictures: the same bytes on every run, and the stored files are what the generator draws today."""

import subprocess
import sys
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib import ft2font
from matplotlib.patches import Circle
from matplotlib.text import Text
from PIL import Image

from tools import make_images, record, record_zoom
from tools.notebooks.lessons import QUICK_WAY, lessons
from tools.notebooks.run import NOTEBOOKS, read
from tools.notebooks.which import lesson_files
from tools.pictures import roadmap, whole_model
from tools.record import FRAME

ROOT = Path(__file__).resolve().parents[2]
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
    assert {path.name for path in tmp_path.iterdir()} == set(make_images.PICTURES)
    for name in make_images.PICTURES:
        assert (tmp_path / name).read_bytes() == (drawn / name).read_bytes(), name


def test_a_readers_own_matplotlib_settings_change_nothing(drawn, tmp_path):
    settings = {"savefig.dpi": 50, "savefig.bbox": "tight", "font.family": "serif", "text.color": "red"}
    with matplotlib.rc_context(settings):
        make_images.main(tmp_path)
        assert matplotlib.rcParams["savefig.dpi"] == 50
    assert all((tmp_path / name).read_bytes() == (drawn / name).read_bytes() for name in make_images.PICTURES)


def test_the_folder_holds_the_listed_pictures_and_no_others():
    assert {path.name for path in STORED.iterdir()} == {
        *make_images.PICTURES,
        record.NAME,
        record_zoom.NAME,
        record_zoom.STILL,
    }


@pytest.mark.parametrize("name", make_images.PICTURES)
def test_stored_picture_is_what_the_generator_draws(drawn, name):
    different = differing_pixels(drawn / name, STORED / name)
    assert different <= allowed(STORED / name), f"images/{name} is stale ({different} pixels): run `make images`"
    for folder in (drawn, STORED):  # the alternative text, and neither a date nor a version
        assert Image.open(folder / name).text == {"Description": make_images.PICTURES[name].ALT}, "run `make images`"


def test_one_changed_letter_makes_a_stored_picture_stale(monkeypatch, tmp_path):
    first, *others = lessons()
    changed = replace(first, question=first.question.replace("do", "da"))
    monkeypatch.setattr(roadmap, "lessons", lambda: [changed, *others])
    make_images.main(tmp_path, ["roadmap.png"])
    assert differing_pixels(tmp_path / "roadmap.png", STORED / "roadmap.png") > 20


@pytest.mark.parametrize("name", make_images.PICTURES)
def test_picture_fits_a_page_and_has_a_description(name):
    path = STORED / name
    image = Image.open(path)
    assert image.width <= 1400 and path.stat().st_size <= 120_000
    assert np.asarray(image.convert("RGBA"))[..., 3].min() == 255  # opaque, so that it can be read on a dark page
    assert 80 <= len(make_images.PICTURES[name].ALT) <= 250


# What is seen long: each number of heads, and the cell whose weight is read; the whole map, and a close look at it.
@pytest.mark.parametrize(
    ("record", "most", "long"),
    [(record, 400_000, len(record.HEADS) + 1), (record_zoom, 500_000, 2)],
    ids=["lab", "zoom"],
)
def test_a_moving_picture_is_small_never_ends_and_lasts_some_seconds(record, most, long):
    path = STORED / record.NAME
    image = Image.open(path)
    assert image.format == "GIF" and image.info["loop"] == 0  # 0: again and again
    assert image.info["comment"] == record.ALT.encode() and 80 <= len(record.ALT) <= 250
    assert image.width == record.WIDTH <= 800 and path.stat().st_size <= most
    assert 30 <= image.n_frames <= 60
    times, frames = [], []
    for number in range(image.n_frames):
        image.seek(number)
        times.append(image.info["duration"])
        frames.append(np.asarray(image.convert("RGB")).astype(int))
    assert 6000 <= sum(times) <= 10_000 and min(times) >= FRAME - 10  # GIF counts in hundredths of a second
    seen = [frame for frame, time in zip(frames, times, strict=True) if time >= 900]
    assert len(seen) == long
    assert all((abs(one - other).max(-1) > 32).mean() > 0.02 for one, other in combinations(seen, 2))
    assert (abs(frames[0] - frames[-1]).max(-1) > 32).mean() < 0.01  # it goes on where it began


def refuse_text_that_cannot_be_read(figure):
    """Refuse text smaller than 8 points, cut off at an edge, or over another text."""
    figure.draw_without_rendering()  # tick labels are written only now
    written = figure.findobj(lambda artist: isinstance(artist, Text) and artist.get_visible() and artist.get_text())
    assert min(text.get_fontsize() for text in written) >= 8
    places = [(text.get_text(), text.get_window_extent()) for text in written]
    for text, place in places:
        assert place.x0 >= 0 <= place.y0 and place.x1 <= figure.bbox.x1 and place.y1 <= figure.bbox.y1, text
    for (one, a), (other, b) in combinations(places, 2):
        assert min(a.x1, b.x1) - max(a.x0, b.x0) < 2 or min(a.y1, b.y1) - max(a.y0, b.y0) < 2, (one, other)


@pytest.mark.parametrize("name", make_images.PICTURES)
def test_text_has_8_points_is_not_cut_off_and_does_not_overlap(name):
    refuse_text_that_cannot_be_read(make_images.PICTURES[name].draw())


@pytest.mark.parametrize("count", [1, 7, 8, 13, 14, 15, 16, 20])
def test_the_road_finds_a_place_for_every_lesson(count):
    known = lessons()
    stops = [replace(known[number % len(known)], number=f"{number:02}") for number in range(count)]
    figure = roadmap.road(stops)
    refuse_text_that_cannot_be_read(figure)
    circles = [circle for circle in figure.axes[0].patches if isinstance(circle, Circle)]
    assert len({circle.center for circle in circles}) == count + 1  # the legend has one, too
    edge = figure.get_size_inches()
    for circle in circles:
        assert all(circle.radius <= at <= end - circle.radius for at, end in zip(circle.center, edge, strict=True))


def test_the_quick_way_is_marked_by_rings_and_not_by_colour_alone():
    figure = roadmap.draw()
    circles = [circle for circle in figure.axes[0].patches if isinstance(circle, Circle)]
    stops = {text.get_position(): text for text in figure.axes[0].texts if text.get_text() in QUICK_WAY + ("01", "04")}
    assert len(stops) == len(QUICK_WAY) + 2
    for place, text in stops.items():
        here = sorted((circle for circle in circles if circle.center == place), key=lambda circle: circle.radius)
        quick = text.get_text() in QUICK_WAY
        assert len(here) == 1 + quick  # the stop, and its ring
        grey = np.dot(here[0].get_facecolor()[:3], (0.299, 0.587, 0.114))
        assert grey < 0.45 if quick else grey > 0.65


def test_without_a_quick_way_nothing_is_marked():
    slow = [lesson for lesson in lessons() if not lesson.quick]
    figure = roadmap.road(slow)
    circles = [circle.center for circle in figure.axes[0].patches if isinstance(circle, Circle)]
    assert len(circles) == len(set(circles)) == len(slow) and len(slow) == len(lessons()) - len(QUICK_WAY)
    assert not [text for text in figure.axes[0].texts if text.get_text() == roadmap.QUICK]


@pytest.mark.parametrize("part", whole_model.MET)
def test_the_whole_model_sends_the_reader_to_lessons_that_speak_of_the_part(part):
    numbers, word = whole_model.MET[part]
    told = {path.name[:2]: " ".join(cell.source for cell in read(path).cells) for path in lesson_files(NOTEBOOKS)}
    assert [number for number in numbers if word not in told[number].lower()] == []
    assert list(numbers) == sorted(numbers)  # "00–06" is written for three and more, so they follow each other
    assert len(numbers) < 3 or int(numbers[-1]) - int(numbers[0]) == len(numbers) - 1
