"""A page at which a test looks only when it is drawn: no look falls between an action and the frame that answers it.

A view redraws at the next frame. A test that clicks and looks at once sees the page as it was, or as it becomes,
by chance. So playwright's own methods wait here: whoever looks at a page, or acts on a part of it, waits two frames
if anything was done to it since the last look. Keys and moves of the mouse follow each other without a wait, as they
come from a hand.
"""

import functools
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Error, Keyboard, Locator, Mouse, Page, Touchscreen

TWO_FRAMES = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done())))"
LOOKS = """all all_inner_texts all_text_contents aria_snapshot bounding_box content count evaluate evaluate_all
get_attribute inner_html inner_text input_value is_checked is_disabled is_editable is_enabled is_hidden is_visible
screenshot text_content""".split()
ACTIONS = """blur check clear click dblclick dispatch_event down drag_and_drop drag_to emulate_media fill focus hover
insert_text move press press_sequentially scroll_into_view_if_needed select_option select_text set_checked
set_viewport_size tap type uncheck up wheel""".split()
FROM_A_HAND = (Keyboard, Mouse, Touchscreen)
_evaluate = Page.evaluate  # as it is without us


def settle(page) -> None:
    """Wait until what was asked for is drawn: two frames. Only needed where nothing was done through playwright."""
    if hasattr(page, "acted_on"):
        page.acted_on = False
    try:
        _evaluate(page, TWO_FRAMES)
    except Error as error:  # a click that leads to another page takes the old one away
        if "navigation" not in error.message:
            raise
        page.wait_for_load_state()
        _evaluate(page, TWO_FRAMES)


def make_steady(page) -> None:
    """Let tests look at this page only when it is drawn. Not for a page whose scripts are off: it has no frames."""
    page.acted_on = False
    for hand in (page.keyboard, page.mouse, page.touchscreen):
        hand.page = page


@contextmanager
def hasty(page) -> Iterator[None]:
    """Act on a page without a wait in between, as a hand on a keyboard does; whoever looks afterwards sees it drawn."""
    del page.acted_on
    try:
        yield
    finally:
        page.acted_on = True


def patch(monkeypatch) -> None:
    """Let playwright's methods wait, on pages that were made steady; other pages are left alone."""
    for kind in (Locator, Page, *FROM_A_HAND):
        for name in filter(functools.partial(hasattr, kind), (*LOOKS, *ACTIONS)):
            call = _steady(getattr(kind, name), kind not in FROM_A_HAND, name in ACTIONS)
            monkeypatch.setattr(kind, name, call)


def _steady(original, waits: bool, acts: bool):
    @functools.wraps(original)
    def call(self, *args, **kwargs):
        page = self if isinstance(self, Page) else getattr(self, "page", None)
        if waits and getattr(page, "acted_on", False):
            settle(page)
        done = original(self, *args, **kwargs)
        if acts and hasattr(page, "acted_on"):
            page.acted_on = True
        return done

    return call
