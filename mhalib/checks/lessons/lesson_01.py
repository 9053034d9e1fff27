"""The exercises of lesson 01: shapes of a fused layer, its rows, fusing two layers, a third layout."""

import torch

from mhalib.checks.exercise import Exercise, Wrong
from mhalib.checks.inputs import draw
from mhalib.checks.remarks import Asked, Grows, several_products

bert_shapes = Exercise(
    task=(
        "BERT-base: d_model 768, 12 heads. For B = 4, T = 128 and a fused contiguous layer, give three shapes: "
        "its output, q after the cut, q after the split."
    ),
    answer=((4, 128, 2304), (4, 128, 768), (4, 12, 128, 64)),
    hints=(
        "The fused layer has three times as many outputs as d_model; chunk(3, dim=-1) cuts them apart.",
        "Then split_heads: (B, T, d_model) -> (B, num_heads, T, head_dim).",
    ),
    wrong={
        "Heads behind the tokens": Wrong(
            ((4, 128, 2304), (4, 128, 768), (4, 128, 12, 64)),
            "the features are cut, but the heads were not brought forward.",
            "After the cut comes transpose(1, 2): (B, num_heads, T, head_dim).",
        ),
        "Three layers in place of one": Wrong(
            ((4, 128, 768), (4, 128, 768), (4, 12, 128, 64)),
            "the output of one of three separate layers.",
            "The fused layer makes q, k and v at once: 3 · 768 features.",
        ),
        "Split without a cut": Wrong(
            ((4, 128, 2304), (4, 128, 768), (4, 12, 128, 192)),
            "192 = 3 · 64 is what a head has before q, k and v are cut apart.",
            "That is the interleaved order of steps. Here the cut comes first, and q has 768 features.",
        ),
        "Never cut": Wrong(
            ((4, 128, 2304), (4, 128, 2304), (4, 12, 128, 192)),
            "2304 features are q, k and v together.",
            "chunk(3, dim=-1) cuts them apart: q has 768, and a head of it 64.",
        ),
        "Every head with the full width": Wrong(
            ((4, 128, 2304), (4, 128, 768), (4, 12, 128, 768)),
            "your heads have 768 features each.",
            "The split shares the features out: 768 / 12 = 64.",
        ),
        "The sentence cut": Wrong(
            ((4, 128, 2304), (4, 128, 768), (4, 12, 64, 128)),
            "tokens and features of a head are exchanged.",
            "Each head keeps all 128 tokens; its 64 features come last.",
        ),
    },
    see="Three layers or one",
)

key_rows = Exercise(
    task=(
        "An interleaved fused weight is (1536, 512), with 8 heads of 64. Which rows are the key matrix of head 6? "
        "The first row, and the first that no longer belongs to it."
    ),
    answer=(1216, 1280),
    hints=(
        "Interleaved: the rows of each head stand together, its q, then its k, then its v.",
        "Each head has 3 · 64 rows, so head 6 begins at row 6 · 192.",
    ),
    wrong={
        "The contiguous layout": Wrong(
            (896, 960),
            "512 + 6 · 64 is where it stands in a contiguous weight.",
            "Interleaved, each head keeps its 192 rows together.",
        ),
        "The query of head 6": Wrong(
            (1152, 1216), "these 64 rows make its query.", "q comes first, then k: 64 rows further down."
        ),
        "The value of head 6": Wrong((1280, 1344), "these 64 rows make its value.", "The order is q, k, v."),
        "All of head 6": Wrong(
            (1152, 1344), "these 192 rows make its query, its key and its value.", "The key is the middle third."
        ),
        "Counted from 1": Wrong(
            (1024, 1088), "that is the key of head 5.", "Heads are counted from 0: head 6 is the seventh."
        ),
        "The last row included": Wrong(
            (1216, 1279),
            "right, but the second number is the last row.",
            "Asked is the end as in a slice: W[1216:1280].",
        ),
    },
    see="Two layouts of a fused layer",
)


def fused_kv_solution(memory, W_k, W_v):
    W_kv = torch.cat([W_k, W_v])  # 2 x (d, d) -> (2 * d, d): out before in, as nn.Linear stores it
    return (memory @ W_kv.T).chunk(2, dim=-1)  # (B, T, 2 * d) -> 2 x (B, T, d)


