"""The exercises of lesson 07: a layer's bill, what breaks a tie, each head's matrices, heads without a split."""

import torch

from mhacourse.exercise import Change, Choice, Exercise, Wrong
from mhacourse.inputs import draw
from mhacourse.remarks import Grows

layer_bill = Exercise(
    task=(
        "nn.MultiheadAttention(768, num_heads=12) has four parameters. How many numbers are in in_proj_weight, "
        "in_proj_bias, out_proj.weight and out_proj.bias? Four numbers, in this order."
    ),
    answer=(3 * 768**2, 3 * 768, 768**2, 768),
    sizes={"d_model": 768, "num_heads": 12, "head_dim": 64},
    hints=(
        "Does the number of heads enter?",
        "in_proj_weight holds the matrices of q, k and v below each other: (3 * 768, 768).",
    ),
    wrong={
        "Full matrices for each head": Wrong(
            (12 * 3 * 768**2, 12 * 3 * 768, 768**2, 768),
            "you gave each head matrices from 768 to 768 features.",
            "A head's matrices go from 768 to 64 features: twelve of them are one of 768 x 768.",
            also=((36 * 768**2, 36 * 768, 12 * 768**2, 12 * 768),),
        ),
        "A slice of the input for each head": Wrong(
            (12 * 3 * 64**2, 3 * 768, 768**2, 768),
            "you gave each head matrices from 64 to 64 features, as if it saw a slice of the input.",
            "Each head reads all 768 features: its matrices go from 768 to 64.",
        ),
        "q, k and v in one": Wrong(
            (768**2, 768, 768**2, 768),
            "in_proj_weight and its bias serve q, k and v, and so are three times as large.",
            "Their first axis is 3 * 768.",
        ),
        "No biases": Wrong(
            (3 * 768**2, 0, 768**2, 0),
            "the biases are counted as none.",
            "They start at 0, but training moves them: one number for each output feature.",
        ),
        "Rows and columns added": Wrong(
            (3 * 768 + 768, 3 * 768, 768 + 768, 768),
            "rows and columns are added.",
            "A table of so many rows and columns holds their product.",
        ),
        "Shapes": Wrong(
            ((3 * 768, 768), (3 * 768,), (768, 768), (768,)),
            "those are the right shapes.",
            "Asked is how many numbers each of them holds: multiply.",
        ),
    },
    see="More parameters?",
    explanation="Together 2,362,368, for 1 head as for 12.",
)

breaks_tie = Choice(
    task=(
        "Two heads start as exact copies of each other, in W_q, W_k, W_v and W_o. "
        "Which of these changes lets training make them different?"
    ),
    answer="BDE",
    options={
        "A": "equal weights get equal gradients at every step, rounding apart, so more steps do not help.",
        "B": "each head loses other weights at random, so their gradients differ.",
        "C": "all that changes is by how much both move, and both move alike.",
        "D": "each head's gradient passes through its own columns of W_o, so W_q, W_k and W_v get different gradients.",
        "E": "one number that differs changes one map a little, and so its gradients; training makes the gap wider.",
        "F": "both heads see the same batch, however large it is.",
    },
    hints=(
        "Heads with equal weights get equal gradients. What makes either of these two unequal?",
        "For each option, ask: would anything change if the two heads changed places?",
        "Three of the six make the heads unequal. Chance enters in one, in two the start is no exact copy.",
    ),
    see="Heads that start alike",
)


def own_matrices_solution(in_proj_weight, num_heads):
    return in_proj_weight.unflatten(0, (3, num_heads, -1))  # (3 d, d) -> (3, num_heads, head_dim, d)


def _own_matrices_by_steps(in_proj_weight, num_heads):
    d_model = in_proj_weight.shape[1]
    head_dim = d_model // num_heads
    return in_proj_weight.reshape(3, num_heads, head_dim, d_model)


def _own_matrices_by_loop(in_proj_weight, num_heads):
    d_model = in_proj_weight.shape[1]
    head_dim = d_model // num_heads
    matrices = []
    for part in range(3):
        heads = []
        for head in range(num_heads):
            first = part * d_model + head * head_dim
            heads.append(in_proj_weight[first : first + head_dim])
        matrices.append(torch.stack(heads))  # (num_heads, head_dim, d_model)
    return torch.stack(matrices)  # -> (3, num_heads, head_dim, d_model)


def _own_cases():
    sizes = [(2, 2), (10, 5), (4, 1), (8, 2)]  # d_model, num_heads; no size is 3, the number of q, k and v
    cases = [(10.0 * torch.arange(3 * d)[:, None] + torch.arange(d), h) for d, h in sizes]  # 10 · row + feature
    return [*cases, (draw(0, 42, 14), 7)]


