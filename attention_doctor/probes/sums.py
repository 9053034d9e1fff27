"""The sums of weights: those of a query over its keys are 1, and what else they may be by mistake.

Nobody sees the weights from outside. Equal tokens show their sums, since the mean of equal values is that value; and
where a token alone is answered by its value, the sums over the queries can be seen too.
"""

import torch
from torch import Tensor

from attention_doctor.counting import Reader, count, readers
from attention_doctor.influence import amount
from attention_doctor.patient import Crash, Patient
from attention_doctor.report import Report
from attention_doctor.setting import Setting, Stop

# Seeds and scales of tokens: large ones where maps are flat, small ones where they are sharp.
DRAWS = ((40, 1.0), (41, 0.3), (42, 3.0), (43, 0.1), (44, 0.03), (45, 1.0), (46, 0.01), (47, 0.3), (48, 0.003))


def weights_sum_to_one(patient: Patient, setting: Setting, report: Report) -> None:
    """Equal tokens, more and more of them: a weighted mean stays, a sum grows.

    With a softmax over heads or samples each weight has its size whatever the number of keys. An attention sink makes
    the sum of the weights grow too, but towards 1; so only growth by the same step for each token counts.
    """
    if patient.attend.lengths:
        return
    tokens = [patient.tokens(1, 1, 0.5), *(patient.noise(1, 1, seed) for seed in (60, 61, 62))]
    for token in tokens:  # weights that are cut off below 0 may be 0 for one of them
        # Small tokens: a sink that weighs much beside large scores does not beside small ones.
        grown = [_growth(scale * token, patient, setting, report) for scale in (1.0, 0.1)]
        if not all(grown) or _held_by_a_sink(token, patient):
            continue
        step, longest = grown[-1]
        code, how = _without_softmax_over_keys(patient)
        report.find(
            code,
            f"1, 2, 3, 4, … {longest} equal tokens: the last output grows by the same step each time ({step}), "
            "although the mean of equal values is that value. The weights of a query do not sum to 1 over its keys"
            f"{how}.",
        )
        raise Stop


def _held_by_a_sink(token: Tensor, patient: Patient) -> bool:
    """Whether one token gets next to nothing of what large ones get: a strong sink takes all the rest.

    Beside it 256 tokens are few, and the sum of their weights still grows by equal steps.
    """
    zero = patient(0 * token)
    step = (patient(token.expand(1, 2, -1))[:, 1:] - patient(token)).abs().max()
    others = torch.cat([token, patient.noise(15, 1, 63)])  # of one token alone the score may be far below the sink's
    large = [(patient(factor * others) - zero).abs().max() / factor for factor in (3.0, 30.0)]
    return bool(step < 4e-5 * max(large))


def _growth(token: Tensor, patient: Patient, setting: Setting, report: Report) -> tuple[str, int] | None:
    """Return by how much the last output grows with each of more and more equal tokens, and the most of them.

    None where it does not grow, or not by equal steps.
    """
    outs = {}
    for T in (1, 2, 3, 4, 64, 256):
        if T == 64 and not _straight(outs):
            return None
        try:
            outs[T] = patient(token.expand(1, T, -1))[0, -1]
        except Crash as crash:
            if T > setting.T:
                break  # a longest T
            report.find(crash.code, f"one sample, x {tuple(token.expand(1, T, -1).shape)}: {crash}.")
            raise Stop from None
    return (amount(outs[2] - outs[1]), max(outs)) if len(outs) > 3 and _straight(outs) else None


def _straight(outs: dict[int, Tensor]) -> bool:
    """Whether the outputs, by the number of tokens, grow by equal steps."""
    step, longest = outs[2] - outs[1], max(outs)
    grown = step.abs().max()
    straight = max((outs[T] - outs[1] - (T - 1) * step).abs().max() / (T - 1) for T in (3, 4, longest))
    return bool(256 * grown > 0.1 * outs[1].abs().max() and straight < 1e-3 * grown)


def _without_softmax_over_keys(patient: Patient) -> tuple[str, str]:
    """Tell a softmax over another axis from none at all, in a layer whose outputs grow with every equal token.

    A token alone has the weight 1 where the softmax goes over samples. Where it goes over heads, the weights that the
    heads give to a key sum to 1: what the key adds, over many queries, stays in a plane beside the origin.
    """
    if is_affine_for_one_token(patient):
        return "softmax-axis", "; a token alone has the weight 1"
    for reader in readers(patient):
        try:
            ranks = [_ranks(reader, scale) for scale in (1.0, 0.3, 0.1)]
        except (Crash, RuntimeError):
            continue
        if all(centred == rank - 1 for rank, centred in ranks):
            return "softmax-axis", "; those of the heads sum to 1 for each key"
        break
    return "no-softmax", ", nor over anything else: a single token, too, is weighted by its score"


def _ranks(reader: Reader, scale: float) -> tuple[int, int]:
    """Return the rank of what one token adds beside many others, as it is and about its mean."""
    c = scale * reader.draw(2 * reader.d_model + 20, reader.d_model)
    x = scale * reader.draw(reader.d_model).expand_as(c)
    rows = reader.added(c, x)
    sizes = torch.linalg.svdvals(torch.stack([rows, rows - rows.mean(0)]))  # (2, d_out)
    return tuple((sizes > 1e2 * reader.eps**0.75 * sizes[:1, :1]).sum(-1).tolist())


