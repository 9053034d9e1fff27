"""The exercises of lesson 09: what wide heads cost, a fair comparison, the cache, folding keys into queries."""

import torch

from mhacourse.exercise import Change, Choice, Exercise, Wrong
from mhacourse.inputs import draw
from mhacourse.remarks import Grows

wide_bill = Exercise(
    task=(
        "d_model is 96, with 6 heads, no biases. How many weights does the layer have with narrow heads, and how many "
        "with wide ones (head_dim 96)?"
    ),
    answer=(36_864, 221_184),
    sizes={"d_model": 96, "num_heads": 6, "head_dim": 16},
    hints=(
        "Which four matrices are there, and from how many features to how many does each lead?",
        ("Three lead from d_model to num_heads · head_dim features, one leads back. What is head_dim in either layer?"),
        "4 · d_model · num_heads · head_dim. With narrow heads num_heads · head_dim is d_model.",
    ),
    wrong={
        "Three matrices": Wrong(
            (27_648, 165_888),
            "only three matrices are counted.",
            "W_o is as large as each of the others.",
        ),
        "The same": Wrong(
            (36_864, 36_864),
            "wide heads are counted as narrow ones.",
            "A wide head has d_model features, so W_q leads from d_model to num_heads · d_model.",
        ),
        "W_o stays": Wrong(
            (36_864, 175_104),
            "W_o is counted as (d_model, d_model) in the wide layer.",
            "It takes all heads: (num_heads · d_model, d_model).",
        ),
        "With biases": Wrong(
            (37_248, 223_008),
            "the biases are counted as well.",
            "This layer has none: count the four matrices.",
        ),
    },
    see="The bill",
)


fair_comparison = Choice(
    task=(
        "Eight narrow heads against eight wide ones. Which of the five reports leave open which of the two is the "
        "better use of the same weights and FLOPs? All of them, as letters."
    ),
    answer="ABD",
    options={
        "A": "the wide layer has eight times the weights: it may win by size alone.",
        "B": "one seed each: two equal arms would differ as well.",
        "C": "as many weights and FLOPs, a learning rate for each, ten fresh seeds: those are the rules.",
        "D": "a learning rate that was chosen for one arm is a handicap for the other.",
        "E": "the same batches for all arms take chance out of the comparison, not in.",
    },
    hints=(
        "Ask of each report: could the arms differ although both are as good for their price?",
        "What do the arms cost, how many runs speak for each, and for whom were the settings chosen?",
        "More weights, one seed, a borrowed learning rate: each can make a difference of its own.",
    ),
    see="Rules for a fair comparison",
)


def fold_keys_solution(W_q, W_k, num_heads):
    q, k = W_q.unflatten(1, (num_heads, -1)), W_k.unflatten(1, (num_heads, -1))  # (d_model, h, head_dim) each
    return q.transpose(0, 1) @ k.permute(1, 2, 0)  # (h, d_model, head_dim) @ (h, head_dim, d_model)


def _fold_keys_by_steps(W_q, W_k, num_heads):
    d_model, width = W_q.shape
    head_dim = width // num_heads
    q = W_q.reshape(d_model, num_heads, head_dim)
    q = q.transpose(0, 1)  # -> (num_heads, d_model, head_dim)
    k = W_k.reshape(d_model, num_heads, head_dim)
    k = k.transpose(0, 1)
    k = k.transpose(1, 2)  # -> (num_heads, head_dim, d_model)
    return q @ k


def _fold_keys_by_loop(W_q, W_k, num_heads):
    head_dim = W_q.shape[1] // num_heads
    matrices = []
    for head in range(num_heads):
        first = head * head_dim
        last = first + head_dim
        q = W_q[:, first:last]  # (d_model, head_dim)
        k = W_k[:, first:last]
        matrices.append(q @ k.T)
    return torch.stack(matrices)


def _fold_keys_by_chunks(W_q, W_k, num_heads):
    matrices = []
    for q, k in zip(W_q.chunk(num_heads, dim=1), W_k.chunk(num_heads, dim=1), strict=True):
        matrices.append(q @ k.T)  # (d_model, head_dim) @ (head_dim, d_model)
    return torch.stack(matrices)


def _fold_cases():
    W_q = torch.tensor([[1.0, 0, 2, 3, 0, 1], [0, 2, 1, 1, 4, 0]])
    W_k = torch.tensor([[2.0, 1, 0, 0, 1, 2], [0, 1, 3, 5, 0, 1]])
    sizes = [(5, 2, 3), (6, 3, 2)]  # d_model, num_heads, head_dim: narrow heads as well as wide ones
    return [(W_q, W_k, 2)] + [(draw(i, d, h * hd), draw(10 + i, d, h * hd), h) for i, (d, h, hd) in enumerate(sizes)]


fold_keys = Exercise(
    task=(
        "Write fold_keys(W_q, W_k, num_heads), both weights (d_model, num_heads · head_dim) as in q = x @ W_q: "
        "for each head the one matrix M, so that x @ M @ x.T are its scores before the scale. "
        "head_dim may be less than d_model or more. Returns (num_heads, d_model, d_model)."
    ),
    answer=fold_keys_solution,
    plain=(_fold_keys_by_steps, _fold_keys_by_loop, _fold_keys_by_chunks),
    cases=_fold_cases,
    axes=("head", "feature of the query", "feature of the key"),
    hints=(
        "q @ k.T is x @ W_q @ W_k.T @ x.T. What stands in the middle?",
        "W_q @ W_k.T, head by head: cut the columns into num_heads blocks first.",
        "W.unflatten(1, (num_heads, -1)).transpose(0, 1) has the heads in front: (h, d_model, head_dim).",
    ),
    wrong={
        "Turned": Wrong(
            Change("return q @ k", "return (q @ k).mT"),
            "the query's weight and the key's are exchanged, so every matrix is turned.",
            "x @ M @ x.T has the query in front: M is W_q @ W_k.T.",
        ),
        "All heads added": Wrong(
            lambda W_q, W_k, num_heads: (W_q @ W_k.T).expand(num_heads, -1, -1),
            "every head got the sum over all heads.",
            "Cut the columns into heads before you multiply.",
        ),
        "Columns dealt out in turn": Wrong(
            lambda W_q, W_k, num_heads: torch.einsum(
                "ixh,jxh->hij", W_q.unflatten(1, (-1, num_heads)), W_k.unflatten(1, (-1, num_heads))
            ),
            "each head got every num_heads-th column.",
            "The columns of a head stand side by side: unflatten(1, (num_heads, -1)).",
        ),
        "One matrix for all heads": Wrong(
            Change("return q @ k", "return (q @ k).sum(0)"),
            "this is the sum of what was asked for, over all heads.",
            "Each head has a matrix of its own: cut the columns into heads, multiply head by head, and do not add up.",
        ),
        "Scaled already": Wrong(
            lambda W_q, W_k, num_heads: fold_keys_solution(W_q, W_k, num_heads) / (W_q.shape[1] // num_heads) ** 0.5,
            "the scores are divided by the root of head_dim.",
            "Asked are the scores before the scale.",
        ),
    },
    see="Two matrices that never appear apart",
    remarks=(Grows(lambda heads=3: (draw(0, 4, 2 * heads), draw(1, 4, 2 * heads), heads)),),
)
