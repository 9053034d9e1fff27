"""The exercises of lesson 15: the value path, the steps of a walk, attention by least squares, keys that compensate."""

import torch
import torch.nn.functional as F

from mhacourse.exercise import Change, Exercise, Wrong
from mhacourse.inputs import draw
from mhacourse.remarks import Grows


def value_path_solution(f, d_model):
    alone = f(torch.eye(d_model)[:, None])[:, 0]  # (d_model, 1, d_model) -> (d_model, d_model): row i is f([e_i])
    constant = f(torch.zeros(1, 1, d_model))[0, 0]
    return (alone - constant).T, constant


def _value_path_by_steps(f, d_model):
    basis = torch.eye(d_model)
    alone = f(basis[:, None])  # (d_model, 1, d_model)
    alone = alone[:, 0]
    nothing = torch.zeros(1, 1, d_model)
    constant = f(nothing)
    constant = constant[0, 0]
    V = alone - constant
    V = V.T
    return V, constant


def _box(seed, d_model, num_heads, bias=True):
    """Return a sealed layer that computes in the precision of its input."""
    weights = [draw(10 * seed + i, d_model, d_model) / d_model**0.5 for i in range(4)]
    biases = [draw(10 * seed + 4 + i, d_model) if bias else None for i in range(4)]

    def f(x):
        if x.ndim != 3 or x.shape[-1] != d_model:
            raise ValueError(f"this box takes (B, T, d_model) with d_model={d_model}, got {tuple(x.shape)}")
        parts = [(W.to(x), None if b is None else b.to(x)) for W, b in zip(weights, biases, strict=True)]
        q, k, v = (F.linear(x, *part).unflatten(-1, (num_heads, -1)).transpose(1, 2) for part in parts[:3])
        heads = F.scaled_dot_product_attention(q, k, v)  # (B, num_heads, T, head_dim)
        return F.linear(heads.transpose(1, 2).flatten(2), *parts[3])  # -> (B, T, d_model)

    f.__name__ = f"of a box with {num_heads} {'head' if num_heads == 1 else 'heads'}"
    return f


def _fitted(times):
    """Return the answer that fits V to this many times d_model random tokens, without a constant."""

    def answer(f, d_model):
        x = torch.randn(times * d_model, d_model)
        y = f(x[:, None])[:, 0]
        fit = torch.linalg.lstsq(x, y).solution
        return fit.T, (y - x @ fit).mean(0)

    return answer


