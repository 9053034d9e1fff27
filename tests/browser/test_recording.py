"""The README's moving picture against the view that it was recorded from."""

import numpy as np
import pytest
from PIL import Image

from tools import record


def stored(seconds_seen: float) -> list[np.ndarray]:
    """Return the frames of the stored picture that are seen at least that long."""
    image, frames = Image.open(record.IMAGES / record.NAME), []
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
        hand = record.Hand(page)
        hand.jump(*hand.slider(1))
        if heads > 1:
            page.mouse.down()
            hand.draw_slider(heads, 1)
        today = np.asarray(hand.frame()).astype(int)
    frames = stored(seconds_seen=0.9)
    off = [differing(frame, today) for frame in frames[: len(record.HEADS)]]
    assert off[at] < 0.02, "the view looks different: look at it, then run `make recording`"
    assert min(share for number, share in enumerate(off) if number != at) > 0.05  # so the bound tells frames apart


def test_letters_are_the_same_on_every_machine(browser):
    with record.open_lab(browser) as page:
        used = page.evaluate("() => [...document.fonts].map((font) => `${font.family} ${font.weight} ${font.status}`)")
        assert sorted(used) == ["Recorded bold loaded", "Recorded normal loaded"]
        assert page.evaluate("() => getComputedStyle(document.querySelector('.mha')).fontFamily").startswith("Recorded")
