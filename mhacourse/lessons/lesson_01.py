"""The exercises of lesson 01: shapes of a fused layer, its rows, fusing two layers, a third layout."""

import torch

from mhacourse.exercise import Change, Exercise, Wrong
from mhacourse.inputs import draw
from mhacourse.remarks import Grows

bert_shapes = Exercise(
    task=(
        "BERT-base has d_model 768 and 12 heads. For B = 4, T = 128 and a fused contiguous layer, give three shapes: "
        "the layer's output, q after the cut, and q after the split into heads."
    ),
    answer=((4, 128, 2304), (4, 128, 768), (4, 12, 128, 64)),
    sizes={"B": 4, "T": 128, "d_model": 768, "num_heads": 12, "head_dim": 64},
    hints=(
        "The fused layer has three times as many outputs as d_model; chunk(3, dim=-1) cuts them apart.",
        "Then comes split_heads: (B, T, d_model) -> (B, num_heads, T, head_dim).",
        "head_dim is d_model divided by num_heads: 768 / 12.",
    ),
    wrong={
        "Heads after the tokens": Wrong(
            ((4, 128, 2304), (4, 128, 768), (4, 128, 12, 64)),
            "you cut the features into heads, but did not move the head axis forward.",
            "After the cut, transpose(1, 2) makes it (B, num_heads, T, head_dim).",
        ),
        "Three layers in place of one": Wrong(
            ((4, 128, 768), (4, 128, 768), (4, 12, 128, 64)),
            "that is the output of only one of three separate layers.",
            "The fused layer makes q, k and v at once: 3 · 768 features.",
        ),
        "One head cut out": Wrong(
            ((4, 128, 2304), (4, 128, 64), (4, 12, 128, 64)),
            "your q has the 64 features of one head.",
            "The cut makes three pieces, q, k and v, and each holds all heads: 2304 / 3 = 768.",
        ),
        "Cut in three": Wrong(
            ((4, 128, 2304), (4, 128, 256), (4, 12, 128, 64)),
            "your q has only a third of the 768 features.",
            "chunk cuts the output of the fused layer, 3 · 768 features, so q, k and v get 768 each.",
            also=(
                ((4, 128, 2304), (4, 128, 256), (4, 12, 128, 21)),
                ((4, 128, 768), (4, 128, 256), (4, 12, 128, 21)),
                Wrong(
                    ((4, 128, 2304), (4, 42, 2304), (4, 12, 42, 192)),
                    "you cut the tokens into three.",
                    "q, k and v are side by side on the feature axis, so use chunk(3, dim=-1). Each keeps all tokens.",
                ),
            ),
        ),
        "The sizes of the lesson": Wrong(
            ((4, 128, 1536), (4, 128, 512), (4, 8, 128, 64)),
            "these are the shapes for d_model 512 and 8 heads.",
            "BERT-base has d_model 768 and 12 heads.",
        ),
        "The heads of the lesson": Wrong(
            ((4, 128, 2304), (4, 128, 768), (4, 8, 128, 96)),
            "you cut q into 8 heads.",
            "BERT-base has 12 heads, with 768 / 12 = 64 features each.",
        ),
        "An axis for q, k and v": Wrong(
            ((4, 128, 3, 768), (4, 128, 768), (4, 12, 128, 64)),
            "you put q, k and v on a separate axis.",
            "You can view them that way later, but a linear layer puts all its outputs on one axis: 3 · 768.",
        ),
        "Shapes of weights": Wrong(
            ((2304, 768), (768, 768), (12, 64, 768)),
            "these are the shapes of the layer's weights.",
            "The task asks for the layer's output and the tensors cut from it. Each has batch and token axes: (4, "
            "128, …).",
        ),
    },
    see="Three layers or one",
)

