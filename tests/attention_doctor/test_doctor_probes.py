"""The shape of an examination: probes are functions of what they are given, the first verdict that applies wins."""

import dataclasses
import inspect

import pytest
import torch

from mhalib import MultiHeadAttention
from mhalib.doctor import CATALOGUE, REMARKS, Report, adapt, examine
from mhalib.doctor.patient import Patient
from mhalib.doctor.probes import PROBES, examine_from_outside
from mhalib.doctor.setting import Setting, Stop, usual_setting
from mhalib.doctor.verdicts import VERDICTS, Signs, Trial, judge
from mhalib.masks import causal_mask
from tests.helpers.layers_healthy import GPT
from tests.helpers.layers_sick_masks import SICK


def patient(layer):
    return Patient(adapt(layer), layer, 32, 4, 8)


def test_a_probe_is_a_function_of_patient_setting_and_report():
    for probe in PROBES:
        assert list(inspect.signature(probe).parameters) == ["patient", "setting", "report"] and probe.__doc__


def test_a_setting_cannot_be_moved_underfoot():
    setting = usual_setting(patient(MultiHeadAttention(32, 4)))
    assert len({setting.T, setting.batch, 4, 8}) == 4  # no two sizes agree
    with pytest.raises(dataclasses.FrozenInstanceError):
        setting.T = 4


def test_what_is_found_out_is_handed_on():
    known = examine_from_outside(patient(GPT(32, 4)), Report())
    assert known.sight == "causal" and torch.equal(known.base, causal_mask(known.T))
    known = examine_from_outside(patient(MultiHeadAttention(32, 4)), Report())
    assert known.sight == "full" and known.base.all() and not known.places


# ----------------------------------------------------------------------------------------------------------- verdicts


def trial(kind, moved, mask=None):
    mask = causal_mask(5) if mask is None else mask
    return Trial(kind, mask, moved, torch.zeros(5, dtype=torch.bool))


def test_every_verdict_has_an_entry_and_the_last_always_applies():
    assert {verdict.code for verdict in VERDICTS} <= set(CATALOGUE) | set(REMARKS)
    assert VERDICTS[-1].when(None) and VERDICTS[-1].code in REMARKS


def test_the_first_verdict_that_applies_is_given():
    layer, full = MultiHeadAttention(32, 4), torch.ones(5, 5, dtype=torch.bool)
    setting, report = Setting(batch=3, T=5, base=full, sight="full"), Report()
    judge([trial("causal", causal_mask(5))], patient(layer), setting, report)
    assert report.ok and not report.remarks  # just what the mask allows
    with pytest.raises(Stop):
        judge([trial("causal", causal_mask(5).T)], patient(layer), setting, report)
    signs = Signs([trial("causal", causal_mask(5).T)], patient(layer), setting)
    applying = [verdict.code for verdict in VERDICTS if verdict.when(signs)]
    assert report.codes == applying[:1] and len(applying) > 1


def test_less_than_a_mask_allows_is_a_remark_only():
    base, report = torch.ones(5, 5, dtype=torch.bool), Report()
    moved = causal_mask(5)
    moved[4, 0] = False
    judge([trial("causal", moved)], patient(MultiHeadAttention(32, 4)), Setting(3, 5, base, "full"), report)
    assert report.ok and [remark.code for remark in report.remarks] == ["blind-spots"]


def test_a_new_probe_needs_nothing_but_its_place_in_the_list(monkeypatch):
    """As one who teaches the doctor a disease would: it is run in its turn, and what it finds is in the report."""

    def dislikes_mondays(patient, setting, report):
        report.find("wrong-scale", f"with {setting.T} tokens.")

    monkeypatch.setattr("mhalib.doctor.probes.PROBES", (*PROBES[:2], dislikes_mondays, *PROBES[2:]))
    assert examine(MultiHeadAttention(32, 4), 32, 4).codes == ["wrong-scale"]
    assert examine(SICK["DropoutLeftOn"].make(32, 4), 32, 4).codes == ["not-deterministic"]  # stopped before
