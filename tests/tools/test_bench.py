"""`make bench`: what it must not delete, what it measures, small, and that README, page and picture say the same."""

import base64
import json
import os
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from matplotlib.text import Text

from mhalib import heads
from mhalib.widgets import HeadView
from tools.bench import captured, codes, large, live, peers, report, report_large, run, texts, widgets
from tools.pictures import benchmarks

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "BENCHMARKS.md").read_text(encoding="utf-8")
TABLES = benchmarks.tables(PAGE)
WHOLE = next(rows for title, rows in TABLES.items() if "layers" in title)
STEPS = TABLES["A step of a slider"]


def test_a_folder_with_other_files_is_left_alone(tmp_path):
    (tmp_path / "letters.txt").write_text("mine")
    with pytest.raises(SystemExit, match="would be lost"):
        peers.prepare(tmp_path)
    assert (tmp_path / "letters.txt").read_text(encoding="utf-8") == "mine"


def test_the_readme_says_what_was_measured():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    lines = text[text.index("| a slider step") :].partition("\n\n")[0].splitlines()[2:]
    assert len(lines) == len(WHOLE) - 1
    for line, measured in zip(lines, WHOLE[1:], strict=True):
        name, *cells, step = (cell.strip().replace("`", "") for cell in line.strip("|").split("|"))
        assert name.startswith(measured[0])
        assert cells == [cell.partition(" (")[0] for cell in measured[1:]], name
        steps = [row[1].partition(" (")[0] for row in STEPS if row[0] == measured[0]]
        if measured is WHOLE[1]:
            steps = [row[1] for row in STEPS if row[0] == "HeadLab, heads: compute + draw"]
        assert step == (steps[0] if steps else "as above" if "live" in name else ""), name
    versions = ("Python 3.11", "torch 2.13.0", "Chromium 156", "anywidget 0.11.0", "bertviz 1.4.1")
    assert all(version in text and version in PAGE for version in versions)


def test_the_readme_says_how_fast_the_layer_is():
    factors = [1 / benchmarks.factor(row[2]) for row in TABLES["The layer"][1:]]
    said = f"takes {min(factors):.2f} to {max(factors):.2f} times what `nn.MultiheadAttention`".replace("0.", ".")
    assert said in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_picture_shows_every_number_of_the_widgets():
    drawn = benchmarks.draw_page(PAGE, Figure((9, 6.6)))
    texts = {text.get_text() for text in drawn.findobj(Text)}
    for row in WHOLE[1:]:
        assert row[0] in texts
        assert {cell.partition(" (")[0] for cell in row[1:]} <= texts


@pytest.mark.parametrize(
    "cell,times", [("2.11 s (41 ×)", 41), ("0.13 MB (0.115 ×)", 0.115), ("0.75 ×", 0.75), ("as above", None)]
)
def test_how_many_times_ours(cell, times):
    assert benchmarks.factor(cell) == times


def test_a_target_that_is_missed_is_told():
    assert (
        report.verdict("fast", "2 s", False)[-1] == "**not met**" and report.verdict("fast", "1 s", True)[-1] == "met"
    )


# ------------------------------------------------------------------------------------------ large maps


def small_view():
    """A HeadView whose maps do not travel whole."""
    torch.manual_seed(0)
    return HeadView(large.sink_maps(1, 4, 1100))


def test_maps_with_a_sink_are_weights_and_differ_from_layer_to_layer():
    layers = large.sink_maps(3, 2, 64)
    assert [(layer.shape, layer.dtype) for layer in layers] == 3 * [((1, 2, 64, 64), torch.float16)]
    for layer in layers:
        assert torch.allclose(layer.float().sum(-1), torch.ones(()), atol=2e-3)
        assert layer[..., 0].min() > 0.49
    assert not torch.equal(layers[0], layers[1]) and not torch.equal(layers[1], layers[2])


@pytest.mark.parametrize(
    ("free", "shape"), [(14.1e9, large.HUGE), (13.9e9, large.STAND_IN), (None, large.STAND_IN), (0, large.STAND_IN)]
)
def test_fewer_layers_stand_for_all_where_memory_is_short(free, shape):
    assert large.shape_that_fits(free) == shape
    assert bool(report_large.stand_in(shape)) == (shape != large.HUGE)


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="only Linux tells the peak of a process anew")
def test_the_growth_of_a_process_is_seen_and_what_was_freed_before_is_not():
    block = torch.ones(100_000_000, dtype=torch.uint8)
    del block
    memory = large.Memory()
    assert memory.growth() < 20e6
    block = torch.ones(100_000_000, dtype=torch.uint8)
    del block  # the peak counts, not what is left
    assert 90e6 < memory.growth() < 140e6


def test_a_state_weighs_its_buffers_and_its_text():
    assert widgets.weigh(b"12345") == 5
    assert widgets.weigh({"ab": {"bytes": bytes(1000)}, "c": [1, 2]}) == len('"ab""bytes"') + 1000 + len('"c"[1, 2]')
    view = small_view()
    sent = widgets.weigh(view.get_state())
    overview = sum(len(block["bytes"]) for block in view.blocks.values())
    assert overview < sent < overview + 1_000_000


def test_the_kernel_of_a_page_answers_with_blocks_and_counts_them():
    view = small_view()
    kernel = live.Kernel(view)
    about, text = kernel("overview 0 0 a")
    expected = view._blocks.answer("overview 0 0 a")
    assert (about, base64.b64decode(text)) == expected
    assert kernel.asked == 1 and kernel.spent > 0
    assert kernel.sent == len(expected[1]) + len(json.dumps(about))


@pytest.fixture
def chromium():
    """The browser of `make bench`."""
    path = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, run.BROWSERS)), None)
    if path is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("found no Chromium; no page of the bench was tried")
    return path


