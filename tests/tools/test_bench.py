"""`make bench`: what it must not delete, what it measures, small, and that the README says what was measured."""

import re
from pathlib import Path

import pytest
import torch

from mhalib.widgets import HeadView
from tools.bench import layer, live, page, peers, widgets

ROOT = Path(__file__).resolve().parents[2]


def test_a_folder_with_other_files_is_left_alone(tmp_path):
    (tmp_path / "letters.txt").write_text("mine")
    with pytest.raises(SystemExit, match="would be lost"):
        peers.prepare(tmp_path)
    assert (tmp_path / "letters.txt").read_text(encoding="utf-8") == "mine"


def test_the_readme_repeats_what_was_measured():
    """Its table holds how many times ours each other way takes, of the first section of BENCHMARKS.md."""
    measured = (ROOT / "BENCHMARKS.md").read_text(encoding="utf-8").split("\n## ")[1]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (bertviz model view|bertviz head view|CircuitsVis) \| (.+) \|$", measured, re.MULTILINE)
    assert len(rows) == 3
    for name, cells in rows:
        factors = [f"{float(factor):.0f} ×" for factor in re.findall(r"\((\S+) ×\)", cells)]
        assert f"| {name} | {' | '.join(factors)} |" in readme


def test_a_goal_that_is_missed_is_told():
    part = page.Part("A part", [["", "time"], ["ours", "1 s"]], "A note.")
    part.goal("fast", 2, 1, "2 s")
    part.goal("small", 1, 2, "1 MB")
    said = page.page([part], "Machine.")
    assert "| fast | 2 s | **not met** |" in said and "| small | 1 MB | met |" in said
    assert "## A part" in said and "| ours | 1 s |" in said


@pytest.mark.slow
def test_capture_and_the_model_hand_out_the_same_maps():
    small = {"num_hidden_layers": 2, "hidden_size": 24, "num_attention_heads": 2, "intermediate_size": 32}
    calls = layer.contestants(8, **small)
    with torch.no_grad():
        ours, theirs = calls[layer.OURS](), calls[layer.THEIRS]()
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(ours, theirs, strict=True))


@pytest.mark.slow
def test_a_page_with_a_kernel_is_looked_at_and_moved_in(browser, monkeypatch):
    monkeypatch.setattr(live, "PLACES", live.PLACES[:1])
    monkeypatch.setattr(live, "PANS", 1)
    maps = torch.randn(2, 2, 1100, 1100).softmax(-1).half()
    with live.look(lambda: HeadView(maps), widgets.Pages(browser, {})) as seen:
        assert seen.total > seen.paint > 0 < seen.python and seen.size > seen.kernel.sent > 0
        fresh, there = live.moves(seen), live.moves(seen)
    assert all(step.shown >= step.work > 0 for step in fresh + there)
    asking = [step for step in fresh if step.asked]
    assert asking and all(step.kernel > 0 for step in asking) and not any(step.asked for step in there)
