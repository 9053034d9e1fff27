"""The exercises of lesson 11: gates, means, the slope of a gate, cutting heads out, and what an experiment shows."""

from itertools import product

import torch

from mhacourse.exercise import Change, Choice, Exercise, Wrong
from mhacourse.inputs import draw, head_labels, labels
from mhacourse.remarks import Grows, with_a_gradient

alone_harmless = Choice(
    task=(
        "A layer has four heads. Switching off any one of them costs less than 1 point of accuracy. Which of the "
        "five statements follow from that? Give the letters of all that do."
    ),
    answer="BE",
    options={
        "A": "that can be true, but often it is not: each head may lean on the other three.",
        "B": "that is what was measured, provided that future questions are like these.",
        "C": "a head may do a lot and still cost nothing to switch off, because another head stands in for it.",
        "D": (
            "in lesson 11, the four heads of one layer attend to the very same tokens, and losing any one costs next "
            "to nothing."
        ),
        "E": (
            "the numbers hold for the full model. With a head gone you have a different model, and must measure again."
        ),
    },
    hints=(
        (
            "Five models were measured: the full one, and four with one head missing. Which statements are about "
            "other models?"
        ),
        "Each head may be useless, or it may have a stand-in. The experiment cannot tell the two apart.",
    ),
    see="All four at once",
)


def switch_heads_solution(merged, gates):
    heads = merged.unflatten(-1, (len(gates), -1))  # (B, T, h * hd) -> (B, T, h, hd)
    return (heads * gates[:, None]).flatten(-2)  # -> (B, T, h * hd)


def _switch_heads_by_steps(merged, gates):
    B, T, width = merged.shape
    num_heads = len(gates)
    head_dim = width // num_heads
    heads = merged.reshape(B, T, num_heads, head_dim)
    heads = heads * gates[:, None]
    return heads.reshape(B, T, width)


def _with_gates(change):
    return lambda merged, gates: switch_heads_solution(merged, change(gates))


def _switch_cases():
    return [
        (labels(3, 6), torch.tensor([1.0, 0.0, 0.5])),
        (labels(4, 10, B=3), torch.tensor([0.0, 1.0, 0.5, 0.0, 0.25])),
        (draw(3, 2, 1, 4), torch.tensor([0.5])),  # one token keeps its axis; and one head
        (draw(2, 2, 5, 12), torch.tensor([1.0, -0.25, 0.5])),
    ]


