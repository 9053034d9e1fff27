"""The README's moving pictures against the views that they were recorded from."""

import numpy as np
import pytest
from PIL import Image

from tools import record, record_zoom


def stored(name: str, seconds_seen: float) -> list[np.ndarray]:
    """Return the frames of a stored picture that are seen at least that long."""
    image, frames = Image.open(record.IMAGES / name), []
    for number in range(image.n_frames):
        image.seek(number)
        if image.info["duration"] >= 1000 * seconds_seen:
            frames.append(np.asarray(image.convert("RGB")).astype(int))
    return frames


def differing(one: np.ndarray, other: np.ndarray) -> float:
    """Return the share of pixels that differ by more than few colours and another browser's letters explain."""
    assert one.shape == other.shape, "the view has another size: run `make recording`"
    return float((abs(one - other).max(-1) > 48).mean())


@pytest.mark.parametrize("heads", [1, 8])
def test_the_moving_picture_shows_the_view_as_it_is_today(browser, heads):
    at = record.HEADS.index(heads)
    with record.open_lab(browser) as page:
        hand = record.LabHand(page)
        hand.jump(*hand.slider(1))
        if heads > 1:
            page.mouse.down()
            hand.draw_slider(heads, 1)
        today = np.asarray(hand.frame()).astype(int)
    frames = stored(record.NAME, seconds_seen=0.9)
    off = [differing(frame, today) for frame in frames[: len(record.HEADS)]]
    assert off[at] < 0.02, "the view looks different: look at it, then run `make recording`"
    assert min(share for number, share in enumerate(off) if number != at) > 0.05  # so the bound tells frames apart


def test_the_long_map_looks_as_it_does_today_from_afar_and_from_close_by(browser):
    with record_zoom.open_long(browser) as page:
        hand = record_zoom.begin(page)
        afar = np.asarray(hand.frame()).astype(int)
        record_zoom.look_closely(hand)
        close = np.asarray(hand.frame()).astype(int)
    frames = stored(record_zoom.NAME, seconds_seen=0.9)[:2]
    off = [[differing(frame, today) for frame in frames] for today in (afar, close)]
    assert max(off[0][0], off[1][1]) < 0.02, "the view looks different: look at it, then run `make recording`"
    assert min(off[0][1], off[1][0]) > 0.05  # so the bound tells frames apart
    still = np.asarray(Image.open(record.IMAGES / record_zoom.STILL).convert("RGB")).astype(int)
    assert differing(still, np.concatenate([afar, close], axis=1)) < 0.02


def test_letters_are_the_same_on_every_machine(browser):
    with record.open_lab(browser) as page:
        used = page.evaluate("() => [...document.fonts].map((font) => `${font.family} ${font.weight} ${font.status}`)")
        assert sorted(used) == ["Recorded bold loaded", "Recorded normal loaded"]
        assert page.evaluate("() => getComputedStyle(document.querySelector('.mha')).fontFamily").startswith("Recorded")
