"""Where views begin in these tests: at the first cell, on the fixed scale, unless a test is about the first look.

And the notebook that the tests of a module share.
"""

import pytest

from headview.head_view import metadata, widget


@pytest.fixture(autouse=True)
def from_the_first_cell(request, monkeypatch):
    """Tests count heads and tokens from the first one; what a view opens with by itself is `first_look`'s business."""

    def fixed(part) -> str:
        return "fixed" if part.kind in ("weights", "part") else "maximum"

    if request.node.get_closest_marker("first_look") is None:
        monkeypatch.setattr(widget.HeadView, "_open_on_the_strongest", lambda *_: None)
        monkeypatch.setattr(metadata, "scale_that_shows", fixed)
        monkeypatch.setattr("headview.head_view.first_look._FIXED_FROM", 0)


@pytest.fixture
def notebook(shared):
    """The notebook that a module shares, in which nothing may go wrong; `shared` is the module's own."""
    yield shared
    assert shared.problems == []
