"""The exercises of lesson 14: bug or not, softmax1 of large scores, scores with QK-norm, a fair column."""

import torch
import torch.nn.functional as F

from mhacourse.exercise import Change, Choice, Exercise, Wrong
from mhacourse.inputs import draw

bug_or_not = Choice(
    task="Which of the six observations point to a bug? Give the letters of all that do.",
    answer="DE",
    options={
        "A": "this is a sink, where heads with nothing to say leave their weight. It does no harm.",
        "B": "a task about a bag of tokens needs no lookup, so a flat map solves it.",
        "C": "the difference gets smaller in a finer precision, so it is rounding.",
        "D": (
            "a query's output must not depend on which other queries there are. The softmax runs over the wrong axis, "
            "or the queries are mixed."
        ),
        "E": (
            "these heads started from equal weights and could never drift apart. Similar maps would be another matter."
        ),
        "F": "a mean of equal values is that same value, as long as the weights in each row sum to 1.",
    },
    hints=(
        "Two of them break a rule; the others are things that a healthy layer does.",
        "What must not matter to a query? And what must two heads never have in common?",
    ),
    see="Four tests",
)


def quiet_softmax_solution(scores):
    zeros = torch.zeros_like(scores[..., :1])  # one more score for each query, (..., Tq, 1)
    return torch.cat([zeros, scores], -1).softmax(-1)[..., 1:]  # (..., Tq, 1 + Tk) -> (..., Tq, Tk)


def _one_after_the_shift(scores):
    e = (scores - scores.amax(-1, keepdim=True)).exp()
    return e / (1 + e.sum(-1, keepdim=True))


def _quiet_cases():
    by_hand = torch.tensor([[0.0, 0.0, 0.0], [-9.0, 0.0, 2.0]])  # a quarter each, and a row with different keys
    large = 1000 * draw(3, 2, 4, 3)
    large += 100 * large.sign()  # wherever somebody cuts large scores off, all of these are cut
    large[0, 0] = torch.tensor([1000.0, 999.0, -1000.0])
    large[1, 3] = -1000.0  # nothing to say
    return [(by_hand,), (large,), (3 * draw(1, 2, 3, 4, 5),)]


