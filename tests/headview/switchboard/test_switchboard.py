"""HeadSwitchboard in Python: it measures, remembers and tells what its function returns; nothing else can be set."""

import itertools

import numpy as np
import pytest
import torch

from headview import HeadSwitchboard
from tests.helpers.refusals import accepted

WEIGHTS = torch.tensor([[0.1, 0.2, 0.05], [0.3, 0.05, 0.3]])


class Measure:
    """A measure whose score tells every setting from every other one, and that counts how often it is asked."""

    def __init__(self, weights=WEIGHTS, answers=True):
        self.weights, self.answers, self.asked = weights, answers, []

    def __call__(self, gates):
        assert gates.shape == self.weights.shape and gates.dtype == torch.float32 and gates.device.type == "cpu"
        self.asked.append("".join(str(int(gate)) for gate in gates.flatten()))
        score = float((gates * self.weights).sum())
        if not self.answers:
            return score
        return score, [("3 →", int(gates.sum()), score > 0.5), ("all", f"{score:.2f}", None)]


def ask(board, setting):
    """Ask as the view does."""
    board._handle_msg({"content": {"data": {"method": "custom", "content": {"measure": setting}}}, "buffers": []})


def test_few_heads_are_all_measured_once_when_the_board_is_made():
    measure = Measure()
    board = HeadSwitchboard(measure, 2, 3)
    assert sorted(measure.asked) == sorted(map("".join, itertools.product("01", repeat=6)))
    assert len(board.known) == 64
    # What travels to the page, its test holds against what is told here.
    for bits in itertools.product((0, 1), repeat=6):
        board.gates = torch.tensor(bits).view(2, 3)
        score = float((torch.tensor(board.gates) * WEIGHTS).sum())
        assert board.score == pytest.approx(score, abs=1e-6)
        assert board.answers == [("3 →", str(sum(bits)), board.score > 0.5), ("all", f"{score:.2f}", None)]
    assert len(measure.asked) == 64  # all of that without measuring again


def many(measure=None, **options):
    """Return a board of too many heads to measure every setting, and its measure."""
    measure = measure or Measure(torch.cat([WEIGHTS, torch.zeros(2, 3)], 1))
    return HeadSwitchboard(measure, 2, 6, **options), measure


def test_many_heads_are_measured_when_asked_and_remembered():
    board, measure = many()
    rows = [[1, 0, 1, 1, 1, 1], [1] * 6]
    board.gates = rows
    assert len(measure.asked) == 1  # setting it measures nothing; looking at the score does
    assert [board.score, board.score] == pytest.approx([0.8, 0.8])
    board.gates = torch.ones(2, 6)
    board.gates = rows
    assert board.answers[0] == ("3 →", "11", True)
    for setting in ("0" * 12, "0" * 12, "0" * 11, "0" * 11 + "x", None):  # nonsense is not measured
        ask(board, setting)
    assert measure.asked == ["1" * 12, "1" + "0" + "1" * 10, "0" * 12] and board.failures == {}


def test_an_error_is_told_and_not_lost():
    broken = KeyError("no such head <b>")

    def measure(gates):
        if broken and gates.sum() < 12:
            raise broken  # a line that the reader can find
        return 1.0

    board, _ = many(measure)
    first = "0" + "1" * 11
    for _ in range(2):  # asked again, failed again
        ask(board, first)
        assert board.failures[first][0].startswith("KeyError: 'no such head <b>' (in measure, line ")
    assert "a line that the reader can find" in board.failures[first][0]
    board.gates = [[0, 1, 1, 1, 1, 1], [1] * 6]
    with pytest.raises(KeyError, match="no such head"):
        _ = board.score
    assert "not measured: KeyError" in board.figure().alt
    broken = KeyboardInterrupt()  # ends the waiting too
    ask(board, first)
    assert board.failures[first][0].startswith("KeyboardInterrupt")
    broken = None
    ask(board, first)
    assert board.failures == {} and board.score == 1.0


def test_a_measure_needs_no_gradient_and_cannot_change_the_board():
    weight = torch.ones(1, 2, requires_grad=True)

    def measure(gates):
        score = (gates * weight).sum()
        assert not score.requires_grad
        gates.zero_()
        return score, [("a", 1, torch.tensor(True)), ("b", 2, np.bool_(False))]

    board = HeadSwitchboard(measure, 1, 2)
    assert board.gates == [[1, 1]] and board.score == 2.0 and len(board.known) == 4
    assert board.answers == [("a", "1", True), ("b", "2", False)]
    for score in (torch.tensor([0.5]), torch.tensor(0.5).half(), np.float32(0.5), np.array(0.5)):
        assert HeadSwitchboard(lambda gates, score=score: score, 1, 1).score == 0.5


def test_what_does_not_fit_is_refused(as_shipped):
    unasked = Measure(torch.ones(1, 2))

    def board(measure=unasked, layers=1, heads=2, **options):
        return lambda: HeadSwitchboard(measure, layers, heads, **options)

    calls = {
        "TypeError: measure must be a function": board(0.5),
        "num_layers must be a positive integer": board(layers=0),
        "at most 1024 heads, got 33 x 32": board(layers=33, heads=32),
        "TypeError: measure must return a number": board(lambda gates: "0.5"),
        "got Tensor; of many numbers": board(lambda gates: torch.ones(4)),
        "a finite number, got nan": board(lambda gates: float("nan")),
        "TypeError: answers must be a list of (label, said, right)": board(lambda gates: (0.5, [("a", "b")])),
        "right must be True, False or None": board(lambda gates: (0.5, [("a", "b", 1)])),
        "the same labels": board(lambda gates: (1.0, [(f"a {int(gates.sum())}", "b", True)])),
    }
    assert accepted(calls) == [] and unasked.asked == []


def test_gates_may_be_set_in_many_ways():
    rows = [[1, 0, 1], [0, 1, 1]]
    board = HeadSwitchboard(Measure(), 2, 3)
    kinds = torch.tensor(rows).float(), torch.tensor(rows).bool(), np.array(rows), ((True, False, 1.0), (0.0, 1, 1))
    for gates in kinds:
        board.gates = gates
        assert board.gates == rows and {type(gate) for row in board.gates for gate in row} == {int}
    with pytest.raises(ValueError, match="2 rows, one a layer, of 3 numbers, one a head"):
        board.gates = torch.ones(3, 2)


def test_the_picture_says_what_is_seen():
    board = HeadSwitchboard(Measure(), 2, 3, score_name="share <b>$x$")
    board.gates = [[1, 0, 1], [1, 1, 0]]
    figure = board.figure()
    assert figure.alt == (
        "share <b>$x$ 0.500, with all heads on 1.000. Switched off: layer 0 head 1, layer 1 head 2, of 2 x 3 layers "
        "and heads. The model says: 3 →: 4 ✗, all: 0.50."
    )
    board_axes = figure.axes[0]
    assert "hatched: off" in board_axes.get_xlabel()
    assert {"-0.10", "-0.05", "-0.30"} <= {text.get_text() for text in board_axes.texts}
    large = HeadSwitchboard(Measure(torch.rand(32, 32), answers=False), 32, 32)
    width, height = large.figure().get_size_inches()
    assert width <= 12 and height <= 12
