"""`make bench`: what it must not delete, and that README, BENCHMARKS.md and the picture say the same."""

from pathlib import Path

import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from tools.bench import peers, report
from tools.pictures import benchmarks

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "BENCHMARKS.md").read_text(encoding="utf-8")
TABLES = benchmarks.tables(PAGE)
WHOLE = next(rows for title, rows in TABLES.items() if "layers" in title)
STEPS = TABLES["A step of a slider"]


def test_a_folder_with_other_files_is_left_alone(tmp_path):
    (tmp_path / "letters.txt").write_text("mine")
    with pytest.raises(SystemExit, match="would be lost"):
        peers.prepare(tmp_path)
    assert (tmp_path / "letters.txt").read_text() == "mine"


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