def test_the_process_of_its_own_tells_what_it_measured(chromium):
    found = large.huge((4, 4, 520), chromium)
    assert found["python"] > 0 < found["paint"] and 100_000 < found["size"] < 5e6 and found["asked"] > 0
    assert found["memory"] is None or found["memory"] > 0


def test_a_process_that_fails_says_why():
    with pytest.raises(RuntimeError, match="(?s)could not be measured.*no-such-browser"):
        large.huge((1, 1, 8), "/no-such-browser")


def test_matplotlib_is_measured_from_half_of_the_map_to_single_weights():
    first, spent = large.imshow_steps(64)
    assert first > 0 and len(spent) == 5 and min(spent) > 0


def targets_met(rows):
    return [row[-1] for row in rows]


@pytest.mark.parametrize(
    ("changed", "met"),
    [
        ({}, ["met", "met", "met"]),
        ({"paint": 4200}, ["**not met**", "met", "met"]),
        ({"size": 5_100_000}, ["met", "**not met**", "met"]),
        ({"memory": 0.11}, ["met", "met", "**not met**"]),
        ({"memory": None}, ["met", "met", ""]),
    ],
)
def test_the_targets_of_the_largest_maps(changed, met):
    found = {"python": 900.0, "paint": 300.0, "size": 3e6, "asked": 5, "memory": 0.01} | changed
    text, targets = report_large.huge_table(found, large.HUGE, {"bertviz model view": 195e9})
    assert targets_met(targets) == met
    assert "| bertviz model view, extrapolated | – | – | 195 GB | – |" in text
    assert all("32 × 32 × 2,048" in row[0] for row in targets)


@pytest.mark.parametrize(
    ("first", "work", "kernel", "met"),
    [
        (900, 5, 40, ["met", "met", "met"]),
        (1100, 5, 40, ["**not met**", "met", "met"]),
        (900, 17, 20, ["met", "**not met**", "met"]),
        (900, 5, 46, ["met", "met", "**not met**"]),
    ],
)
def test_the_targets_of_a_long_head(first, work, kernel, met):
    there = [live.Step(work, 0, 25, 0)] * 3
    fresh = [*there, live.Step(work, kernel, 60, 4)]
    text, targets = report_large.one_table([first], fresh, there, 4000.0, [600.0])
    assert targets_met(targets) == met
    assert "with 4 tiles from the kernel" in text and f"({600 / work:.3g} ×)" in text


# ------------------------------------------------------------------------------------------ codes, capture, parts


def test_what_codes_lose_where_one_key_takes_nearly_all():
    torch.manual_seed(0)
    maps = codes.sink_heavy(2, 64)
    assert np.allclose(maps.sum(-1), 1, atol=1e-5)
    assert (0.9 <= maps.max(-1)).all() and (maps.max(-1) <= 0.9991).all()
    found = codes.losses(layers=2, heads=3, tokens=128)
    ours, wide, even = found.values()
    assert ours.zero == wide.zero == 0 and even.zero > 0.5
    assert wide.error < ours.error < 0.03 < even.error
    text, targets = report_large.codes_table(found)
    assert targets_met(targets) == ["met"] * 6
    assert text.count("HeadView") == 2
    _, worse = report_large.codes_table({"HeadView, one byte": codes.Loss(1e-6, 0.04, (0.98, 1.0))})
    assert targets_met(worse) == ["**not met**"] * 3


@pytest.mark.skipif(not hasattr(heads, "capture"), reason="mhalib.heads has no capture yet")
def test_capture_and_the_model_hand_out_the_same_maps():
    torch.manual_seed(0)
    calls = captured.contestants(12, num_hidden_layers=2, hidden_size=32, num_attention_heads=4, intermediate_size=64)
    with torch.no_grad():
        ours, theirs = calls[captured.OURS](), calls[captured.THEIRS]()
        assert calls[captured.PLAIN]().attentions is None
    assert len(ours) == len(theirs) == 2
    for one, other in zip(ours, theirs, strict=True):
        assert one.shape == (1, 4, 12, 12) and torch.allclose(one, other, atol=1e-6)


def test_what_capture_costs_is_told_in_times_of_the_pass_without():
    spent = {captured.PLAIN: 100.0, captured.OURS: 130.0, captured.THEIRS: 105.0}
    text, _ = report_large.capture_table(spent)
    assert "| inside of `capture` | 130 ms (1.3 ×) |" in text


def test_some_parts_alone_are_printed_and_nothing_is_written(monkeypatch, capsys):
    part = ("## One\n", [["fast", "1 s", "met"]])
    monkeypatch.setattr(run, "codes_part", lambda: part)
    monkeypatch.setattr(run.report, "layer_part", lambda: ("## Two\n", []))
    monkeypatch.setattr(sys, "argv", ["run", "--only", "layer", "codes"])
    run.main()
    printed = capsys.readouterr().out
    assert printed.index("## One") < printed.index("## Two") < printed.index("| fast | 1 s | met |")
    assert (ROOT / "BENCHMARKS.md").read_text(encoding="utf-8") == PAGE


def test_the_words_of_every_part_have_one_table_under_each_heading():
    """The picture and these tests read the page by its headings."""
    rows = "| | a |\n| --- | --- |\n| b | c |"
    parts = [part for name, part in vars(texts).items() if name.isupper()]
    filled = "\n".join(re.sub(r"\{(\w+)\}", lambda found: rows if found[1] in TABLE else "1", part) for part in parts)
    assert len(benchmarks.tables(filled)) == 11
    assert all(table == [["", "a"], ["b", "c"]] for table in benchmarks.tables(filled).values())


TABLE = "whole steps huge one codes capture layer pruning lengths course targets".split()
