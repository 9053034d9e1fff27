"""The pictures of training: what is drawn is what was given, and not more often than asked for."""

from types import SimpleNamespace

import pytest

from mhalib.experiments import LiveCurve, interval, plot_losses, plot_runs


def test_losses_are_drawn_step_by_step():
    figure = plot_losses({"one head": [2.0, 1.5, 1.0], "two heads": [2.0, 0.5]})
    (axes,) = figure.axes
    drawn = {line.get_label(): list(zip(*line.get_data(), strict=True)) for line in axes.lines}
    assert drawn == {"one head": [(1, 2.0), (2, 1.5), (3, 1.0)], "two heads": [(1, 2.0), (2, 0.5)]}
    assert axes.get_xlabel() == "step" and axes.get_ylabel() == "loss (nats)" and axes.get_ylim()[0] == 0
    assert figure.alt == "Loss against training steps: one head from 2.00 to 1.00; two heads from 2.00 to 0.50."


def test_every_run_is_a_dot_beside_its_interval():
    scores = {"1": [0.5, 0.6, 0.55], "2": [1.0, 1.0, 1.0]}
    figure = plot_runs(scores, "heads", chance=1 / 16)
    (axes,) = figure.axes
    dots = [line for line in axes.lines if line.get_marker() == "o"]
    assert [list(line.get_ydata()) for line in dots] == list(scores.values())
    for i, line in enumerate(dots):  # over their own label, and not on top of each other
        assert len(set(line.get_xdata())) == 3 and all(abs(x - i) < 0.3 for x in line.get_xdata())
    mean, low, high = interval(scores["1"], bounds=(0, 1))
    (bar,) = axes.containers[0].lines[2]
    assert bar.get_segments()[0][:, 1] == pytest.approx([low, high])
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "2"]
    assert axes.get_ylim()[0] == 0
    assert axes.get_xlabel() == "heads" and axes.get_ylabel() == "accuracy"
    assert f"1 {mean:.2f} ({low:.2f} to {high:.2f}); 2 1.00 (1.00 to 1.00)" in figure.alt
    assert any(list(line.get_ydata()) == [1 / 16, 1 / 16] for line in axes.lines)


def test_no_bar_leaves_what_an_accuracy_can_be_and_a_score_without_bounds_has_its_own():
    scores = {"a": [0.678, 0.592, 0.971]}
    ends = {}
    for bounds in ((0, 1), None):
        (axes,) = plot_runs(scores, "arm", bounds=bounds).axes
        ends[bounds] = axes.containers[0].lines[2][0].get_segments()[0][:, 1].tolist()
    assert 0 < ends[0, 1][0] < ends[0, 1][1] < 1 < ends[None][1]
    assert "seconds of every run" in plot_runs({"a": [2.0, 3.0]}, "arm", "seconds", bounds=None).alt


def test_the_same_runs_make_the_same_picture():
    pictures = [plot_runs({"a": [0.1, 0.2]}, "arm")._repr_mimebundle_()[0]["image/png"] for _ in range(2)]
    assert pictures[0] == pictures[1]


def test_the_live_curve_draws_now_and_then_and_at_the_end(monkeypatch):
    now, shown, live = [0.0], [], LiveCurve()
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    live.show = lambda figure: shown.append(figure.axes[0].lines[0].get_ydata().tolist())
    for step, moment in enumerate([0.0, 0.2, 0.45, 0.55, 0.95], start=1):
        now[0] = moment
        live([1.0] * step, False)
    assert list(map(len, shown)) == [1, 4]
    live([1.0] * 5, True)
    assert list(map(len, shown)) == [1, 4, 5]


def test_in_a_notebook_each_picture_takes_the_place_of_the_one_before(monkeypatch):
    calls = []
    handle = SimpleNamespace(update=lambda bundle, **options: calls.append(("update", bundle)))

    def display(bundle, **options):
        assert options["raw"] and options["display_id"] and options["metadata"]["image/png"]["alt"]
        calls.append(("display", bundle))
        return handle

    monkeypatch.setattr("IPython.get_ipython", lambda: SimpleNamespace(kernel=object()))
    monkeypatch.setattr("IPython.display.display", display)
    monkeypatch.setattr("mhalib.experiments.curves.SECONDS", 0.0)
    live = LiveCurve()
    live([2.0], False)
    live([2.0, 1.0], True)
    assert [kind for kind, _ in calls] == ["display", "update"]
    assert calls[-1][1]["text/plain"] == "Loss against training steps: training from 2.00 to 1.00."


def test_nothing_is_shown_outside_of_a_notebook_or_before_the_first_step(capsys):
    live = LiveCurve()
    live([], True)
    live([1.0, 0.5], True)
    assert live.show.handle is None and capsys.readouterr().out == ""


@pytest.mark.parametrize("losses", [{}, {"a": []}])
def test_losses_that_are_refused(losses):
    with pytest.raises(ValueError, match="plot_losses needs at least one loss for each name"):
        plot_losses(losses)


def test_runs_that_are_refused():
    with pytest.raises(ValueError, match="plot_runs needs at least one arm"):
        plot_runs({}, "heads")
    with pytest.raises(ValueError, match=r"at least two finite values, got \[0.5\]"):
        plot_runs({"a": [0.5]}, "heads")
    with pytest.raises(ValueError, match="within bounds=.*got 0.5 to 2; say bounds=None"):
        plot_runs({"a": [0.5, 2.0]}, "heads")
