"""The exercises of lesson 09: what wide heads cost, a fair comparison, the cache, folding keys into queries."""

import torch

from mhalib.checks.exercise import Choice, Exercise, Wrong
from mhalib.checks.inputs import draw
from mhalib.checks.remarks import Grows

wide_bill = Exercise(
    task=(
        "d_model is 96, with 6 heads, no biases. How many weights does the layer have with narrow heads, and how many "
        "with wide ones (head_dim 96)?"
    ),
    answer=(36_864, 221_184),
    hints=(
        "Four matrices. Three lead from d_model to num_heads · head_dim, one leads back.",
        "4 · d_model · num_heads · head_dim. With narrow heads num_heads · head_dim is d_model.",
    ),
    wrong={
        "Exchanged": Wrong((221_184, 36_864), "the two answers are exchanged.", "First narrow, then wide."),
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
        "C": (
            "as many weights and FLOPs, the learning rate chosen for each, ten fresh seeds, all runs shown: those are "
            "the rules. What it was that made the difference is the next question."
        ),
        "D": "a learning rate that was chosen for one arm is a handicap for the other.",
        "E": "the same batches for all arms take chance out of the comparison, not in.",
    },
    hints=(
        "Ask of each report: could the arms differ although both are as good for their price?",
        "More weights, one seed, a borrowed learning rate: each can make a difference of its own.",
    ),
    see="Rules for a fair comparison",
)


def fold_keys_solution(W_q, W_k, num_heads):
    q, k = W_q.unflatten(1, (num_heads, -1)), W_k.unflatten(1, (num_heads, -1))  # (d_model, h, head_dim) each
    return q.transpose(0, 1) @ k.permute(1, 2, 0)  # (h, d_model, head_dim) @ (h, head_dim, d_model)


def _fold_cases():
    sizes = [(2, 2, 2), (3, 2, 3), (4, 3, 4)]  # d_model, num_heads, head_dim
    return [(draw(i, d, h * hd), draw(10 + i, d, h * hd), h) for i, (d, h, hd) in enumerate(sizes)]


fold_keys = Exercise(
    task=(
        "Write fold_keys(W_q, W_k, num_heads), both weights (d_model, num_heads · head_dim) as in q = x @ W_q: "
        "for each head the one matrix M, so that x @ M @ x.T are its scores before the scale. "
        "Returns (num_heads, d_model, d_model)."
    ),
    answer=fold_keys_solution,
    cases=_fold_cases,
    axes=("head", "feature of the query", "feature of the key"),
    hints=(
        "q @ k.T is x @ W_q @ W_k.T @ x.T. What stands in the middle?",
        "W_q @ W_k.T, head by head: cut the columns into num_heads blocks first.",
        "W.unflatten(1, (num_heads, -1)).transpose(0, 1) has the heads in front: (h, d_model, head_dim).",
    ),
    wrong={
        "Turned": Wrong(
            lambda W_q, W_k, num_heads: fold_keys_solution(W_k, W_q, num_heads),
            "the query's weight and the key's are exchanged, so every matrix is turned.",
            "x @ M @ x.T has the query in front: M is W_q @ W_k.T.",
        ),
        "All heads added": Wrong(
            lambda W_q, W_k, num_heads: (W_q @ W_k.T).expand(num_heads, -1, -1),
            "every head got the sum over all heads.",
            "Cut the columns into heads before you multiply.",
            also=(lambda W_q, W_k, num_heads: W_q @ W_k.T,),
        ),
        "Columns dealt out in turn": Wrong(
            lambda W_q, W_k, num_heads: torch.einsum(
                "ixh,jxh->hij", W_q.unflatten(1, (-1, num_heads)), W_k.unflatten(1, (-1, num_heads))
            ),
            "each head got every num_heads-th column.",
            "The columns of a head stand side by side: unflatten(1, (num_heads, -1)).",
        ),
        "Scaled already": Wrong(
            lambda W_q, W_k, num_heads: fold_keys_solution(W_q, W_k, num_heads) / (W_q.shape[1] // num_heads) ** 0.5,
            "the scores are divided by the root of head_dim.",
            "Asked are the scores before the scale.",
        ),
    },
    see="Half of the wide weights are redundant",
    remarks=(Grows(lambda heads=3: (draw(0, 4, 2 * heads), draw(1, 4, 2 * heads), heads)),),
)
