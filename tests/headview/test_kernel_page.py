"""Widgets that ask a kernel for more than they were given, in one notebook of JupyterLab. What all do alike stands in
`test_contract.py`, the long maps of HeadView beside it.
"""

import pytest

from tests.headview.head_lab.test_head_lab_page import more
from tests.headview.live_model.test_live_model_page import SECOND, SENTENCE, note, says
from tests.headview.switchboard.test_switchboard_page import fact, switch
from tests.helpers.browser import until

LAB = """from headview import HeadLab
from mhalib.experiments import sentence_features
lab = HeadLab.of_words(sentence_features, "the cat sat on the mat".split(), num_heads=2)
display(lab, lab)"""
BOARD = """import time, torch
from headview import HeadSwitchboard
asked, pause, broken = [], 0.0, ""

def measure(gates):
    asked.append(gates.clone())
    time.sleep(pause)
    if broken and not gates.all():
        raise ValueError(broken)
    return float(gates.mean()), [("off", int((gates == 0).sum()), None)]

board = HeadSwitchboard(measure, 6, 12)
display(board, board)"""
LIVE = f"""from headview import LiveModel
from tests.helpers.small_sentences import small_sentences
live = LiveModel(small_sentences(), {SENTENCE!r}, {SECOND!r})
live"""


@pytest.fixture(scope="module")
def shared(lab_server):
    notebook = lab_server.open(lab_server.write(LAB, BOARD, LIVE), height=1800)
    yield notebook
    notebook.close()


def test_words_and_own_cells_of_a_lab_reach_python_and_come_back(notebook):
    one, other = notebook.views(0)
    more(one)
    one.get_by_label("Mask", exact=True).select_option("own")
    for key in ("ArrowDown", "Space", "PageDown"):
        one.locator("canvas").press(key)
    notebook.prints("print(lab.mask, lab.head, lab.own_mask.sum().item(), lab.own_mask[1, 0].item())", "own 1 35 False")
    other.locator("canvas").press("ArrowDown")

    def tell(word, *told):
        for view in told:
            until(lambda view=view: word in view.locator(".readout").inner_text(), f"a view does not tell {word}")

    tell("key “\u2068the\u2069”: masked", other)
    notebook.python("lab.own_mask = ~torch.eye(6, dtype=torch.bool)")
    tell("key “\u2068the\u2069”: weight", one, other)
    words = one.get_by_label("Your words")
    words.fill("a rolling <b>stone</b> gathers no moss today")
    words.press("Enter")
    notebook.prints("print(len(lab.tokens), tuple(lab.weights.shape), lab.tokens[2])", "7 (1, 2, 7, 7) <b>stone</b>")
    tell("“\u2068a\u2069”", one, other)
    notebook.python("lab.sentence = 'red  blue'")
    until(lambda: words.input_value() == "red  blue", "the field does not follow")
    words.fill("   ")
    words.press("Enter")
    notebook.prints("print(lab.tokens)", "['red', 'blue']")


@pytest.mark.slow
def test_a_board_has_the_kernel_measure_what_the_reader_asks_for(notebook):
    one, other = notebook.views(1)

    def shows(score, *views):
        for view in views or (one, other):
            until(lambda view=view: fact(view, "accuracy") == score, f"the score does not become {score}")

    shows("1.000")
    switch(one, 2, 5).click()
    shows(f"{71 / 72:.3f}")
    assert one.locator(".answers b").inner_text() == other.locator(".answers b").inner_text() == "1"
    notebook.prints("print(len(asked), round(board.score, 6), board.gates[2][5])", f"2 {71 / 72:.6f} 0")
    switch(other, 2, 5).click()
    one.get_by_label("Measure every switch").check()
    until(lambda: one.locator(".effect.known").count() == 72, "not every switch was measured")
    assert one.locator(".controls output").inner_text() == "72 of 72"
    notebook.prints("print(len(asked), len(board.known))", "73 73")  # what was known is not measured again
    one.get_by_label("Measure every switch").uncheck()
    notebook.python("board.gates = torch.zeros(6, 12)")  # a cell acts, the view asks
    shows("0.000")
    notebook.prints("print(len(asked), board.score)", "74 0.0")
    notebook.python("pause = 0.4")
    one.evaluate("(view) => [...view.querySelectorAll('.switch')].slice(0, 30).forEach((switch_) => switch_.click())")
    assert fact(one, "accuracy") == "measuring…"
    shows(f"{30 / 72:.3f}")
    count, last = notebook.python("print(len(asked), int(asked[-1].sum()))").split()
    assert last == "30" and int(count) <= 74 + 5, count  # the last, and few between

    notebook.python("pause, broken = 0, '<img src=x onerror=alert(1)>'")
    switch(one, 5, 0).click()
    said = "This setting could not be measured. ValueError: <img src=x onerror=alert(1)> (in measure, line "
    shows("not measured")
    for view in (one, other):
        until(lambda view=view: said in view.inner_text(), "the error is not shown")
    notebook.python("broken = ''")
    for _ in range(2):  # away, and here again
        switch(one, 5, 1).click()
        notebook.page.wait_for_timeout(400)
    shows(f"{31 / 72:.3f}")
    assert not any(view.locator(".problem:visible").count() for view in (one, other))


def test_a_live_model_is_handed_over_by_the_kernel_with_numbers_of_its_own(notebook):
    (view,) = notebook.views(2, 1)
    view.get_by_role("button", name="Load the model").click()
    notebook.page.wait_for_function("document.querySelector('.bring button')?.hidden")
    view.get_by_label("Sentence").fill("a cat sat")
    says(notebook.page, "of torch in the kernel")
    assert float(note(notebook.page).partition("within ")[2].split()[0]) <= 0.02
    notebook.prints("print(live.sentence)", "a cat sat")
    notebook.python("live.off = [[0, 1], [1, 0]]")
    until(lambda: "2 heads off" in view.locator(".alike").inner_text(), "the view does not follow")