quiet_softmax = Exercise(
    task=(
        "Write quiet_softmax(scores). It returns weights over the last axis: e^s divided by 1 plus the sum of all e^s "
        "in the row. Scores may be as large as 1,000. Do it without F.pad."
    ),
    answer=quiet_softmax_solution,
    cases=_quiet_cases,
    axes=("query", "key"),
    hints=(
        "The 1 is e to the power of 0, so think of it as one more key, whose score is 0.",
        "Put a column of zeros before the scores, torch.cat([torch.zeros_like(scores[..., :1]), scores], -1), and "
        "take the ordinary softmax. Or subtract the largest of 0 and the row's scores from all of them, including "
        "the 0, before you take powers.",
        "If you added a column, drop its weight afterwards: [..., 1:]. If not, the 1 becomes e^-largest.",
    ),
    wrong={
        "The largest score alone": Wrong(
            lambda s: s.softmax(-1) * s.amax(-1, keepdim=True).sigmoid(),
            "you multiply the plain softmax by the sigmoid of the largest score.",
            "All scores count, not only the largest: the sigmoid of logsumexp(-1) would take them all in.",
        ),
        "The column is left in": Wrong(
            lambda s: F.pad(s, (0, 1)).softmax(-1),
            "the score of 0 that you added still has a weight in the result.",
            "It counts in the sum but is not a key: drop its column again.",
            also=(lambda s: F.pad(s, (1, 0)).softmax(-1),),
        ),
        "Overflow": Wrong(
            lambda s: s.exp() / (1 + s.exp().sum(-1, keepdim=True)),
            "you compute the formula literally, but e^1000 does not fit into a float, not even a double.",
            "Subtract the largest score first, or let a padded softmax do it.",
            also=(
                lambda s: (s.exp() / (1 + s.exp().sum(-1, keepdim=True))).nan_to_num(),
                lambda s: s.double().exp() / (1 + s.double().exp().sum(-1, keepdim=True)),
                lambda s: (s.exp() / (1 + s.exp().sum(-1, keepdim=True))).nan_to_num(1.0),
            ),
        ),
        "Large scores are cut off": Wrong(
            lambda s: s.clamp(max=80).exp() / (1 + s.clamp(max=80).exp().sum(-1, keepdim=True)),
            "you set scores above a limit to that limit, so the largest ones become equal.",
            "Subtract the largest score of a row instead: the differences stay the same, and so do the weights.",
            also=(lambda s: s.clamp(-80, 80).exp() / (1 + s.clamp(-80, 80).exp().sum(-1, keepdim=True)),),
        ),
        "A score of 1": Wrong(
            lambda s: F.pad(s, (1, 0), value=1.0).softmax(-1)[..., 1:],
            "your additional score is 1, which adds e to the sum.",
            "The 1 is e to the power of 0, so that score must be 0.",
        ),
        "A 1 after the shift": Wrong(
            _one_after_the_shift,
            "you subtract the largest score, but the 1 stays a 1.",
            "The 1 stands for a score of 0, which must be shifted as well: it becomes e^-largest.",
        ),
        "One largest score for all rows": Wrong(
            lambda s: (
                (s - s.amax().clamp(min=0)).exp()
                / ((-s.amax().clamp(min=0)).exp() + (s - s.amax().clamp(min=0)).exp().sum(-1, keepdim=True))
            ),
            "you subtract the largest score of the whole tensor, so in a row of smaller scores, all powers of e "
            "become 0.",
            "Each row has its own largest score: amax(-1, keepdim=True), or 0 where that is larger.",
            also=(lambda s: (s - s.amax()).exp() / ((-s.amax()).exp() + (s - s.amax()).exp().sum(-1, keepdim=True)),),
        ),
        "The wrong column is left out": Wrong(
            lambda s: F.pad(s, (1, 0)).softmax(-1)[..., :-1],
            "you put the zeros at one end, and leave out the column at the other.",
            "Leave out the column that you put in: [..., 1:] if it comes first, [..., :-1] if it comes last.",
            also=(lambda s: F.pad(s, (0, 1)).softmax(-1)[..., 1:],),
        ),
    },
    see="A zero in the denominator",
)


def normed_scores_solution(q, k, gain):
    return gain * F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT  # -> (B, num_heads, Tq, Tk)


def _normed_scores_by_steps(q, k, gain):
    q_length = (q * q).sum(-1, keepdim=True).sqrt()  # (B, num_heads, Tq, 1)
    k_length = (k * k).sum(-1, keepdim=True).sqrt()
    q = q / q_length
    k = k / k_length
    cosines = q @ k.transpose(-2, -1)  # -> (B, num_heads, Tq, Tk)
    return gain * cosines


def _normed_over(*axes):
    return lambda q, k, gain: gain * (q / q.norm(dim=axes, keepdim=True)) @ (k / k.norm(dim=axes, keepdim=True)).mT


def _normed_cases():
    by_hand = torch.tensor([[[[3.0, 4], [0, 2], [1, 0]]]]), torch.tensor([[[[1.0, 0], [6, 8]]]])  # 3 queries, 2 keys
    return [(*by_hand, 10.0), (2 * draw(1, 2, 3, 4, 6), 3 * draw(2, 2, 3, 5, 6), 2.5)]