fused_kv = Exercise(
    task=(
        "A decoder takes k and v from another sequence. Write fused_kv(memory, W_k, W_v): k and v from one product. "
        "The weights are (d, d), stored as nn.Linear stores them."
    ),
    answer=fused_kv_solution,
    cases=lambda: [
        (
            torch.tensor([[[1.0, 0.0], [0.0, 1.0]]]),
            torch.tensor([[1.0, 2.0], [3.0, 4.0]]),
            torch.tensor([[5.0, 6.0], [7.0, 8.0]]),
        ),
        (draw(0, 2, 6, 8), draw(1, 8, 8), draw(2, 8, 8)),
        (draw(3, 3, 5, 4), draw(4, 4, 4), draw(5, 4, 4)),
    ],
    axes=("sample", "token", "feature"),
    hints=(
        "Stored weights are (out, in): more outputs means more rows.",
        "torch.cat([W_k, W_v]) is (2d, d); the product is memory @ W.T.",
        "chunk(2, dim=-1) cuts the features of the result into two.",
    ),
    wrong={
        "Not turned": Wrong(
            lambda m, k, v: (m @ torch.cat([k, v], 1)).chunk(2, -1),
            "you compute memory @ W.",
            "nn.Linear stores out before in and computes memory @ W.T. With a square weight no error tells you.",
        ),
        "k and v exchanged": Wrong(
            lambda m, k, v: (m @ torch.cat([v, k]).T).chunk(2, -1),
            "v comes first.",
            "The first half of the rows makes the first half of the features.",
        ),
        "Tokens cut instead of features": Wrong(
            lambda m, k, v: (m @ torch.cat([k, v]).T).chunk(2, 1),
            "the result was cut along the tokens.",
            "k and v differ in their features: chunk(2, dim=-1).",
        ),
        "Rows dealt out in turn": Wrong(
            lambda m, k, v: (m @ torch.stack([k, v], 1).flatten(0, 1).T).chunk(2, -1),
            "rows of W_k and W_v alternate.",
            "Then a cut in the middle gives half of each. torch.cat keeps them apart.",
        ),
        "Not cut": Wrong(
            lambda m, k, v: m @ torch.cat([k, v]).T, "k and v are still in one tensor.", "Cut it: chunk(2, dim=-1)."
        ),
        "The joined weight does not fit": Wrong(
            lambda m, k, v: (m @ torch.cat([k, v], 1).T).chunk(2, -1),
            "the d features of a token meet the 2d of the joined weight.",
            "More outputs means more rows, torch.cat([W_k, W_v]) along dim 0; and the product turns it: memory @ W.T.",
        ),
        "Added": Wrong(
            lambda m, k, v: (m @ (k + v).T, m @ (k + v).T), "the weights were added.", "Keep both: one below the other."
        ),
    },
    see="Three layers or one",
    remarks=(
        Asked("The task asks for k and v from one product; yours makes {found}.", several_products),
        Grows(lambda samples=2, tokens=4: (draw(0, samples, tokens, 8), draw(1, 8, 8), draw(2, 8, 8))),
    ),
)


def third_rows_solution(num_heads, head_dim):
    rows = torch.arange(3 * num_heads * head_dim).reshape(3, num_heads, head_dim)  # q|k|v, head, feature
    return rows.permute(1, 2, 0).flatten()  # -> head, feature, q|k|v


def _rows(num_heads, head_dim, *order):
    return torch.arange(3 * num_heads * head_dim).reshape(3, num_heads, head_dim).permute(order).flatten()


third_rows = Exercise(
    task=(
        "Someone cuts with qkv.unflatten(-1, (num_heads, head_dim, 3)).unbind(-1). "
        "Write third_rows(num_heads, head_dim): the order of rows for which W_third = W[rows], where W is contiguous, "
        "q | k | v."
    ),
    answer=third_rows_solution,
    cases=lambda: [(2, 2), (2, 3), (3, 2), (4, 5)],
    axes=("place",),
    hints=(
        "Number the rows of W and give them three axes: part (q, k or v), head, feature.",
        "The cut names the axes that it wants: head, feature, part.",
        "torch.arange(...).reshape(3, num_heads, head_dim), then permute and flatten.",
    ),
    wrong={
        "The order turned around": Wrong(
            lambda h, d: _rows(h, d, 1, 2, 0).argsort(),
            "this leads from the third layout back to the contiguous one.",
            (
                "W[rows] takes row rows[i] to place i. You have the inverse; drop the argsort, or the reshape to "
                "(num_heads, head_dim, 3)."
            ),
        ),
        "The interleaved layout": Wrong(
            lambda h, d: _rows(h, d, 1, 0, 2),
            "head, part, feature: that is the interleaved layout of the lesson.",
            "Here q, k and v of one single feature stand side by side: the part is the last axis.",
        ),
        "Nothing moved": Wrong(
            lambda h, d: _rows(h, d, 0, 1, 2),
            "that is the contiguous order.",
            "Bring the axis of q, k and v to the end.",
        ),
        "Feature before head": Wrong(
            lambda h, d: _rows(h, d, 2, 1, 0),
            "feature, head, part: the axes are turned around completely.",
            "Heads come first: permute(1, 2, 0).",
        ),
        "A list of axes": Wrong(
            lambda h, d: _rows(h, d, 1, 2, 0).reshape(h, d, 3),
            "the rows still have three axes.",
            "One row number for each place: flatten().",
        ),
    },
    see="Two layouts of a fused layer",
)
