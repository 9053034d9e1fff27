"""What must be true of every attention layer, whoever wrote it: one probe for each, in their order, seen from outside.

A probe is a function `probe(patient, setting, report)`. It calls the layer at the sizes of the setting, and adds to
the report what is wrong, worth knowing, or cannot be examined; if it learns something for those after it, it returns
a changed setting. It raises `Stop` where the later ones would fail as well and say nothing.
"""

from contextlib import suppress

from attention_doctor.patient import Crash, Patient, WrongLength
from attention_doctor.probes import (
    basics,
    cache,
    empty,
    heads,
    inputs,
    keys,
    masks,
    memory,
    places,
    sizes,
    sums,
    tables,
    tokens,
)
from attention_doctor.report import Report
from attention_doctor.setting import Setting, Stop, usual_setting

PROBES = (
    # May it be probed at all? And are samples kept apart?
    basics.runs,
    basics.repeats_itself,
    heads.says_how_many_heads,
    memory.forgets_tokens,
    sums.weights_sum_to_one,
    basics.separates_samples,
    sums.weights_sum_over_keys,
    # Without a mask: which tokens does a token see? What is seen by itself is what masks are compared with.
    tokens.sees_tokens,
    sums.hides_before_the_softmax,
    tokens.treats_equal_tokens_alike,
    keys.uses_every_key,
    # With masks: is each key hidden that should be, and no other, for the right sample?
    masks.takes_masks,
    memory.forgets_masks,
    masks.obeys_masks,
    masks.leaves_open_what_is_open,
    masks.reads_integers_alike,
    masks.gives_each_sample_its_mask,
    sizes.holds_where_sizes_agree,
    masks.treats_padded_as_cut,
    empty.survives_an_empty_row,
    sums.weights_of_each_query_sum_to_one,
    # Calls of another kind: with a cache, with inputs that differ.
    inputs.takes_each_input,
    inputs.leaves_tokens_alone,
    cache.caches_as_the_full_pass,
    # What is worth knowing of a layer in which nothing was found.
    tokens.knows_places,
    places.keeps_distances,
    tables.looks_biases_up,
    heads.counts_heads,
)


MASK_PROBES = (
    masks.takes_masks,
    memory.forgets_masks,
    masks.obeys_masks,
    masks.gives_each_sample_its_mask,
    masks.treats_padded_as_cut,
    empty.survives_an_empty_row,
)


def examine_masks(patient: Patient, setting: Setting, report: Report) -> None:
    """Run the probes of masks alone: for another mask of a layer of which the rest is known."""
    if not report.ok or setting.base is None:
        return
    own = Report()
    try:
        patient(patient.tokens(setting.batch, setting.T, 0.5))
        for probe in MASK_PROBES:
            probe(patient, setting, own)
    except Stop:
        pass
    except Crash as crash:
        own.find(crash.code, f"{patient.last}: {crash}.")
    if patient.written:
        what = "; ".join(f"{name}: {how}" for name, how in patient.written.items())
        own.find("mutates-input", f"after a call, {what}.")
    name = patient.attend.mask_name
    for finding in own.findings:
        report.find(finding.code, f"{name}: {finding.evidence}")
    for remark in own.remarks:
        report.remark(remark.code, f"{name}: {remark.text}")


def examine_from_outside(patient: Patient, report: Report) -> Setting:
    """Run all probes, as far as the layer lets them, and return what is known of it in the end."""
    setting = usual_setting(patient)
    try:
        for probe in PROBES:
            with suppress(WrongLength):  # what needs another number of tokens is not for this layer
                setting = probe(patient, setting, report) or setting
    except Stop:
        pass
    except Crash as crash:  # a layer that raises at the sizes and masks at which it ran before
        report.find(crash.code, f"{patient.last}: {crash}.")
    # Whatever stopped it: what a layer keeps from call to call may look like any other mistake.
    with suppress(Stop, Crash):
        memory.forgets_everything(patient, setting, report)
    if patient.written:
        what = "; ".join(f"{name}: {how}" for name, how in patient.written.items())
        report.find("mutates-input", f"after a call, {what}.")
    return setting