normed_scores = Exercise(
    task=(
        "Write normed_scores(q, k, gain). q is (B, num_heads, Tq, head_dim), and k is (B, num_heads, Tk, head_dim). "
        "Scale each query and each key of each head to length 1. Return their dot products times gain, (B, "
        "num_heads, Tq, Tk)."
    ),
    answer=normed_scores_solution,
    plain=(_normed_scores_by_steps,),
    cases=_normed_cases,
    axes=("sample", "head", "query", "key"),
    hints=(
        "The length of a vector is the root of its sum of squares over the last axis, head_dim.",
        "F.normalize(q, dim=-1) divides by it. Do the same for the keys.",
        "The products are cosines, from -1 to 1. Multiply by gain last, and leave out the root of head_dim.",
    ),
    wrong={
        "The root as well": Wrong(
            Change("gain * cosines", "gain * cosines / q.shape[-1] ** 0.5"),
            "you divide the scores by the root of head_dim as well.",
            "The root is for products that grow with head_dim. Cosines do not grow, so gain takes its place.",
        ),
        "Over the heads": Wrong(
            lambda q, k, gain: gain * F.normalize(q) @ F.normalize(k).mT,
            "you normalise over the heads, axis 1, as F.normalize does by default, instead of over the features.",
            "The vector of a query in one head runs along the last axis: F.normalize(q, dim=-1).",
            also=(_normed_over(1),),
        ),
        "Divided by the square of the length": Wrong(
            Change(".sqrt()", ""),
            "you divide by the sum of the squares, so a vector of length L ends up with length 1 / L.",
            "The length is the root of that sum.",
        ),
        "One of the two": Wrong(
            Change("    k = k / k_length\n", ""),
            "you scale the queries to length 1, but not the keys.",
            "A cosine needs both at length 1.",
            also=(
                Wrong(
                    Change("    q = q / q_length\n", ""),
                    "you scale the keys to length 1, but not the queries.",
                    "A cosine needs both at length 1.",
                ),
            ),
        ),
        "LayerNorm or RMSNorm": Wrong(
            lambda q, k, gain: gain * F.rms_norm(q, q.shape[-1:]) @ F.rms_norm(k, k.shape[-1:]).mT,
            "you make the mean of the squares 1, so each vector has the length √head_dim.",
            "Many models do that. The task asks for length 1: divide by the root of the sum of squares, "
            "F.normalize(q, dim=-1).",
            also=(
                Wrong(
                    lambda q, k, gain: gain * F.layer_norm(q, q.shape[-1:]) @ F.layer_norm(k, k.shape[-1:]).mT,
                    "a LayerNorm subtracts the mean of the features, and leaves each vector with the length √head_dim.",
                    "Some models do that. The task asks for length 1 and the same direction: F.normalize(q, dim=-1).",
                ),
            ),
        ),
        "The scores were normalised": Wrong(
            lambda q, k, gain: gain * F.normalize(q @ k.mT, dim=-1),
            "you scale the rows of scores to length 1.",
            "Normalise q and k instead, before the product.",
        ),
    },
    see="Scores that grow",
)


def mean_share_solution(weights, mask):
    return weights.sum((0, 2)) / mask.sum((0, 1)).clamp(min=1)  # (num_heads, Tk) / (Tk,)


def _mean_share_by_steps(weights, mask):
    B, num_heads, Tq, Tk = weights.shape
    got = weights.sum(0)  # -> (num_heads, Tq, Tk)
    got = got.sum(1)  # -> (num_heads, Tk)
    seen = mask.sum(0)  # -> (Tq, Tk)
    seen = seen.sum(0)  # -> (Tk,)
    seen = seen.clamp(min=1)
    return got / seen


def _per_sample(weights, mask):
    return (weights.sum(2) / mask.sum(1).clamp(min=1)[:, None]).mean(0)


def _share_cases():
    by_hand = torch.tensor([[[[1.0, 0, 0], [0.5, 0.5, 0], [0.2, 0.3, 0.5]]]])
    causal = torch.ones(1, 3, 3, dtype=torch.bool).tril()
    mask = draw(5, 2, 4, 5) > -0.4
    mask[..., 0] = True
    mask[..., 3] = False  # nobody sees this key
    mask[..., 4] = torch.arange(8).view(2, 4) == 1  # and this one a single query of one sample
    mask[0, :2, 1] = False  # not as many in both samples
    weights = (2 * draw(6, 2, 3, 4, 5)).masked_fill(~mask[:, None], -torch.inf).softmax(-1)
    unused = torch.tensor([[[[1.0, 0, 0], [1, 0, 0], [0, 0.5, 0.5]]]])  # a query may see a key and give it nothing
    return [(by_hand, causal), (unused, causal), (weights, mask)]