switch_heads = Exercise(
    task=(
        "Write switch_heads(merged, gates). merged, (B, T, num_heads * head_dim), holds what all heads hand to W_o, "
        "and gates is (num_heads,). Return merged with each head's features multiplied by its gate."
    ),
    answer=switch_heads_solution,
    plain=(_switch_heads_by_steps,),
    cases=_switch_cases,
    axes=("sample", "token", "feature"),
    hints=(
        "After the merge, the features of head 0 come first, then those of head 1 (lesson 05).",
        "merged.unflatten(-1, (len(gates), -1)) is (B, T, num_heads, head_dim). Which shape must gates have to line "
        "up with it?",
        "Multiply by gates[:, None], then flatten(-2).",
    ),
    wrong={
        "One gate for each feature": Wrong(
            lambda merged, gates: merged * gates,
            "you multiply the features by gates directly, but there is only one gate for each head.",
            "The head_dim features of a head are side by side: use gates.repeat_interleave(head_dim).",
        ),
        "Gates dealt out in turn": Wrong(
            lambda merged, gates: merged * gates.repeat(merged.shape[-1] // len(gates)),
            "you deal out the gates to the features in turn.",
            (
                "The features of a head are side by side: use unflatten(-1, (len(gates), -1)), or repeat_interleave "
                "instead of repeat."
            ),
        ),
        "Beside the features": Wrong(
            Change("gates[:, None]", "gates[None, :]"),
            "gates has the shape (num_heads,), so it lines up with the last axis, head_dim.",
            "Shapes are aligned on the right, so use gates[:, None], which is (num_heads, 1).",
        ),
        "The other way round": Wrong(
            _with_gates(lambda gates: 1 - gates),
            "heads with a gate of 1 are off, and heads with a gate of 0 are on.",
            "A gate of 1 leaves a head as it is.",
        ),
        "Gates as shares": Wrong(
            _with_gates(lambda g: g / g.sum()),
            "you make the gates sum to 1.",
            "Each gate acts independently: a gate of 1 leaves its head as it is, whatever the other gates are.",
            also=(_with_gates(lambda g: g.softmax(0)),),
        ),
        "On or off only": Wrong(
            _with_gates(lambda g: (g > 0).float()),
            "you turn each gate into 0 or 1.",
            "Multiply by the gate itself: 0.5 halves a head.",
            also=tuple(map(_with_gates, (lambda g: g == 1, lambda g: g != 0, lambda g: g >= 0.5))),
        ),
        "An axis for the heads": Wrong(
            Change("heads.reshape(B, T, width)", "heads"),
            "the heads are still on a separate axis.",
            "W_o expects the heads merged, so end with flatten(-2).",
            also=(Change("heads.reshape(B, T, width)", "heads.transpose(1, 2)"),),
        ),
        "Fewer features": Wrong(
            Change("heads.reshape(B, T, width)", "heads.sum(2)"),
            "you add up the heads, or cut out those with a gate of 0.",
            "W_o expects all num_heads * head_dim features, so a head that is off must hand over zeros.",
            also=(
                Change("heads.reshape(B, T, width)", "heads[:, :, gates != 0].flatten(2)"),
                lambda merged, gates: merged.unflatten(-1, (len(gates), -1))[:, :, gates != 0].flatten(2),
            ),
        ),
        "Tokens instead of heads": Wrong(
            lambda merged, gates: (merged.reshape(len(merged), len(gates), -1) * gates[:, None]).reshape(merged.shape),
            "you split along the tokens, so your gates switch off whole tokens, not heads.",
            "The heads are in the last axis only, and unflatten(-1, ...) leaves the other axes alone.",
        ),
    },
    see="A switch for a head",
    remarks=(
        Grows(lambda heads=3, samples=2, tokens=4: (draw(0, samples, tokens, 2 * heads), draw(1, heads))),
        with_a_gradient,
    ),
)


def mean_head_solution(heads, head):
    heads = heads.clone()
    heads[:, head] = heads[:, head].mean((0, 1))  # (B, T, hd) -> (hd,)
    return heads


def _mean_head_by_steps(heads, head):
    result = heads.clone()
    own = heads[:, head]  # (B, num_heads, T, head_dim) -> (B, T, head_dim)
    mean = own.mean((0, 1))  # -> (head_dim,)
    result[:, head] = mean
    return result


def _mean_head_by_loops(heads, head):
    B, num_heads, T, head_dim = heads.shape
    total = torch.zeros(head_dim)
    for sample in range(B):
        for token in range(T):
            total = total + heads[sample, head, token]
    result = heads.clone()
    result[:, head] = total / (B * T)
    return result


def _instead(put):
    """Return the answer that writes something else instead of the head's mean."""
    return Change("heads[:, head].mean((0, 1))", put)


def _mean_cases():
    by_hand = torch.tensor([[[[1.0, 2]], [[3, 0]]], [[[4, 7]], [[9, 2]]]])  # (B, num_heads, T, head_dim), T = 1
    return [(by_hand, 1), (head_labels(5, 4, 2, B=3), 3), (draw(1, 2, 3, 5, 4), 0), (draw(2, 4, 3, 2, 5), 2)]


mean_head = Exercise(
    task=(
        "Write mean_head(heads, head). heads is (B, num_heads, T, head_dim), and head is the index of one head. "
        "Return heads with this head replaced by its own mean over all samples and tokens. Leave the other heads and "
        "the caller's tensor as they are."
    ),
    answer=mean_head_solution,
    plain=(mean_head_solution, _mean_head_by_steps, _mean_head_by_loops),
    cases=_mean_cases,
    axes=("sample", "head", "token", "feature"),
    hints=(
        "heads[:, head] is (B, T, head_dim). Which of its axes must go to leave a single vector?",
        "The mean over axes 0 and 1 is (head_dim,), which broadcasts over all samples and tokens.",
        "Begin with heads = heads.clone(), so that the caller's tensor stays as it is.",
    ),
    wrong={
        "Zeros": Wrong(
            _instead("0"),
            "the head hands over zeros.",
            "That is zeroing, the other ablation. Here the head hands over its average output.",
        ),
        "A mean for each sample": Wrong(
            _instead("heads[:, head].mean(1, keepdim=True)"),
            "you give each sample its own mean.",
            "The head then still tells the model which sample it saw. Take one mean for all samples.",
        ),
        "A mean for each token": Wrong(
            _instead("heads[:, head].mean(0)"),
            "you give each place in the sequence its own mean.",
            "The head then still tells the model which place it is at. Some people do this on purpose, but the task "
            "asks for one mean for all places.",
        ),
        "Features averaged": Wrong(
            _instead("heads[:, head].mean()"),
            "you average over the features as well.",
            "Keep the features: heads[:, head] is (B, T, head_dim), so samples and tokens are its axes 0 and 1.",
            also=(
                _instead("heads[:, head].mean((0, 2))"),
                *(_instead(f"heads[:, head].mean({axes}, keepdim=True)") for axes in ((0, 2), (1, 2), 2)),
            ),
        ),
        "All heads": Wrong(
            lambda heads, head: heads.mean((0, 2), keepdim=True).expand_as(heads),
            "you replace every head with its mean.",
            "Only heads[:, head] changes; the others stay as they are.",
        ),
        "The other heads": Wrong(
            lambda heads, head: torch.where(
                (torch.arange(heads.shape[1]) == head)[:, None, None], heads, heads.mean((0, 2), keepdim=True)
            ),
            "you keep this one head and replace all others with their means.",
            "It should be the other way round: only heads[:, head] changes.",
        ),
        "Other heads in the mean": Wrong(
            _instead("heads.mean(1)"),
            "you take the mean over all heads, or over all except this one.",
            "Replace the head by its own mean: select heads[:, head] first, then take the mean.",
            also=(
                *map(
                    _instead,
                    ("heads.mean((0, 1, 2))", "heads.mean((1, 2))[:, None]", "heads.mean((0, 1))", "heads.mean()"),
                ),
                *(
                    _instead(f"heads[:, torch.arange(heads.shape[1]) != head].mean({axes}, keepdim=True)[:, 0]")
                    for axes in (1, (1, 2), (0, 1, 2))
                ),
            ),
        ),
        "Changed in place": Wrong(
            Change("heads.clone()", "heads"),
            "the result is right, but your function changes the caller's heads.",
            "Write heads = heads.clone() before you change anything.",
        ),
    },
    see="Without it, or with its mean?",
)


def gate_slopes_solution(heads, grads):
    slopes = (heads * grads).sum((2, 3))  # (B, h, T, hd) -> (B, h): d loss / d gate, of each sample
    return slopes.abs().mean(0)  # -> (h,)


def _gate_slopes_by_steps(heads, grads):
    products = heads * grads
    slopes = products.sum(-1)  # (B, num_heads, T, head_dim) -> (B, num_heads, T)
    slopes = slopes.sum(-1)  # -> (B, num_heads)
    slopes = slopes.abs()
    return slopes.mean(0)


def _slope_cases():
    by_hand = torch.tensor([[[[1.0, 2.0]], [[3.0, 1.0]]], [[[2.0, -1.0]], [[1.0, 4.0]]]])  # (B, h, T, hd), T = 1
    pulls = torch.tensor([[[[3.0, 2.0]], [[2.0, -5.0]]], [[[-1.0, 2.0]], [[2.0, 1.0]]]])
    sizes = [(4, 3, 5, 2), (3, 4, 2, 5), (2, 1, 4, 3)]  # B, num_heads, T, head_dim
    return [(by_hand, pulls)] + [(draw(i, *shape), draw(10 + i, *shape)) for i, shape in enumerate(sizes)]


gate_slopes = Exercise(
    task=(
        "Write gate_slopes(heads, grads). heads, (B, num_heads, T, head_dim), holds the outputs of the heads, and "
        "grads has the same shape. Each sample has a loss, and grads is the gradient of the sum of these losses with "
        "respect to heads. All gates are 1. For each head, return Michel's importance, (num_heads,): the mean over "
        "samples of |d loss / d gate|."
    ),
    answer=gate_slopes_solution,
    plain=(_gate_slopes_by_steps,),
    cases=_slope_cases,
    axes=("head",),
    hints=(
        (
            "The gate multiplies everything that the head hands over: gate * heads. What is the derivative of this "
            "product with respect to the gate?"
        ),
        "By the chain rule, d loss / d gate is the sum of grads * heads over tokens and features, for each sample.",
        "First sum over axes 2 and 3, then take the absolute value, then the mean over the samples.",
    ),
    wrong={
        "No absolute value": Wrong(
            Change("slopes.abs()", "slopes"),
            "slopes of opposite sign cancel.",
            "A head that helps one sample and harms another matters to both, so take abs() before the mean.",
            also=(lambda x, g: (x * g).sum((0, 2, 3)),),
        ),
        "The absolute value too late": Wrong(
            lambda x, g: (x * g).sum((2, 3)).mean(0).abs(),
            "you take the absolute value only after the samples have cancelled each other out.",
            "Take abs() for each sample first, then the mean.",
            also=(lambda x, g: (x * g).sum((0, 2, 3)).abs(),),
        ),
        "The absolute value too early": Wrong(
            Change("products.sum(-1)", "products.abs().sum(-1)"),
            "you take the absolute value before you have added up all tokens and features.",
            "One gate multiplies them all, so its slope is their sum: take abs() after the sum.",
            also=(
                lambda x, g: (x * g).sum(3).abs().sum(2).mean(0),
                lambda x, g: (x * g).sum(2).abs().sum(2).mean(0),
                lambda x, g: (x * g).abs().mean((0, 2, 3)),
                lambda x, g: (x * g).sum(3).abs().mean((0, 2)),
            ),
        ),
        "One of the two alone": Wrong(
            Change("heads * grads", "grads"),
            "your result uses only heads, or only grads.",
            "d (gate * heads) / d gate is heads, and the chain rule multiplies it by grads.",
            also=(
                lambda x, g: g.abs().sum((2, 3)).mean(0),
                lambda x, g: g.abs().mean((0, 2, 3)),
                lambda x, g: g.flatten(2).norm(dim=-1).mean(0),
                lambda x, g: x.abs().sum((2, 3)).mean(0),
                lambda x, g: x.abs().mean((0, 2, 3)),
                lambda x, g: x.flatten(2).norm(dim=-1).mean(0),
            ),
        ),
        "Lengths multiplied": Wrong(
            lambda x, g: (x.flatten(2).norm(dim=-1) * g.flatten(2).norm(dim=-1)).mean(0),
            "you multiply the length of a head's output by the length of its gradient.",
            "The slope is at most that large. For the slope itself, multiply heads * grads number by number, and sum.",
        ),
        "The sum of the samples": Wrong(
            Change("slopes.mean(0)", "slopes.sum(0)"),
            "you add up the samples, so more samples make a head more important.",
            "Take their mean instead.",
        ),
        "The mean of the tokens": Wrong(
            lambda heads, grads: (heads * grads).mean((2, 3)).abs().mean(0),
            "you average over tokens and features.",
            "The gate multiplies every one of them, so the slope is their sum.",
        ),
        "Squares": Wrong(
            lambda x, g: (x * g).sum((2, 3)).square().mean(0).sqrt(),
            "you use squares instead of absolute values.",
            "Squares give large slopes more weight. The task asks for the mean of |d loss / d gate|.",
            also=(
                lambda x, g: (x * g).sum((2, 3)).square().mean(0),
                lambda x, g: (x * g).square().sum((2, 3)).mean(0),
            ),
        ),
    },
    see="The slope of a gate",
    explanation="You need no second model for this: one backward pass gives the slopes of all heads in all layers.",
    remarks=(
        Grows(
            lambda heads=3, samples=2, tokens=4: (
                draw(0, samples, heads, tokens, 2),
                draw(1, samples, heads, tokens, 2),
            )
        ),
    ),
)


def cut_heads_solution(W_q, W_k, W_v, W_o, keep):
    rows = keep.repeat_interleave(len(W_q) // len(keep))  # (num_heads,) -> (num_heads * head_dim,)
    return W_q[rows], W_k[rows], W_v[rows], W_o[:, rows]


def _cut_heads_by_steps(W_q, W_k, W_v, W_o, keep):
    width, d_model = W_q.shape
    num_heads = len(keep)
    head_dim = width // num_heads
    rows = keep.repeat_interleave(head_dim)
    W_q = W_q[rows]
    W_k = W_k[rows]
    W_v = W_v[rows]
    W_o = W_o[:, rows]
    return W_q, W_k, W_v, W_o


def _cut_heads_by_loops(W_q, W_k, W_v, W_o, keep):
    width, d_model = W_q.shape
    num_heads = len(keep)
    head_dim = width // num_heads
    rows = []
    for head in range(num_heads):
        if keep[head]:
            for feature in range(head_dim):
                rows.append(head * head_dim + feature)
    return W_q[rows], W_k[rows], W_v[rows], W_o[:, rows]


def _cut_cases():
    # 100 · matrix + 10 · row + column, in square weights, whose rows and columns cannot be told by their number
    by_hand = (*labels(2, 2, B=4), torch.tensor([False, True]))
    # num_heads, head_dim, d_model, keep
    sizes = [(3, 2, 5, [0, 0, 1]), (2, 3, 6, [0, 1]), (4, 2, 3, [0, 1, 1, 0]), (2, 2, 3, [1, 1]), (1, 2, 3, [1])]
    return [by_hand] + [
        (*draw(i, 3, h * hd, d), draw(10 + i, d, h * hd), torch.tensor(keep).bool())
        for i, (h, hd, d, keep) in enumerate(sizes)
    ]


def _rows(W_q, keep):
    return keep.repeat_interleave(len(W_q) // len(keep))


def _cut(W_q, W_k, W_v, W_o, rows):
    return W_q[rows], W_k[rows], W_v[rows], W_o[:, rows]


def _cut_by(numbers):
    """Return the answer that selects the rows whose indices `numbers` computes from keep and head_dim."""
    return lambda W_q, W_k, W_v, W_o, keep: _cut(W_q, W_k, W_v, W_o, numbers(keep, len(W_q) // len(keep)))


_WAYS = {
    "cut": lambda W, rows: W[rows],
    "filled with zeros": lambda W, rows: W * rows[:, None],
    "left whole": lambda W, rows: W,
}


def _ways(*ways):
    """Return the answer that treats W_q, W_k, W_v and the columns of W_o in these ways."""

    def answer(W_q, W_k, W_v, W_o, keep):
        rows = _rows(W_q, keep)
        *some, last = (_WAYS[way](W, rows) for way, W in zip(ways, (W_q, W_k, W_v, W_o.T), strict=True))
        return *some, last.T

    return answer


def _two_ways(one, other):
    """Return the answers that treat some of the weights in one way, and the rest, if any, in the other."""
    return [_ways(*ways) for ways in product((one, other), repeat=4) if one in ways]


_ZEROS = [*_two_ways("filled with zeros", "cut"), *_two_ways("filled with zeros", "left whole")[1:]]
_WHOLE = _two_ways("left whole", "cut")


cut_heads = Exercise(
    task=(
        "Write cut_heads(W_q, W_k, W_v, W_o, keep). The weights are stored as in nn.Linear: W_q, W_k and W_v are "
        "(num_heads * head_dim, d_model), and W_o is (d_model, num_heads * head_dim). keep is (num_heads,), boolean, "
        "and True for each head that stays. Return the four weights of a layer with only these heads."
    ),
    answer=cut_heads_solution,
    plain=(_cut_heads_by_steps, _cut_heads_by_loops),
    cases=_cut_cases,
    axes=("row", "column"),
    hints=(
        "nn.Linear computes x @ W.T, so each row of W_q makes one output feature. Which part of W_o reads one input "
        "feature?",
        "Turn keep into one mask for all num_heads * head_dim features. The features of a head are side by side.",
        "With rows = keep.repeat_interleave(head_dim), take W_q[rows], and the columns of W_o: W_o[:, rows].",
    ),
    wrong={
        "What should stay is cut": Wrong(
            lambda W_q, W_k, W_v, W_o, keep: cut_heads_solution(W_q, W_k, W_v, W_o, ~keep),
            "you cut out the heads to keep, and leave the others in.",
            "True means that the head stays.",
        ),
        "The first heads": Wrong(
            _cut_by(lambda keep, head_dim: torch.arange(int(keep.sum()) * head_dim)),
            "the number of heads is right, but you keep the first ones.",
            "keep says which heads stay: select the rows of these heads.",
        ),
        "Rows dealt out in turn": Wrong(
            Change("keep.repeat_interleave(head_dim)", "keep.tile(head_dim)"),
            "your mask deals out the rows to the heads in turn.",
            "The rows of a head are side by side: use repeat_interleave, not repeat.",
        ),
        "Zeros in their place": Wrong(
            _ZEROS[0],
            "the heads that should go are zero, but they are still there.",
            "Multiplying by zero takes as long as multiplying by any other number, so leave the rows out.",
            also=tuple(_ZEROS[1:]),
        ),
        "Not all are cut": Wrong(
            _WHOLE[0],
            "some of the four weights still hold all heads: compare their shapes with the expected shapes.",
            "A head is a block of rows in W_q, W_k and W_v, and a block of columns in W_o, so cut all four.",
            also=tuple(_WHOLE[1:]),
        ),
        "head_dim out of d_model": Wrong(
            Change("head_dim = width // num_heads", "head_dim = d_model // num_heads"),
            "you compute head_dim from d_model, which counts the columns of W_q and the rows of W_o.",
            "The rows of W_q are the heads' features, so use W_q.shape[0] // num_heads. d_model may differ.",
        ),
        "An axis for the heads": Wrong(
            lambda *x: [W.unflatten(int(i == 3), (int(x[-1].sum()), -1)) for i, W in enumerate(cut_heads_solution(*x))],
            "the remaining heads are still on a separate axis.",
            "nn.Linear stores weights with two axes: use flatten(0, 1), and flatten(1) for W_o.",
        ),
        "Rows of W_o": Wrong(
            Change("W_o[:, rows]", "W_o[rows, :]"),
            "you cut the rows of W_o.",
            "The heads' output goes *into* W_o, so cut its columns: W_o[:, rows].",
        ),
        "W_o scaled up for the cut": Wrong(
            Change("W_o = W_o[:, rows]", "W_o = W_o[:, rows] * num_heads / keep.sum()"),
            "you multiply W_o by the number of heads over the number that stay, as dropout would.",
            "The heads that stay hand over the same outputs as before, so leave their weights as they are.",
        ),
        "A mask of heads": Wrong(
            Change("keep.repeat_interleave(head_dim)", "keep"),
            "keep has one entry for each head, but W_q has head_dim rows for each head.",
            "Turn it into a mask of rows first: keep.repeat_interleave(head_dim).",
        ),
        "One row a head": Wrong(
            _cut_by(lambda keep, head_dim: keep.nonzero()[:, 0]),
            "each remaining head keeps only a single row.",
            "A head has head_dim rows, from head * head_dim up to (head + 1) * head_dim.",
            also=(_cut_by(lambda keep, head_dim: keep.nonzero()[:, 0] * head_dim),),
        ),
        "True and False as numbers": Wrong(
            _cut_by(lambda keep, head_dim: keep.repeat_interleave(head_dim).int()),
            "True and False act as the indices 1 and 0, so the result holds nothing but rows (or heads) 1 and 0.",
            "A boolean mask selects the rows where it is True, while integers are row indices. Leave keep boolean.",
            also=(_cut_by(lambda keep, head_dim: keep.int()),),
        ),
    },
    see="Is a layer with fewer heads faster?",
    remarks=(
        Grows(
            lambda heads=4: (
                *(draw(i, 2 * heads, 8) for i in range(3)),
                draw(3, 8, 2 * heads),
                torch.arange(heads) % 2 == 0,
            )
        ),
    ),
)
