"""The exercises of lesson 09: what wide heads cost, a fair comparison, the cache, folding keys into queries."""

import torch

from mhacourse.exercise import Change, Choice, Exercise, Wrong
from mhacourse.inputs import draw
from mhacourse.remarks import Grows

wide_bill = Exercise(
    task=(
        "A layer has d_model 96, 6 heads and no biases. How many weights does it have with narrow heads, and how many "
        "with wide ones (head_dim 96)?"
    ),
    answer=(36_864, 221_184),
    sizes={"d_model": 96, "num_heads": 6, "head_dim": 16},
    hints=(
        "Which four matrices are there? How many features go into each, and how many come out?",
        "Three map d_model features to num_heads · head_dim, and one maps back. What is head_dim in each layer?",
        "Count 4 · d_model · num_heads · head_dim. With narrow heads, num_heads · head_dim is d_model.",
    ),
    wrong={
        "Three matrices": Wrong(
            (27_648, 165_888),
            "you counted only three matrices.",
            "W_o is as large as each of the others.",
        ),
        "The same": Wrong(
            (36_864, 36_864),
            "you counted the wide heads as if they were narrow.",
            "A wide head has d_model features, so W_q maps d_model features to num_heads · d_model.",
        ),
        "W_o stays": Wrong(
            (36_864, 175_104),
            "you counted W_o as (d_model, d_model) in the wide layer.",
            "It receives the features of all heads: (num_heads · d_model, d_model).",
        ),
        "With biases": Wrong(
            (37_248, 223_008),
            "you counted the biases as well.",
            "This layer has none, so count only the four matrices.",
        ),
    },
    see="The bill",
)


fair_comparison = Choice(
    task=(
        "You compare eight narrow heads with eight wide ones. Which of the five reports leave it open whether narrow "
        "or wide heads make better use of the same weights and FLOPs? Give the letters of all that do."
    ),
    answer="ABD",
    options={
        "A": "the wide layer has eight times the weights, so it may win by size alone.",
        "B": "with one seed each, even two equal arms would differ.",
        "C": "it follows the rules: equal weights and FLOPs, a learning rate for each arm, and ten fresh seeds.",
        "D": "a learning rate chosen for one arm is a handicap for the other.",
        "E": "giving all arms the same batches makes the comparison less subject to chance, not more.",
    },
    hints=(
        "Ask of each report: could the arms differ even if both are equally good at their price?",
        "What does each arm cost, how many runs does it have, and for which arm were the settings chosen?",
        "More weights, one seed, a borrowed learning rate: each can make a difference on its own.",
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


def _fold_cases():
    W_q = torch.tensor([[1.0, 0, 2, 3, 0, 1], [0, 2, 1, 1, 4, 0]])
    W_k = torch.tensor([[2.0, 1, 0, 0, 1, 2], [0, 1, 3, 5, 0, 1]])
    sizes = [(5, 2, 3), (6, 3, 2), (3, 1, 4)]  # d_model, num_heads, head_dim: narrow heads, wide ones, a single one
    return [(W_q, W_k, 2)] + [(draw(i, d, h * hd), draw(10 + i, d, h * hd), h) for i, (d, h, hd) in enumerate(sizes)]


fold_keys = Exercise(
    task=(
        "Write fold_keys(W_q, W_k, num_heads), where both weights are (d_model, num_heads · head_dim), as in q = x @ "
        "W_q. For each head, compute the one matrix M for which x @ M @ x.T gives that head's scores before scaling. "
        "head_dim may be smaller or larger than d_model. Return (num_heads, d_model, d_model)."
    ),
    answer=fold_keys_solution,
    plain=(_fold_keys_by_steps,),
    cases=_fold_cases,
    axes=("head", "feature of the query", "feature of the key"),
    hints=(
        "q @ k.T is x @ W_q @ W_k.T @ x.T. What is in the middle?",
        "It is W_q @ W_k.T, head by head, so first cut the columns into num_heads blocks.",
        "W.unflatten(1, (num_heads, -1)).transpose(0, 1) puts the heads in front: (h, d_model, head_dim).",
    ),
    wrong={
        "Turned": Wrong(
            Change("return q @ k", "return (q @ k).mT"),
            "you swapped the query's weight and the key's, so every matrix is transposed.",
            "x @ M @ x.T has the query in front, so M is W_q @ W_k.T.",
        ),
        "All heads added": Wrong(
            lambda W_q, W_k, num_heads: (W_q @ W_k.T).expand(num_heads, -1, -1),
            "every head gets the sum over all heads.",
            "Cut the columns into heads before you multiply.",
        ),
        "The heads stay behind": Wrong(
            lambda W_q, W_k, h: W_q.unflatten(1, (h, -1)) @ W_k.unflatten(1, (h, -1)).mT,
            "you multiply (d_model, num_heads, head_dim) tensors directly, so each row multiplies heads by heads.",
            "The product works on the last two axes, so bring the heads to the front with transpose(0, 1).",
            also=(
                Wrong(
                    lambda W_q, W_k, h: torch.einsum(
                        "dhe,che->dch", W_q.unflatten(1, (h, -1)), W_k.unflatten(1, (h, -1))
                    ),
                    "in your result, the head axis comes last.",
                    "The task asks for (num_heads, d_model, d_model): the heads come first.",
                ),
            ),
        ),
        "Columns dealt out in turn": Wrong(
            lambda W_q, W_k, num_heads: torch.einsum(
                "ixh,jxh->hij", W_q.unflatten(1, (-1, num_heads)), W_k.unflatten(1, (-1, num_heads))
            ),
            "each head gets every num_heads-th column.",
            "The columns of a head are next to each other: unflatten(1, (num_heads, -1)).",
        ),
        "Rows and columns cut together": Wrong(
            lambda W_q, W_k, h: W_q.reshape(h, W_q.shape[0], -1) @ W_k.reshape(h, W_k.shape[0], -1).mT,
            "a reshape to (num_heads, d_model, head_dim) takes the numbers row by row, so each head gets only some of "
            "the rows.",
            "Cut the columns, (d_model, num_heads, head_dim), then move the heads to the front with transpose(0, 1).",
        ),
        "One matrix for all heads": Wrong(
            Change("return q @ k", "return (q @ k).sum(0)"),
            "your matrix is the sum of all heads' matrices.",
            "Each head has its own matrix: cut the columns into heads, multiply head by head, and do not add the "
            "products.",
        ),
        "Scaled already": Wrong(
            lambda W_q, W_k, num_heads: fold_keys_solution(W_q, W_k, num_heads) / (W_q.shape[1] // num_heads) ** 0.5,
            "you divided the scores by the root of head_dim.",
            "The task asks for the scores before scaling.",
        ),
    },
    see="Two matrices that never appear apart",
    remarks=(Grows(lambda heads=3: (draw(0, 4, 2 * heads), draw(1, 4, 2 * heads), heads)),),
)