value_path = Exercise(
    task=(
        "Write value_path(f, d_model). f takes (B, T, d_model) and returns the same shape; for one token alone it "
        "computes f([x]) = V x + constant. Return both: V, (d_model, d_model), and constant, (d_model,)."
    ),
    answer=value_path_solution,
    plain=(_value_path_by_steps,),
    cases=lambda: [(_box(0, 2, 1), 2), (_box(1, 6, 3), 6), (_box(2, 8, 2, bias=False), 8), (_box(3, 5, 5), 5)],
    axes={"V": ("row", "column"), "constant": ("feature",)},
    hints=(
        "Which token gives you the constant alone? And which tokens give you one column of V each?",
        "f of a token of zeros is the constant. f of the token e_i, minus the constant, is column i of V.",
        "torch.eye(d_model)[:, None] is d_model samples of one token each; in the output, the columns of V are rows.",
    ),
    wrong={
        "Columns as rows": Wrong(
            Change("V = V.T", "V = V"),
            "your V is transposed: the output for e_i is in row i.",
            "V e_i is column i of V, so transpose yours: .T",
        ),
        "The constant is still in": Wrong(
            Change("alone - constant", "alone"),
            "every column of your V includes the constant.",
            "f(e_i) is V e_i + constant, so subtract f of a token of zeros.",
            also=(
                lambda f, n: (f(torch.eye(n)[:, None])[:, 0], f(torch.zeros(1, 1, n))[0, 0]),
                lambda f, n: (f(torch.eye(n)[:, None])[:, 0].T, torch.zeros(n)),
            ),
        ),
        "Twice as large": Wrong(
            Change("V = alone - constant", "V = 2 * (alone - constant)"),
            "your V is twice as large as it should be.",
            "f(e_i) minus the constant is column i of V; f(e_i) - f(-e_i) is twice that column.",
        ),
        "Fitted without a constant": Wrong(
            _fitted(4),
            "you fit a matrix without a constant to random tokens, so some of the constant ends up in V.",
            "Subtract f of a token of zeros first, or give the fit a column of ones.",
            also=tuple(map(_fitted, (1, 2, 3, 5, 8, 10, 16, 20, 50, 100))),
        ),
        "Not a token of zeros": Wrong(
            Change("f(nothing)", "f(nothing + 1)"),
            "your constant is the output for a token of ones, which includes the sum of each row of V.",
            "Only a token of zeros leaves nothing but the constant: torch.zeros(1, 1, d_model).",
            also=(
                Wrong(
                    Change("f(nothing)", "f(torch.randn_like(nothing))"),
                    "your constant is the output for a token drawn at random, which includes V times that token.",
                    "Only a token of zeros leaves nothing but the constant: torch.zeros(1, 1, d_model).",
                ),
                Wrong(
                    lambda f, n: ((V := value_path_solution(f, n)[0]), f(torch.ones(1, 1, n))[0, 0] - V.sum(0)),
                    "you subtract the column sums of V from the output for a token of ones.",
                    "V times a token of ones gives the row sums, sum(1). Or use a token of zeros and subtract nothing.",
                ),
            ),
        ),
        "All tokens in one sample": Wrong(
            lambda f, n: (
                (f(torch.eye(n)[None])[0] - f(torch.zeros(1, 1, n))[0, 0]).T,
                f(torch.zeros(1, 1, n))[0, 0],
            ),
            "you put all d_model tokens into one sample, where they see one another, so you get mixtures.",
            "One token alone is a sample with T = 1: torch.eye(d_model)[:, None], not [None].",
            also=(
                lambda f, n: (
                    f(torch.eye(n)[None])[0] - f(torch.zeros(1, 1, n))[0, 0],
                    f(torch.zeros(1, 1, n))[0, 0],
                ),
                lambda f, n: (f(torch.eye(n)[None])[0].T, f(torch.zeros(1, 1, n))[0, 0]),
                lambda f, n: (f(torch.eye(n)[None])[0], f(torch.zeros(1, 1, n))[0, 0]),
            ),
        ),
    },
    see="One token alone",
)


def walk_steps_solution(moved):
    steps = moved[1:] - moved[:-1]  # (points, d_model) -> (points - 1, d_model)
    return steps[steps.norm(dim=1) > 1e-2]


def _walk_steps_by_steps(moved):
    before = moved[:-1]
    after = moved[1:]
    steps = after - before  # (points - 1, d_model)
    sizes = steps.norm(dim=1)
    found = sizes > 1e-2
    return steps[found]


def _sorted(steps, descending):
    return steps[steps.norm(dim=1).argsort(descending=descending)]


def _walk(seed, steps, d_model, rounding=1e-5):
    """Return a walk along plateaus of 2 to 4 points each, from a random start.

    Only points inside a plateau carry rounding, so plateau ends and plateau means give the same steps.
    """
    levels = torch.cat([draw(seed + 1, 1, d_model), draw(seed, steps, d_model)]).cumsum(0)
    moved = levels.repeat_interleave(torch.tensor([2 + (i + seed) % 3 for i in range(steps + 1)]), 0)
    inside = torch.zeros(len(moved), 1)
    inside[1:-1, 0] = ((moved[1:-1] == moved[:-2]) & (moved[1:-1] == moved[2:])).all(1)
    return (moved + rounding * inside * draw(seed + 2, *moved.shape).clamp(-1, 1),)


def _kept(size, least):
    """Return the steps at which `size`, computed from the whole walk, exceeds `least`."""
    return lambda moved: moved.diff(dim=0)[size(moved) > least]


