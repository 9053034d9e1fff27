"""The page of `make bench` that has a kernel, looked at and moved in once, small."""

import torch

from mhalib.widgets import HeadView
from tools.bench import live, widgets


def small_view():
    return HeadView(torch.randn(2, 2, 1100, 1100).softmax(-1).half())


def test_a_page_is_looked_at_and_moved_in(browser, monkeypatch):
    monkeypatch.setattr(live, "PLACES", live.PLACES[:1])
    monkeypatch.setattr(live, "PANS", 1)
    with live.look(small_view, widgets.Pages(browser, {})) as seen:
        assert seen.total > seen.paint > 0 < seen.python
        assert seen.kernel.asked > 0
        assert seen.size > seen.kernel.sent + widgets.weigh(small_view().blocks)
        assert "1100 queries by 1100 keys" in seen.page.locator("canvas.focus").get_attribute("aria-label")
        fresh, there = live.moves(seen), live.moves(seen)
    assert len(fresh) == len(there) == 3 * live.DEPTH + 2
    assert all(step.shown >= step.work > 0 for step in fresh + there)
    asking = [step for step in fresh if step.asked]
    assert asking and all(step.kernel > 0 for step in asking)
    assert not any(step.asked or step.kernel for step in there)
