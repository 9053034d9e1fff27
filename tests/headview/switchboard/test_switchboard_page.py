"""HeadSwitchboard in a browser: what is known in the page or the kernel answers every click, and what fails is said."""

import pytest
import torch

from headview import HeadSwitchboard
from tests.helpers.page import no_overflow

WEIGHTS = torch.tensor([[0.1, 0.2, 0.0], [0.3, -0.05, 0.45]])


def measure(gates):
    """A score and answers that tell every setting from every other one; one head is worth nothing, one does harm."""
    score = float((gates * WEIGHTS).sum())
    answers = [(f"{i} →", int(gates.sum()) * i, score > i / 4) for i in range(4)]
    return score, [*answers, ("all", f"{score:.4f}", None)]


def switch(page, layer, head):
    return page.get_by_role("button", name=f"layer {layer} head {head}", exact=True)


def fact(page, name):
    return page.locator(".summary > div", has_text=name).locator("b").inner_text()


def gates(page):
    """Return the setting that the switches show."""
    pressed = page.locator(".switch").evaluate_all("(all) => all.map((one) => one.getAttribute('aria-pressed'))")
    assert set(pressed) <= {"true", "false"}
    return "".join("1" if one == "true" else "0" for one in pressed)


def answers(page):
    return page.locator(".answers li").evaluate_all(
        """(all) => all.map((one) => [one.querySelector("small").textContent, one.querySelector("b").textContent,
          {"right": true, "wrong": false}[one.className] ?? null])"""
    )


def test_each_setting_shows_what_python_measured(static_page):
    board = HeadSwitchboard(measure, 2, 3)
    page, now, failures = static_page(board), [1] * 6, []
    for step in range(16):
        if step:  # one switch a step, and all 16 settings of four of them once
            at = (0, 2, 3, 5)[(step & -step).bit_length() - 1]
            now[at] = 1 - now[at]
            switch(page, *divmod(at, 3)).click()
        board.gates = [now[:3], now[3:]]
        change = float(fact(page, "difference").replace("−", "-"))
        shown = fact(page, "accuracy"), fact(page, "heads off"), gates(page), answers(page)
        setting = "".join(map(str, now))
        expected = f"{board.score:.3f}", f"{6 - sum(now)} of 6", setting, [list(answer) for answer in board.answers]
        if shown != expected or abs(change - board.score + 1) > 6e-4:
            failures.append((setting, shown, change))
    assert failures == []


def test_the_bars_show_what_each_switch_would_do(static_page):
    board = HeadSwitchboard(measure, 2, 3)
    board.gates = [[1, 1, 1], [0, 1, 1]]
    page = static_page(board)
    expected = {(0, 0): -0.1, (0, 1): -0.2, (0, 2): 0, (1, 0): 0.3, (1, 1): 0.05, (1, 2): -0.45}
    for place, change in expected.items():
        one = switch(page, *place)
        bar, field = one.locator("i").bounding_box(), one.locator(".effect").bounding_box()
        half = field["width"] / 2
        assert bar["width"] == pytest.approx(abs(change) / 0.45 * half, abs=0.6)
        if change:
            begin = bar["x"] if change > 0 else bar["x"] + bar["width"]
            assert begin == pytest.approx(field["x"] + half, abs=0.6)
        assert one.locator(".by").inner_text() == (f"{change:+.3f}".replace("-", "−") if change else "0.000")
    for head, word, border in ((0, "off", "dashed"), (1, "on", "solid")):  # they differ in more than a colour
        assert switch(page, 1, head).locator(".state").inner_text().startswith(word)
        assert switch(page, 1, head).evaluate("(one) => getComputedStyle(one).borderTopStyle") == border
    assert page.get_by_text("(the longest bar: 0.450)").count() == 1
    switch(page, 1, 0).hover()
    assert page.locator(".readout").inner_text() == "layer 1 head 0 is off. Switching it on: accuracy 1.000 (+0.300)"


def test_the_keyboard_does_all_of_it(static_page):
    page = static_page(HeadSwitchboard(measure, 2, 3))
    held, said = page.locator(".switch[tabindex='0']"), page.locator("[role=status]")
    held.focus()
    ways = "ArrowLeft 00, ArrowUp 00, ArrowRight 01, ArrowDown 11, ArrowDown 11, End 12, ArrowRight 12, Home 10"
    for key, (layer, head) in map(str.split, ways.split(", ")):
        page.keyboard.press(key)
        expected = f"layer {layer} head {head}"
        assert page.evaluate("document.activeElement.getAttribute('aria-label')") == expected
        assert held.count() == 1 and held.get_attribute("aria-label") == expected
        assert page.locator(".readout").inner_text().startswith(f"{expected} is on.")
    for key, expected in (("Space", "111011"), ("Enter", "111111")):
        page.keyboard.press(key)
        assert gates(page) == expected
    page.keyboard.press("End")
    page.keyboard.press("Space")
    assert said.text_content() == "accuracy 0.550, 0.450 lower against all heads on; 1 head off"
    assert switch(page, 0, 1).evaluate("(one) => one.ariaDescription") == "Switching it off: 0.200 lower"


def test_all_on_and_all_off(static_page):
    page = static_page(HeadSwitchboard(measure, 2, 3))
    on, off = (page.get_by_role("button", name=name, exact=True) for name in ("All on", "All off"))
    assert [button.get_attribute("aria-disabled") for button in (on, off)] == ["true", "false"]
    off.click()
    assert page.locator(".heading").inner_text().endswith("0 of 4 right")
    said = page.locator(".answers li").all_text_contents()
    assert [said[i] for i in (0, 2, 4)] == ["0 →0 ✗wrong", "2 →0 ✗wrongwas 12", "all0.0000was 1.0000"]
    page.keyboard.press("Space")  # the button keeps the focus, and does nothing
    assert gates(page) == "000000"
    on.click()
    assert gates(page) == "111111"


def test_what_is_not_measured_needs_a_kernel_and_says_so(static_page):
    board = HeadSwitchboard(torch.mean, 6, 12)
    board.gates = [[1] * 12] * 5 + [[0] * 12]
    assert board.score == pytest.approx(5 / 6)
    page = static_page(board)
    assert fact(page, "accuracy") == "0.833"
    switch(page, 5, 11).click()
    assert fact(page, "accuracy") == "not measured" and fact(page, "difference") == "–"
    assert page.get_by_text("2 settings measured so far; others need a notebook with a kernel.").count() == 1
    assert page.locator("[role=status]").text_content() == "accuracy not measured; 11 heads off"
    assert page.get_by_label("Measure every switch").is_hidden()


def test_scores_of_any_size_can_be_read_on_a_narrow_page(static_page):
    def board(low, high):
        def measure(gates):
            return low + (high - low) * gates.mean(), [("long" * 50, "word " * 40, False), ("a", "b", True)]

        return HeadSwitchboard(measure, 1, 40, score_name="a rather long name of a score " * 3)

    highs = [2.5, 9e-4, 3e5, 7.0]
    page = static_page(*(board(-3.0, high) for high in highs), width=360, theme="dark")
    for number, high in enumerate(highs):
        shown = fact(page.locator(".mha").nth(number), "a rather long")
        assert float(shown) == pytest.approx(high, abs=6e-4) and len(shown) <= 6
    assert no_overflow(page) == []