def _long(steps):
    return steps[steps.norm(dim=1) > 1e-2]


def _walk_cases():
    by_hand = torch.tensor([[0, 0], [0, 0], [1, 0], [1, 0], [0, 1], [0, 1]]).float()  # a point turns, as long as before
    returns = torch.tensor([[1, 5, 2], [1, 5, 2], [4, 5, 0], [4, 5, 0], [1, 5, 2], [1, 5, 2], [1, 5, 2.2]]).float()
    at_the_ends = torch.tensor([[0, 0, 0], [1, 1, 1], [1, 1, 1], [4, -2, 1]]).float()  # one step sums to 0
    # Each feature of the first step is below 0.1, its length is 0.12.
    short = torch.tensor([[0, 0, 0, 0], [6, 6, -6, 6], [6, 6, -6, 6], [6, 206, -6, 6]]) / 100
    return [(by_hand,), _walk(0, 3, 4), (returns,), (at_the_ends,), (short,), _walk(1, 5, 7), _walk(2, 1, 3)]


walk_steps = Exercise(
    task=(
        "Write walk_steps(moved). moved, (points, d_model), holds what a second token adds to the output at each point "
        "of a walk along which every softmax acts as a switch. From one point to the next, this vector changes either "
        "by a step longer than 0.1 or only by rounding, about 1e-5. Return the steps, (steps, d_model), in the order "
        "of the walk, each as after minus before."
    ),
    answer=walk_steps_solution,
    plain=(_walk_steps_by_steps,),
    cases=_walk_cases,
    axes=("step", "feature"),
    hints=(
        "Each point except the first has a point before it. On a plateau, what is the difference between the two?",
        "Take moved[1:] - moved[:-1], or moved.diff(dim=0). Nearly all of these rows are rounding.",
        "Keep the rows whose norm is above 1e-2.",
    ),
    wrong={
        "The plateaus": Wrong(
            lambda m: m[1:][(m[1:] - m[:-1]).norm(dim=1) > 1e-2],
            "you return what comes after each step, not the step itself.",
            "A plateau is the sum of all heads that are on. To get a single head, subtract one plateau from the next.",
        ),
        "Before minus after": Wrong(
            Change("after - before", "before - after"),
            "all your steps have the opposite sign.",
            "A head that switches on adds its vector, so take after minus before: moved[1:] - moved[:-1].",
        ),
        "A bar that depends on the longest": Wrong(
            lambda m: m.diff(dim=0)[m.diff(dim=0).norm(dim=1) > m.diff(dim=0).norm(dim=1).max() / 2],
            "you keep the steps that are at least half as long as the longest.",
            "A short step also belongs to a head: everything longer than 1e-2 counts.",
        ),
        "Rounding is a step": Wrong(
            Change("sizes > 1e-2", "sizes > 0"),
            "you return a row for each point where anything changes, even if it is only rounding.",
            "On a plateau, the numbers differ in their last digits. Only a row longer than 1e-2 is a step.",
        ),
        "From the start": Wrong(
            lambda m: (m[1:] - m[0])[(m[1:] - m[:-1]).norm(dim=1) > 1e-2],
            "you subtract the first plateau from each, so a later step includes all earlier ones.",
            "Each step is the difference between two neighbouring points.",
        ),
        "Features asked one by one": Wrong(
            lambda m: m.diff(dim=0)[(m.diff(dim=0).abs() > 0.1).any(dim=1)],
            "you compare single features, their mean or a sum of squares with 0.1, not the length of a row.",
            "The length is the root of the sum of squares over the features: norm(dim=1).",
            also=(
                _kept(lambda m: m.diff(dim=0).abs().mean(1), 0.1),
                Wrong(
                    lambda m: m.diff(dim=0)[(m.diff(dim=0).abs() > 0.01).all(dim=1)],
                    "you keep a row only where every feature moves.",
                    "In a step, some features may stay as they are, so look at its length: norm(dim=1).",
                ),
            ),
        ),
        "From feature to feature": Wrong(
            lambda m: m.diff(dim=1)[m.diff(dim=1).norm(dim=1) > 1e-2],
            "you subtract neighbouring features of one point.",
            "A step leads from one point to the next: dim=0.",
        ),
        "Lengths compared": Wrong(
            _kept(lambda m: m.norm(dim=1).diff().abs(), 0.1),
            "you compare the lengths of neighbouring points, so you miss a step that changes only the direction.",
            "First subtract the points, then take the length: moved.diff(dim=0).norm(dim=1).",
            also=(_kept(lambda m: m.norm(dim=1).diff().abs(), 1e-2),),
        ),
        "Out of order": Wrong(
            lambda m: m.diff(dim=0).unique(dim=0),
            "your rows are not in the order of the walk, as happens with unique, sort and argsort.",
            "The task asks for the steps in the walk's order: keep each difference of neighbours whose norm is above "
            "1e-2.",
            also=(
                lambda m: m.unique(dim=0).diff(dim=0),
                *(lambda m, n=n: m.round(decimals=n).unique(dim=0).diff(dim=0) for n in (2, 3, 4)),
                *(lambda m, n=n: _long(m.diff(dim=0).round(decimals=n).unique(dim=0)) for n in (2, 3, 4)),
                lambda m: _sorted(walk_steps_solution(m), descending=True),
                lambda m: _sorted(walk_steps_solution(m), descending=False),
            ),
        ),
        "The sum in the place of the norm": Wrong(
            _kept(lambda m: m.diff(dim=0).sum(1).abs(), 1e-2),
            "you drop steps whose features sum to 0, one going up and another down.",
            "The norm tells you how long a step is: norm(dim=1).",
            also=(
                _kept(lambda m: m.diff(dim=0).sum(1).abs(), 0.1),
                Wrong(
                    _kept(lambda m: m.diff(dim=0).sum(1), 1e-2),
                    "you drop steps whose features sum to 0 or less.",
                    "The norm tells you how long a step is: norm(dim=1).",
                ),
            ),
        ),
    },
    see="A walk far away",
    remarks=(Grows(lambda points=6: (torch.arange(points).float()[:, None].expand(points, 3).contiguous(),)),),
)


