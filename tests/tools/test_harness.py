"""The harness itself: what goes wrong in a page is seen, and a missing browser is no success where CI runs."""

import pytest
import torch

from mhalib.widgets import HeadView
from tests.helpers import browser as conftest


def broken(script: str) -> HeadView:
    """Return a widget whose view runs `script` before it draws."""
    view = HeadView(torch.eye(3))
    view._esm = str(view._esm).replace("export default", f"{script};\nexport default")
    return view


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("console.error('lost')", "console error: lost"),
        ("setTimeout(() => { throw new Error('late') })", "page error: Error: late"),
        ("fetch('https://example.org/x').catch(() => 0)", "asked the network for https://example.org/x"),
        ("new Image().src = 'http://127.0.0.1:9/x.png'", "asked the network for http://127.0.0.1:9/x.png"),
        ("try { new WebSocket('ws://example.org/') } catch {}", "asked the network for ws://example.org/"),
        ("alert('hello')", "opened a dialog: hello"),
    ],
)
def test_what_goes_wrong_is_seen(static_page, script, problem):
    page = static_page(broken(script))
    assert any(problem in found for found in page.problems)
    page.problems.clear()  # they were meant to be there


def test_a_view_that_is_not_drawn_is_seen(static_page):
    with pytest.raises(AssertionError, match="not drawn"):
        static_page(broken("throw new Error('no')"))
    for page in static_page.pages:
        page.problems.clear()


def test_a_missing_browser_fails_where_ci_runs(monkeypatch):
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="found no browser; the widgets were not tried"):
        conftest.missing("found no browser")
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="found no browser; CI has to try"):
        conftest.missing("found no browser")
