"""The reference in a browser, opened from a file with the network cut: both themes, a phone, sources that unfold."""

import pytest
from axe_playwright_python.sync_playwright import Axe

from tests.helpers.browser import settle, watch


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1100])
def test_a_page_fits_is_accessible_and_unfolds_sources(browser, site, theme, width):
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=theme, offline=True)
    context.set_default_timeout(15_000)
    page = context.new_page()
    problems = watch(page, ("file:", "blob:", "data:"))
    try:
        page.goto(f"{site.as_uri()}/reference_mhalib.html")
        settle(page)
        source = page.locator("details[data-of=split_heads]")
        source.locator("summary").click()
        source.locator("pre").wait_for()
        assert "return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)" in source.text_content()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert problems == []  # axe reads the style sheet in a way that files refuse
        found = Axe().run(page, context="main", options={"resultTypes": ["violations"]}).response["violations"]
        assert [(rule["id"], rule["nodes"][0]["html"]) for rule in found] == []
        for name in ("reference", "reference_experiments"):
            page.goto(f"{site.as_uri()}/{name}.html")
            assert page.evaluate("document.documentElement.scrollWidth") <= width
    finally:
        context.close()