def looks_from_outside_solution(moved, writes):
    return torch.linalg.lstsq(
        writes.T, moved.T
    ).solution.T  # (d_model, heads) x (heads, contexts) = (d_model, contexts)


def _looks_by_pinv(moved, writes):
    inverse = torch.linalg.pinv(writes)  # (heads, d_model) -> (d_model, heads)
    return moved @ inverse


def _looks_one_by_one(moved, writes):
    looks = []
    for write in writes:
        looks.append(moved @ write / (write @ write))
        moved = moved - looks[-1][:, None] * write
    return torch.stack(looks, dim=1)


def _looks_cases():
    by_hand = torch.tensor([[1.0, 0, 0], [1, 1, 0]]), torch.tensor([[0.5, 0.25], [1, 0], [0, 1], [0.25, 0.5]])
    pairs = [by_hand] + [
        (draw(i, h, d, dtype=torch.float64), draw(i + 9, n, h, dtype=torch.float64).sigmoid())
        for i, (h, d, n) in enumerate([(3, 5, 7), (1, 4, 2), (4, 9, 6)])
    ]
    cases = [(shares @ writes, writes) for writes, shares in pairs]
    # One context, and one that rounding, or a head that nobody knows of, has moved off the sums.
    return [*cases[:2], (draw(3, 1, 4), draw(4, 2, 4)), *cases[2:]]


