"""What `tools.notebooks.harden` makes of a lesson that holds with another seed and size, and of one that does not."""

from tools.notebooks.harden import VARIANTS, main

CLAIM = "from mhalib import claim\nSEED = 0\nT = 4  # or 5, 6\n"


def test_another_seed_or_size_may_be_told_and_is_no_failure(make_notebook):
    path = make_notebook(CLAIM + "claim.speaks_of(T=4)\nclaim(SEED + T == 4, 'it is this draw', T=T)")
    tries = [*VARIANTS["seeds"](path, 1), *VARIANTS["sizes"](path, 0)]
    assert [one.name for one in tries] == ["SEED = 100", "T = 5", "T = 6"]
    assert [one.failed for one in tries] == [None] * 3 and all(one.told == ("it is this draw",) for one in tries)


def test_a_lesson_that_stops_with_another_seed_is_a_failure(make_notebook, capsys):
    path = make_notebook("SEED = 0\nassert SEED == 0, 'only this one'")
    assert main([str(path), "--only", "seeds", "--seeds", "1"]) == 1
    said = capsys.readouterr().out
    assert "1 tries, 1 failed" in said and "only this one" in said
