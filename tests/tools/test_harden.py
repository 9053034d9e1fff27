"""What `tools.notebooks.harden` says of a lesson that holds with another seed and size, and of one that does not."""

import pytest

from tools.notebooks.harden import main

pytestmark = pytest.mark.slow  # four kernels for a tool of those who write lessons


def test_another_seed_or_size_may_be_told_and_is_no_failure_but_one_that_stops_is(make_notebook, capsys):
    claim = "from mhalib import claim\nSEED = 0\nT = 4  # or 5, 6\n"
    path = make_notebook(claim + "claim.speaks_of(T=4)\nclaim(SEED + T == 4, 'it is this draw', T=T)")
    assert main([str(path), "--seeds", "1"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "00: 3 tries, 0 failed, 3 told"
    assert [line.split(": told: it is this draw")[0].strip() for line in said[1:]] == ["SEED = 100", "T = 5", "T = 6"]
    path = make_notebook("SEED = 0\nassert SEED == 0, 'only this one'")
    assert main([str(path), "--only", "seeds", "--seeds", "1"]) == 1
    said = capsys.readouterr().out
    assert "1 tries, 1 failed" in said and "only this one" in said