looks_from_outside = Exercise(
    task=(
        "Write looks_from_outside(moved, writes). moved, (contexts, d_model), holds what a second token added in each "
        "context, and writes, (heads, d_model), holds the vector that each head writes for this token. Each row of "
        "moved is a sum over heads: each head's row of writes, times how much the head looks at the token. Return how "
        "much each head looks at it, (contexts, heads)."
    ),
    answer=looks_from_outside_solution,
    plain=(_looks_by_pinv,),
    cases=_looks_cases,
    axes=("context", "head"),
    hints=(
        "moved = looks @ writes, where looks is unknown. writes is not square, and its rows are not at right angles.",
        "torch.linalg.lstsq(A, B) solves A X = B. Here the unknown is on the left, so transpose both.",
        "Use torch.linalg.lstsq(writes.T, moved.T).solution.T, or moved @ torch.linalg.pinv(writes).",
    ),
    wrong={
        "Only dot products": Wrong(
            Change("moved @ inverse", "moved @ writes.T"),
            "you take the dot product with each head's vector, which also includes what other heads wrote along it.",
            "The vectors are not at right angles, so solve for all heads at once, by least squares.",
        ),
        "Each head by itself": Wrong(
            lambda m, w: m @ w.T / w.square().sum(1),
            "you compute each head's share as if the other heads were not there.",
            "That is right for vectors at right angles, but these are not: solve for all heads at once, by least "
            "squares.",
            also=(
                Wrong(
                    _looks_one_by_one,
                    "you fit one head after the other, so the first heads also claim what later heads wrote along "
                    "their vectors.",
                    "Solve for all heads at once, by least squares.",
                ),
            ),
        ),
        "Drawn towards 0": Wrong(
            lambda m, w: torch.linalg.solve(w @ w.T + 0.1 * torch.eye(len(w), dtype=w.dtype), w @ m.T).T,
            "you add a number to the diagonal (a ridge), which makes all results too small.",
            "Nothing is uncertain here: solve the equations as they are.",
            also=(lambda m, w: torch.linalg.solve(w @ w.T + 0.01 * torch.eye(len(w), dtype=w.dtype), w @ m.T).T,),
        ),
        "The mean taken off": Wrong(
            Change("moved @ inverse", "(moved - moved.mean(0)) @ inverse"),
            "you first subtract the mean over the contexts, so you lose how much each head looks on average.",
            "The sum over heads has no constant in it: solve for moved as it is.",
        ),
        "Contexts as columns": Wrong(
            lambda m, w: torch.linalg.lstsq(w.T, m.T).solution,
            "you return (heads, contexts).",
            "Each context is a row, so transpose the solution: .T",
        ),
        "Through a softmax": Wrong(
            lambda m, w: (m @ torch.linalg.pinv(w)).softmax(-1),
            "you make the shares of all heads sum to 1.",
            "Each head has its own softmax, over tokens. How much one head looks says nothing about another.",
            also=(lambda m, w: (m @ w.T).softmax(-1), lambda m, w: (m @ torch.linalg.pinv(w)).softmax(0)),
        ),
        "Shares of all heads": Wrong(
            lambda m, w: (m @ torch.linalg.pinv(w)) / (m @ torch.linalg.pinv(w)).sum(-1, keepdim=True),
            "you divide by the sum over heads.",
            "Each head has its own weights, which sum to 1 over tokens, not over heads.",
            also=(
                lambda m, w: F.normalize(m @ torch.linalg.pinv(w), p=1, dim=-1),
                lambda m, w: (looks := (m @ torch.linalg.pinv(w)).clamp(min=0)) / looks.sum(-1, keepdim=True),
            ),
        ),
    },
    see="Where each head looks",
    remarks=(Grows(lambda contexts=3: (draw(0, contexts, 4), draw(1, 2, 4))),),
)


def twin_keys_solution(W_k, mix):
    heads = W_k.unflatten(0, (len(mix), -1))  # (num_heads * head_dim, d_model) -> (num_heads, head_dim, d_model)
    return (torch.linalg.inv(mix).mT @ heads).flatten(0, 1)  # -> (num_heads * head_dim, d_model)


def _twin(W_k, mix, change=lambda m: torch.linalg.inv(m).mT):
    return (change(mix) @ W_k.unflatten(0, (len(mix), -1))).flatten(0, 1)