mean_share = Exercise(
    task=(
        "Write mean_share(weights, mask). weights is (B, num_heads, Tq, Tk), mask is (B, Tq, Tk), and where mask is "
        "False, weights is 0. For each head and key, return the mean weight over all queries that may see that key: "
        "(num_heads, Tk). Pool the queries of all samples, so that each query counts once. A key that no query may "
        "see gets 0."
    ),
    answer=mean_share_solution,
    plain=(_mean_share_by_steps,),
    cases=_share_cases,
    axes=("head", "key"),
    hints=(
        "A mean is a sum divided by a count. The sum runs over samples and queries: which axes are these?",
        "How many queries may see a key? Sum the mask over the same axes; it has no head axis.",
        "A key that no query sees gives 0 / 0: clamp the count to at least 1.",
    ),
    wrong={
        "All queries count": Wrong(
            lambda w, m: w.mean((0, 2)),
            "you average over all queries, even those that may not see the key.",
            "That makes the first token of a causal map look like a sink. Divide by the number of queries that may "
            "see the key.",
            also=(lambda w, m: w.sum((0, 2)) / w.sum((0, 2, 3))[:, None],),
        ),
        "Queries that gave it something": Wrong(
            lambda w, m: w.sum((0, 2)) / (w > 0).sum((0, 2)).clamp(min=1),
            "you count the queries with a weight above 0.",
            "A query may see a key and give it nothing, which counts as 0 in the mean. The mask says who may see it.",
        ),
        "Keys counted, not queries": Wrong(
            lambda w, m: (w / m.sum(-1, keepdim=True).clamp(min=1)[:, None]).sum((0, 2)),
            "you count how many keys each query sees.",
            "Count how many queries see each key: sum the mask over samples and queries, axes 0 and 1.",
            also=(lambda w, m: (w / m.sum(-1, keepdim=True).clamp(min=1)[:, None]).sum(2).mean(0),),
        ),
        "One query too many": Wrong(
            Change("seen.clamp(min=1)", "seen + 1"),
            "you add 1 to each count, so all means are too small.",
            "Only a count of 0 needs help: clamp(min=1).",
        ),
        "Heads mixed by a reshape": Wrong(
            lambda w, m: w.reshape(w.shape[1], -1, w.shape[3]).sum(1) / m.sum((0, 1)).clamp(min=1),
            "you join samples and queries with a reshape, but the heads are between them, so heads and samples mix.",
            "First bring the heads to the front, transpose(0, 1), or sum over axes 0 and 2.",
            also=(
                lambda w, m: (w.reshape(w.shape[1], -1, w.shape[3]) * m.flatten(0, 1)).sum(1) / m.sum((0, 1)).clamp(1),
            ),
        ),
        "NaN for a hidden key": Wrong(
            Change("seen = seen.clamp(min=1)", "seen = seen + 0"),
            "a key that no query may see gets 0 / 0.",
            "Clamp the count to at least 1: the sum is already 0.",
        ),
        "A mean of the samples' means": Wrong(
            _per_sample,
            "you take a mean for each sample, and then average these means.",
            "A query then counts for more in a sample where few queries may see the key. Sum over samples and queries, "
            "then divide once.",
            also=(lambda w, m: w.masked_fill(~m[:, None], torch.nan).nanmean(2).nanmean(0).nan_to_num(),),
        ),
        "Over the keys": Wrong(
            lambda w, m: w.sum((0, 3)) / m.sum((0, 2)).clamp(min=1),
            "you sum over the keys, so this says how much each query gives.",
            "The task asks what a key gets: sum over the queries, the second-to-last axis.",
        ),
    },
    see="A first column that is no sink",
)