key_rows = Exercise(
    task=(
        "An interleaved fused weight is (1536, 512), for 8 heads with 64 features each. Which of its rows make up the "
        "key matrix of head 6? Give the first of these rows, and the first row after them."
    ),
    answer=(1216, 1280),
    sizes={"d_model": 512, "num_heads": 8, "head_dim": 64, "the rows of a head": 192},
    hints=(
        "Interleaved means that each head's rows stay together: its q, then its k, then its v.",
        "How many rows does each head have? How many come before head 6, and how many of its own rows before its k?",
        "Each head has 3 · 64 rows, so head 6 begins at row 6 · 192.",
    ),
    wrong={
        "The contiguous layout": Wrong(
            (896, 960),
            "512 + 6 · 64 is where this key begins in a contiguous weight.",
            "In an interleaved weight, each head keeps its 192 rows together.",
        ),
        "The query of head 6": Wrong(
            (1152, 1216), "these 64 rows make its query.", "q comes first, and k begins 64 rows further down."
        ),
        "The value of head 6": Wrong((1280, 1344), "these 64 rows make its value.", "The order is q, k, v."),
        "All of head 6": Wrong(
            (1152, 1344), "these 192 rows make its query, its key and its value.", "The key is the middle third."
        ),
        "Heads of 64 rows": Wrong(
            (384, 448),
            "6 · 64 is where head 6 begins in a weight that makes only q, or only k.",
            "Here each head has 192 rows: 64 for q, then 64 for k, then 64 for v.",
            also=((448, 512),),
        ),
        "Counted from 1": Wrong(
            (1024, 1088), "that is the key of head 5.", "Heads are counted from 0, so head 6 is the seventh."
        ),
        "The last row included": Wrong(
            (1216, 1279),
            "you found the right rows, but your second number is the last row itself.",
            "The task asks for the end that a slice would have: W[1216:1280].",
        ),
    },
    see="Two layouts of a fused layer",
)


def fused_kv_solution(memory, W_k, W_v):
    W_kv = torch.cat([W_k, W_v])  # 2 x (d, d) -> (2 * d, d): out before in, as nn.Linear stores it
    return (memory @ W_kv.T).chunk(2, dim=-1)  # (B, T, 2 * d) -> 2 x (B, T, d)


_READABLE = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[5.0, 6.0], [7.0, 8.0]])


fused_kv = Exercise(
    task=(
        "A decoder computes k and v from another sequence, memory. Write fused_kv(memory, W_k, W_v), which computes "
        "both with a single product. The weights are (d, d), stored as nn.Linear stores them."
    ),
    answer=fused_kv_solution,
    cases=lambda: [
        (torch.tensor([[[1.0, 10.0]]]), *_READABLE),
        (torch.tensor([[[1.0, 0.0], [0.0, 1.0]]]), *_READABLE),
        (draw(0, 2, 6, 8), draw(1, 8, 8), draw(2, 8, 8)),
        (draw(3, 3, 5, 7), draw(4, 7, 7), draw(5, 7, 7)),
    ],
    axes={name: ("sample", "token", "feature") for name in "kv"},
    hints=(
        "Weights are stored as (out, in), so more outputs mean more rows.",
        "torch.cat([W_k, W_v]) is (2d, d), and the product is memory @ W.T.",
        "chunk(2, dim=-1) cuts the features of the result in two.",
    ),
    wrong={
        "Not turned": Wrong(
            lambda m, k, v: (m @ torch.cat([k, v], 1)).chunk(2, -1),
            "you compute memory @ W.",
            "nn.Linear stores (out, in) and computes memory @ W.T. With a square weight, no error warns you.",
        ),
        "k and v exchanged": Wrong(
            Change("[W_k, W_v]", "[W_v, W_k]"),
            "your v comes first.",
            "The first half of the rows makes the first half of the features.",
        ),
        "Tokens cut instead of features": Wrong(
            Change("(memory @ W_kv.T).chunk(2, dim=-1)", "(memory @ W_kv.T).chunk(2, dim=-2)"),
            "you cut the result along the token axis.",
            "k and v are different features of the same tokens, so use chunk(2, dim=-1).",
            also=(
                Change(
                    "return (memory @ W_kv.T).chunk(2, dim=-1)",
                    "k, v = (memory @ W_kv.T).chunk(2, dim=1)\n    return k, v",
                ),
            ),
        ),
        "Parts cut before tokens": Wrong(
            lambda m, k, v: (m @ torch.cat([k, v]).T).reshape(2, *m.shape).unbind(),
            "each row holds a token's k, then its v. Your reshape to (2, B, T, d) turns both into tokens: k, v, k, …",
            "Cut the last axis, where k and v are side by side: chunk(2, dim=-1).",
        ),
        "Added": Wrong(
            lambda m, k, v: (m @ (k + v).T).chunk(2, -1),
            "you added the weights.",
            "Keep both weights, one below the other.",
        ),
        "Pieces of two features": Wrong(
            lambda m, k, v: (m @ torch.cat([k, v]).T).split(2, dim=-1),
            "split(2) makes pieces of two features each, however many pieces that gives.",
            "chunk(2, dim=-1) makes two pieces, and so does split(d, dim=-1).",
        ),
        "Features taken apart": Wrong(
            lambda m, k, v: (m @ torch.cat([k, v]).T).unflatten(-1, (2, -1)).unbind(-1),
            "the cut into (2, d) is right, but then you unbind the last axis, which holds the d features.",
            "The axis of size 2 comes before it: unbind(-2).",
        ),
        "Features before tokens": Wrong(
            lambda m, k, v: (torch.cat([k, v]) @ m.mT).chunk(2, 1),
            "your k and v are (B, d, T).",
            "Keep the tokens on the left of the product, as rows: memory @ torch.cat([W_k, W_v]).T.",
        ),
        "Every other feature": Wrong(
            lambda m, k, v: (m @ torch.cat([k, v]).T).unflatten(-1, (-1, 2)).unbind(-1),
            "your k gets features 0, 2, 4, … of the result, and your v gets the others.",
            "k's features come first, then v's, so cut in the middle: chunk(2, dim=-1).",
        ),
        "A fresh layer": Wrong(
            Change("torch.cat([W_k, W_v])", "torch.nn.Linear(len(W_k), 2 * len(W_k)).weight"),
            "you make a new nn.Linear, which begins with random weights, and never use W_k and W_v.",
            "Multiply by the weights you are given: memory @ torch.cat([W_k, W_v]).T.",
        ),
    },
    see="Three layers or one",
    remarks=(Grows(lambda samples=2, tokens=4: (draw(0, samples, tokens, 8), draw(1, 8, 8), draw(2, 8, 8))),),
)


