"""The exercises of lesson 07: a layer's bill, what breaks a tie, each head's matrices, heads without a split."""

import torch

from mhacourse.exercise import Change, Choice, Exercise, Wrong
from mhacourse.inputs import draw
from mhacourse.remarks import Grows

layer_bill = Exercise(
    task=(
        "nn.MultiheadAttention(768, num_heads=12) has four parameters. How many numbers do in_proj_weight, "
        "in_proj_bias, out_proj.weight and out_proj.bias hold? Give four numbers, in this order."
    ),
    answer=(3 * 768**2, 3 * 768, 768**2, 768),
    sizes={"d_model": 768, "num_heads": 12, "head_dim": 64},
    hints=(
        "Does the number of heads matter here?",
        "in_proj_weight holds the matrices of q, k and v one below the other: (3 * 768, 768).",
    ),
    wrong={
        "Full matrices for each head": Wrong(
            (12 * 3 * 768**2, 12 * 3 * 768, 768**2, 768),
            "you gave each head matrices that map 768 features to 768.",
            "A head's matrices map 768 features to 64, and twelve of them together make one 768 x 768 matrix.",
            also=((36 * 768**2, 36 * 768, 12 * 768**2, 12 * 768),),
        ),
        "q, k and v in one": Wrong(
            (768**2, 768, 768**2, 768),
            "in_proj_weight and its bias serve q, k and v, so they are three times as large.",
            "Their first axis is 3 * 768.",
            also=(
                Wrong(
                    (3 * 768**2, 768, 768**2, 768),
                    "in_proj_bias serves q, k and v, but you count the bias of only one of them.",
                    "There is one bias for each row of in_proj_weight.",
                ),
            ),
        ),
        "No biases": Wrong(
            (3 * 768**2, 0, 768**2, 0),
            "you left out the biases.",
            "They start at 0, but training moves them. There is one bias for each output feature.",
        ),
        "Rows and columns added": Wrong(
            (3 * 768 + 768, 3 * 768, 768 + 768, 768),
            "you added rows and columns.",
            "To count the numbers in a matrix, multiply its rows by its columns.",
        ),
        "Shapes": Wrong(
            ((3 * 768, 768), (3 * 768,), (768, 768), (768,)),
            "those are the right shapes.",
            "The task asks how many numbers each of them holds, so multiply.",
        ),
    },
    see="More parameters?",
    explanation="Together they hold 2,362,368 numbers, whether there is 1 head or 12.",
)

breaks_tie = Choice(
    task=(
        "Two heads start as exact copies of each other, in W_q, W_k, W_v and W_o. Which of these changes let training "
        "make them different?"
    ),
    answer="BDE",
    options={
        "A": "apart from rounding, equal weights get equal gradients at every step, so more steps do not help.",
        "B": "each head loses different weights at random, so the gradients differ.",
        "C": "this changes only how far the heads move, and both move in the same way.",
        "D": "each head's gradient passes through its own columns of W_o, so W_q, W_k and W_v get different gradients.",
        "E": "one different number slightly changes one map and with it the gradients; training widens the gap.",
        "F": "both heads see the same batch, however large it is.",
    },
    hints=(
        "Heads with equal weights get equal gradients. What makes either the weights or the gradients unequal?",
        "For each option, ask: would anything change if the two heads swapped places?",
        (
            "Three of the six make the heads unequal: one introduces randomness, and in the other two, the heads do "
            "not start as exact copies."
        ),
    ),
    see="Heads that start alike",
)


def own_matrices_solution(in_proj_weight, num_heads):
    return in_proj_weight.unflatten(0, (3, num_heads, -1))  # (3 d, d) -> (3, num_heads, head_dim, d)


def _own_matrices_by_steps(in_proj_weight, num_heads):
    d_model = in_proj_weight.shape[1]
    head_dim = d_model // num_heads
    return in_proj_weight.reshape(3, num_heads, head_dim, d_model)


def _own_cases():
    sizes = [(2, 2), (10, 5), (4, 1), (8, 2)]  # d_model, num_heads; no size is 3, the number of q, k and v
    cases = [(10.0 * torch.arange(3 * d)[:, None] + torch.arange(d), h) for d, h in sizes]  # 10 · row + feature
    return [*cases, (draw(0, 42, 14), 7)]