own_matrices = Exercise(
    task=(
        "Write own_matrices(in_proj_weight, num_heads): the matrices of every head as in the illustrated transformer, "
        "out of the (3 * d_model, d_model) of nn.MultiheadAttention. Return (3, num_heads, head_dim, d_model): "
        "q, k, v first, then the head."
    ),
    answer=own_matrices_solution,
    plain=(_own_matrices_by_steps, _own_matrices_by_loop),
    cases=_own_cases,
    axes=("q/k/v", "head", "row", "feature"),
    hints=(
        "The rows come in three blocks: all of q, then all of k, then all of v. Each block is cut into heads.",
        "No number has to move: only the first axis is cut, into three.",
        "in_proj_weight.unflatten(0, (3, num_heads, head_dim)), or a reshape to the shape that is asked for.",
    ),
    wrong={
        "Heads before q, k, v": Wrong(
            lambda w, h: w.unflatten(0, (h, 3, -1)).transpose(0, 1),
            "each head's rows are cut into q, k, v: the interleaved layout of lesson 01.",
            "nn.MultiheadAttention stores all rows of q first: cut into (3, num_heads, head_dim).",
        ),
        "A slice of the input": Wrong(
            lambda w, h: w.unflatten(0, (3, -1)).unflatten(-1, (h, -1)).permute(0, 2, 1, 3),
            "you cut the columns: each head would see a slice of the input.",
            "Columns are input features, and a head reads all of them. Cut the rows.",
            also=(lambda w, h: w.unflatten(0, (3, -1)).unflatten(-1, (h, -1)).permute(0, 2, 3, 1),),
        ),
        "Rows dealt out in turn": Wrong(
            lambda w, h: w.unflatten(0, (3, -1, h)).transpose(1, 2),
            "head i got the rows i, i + h, i + 2h, …",
            "The rows of a head stand side by side: (3, num_heads, head_dim), in this order.",
        ),
    },
    see="Whose matrices are they?",
    remarks=(Grows(lambda heads=3: (draw(0, 6 * heads, 2 * heads), heads)),),
)


def masked_heads_solution(q, k, v, num_heads):
    head_dim = q.shape[-1] // num_heads
    own = torch.arange(q.shape[-1]) // head_dim == torch.arange(num_heads)[:, None]  # (num_heads, d_model)
    result = 0
    for features in own:
        scores = (q * features) @ k.mT / head_dim**0.5  # the others add 0: -> (B, T, T)
        result = result + scores.softmax(-1) @ (v * features)  # -> (B, T, d_model), zeros for the other heads
    return result


def _masked_heads_by_loop(q, k, v, num_heads):
    B, T, d_model = q.shape
    head_dim = d_model // num_heads
    result = torch.zeros(B, T, d_model)
    for head in range(num_heads):
        own = torch.zeros(d_model)
        own[head * head_dim : (head + 1) * head_dim] = 1
        scores = (q * own) @ (k * own).transpose(1, 2)  # -> (B, T, T)
        scores = scores / head_dim**0.5
        weights = scores.softmax(-1)
        result = result + weights @ (v * own)  # (B, T, T) @ (B, T, d_model)
    return result


def _masked_cases():
    q = torch.tensor([[[0.0, 0, 2, 1], [1, 3, 0, 0]]])  # query 0 of head 0 and query 1 of head 1 see all alike
    k = torch.tensor([[[1.0, 0, 1, 2], [0, 2, 1, 0]]])
    v = torch.tensor([[[2.0, 0, 1, 3], [4, 8, 5, 7]]])
    sizes = [(2, 5, 12, 3), (3, 4, 10, 5)]  # B, T, d_model, num_heads
    return [(q, k, v, 2)] + [(*draw(i, 3, B, T, d_model), h) for i, (B, T, d_model, h) in enumerate(sizes)]


masked_heads = Exercise(
    task=(
        "Heads without a split: write masked_heads(q, k, v, num_heads), all (B, T, d_model), with no reshape. "
        "For each head set the features of the other heads to zero, attend, and add up. "
        "The result is that of split, attend, merge."
    ),
    answer=masked_heads_solution,
    plain=(_masked_heads_by_loop,),
    cases=_masked_cases,
    axes=("sample", "token", "feature"),
    hints=(
        "With the features of the other heads at 0, q gives this head's scores: a 0 adds nothing.",
        "With zeros there, the values give an output that is zero there, and such outputs can be added.",
        "The root is that of head_dim = d_model // num_heads: that many features are not zero.",
    ),
    wrong={
        "Divided by sqrt(d_model)": Wrong(
            Change("head_dim**0.5", "d_model**0.5"),
            "the scores are divided by the root of all features.",
            "Only head_dim of them are not zero: q.shape[-1] // num_heads.",
        ),
        "All values for each head": Wrong(
            Change("v * own", "v"),
            "every head writes into all features, and they are added up.",
            "A head moves its own features only: v * features.",
        ),
        "One map for all": Wrong(
            lambda q, k, v, h: (q @ k.mT / (q.shape[-1] // h) ** 0.5).softmax(-1) @ v,
            "there is one softmax over all features, so one map.",
            "One softmax for each head: that is all the difference there is.",
        ),
        "The mean of the heads": Wrong(
            lambda q, k, v, h: masked_heads_solution(q, k, v, h) / h,
            "the sum was divided by the number of heads.",
            "Each head fills features of its own; just add.",
        ),
        "Features dealt out in turn": Wrong(
            Change("own[head * head_dim : (head + 1) * head_dim]", "own[head::num_heads]"),
            "head i took the features i, i + h, i + 2h, …",
            "The features of a head stand side by side: feature // head_dim is its head.",
        ),
        "The last head only": Wrong(
            Change("result + weights @ (v * own)", "weights @ (v * own)"),
            "only the last head is in the result.",
            "In the loop, add to what is there: total = total + ..., from a zero before the loop.",
        ),
        "Minus infinity for features": Wrong(
            Change("(q * own)", "q.masked_fill(own == 0, -torch.inf)"),
            "the features of the other heads are minus infinity, and so the scores are no numbers (nan).",
            "Minus infinity belongs to scores whose key gets no weight. A feature that is not to count is 0.",
        ),
        "Tokens at zero": Wrong(
            Change("torch.zeros(d_model)", "torch.zeros(T, 1)"),
            "tokens were set to zero, not features.",
            "Every head sees all tokens. Its features are a part of the last axis.",
        ),
    },
    see="The same weights, more heads",
    explanation="The split is bookkeeping. What makes a head is a softmax of its own.",
)