def third_rows_solution(num_heads, head_dim):
    rows = torch.arange(3 * num_heads * head_dim).reshape(3, num_heads, head_dim)  # q|k|v, head, feature
    return rows.permute(1, 2, 0).flatten()  # -> head, feature, q|k|v


third_rows = Exercise(
    task=(
        "Someone cuts qkv with qkv.unflatten(-1, (num_heads, head_dim, 3)).unbind(-1). Write third_rows(num_heads, "
        "head_dim), which returns the order of rows that makes a weight fit this cut: W_third = W[rows]. In W, the "
        "rows come in three blocks, q | k | v."
    ),
    answer=third_rows_solution,
    cases=lambda: [
        (2, 4),
        (4, 2),
        (5, 4),
    ],  # neither as many heads as features, nor three of them: q, k and v are three
    axes=("place",),
    hints=(
        "Number the rows of W and give them three axes: part (q, k or v), head, feature.",
        "The cut names the axes in the order it wants: head, feature, part.",
        "Start from torch.arange(...).reshape(3, num_heads, head_dim), then permute and flatten.",
    ),
    wrong={
        "The order turned around": Wrong(
            Change(".flatten()", ".flatten().argsort()"),
            "your order leads from the third layout back to the contiguous one.",
            "W[rows] puts row rows[i] at index i. Drop the argsort, or the reshape to (num_heads, head_dim, 3).",
        ),
        "The interleaved layout": Wrong(
            Change("rows.permute(1, 2, 0)", "rows.permute(1, 0, 2)"),
            "your order is head, part, feature, which is the interleaved layout of the lesson.",
            "Here q, k and v of a single feature are side by side, so the part is the last axis.",
        ),
        "Rows of an interleaved W": Wrong(
            lambda num_heads, head_dim: (
                torch.arange(3 * num_heads * head_dim).view(num_heads, 3, head_dim).mT.flatten()
            ),
            "you number the rows as if W held q, k and v of one head side by side.",
            "In W, all rows of q come first, then all of k, then all of v, so k begins at row num_heads * head_dim.",
        ),
        "Nothing moved": Wrong(
            Change("rows.permute(1, 2, 0)", "rows.reshape(rows.permute(1, 2, 0).shape)"),
            "your rows are still in the contiguous order.",
            "Reshape them to (3, num_heads, head_dim), the order they are in, then move the axis of size 3 to the end.",
        ),
        "Feature before head": Wrong(
            Change("rows.permute(1, 2, 0)", "rows.permute(2, 1, 0)"),
            "your order is feature, head, part, so the axes are completely reversed.",
            "Heads come first: permute(1, 2, 0).",
        ),
    },
    see="Two layouts of a fused layer",
)