own_matrices = Exercise(
    task=(
        "Write own_matrices(in_proj_weight, num_heads), which cuts the (3 * d_model, d_model) weight of "
        "nn.MultiheadAttention into each head's matrices, as illustrated articles draw them. Return (3, num_heads, "
        "head_dim, d_model): q, k, v first, then the head."
    ),
    answer=own_matrices_solution,
    plain=(_own_matrices_by_steps,),
    cases=_own_cases,
    axes=("q/k/v", "head", "row", "feature"),
    hints=(
        "The rows come in three blocks: all of q, then all of k, then all of v. Each block is cut into heads.",
        "No number has to move: you only split the first axis into three.",
        "Use in_proj_weight.unflatten(0, (3, num_heads, head_dim)), or reshape to the shape that the task asks for.",
    ),
    wrong={
        "Heads before q, k, v": Wrong(
            lambda w, h: w.unflatten(0, (h, 3, -1)).transpose(0, 1),
            "you cut each head's rows into q, k, v, which is the interleaved layout of lesson 01.",
            "nn.MultiheadAttention stores all rows of q first, so cut into (3, num_heads, head_dim).",
        ),
        "A slice of the input": Wrong(
            lambda w, h: w.unflatten(0, (3, -1)).unflatten(-1, (h, -1)).permute(0, 2, 1, 3),
            "you cut the columns, so each head would see a slice of the input.",
            "Columns are input features, and a head reads all of them. Cut the rows.",
            also=(lambda w, h: w.unflatten(0, (3, -1)).unflatten(-1, (h, -1)).permute(0, 2, 3, 1),),
        ),
        "Rows dealt out in turn": Wrong(
            lambda w, h: w.unflatten(0, (3, -1, h)).transpose(1, 2),
            "head i gets rows i, i + h, i + 2h, …",
            "The rows of a head are next to each other: (3, num_heads, head_dim), in this order.",
        ),
        "Transposed before the cut": Wrong(
            Change("in_proj_weight.reshape(", "in_proj_weight.T.reshape("),
            "you transpose the weight before you cut it, which mixes its rows.",
            "The rows that you have to cut are already on the first axis, so leave out the transpose.",
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
        "Write masked_heads(q, k, v, num_heads), which builds heads without a split or a reshape. q, k and v are (B, "
        "T, d_model). For each head, set the features of the other heads to zero, attend, and add up the outputs. The "
        "result must be the same as with split, attend, merge."
    ),
    answer=masked_heads_solution,
    plain=(_masked_heads_by_loop,),
    cases=_masked_cases,
    axes=("sample", "token", "feature"),
    hints=(
        "With the other heads' features set to 0 in q, q·k gives this head's scores, because zeros add nothing.",
        "If those features are zero in v, too, they are zero in the output, and you can add the outputs of all heads.",
        "Divide by the root of head_dim = d_model // num_heads, the number of features that are not zero.",
    ),
    wrong={
        "No scale": Wrong(
            Change(" / head_dim**0.5", ""),
            "your scores are not divided, so the maps are too sharp.",
            "Each head has head_dim features that are not zero: divide by head_dim ** 0.5.",
        ),
        "Divided by sqrt(d_model)": Wrong(
            Change("head_dim**0.5", "d_model**0.5"),
            "you divide the scores by the square root of the number of features.",
            "Only head_dim = q.shape[-1] // num_heads of them are not zero.",
        ),
        "All values for each head": Wrong(
            Change("v * own", "v"),
            "every head writes to all features, and you add up all these outputs.",
            "A head passes on only its own features: v * features.",
        ),
        "One map for all": Wrong(
            lambda q, k, v, h: (q @ k.mT / (q.shape[-1] // h) ** 0.5).softmax(-1) @ v,
            "you take one softmax over all features, so there is only one map.",
            "Take one softmax for each head. That is the whole difference.",
        ),
        "The mean of the heads": Wrong(
            lambda q, k, v, h: masked_heads_solution(q, k, v, h) / h,
            "you divided the sum by the number of heads.",
            "Each head fills its own features, so just add.",
        ),
        "Features dealt out in turn": Wrong(
            Change("own[head * head_dim : (head + 1) * head_dim]", "own[head::num_heads]"),
            "head i gets features i, i + h, i + 2h, …",
            "The features of a head are next to each other, so feature // head_dim gives the head.",
        ),
        "The last head only": Wrong(
            Change("result + weights @ (v * own)", "weights @ (v * own)"),
            "only the last head is in the result.",
            "Set the total to zero before the loop, and add to it in the loop: total = total + ...",
        ),
        "The first head only": Wrong(
            Change("weights @ (v * own)", "weights @ (v * own) * (head == 0)"),
            "only the first head is in the result.",
            "If you zero features in q, k and v themselves, later heads have lost them, so make new tensors, q * "
            "features. And a return inside the loop ends the loop.",
        ),
        "Minus infinity for features": Wrong(
            Change("(q * own)", "q.masked_fill(own == 0, -torch.inf)"),
            "you set the features of the other heads to minus infinity, so the scores become nan.",
            "Minus infinity belongs in the scores, for a key that gets no weight. A feature that must not count "
            "should be 0.",
        ),
        "Tokens at zero": Wrong(
            Change("torch.zeros(d_model)", "torch.zeros(T, 1)"),
            "you set tokens to zero, not features.",
            "Every head sees all tokens, but only its own part of the last axis.",
        ),
    },
    see="The same weights, more heads",
    explanation="The split is bookkeeping. A head is a head because it has its own softmax.",
)
