"""Pictures: the stored files are what the generator draws today and can be read."""

from pathlib import Path

import matplotlib
import numpy as np
from matplotlib import ft2font
from PIL import Image

from tools import make_images
from tools.notebooks.lessons import lessons
from tools.notebooks.run import NOTEBOOKS, read
from tools.notebooks.which import lesson_files
from tools.pictures import roadmap, whole_model

STORED = Path(__file__).resolve().parents[2] / "images"
DRAWN_WITH = "2.14.3"  # the FreeType inside the pinned matplotlib, which drew the stored files


def differing(*paths: Path) -> float:
    """Return the share of pixels that differ by more than rounding; all of them where the sizes differ."""
    one, other = (np.asarray(Image.open(path).convert("RGB")).astype(int) for path in paths)
    return float((abs(one - other).max(-1) > 48).mean()) if one.shape == other.shape else 1.0


def test_stored_pictures_are_what_the_generator_draws_whatever_a_readers_own_settings(tmp_path):
    with matplotlib.rc_context({"savefig.dpi": 50, "font.family": "serif", "text.color": "red"}):
        make_images.main(tmp_path)
    moving = {"head_view.png", "head_view_dark.png", "head_view_zoom.gif", "head_view_zoom.png"}  # tools/record.py
    assert {path.name for path in STORED.iterdir()} == {*make_images.PICTURES, *moving}
    # One changed letter is some 40 pixels. Another FreeType moves the edges of every letter.
    most = 2e-5 if ft2font.__freetype_version__ == DRAWN_WITH else 0.03
    wrong = []
    for name, picture in make_images.PICTURES.items():
        if differing(tmp_path / name, STORED / name) > most:
            wrong.append(f"images/{name} is stale: run `make images`")
        if Image.open(STORED / name).text != {"Description": picture.ALT} or not 80 <= len(picture.ALT) <= 250:
            wrong.append(f"images/{name} does not describe itself")
    assert wrong == []


def test_road_and_whole_model_lead_to_lessons_that_are_there_and_speak_of_each_part():
    said = {text.get_text() for text in roadmap.draw().axes[0].texts}
    assert {lesson.number for lesson in lessons()} <= said
    told = {path.name[:2]: " ".join(cell.source for cell in read(path).cells) for path in lesson_files(NOTEBOOKS)}
    led = [(number, word) for numbers, word in whole_model.MET.values() for number in numbers]
    assert [(number, word) for number, word in led if word not in told[number].lower()] == []
