"""A round of strangers' answers: the tasks that are handed out, what the checks say, and the count."""

import json

import pytest

from mhacourse import check
from tools.checks.round import main, table, tasks

WRONG_SPLIT = "def f(x, num_heads):\n    B, T, d = x.shape\n    return x.view(B, num_heads, T, d // num_heads)"
ANSWERS = [
    {"exercise": "split_heads", "source": WRONG_SPLIT, "what": "no transpose", "right": False},
    {"exercise": "split_heads", "source": "mhalib.split_heads", "what": "the library's", "right": True},
    {"exercise": "first_shapes", "source": "((2, 4, 12, 16), (2, 4, 12, 12))", "what": "", "right": True},
    {"exercise": "triage.test", "source": "lambda layer: True", "what": "accepts everything", "right": False},
]


def test_every_exercise_is_among_the_tasks_with_its_stub():
    handed_out = tasks()
    assert all(f"## {exercise.name}\n" in handed_out for exercise in check)
    assert "## triage.mend\n" in handed_out and "class TriageAttention" in handed_out
    assert "**1 · Shapes** ★" in handed_out and "shapes = ..." in handed_out


def test_answers_get_what_a_learner_would_read_and_are_counted_with_their_verdicts(tmp_path, capsys):
    file = tmp_path / "answers.jsonl"
    file.write_text("\n".join(json.dumps(row) for row in ANSWERS), encoding="utf-8")
    main(["notes", str(file)])
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["lesson"] for row in rows] == ["03", "03", "00", "set"]
    assert rows[0]["code"].startswith("wrong: ") and rows[0]["said"].startswith("split_heads: not yet. ")
    assert rows[1]["code"] == rows[2]["code"] == "right" != rows[3]["code"]
    with pytest.raises(ValueError, match=r"split_heads \(no transpose\) needs a verdict: one of"):
        table(rows)
    counted = table([row | {"verdict": "fitting"} for row in rows])
    assert "| 03 | 1 | 1 (100%) | 0 (0%) | 0 (0%) | 0 (0%) |" in counted
    assert "| all | 2 | 2 (100%) |" in counted and "2 taken, 0 refused" in counted
