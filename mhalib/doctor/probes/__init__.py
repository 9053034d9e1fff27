"""What must be true of every attention layer, whoever wrote it: one probe for each, in their order, seen from outside.

A probe is a function `probe(patient, setting, report)`. It calls the layer at the sizes of the setting, and adds to
the report what is wrong, worth knowing, or cannot be examined; if it learns something for those after it, it returns
a changed setting. It raises `Stop` where the later ones would fail as well and say nothing.
"""

from mhalib.doctor.patient import Crash, Patient
from mhalib.doctor.probes import basics, masks, sizes, tokens
from mhalib.doctor.report import Report
from mhalib.doctor.setting import Setting, Stop, usual_setting

PROBES = (
    # May it be probed at all? And are samples kept apart?
    basics.runs,
    basics.repeats_itself,
    basics.weights_sum_to_one,
    basics.separates_samples,
    # Without a mask: which tokens does a token see? What is seen by itself is what masks are compared with.
    tokens.sees_tokens,
    tokens.treats_equal_tokens_alike,
    # With masks: is each key hidden that should be, and no other, for the right sample?
    masks.takes_masks,
    masks.obeys_masks,
    masks.gives_each_sample_its_mask,
    sizes.holds_where_sizes_agree,
    masks.treats_padded_as_cut,
    masks.survives_an_empty_row,
    # What is worth knowing of a layer in which nothing was found.
    tokens.knows_places,
)


def examine_from_outside(patient: Patient, report: Report) -> Setting:
    """Run all probes, as far as the layer lets them, and return what is known of it in the end."""
    setting = usual_setting(patient)
    try:
        for probe in PROBES:
            setting = probe(patient, setting, report) or setting
    except Stop:
        pass
    except Crash as crash:  # a layer that raises at the sizes and masks at which it ran before
        report.find(crash.code, f"{patient.last}: {crash}.")
    if patient.written:
        what = "; ".join(f"{name}: {how}" for name, how in patient.written.items())
        report.find("mutates-input", f"after a call, {what}.")
    return setting
