"""The sweep of a night, with everything about it made small: it is asked for once, stopped, and goes on."""

import pytest

from mhalib.experiments import night


@pytest.fixture
def small(monkeypatch):
    arms = {"1 head": {"num_heads": 1, "num_layers": 1}, "2 heads": {"num_heads": 2, "num_layers": 1}}
    sizes = {"TOKENS": 8, "D_MODEL": 8, "STEPS": 2, "BATCH": 4, "TOGETHER": 2, "ARMS": arms}
    plan = {"RATES": (1e-3, 1e-2), "SEEDS": range(3), "TUNING_SEEDS": range(100, 101)}
    for name, value in {**sizes, **plan}.items():
        monkeypatch.setattr(night, name, value)


def test_the_plan_is_as_large_as_it_is_said_to_be():
    runs = len(night.ARMS) * (len(night.RATES) * len(night.TUNING_SEEDS) + len(night.SEEDS))
    assert (runs, night.TOKENS, len(night.RATES), len(night.SEEDS)) == (525, 64, 5, 20)
    for layers in night.LAYERS:
        sizes = {sum(p.numel() for p in night.build(heads, layers).parameters()) for heads in night.HEADS}
        assert len(sizes) == 1  # same depth, same weights


def test_what_was_stopped_goes_on_and_what_is_done_is_not_done_again(small, tmp_path, monkeypatch, capsys):
    asked, train = [], night.fit_together

    def interrupted(models, *args, seeds, **options):
        asked.append((models[0].layers[0].num_heads, *seeds))
        if len(asked) == 6:
            raise KeyboardInterrupt
        return train(models, *args, seeds=seeds, **options)

    monkeypatch.setattr(night, "fit_together", interrupted)
    command = [str(tmp_path), "--workers", "1"]
    with pytest.raises(KeyboardInterrupt):
        night.main(command)
    assert asked == [(1, 100), (1, 100), (2, 100), (2, 100), (1, 0, 1), (1, 2)]  # two rates each, then the seeds
    assert len(list(tmp_path.glob("*.json"))) == 6
    night.main(command)
    assert asked[6:] == [(1, 2), (2, 0, 1), (2, 2)]
    printed = capsys.readouterr().out
    assert "1 head" in printed and "2 heads" in printed and "3 runs" not in printed
    night.main(command)
    assert len(asked) == 9 and capsys.readouterr().out == printed


def test_the_estimate_counts_every_run_and_every_step(small, monkeypatch, capsys):
    clock = iter(range(100))
    monkeypatch.setattr(night.time, "process_time", lambda: float(next(clock)))
    monkeypatch.setattr(night, "run", lambda *args, **settings: [])
    # A call takes 1 s by this clock, whatever its steps: so a step costs nothing, and a run 1 s / TOGETHER.
    assert night.estimate() == pytest.approx(2 * (2 + 3) * 0.5 / 3600)
    night.main(["--estimate"])
    assert capsys.readouterr().out.startswith("10 runs: 0.0 hours of one core")


def test_a_folder_must_be_named(small, capsys):
    with pytest.raises(SystemExit):
        night.main([])
    assert "name a folder for the finished runs" in capsys.readouterr().err