def _twin_cases():
    by_hand = torch.tensor([[1.0, 2, 3], [4, 5, 6]]), torch.tensor([[[2.0, 1], [0, 1]]])
    sizes = [(3, 2, 5), (2, 4, 7), (4, 1, 6), (2, 3, 4)]  # num_heads, head_dim, d_model
    return [by_hand] + [
        (draw(i, h * n, d, dtype=torch.float64), draw(i + 9, h, n, n, dtype=torch.float64) + 2 * torch.eye(n))
        for i, (h, n, d) in enumerate(sizes)
    ]


twin_keys = Exercise(
    task=(
        "Write twin_keys(W_k, mix). In W_q, someone has replaced the rows of each head h by mix[h] @ (these rows). "
        "mix is (num_heads, head_dim, head_dim), and the old W_k is (num_heads * head_dim, d_model). Return the new "
        "W_k that keeps all scores as they were."
    ),
    answer=twin_keys_solution,
    cases=_twin_cases,
    axes=("row", "feature"),
    hints=(
        "A head's scores depend on its weights only through one product, W_q.T @ W_k, taken over its own rows.",
        "With the new rows, this is W_q.T @ mix[h].T @ (something) @ W_k. What must the something be?",
        "For each head, take torch.linalg.inv(mix).mT times the rows of that head: W_k.unflatten(0, (num_heads, -1)).",
    ),
    wrong={
        "Not transposed": Wrong(
            lambda k, m: _twin(k, m, torch.linalg.inv),
            "you multiply by the inverse of each matrix, but the scores contain the transpose of the matrix.",
            "In W_q.T @ mix.T @ X @ W_k, only X = inv(mix).T makes the middle the identity.",
        ),
        "Not inverted": Wrong(
            lambda k, m: _twin(k, m, lambda x: x.mT),
            "you multiply by the transpose.",
            "A transpose undoes only a rotation. In general you need the inverse: inv(mix).T",
        ),
        "The same change again": Wrong(
            lambda k, m: _twin(k, m, lambda x: x),
            "you change the keys just as the queries were changed, so the scores contain the change twice.",
            "The keys must undo the change: use the inverse, transposed.",
        ),
        "One matrix for all heads": Wrong(
            lambda k, m: _twin(k, m[:1].expand(len(m), -1, -1)),
            "you use one matrix for all heads: that of head 0, or a mean.",
            "Each head has its own matrix: mix[h] belongs to the rows of head h.",
            also=(
                lambda k, m: _twin(k, m.mean(0, keepdim=True).expand(len(m), -1, -1)),
                lambda k, m: _twin(k, m[-1:].expand(len(m), -1, -1)),
            ),
        ),
        "Heads dealt out in turn": Wrong(
            lambda k, m: torch.einsum("hij,jhd->ihd", torch.linalg.inv(m).mT, k.unflatten(0, (-1, len(m)))).flatten(
                0, 1
            ),
            "you take rows 0, h, 2h, … as the rows of head 0.",
            "The rows of a head are side by side: unflatten(0, (num_heads, -1)).",
            also=(lambda k, m: (torch.linalg.inv(m).mT @ k.unflatten(0, (-1, len(m))).transpose(0, 1)).flatten(0, 1),),
        ),
        "One over each number": Wrong(
            lambda k, m: _twin(k, m, lambda x: 1 / x.mT),
            "you take 1 over each number in mix.",
            "The inverse of a matrix is something else: torch.linalg.inv(mix).",
            also=(
                lambda k, m: (k.unflatten(0, (len(m), -1)) / m).flatten(0, 1),
                lambda k, m: _twin(k, m, lambda x: 1 / x),
            ),
        ),
    },
    see="What no experiment can tell",
    remarks=(Grows(lambda heads=3: (draw(0, 2 * heads, 5), draw(1, heads, 2, 2) + 2 * torch.eye(2))),),
)