def is_affine_for_one_token(patient: Patient) -> bool:
    """Whether a token alone is answered in proportion, as where its weight is 1 and nothing bends the output."""
    if not patient.takes(1):
        return False
    token = patient.tokens(1, 4, 0.3)[:, :1]
    before, none, once, twice = (patient(scale * token)[0, 0] for scale in (-1.0, 0.0, 1.0, 2.0))
    bend = max((twice - 2 * once + none).abs().max(), (once - 2 * none + before).abs().max())  # a ReLU bends at 0
    return not bend > 1e-3 * once.abs().max()


def weights_sum_over_keys(patient: Patient, setting: Setting, report: Report) -> None:
    """Add all outputs up: a softmax over the queries spreads each value over them, and nothing gets lost.

    Then the outputs sum to what the tokens give alone, one by one, whatever the tokens, the maps and the positions in
    the scores. With a softmax over the keys no such thing holds, apart from maps that are flat, or that shuffle.
    """
    if setting.batch == 1 or not is_affine_for_one_token(patient):
        return
    T, decided, off, apart = setting.T, 0, 0.0, 0.0
    for seed, scale in DRAWS:
        x = scale * (patient.noise(1, 1, seed) + 0.5 * patient.noise(1, T, seed + 100))
        try:
            out, alone = patient(x)[0], patient(x.transpose(0, 1))[:, 0]  # (T, d_out)
        except Crash:
            return
        size = float(out.abs().max())
        apart = min(float((out - out.mean(0)).abs().max()), float((out - alone).abs().max()))
        off = float((out.sum(0) - alone.sum(0)).abs().max())
        if apart > 100 * patient.tolerance * size:
            if not off <= 0.02 * apart:
                return
            decided += 1
            if decided == 4:
                break
    if decided < 3:
        return
    counted = count(patient, patient.num_heads)[0].counted
    if counted is not None and counted <= patient.num_heads:  # doubly stochastic: the rows sum to 1 as well
        return
    report.find(
        "softmax-axis",
        f"{T} tokens without a mask: the outputs sum to what the tokens give alone, one by one (off by {off:.1g}; "
        f"single outputs lie {apart:.1g} apart). So the weights of a key sum to 1 over the queries.",
    )
    raise Stop


def hides_before_the_softmax(patient: Patient, setting: Setting, report: Report) -> None:
    """Equal tokens whose outputs grow in equal steps up to what a token alone gives: weights were cut off afterwards.

    In a causal layer that sets weights to 0 after the softmax, query t of T keeps (t + 1) / T of them.
    """
    if setting.sight != "full":
        return
    token, steps = patient.tokens(1, 1, 0.5), []
    try:
        alone = patient(token)[0]  # (1, d_out)
        for T in (setting.T, 2 * setting.T):
            out = patient(token.expand(1, T, -1))[0]
            step = out[1:] - out[:-1]
            steps.append(step.mean(0))
            grown = steps[-1].abs().max()
            if not (step - steps[-1]).abs().max() <= 1e-2 * grown or patient.differ(out[-1:], alone):
                return
            if not T * grown > 0.02 * out.abs().max():
                return
    except Crash:
        return
    if (steps[0] - 2 * steps[1]).abs().max() <= 1e-2 * steps[0].abs().max():
        report.find(
            "future-leak",
            f"{setting.T} equal tokens: output t is (t + 1) / {setting.T} of what a token alone gives, so the weights "
            "of later tokens were set to 0 after the softmax, and all tokens still share in its sum.",
        )
        raise Stop


def weights_of_each_query_sum_to_one(patient: Patient, setting: Setting, report: Report) -> None:
    """Equal tokens whose outputs are one vector times different numbers: the sums of the weights differ.

    Positions would add something else at each place, whatever the tokens; and where a token alone is answered in
    proportion, nothing but the tokens takes part in the softmax.
    """
    if not report.ok or not setting.places or not is_affine_for_one_token(patient):
        return
    lines = []
    for T in dict.fromkeys((setting.T, setting.T + 1)):
        for seed in (60, 61):
            token = patient.noise(1, 1, seed)
            try:
                out, alone = patient(token.expand(1, T, -1))[0], patient(token)[0, 0]
            except Crash:
                return
            off = out - alone
            if not patient.differ(out, alone.expand_as(out)):
                continue
            _, sizes, directions = torch.linalg.svd(off.double(), full_matrices=False)
            if not sizes[1] <= 1e-3 * sizes[0]:
                return
            lines.append((seed, directions[0]))
    first, second = ([line for seed, line in lines if seed == wanted] for wanted in (60, 61))
    if not first or not second or (first[0] @ second[0]).abs() > 0.9:
        return
    report.find(
        "no-softmax",
        f"{setting.T} equal tokens: their outputs are one vector, the more or less of it; with another token it is "
        "another vector. So the weights of some queries do not sum to 1.",
    )
    raise Stop
