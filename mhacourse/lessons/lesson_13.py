"""The exercises of lesson 13: what a layout of pairs changes, reordered rows, rotary positions."""

import torch

from mhacourse.exercise import Change, Choice, Exercise, Wrong
from mhacourse.inputs import draw, labels
from mhacourse.remarks import Grows

layout_parts = Choice(
    task=(
        "A fused layer makes q, then k, then v. It was trained with the interleaved layout and will run with "
        "rotate-half. What must be reordered inside each head? Give the letters of all that apply."
    ),
    answer="ABE",
    options={
        "A": "each of these rows makes one feature of q, and q is rotated.",
        "B": "each of these rows makes one feature of k, which is rotated just as q is.",
        "C": "these rows make values, and values are not rotated.",
        "D": "they read the features of the values, which keep their order.",
        "E": (
            "a bias is added to the features that the rows make, so its numbers move with the rows. Its numbers for v "
            "stay in place."
        ),
        "F": "columns read the features of the token, and these are not paired.",
    },
    hints=(
        "Which vectors are rotated? nn.Linear stores (out, in): which part of a weight makes one of their features?",
        "Rows make features, and columns read the token. A bias has one number for each row.",
    ),
    see="From one layout to the other",
)


def rows_to_neighbours_solution(weight, num_heads):
    heads = weight.unflatten(0, (num_heads, 2, -1))  # -> (num_heads, 2, head_dim / 2, d_model)
    return heads.transpose(1, 2).flatten(0, 2)  # -> (num_heads, head_dim / 2, 2, d_model) -> (width, d_model)


def _rows_by_stack(weight, num_heads):
    width, d_model = weight.shape
    head_dim = width // num_heads
    half = head_dim // 2
    heads = weight.reshape(num_heads, head_dim, d_model)
    first = heads[:, :half]
    second = heads[:, half:]
    pairs = torch.stack([first, second], dim=2)  # -> (num_heads, half, 2, d_model)
    return pairs.reshape(width, d_model)


def _rows_cases():
    sizes = [(3, 8, 12), (5, 6, 20), (1, 10, 4), (4, 12, 16)]  # num_heads, head_dim, d_model
    return [(labels(12, 8)[0], 2)] + [(draw(i, h * hd, d), h) for i, (h, hd, d) in enumerate(sizes)]


rows_to_neighbours = Exercise(
    task=(
        "Write rows_to_neighbours(weight, num_heads). weight is the weight of W_q in the rotate-half layout, "
        "(num_heads * head_dim, d_model). Return it in the interleaved layout, with the same shape."
    ),
    answer=rows_to_neighbours_solution,
    plain=(_rows_by_stack,),
    cases=_rows_cases,
    axes=("row", "feature"),
    hints=(
        "First cut the rows into heads. With a head_dim of 6, rotate-half has the pairs (0, 3), (1, 4), (2, 5). "
        "Which pairs does the interleaved layout have?",
        "You want rows 0, 3, 1, 4, 2, 5 of each head: a table of 2 by head_dim / 2, read column by column.",
        "Use weight.unflatten(0, (num_heads, 2, -1)), exchange axes 1 and 2, then flatten(0, 2).",
    ),
    wrong={
        "The other way round": Wrong(
            lambda w, h: w.unflatten(0, (h, -1, 2)).transpose(1, 2).flatten(0, 2),
            "this goes from interleaved to rotate-half.",
            "In rotate-half, the first features of all pairs come first, so the axis of size 2 comes first as well.",
        ),
        "Over the whole width": Wrong(
            lambda w, h: w.unflatten(0, (2, -1)).transpose(0, 1).flatten(0, 1),
            "you reorder the rows over the whole width, so features of different heads become pairs.",
            "Both features of a pair are in the same head, so cut into heads first.",
        ),
        "Heads dealt out in turn": Wrong(
            lambda w, h: w.unflatten(0, (2, -1, h)).transpose(0, 1).flatten(0, 2),
            "you take rows 0, h, 2h, … as the rows of head 0.",
            "The rows of a head are side by side: cut into (num_heads, head_dim), in this order.",
        ),
        "The columns": Wrong(
            lambda w, h: w.T.unflatten(0, (h, 2, -1)).transpose(1, 2).flatten(0, 2).T,
            "you reorder the columns, not the rows.",
            "nn.Linear stores (out, in): rows make the features of q, and columns read the token.",
        ),
        "The second one first": Wrong(
            Change("torch.stack([first, second], dim=2)", "torch.stack([second, first], dim=2)"),
            "in each pair the second feature comes first.",
            "The order within a pair decides which way it turns.",
        ),
    },
    see="From one layout to the other",
    remarks=(Grows(lambda heads=4: (draw(0, 6 * heads, 5), heads)),),
)


def turned_pairs_solution(x, positions):
    half = x.shape[-1] // 2
    speeds = 10000.0 ** (-torch.arange(half) / half)  # (head_dim / 2,)
    angle = positions[:, None, :, None] * speeds  # (B, 1, T, head_dim / 2)
    a, b = x.chunk(2, dim=-1)  # (B, num_heads, T, head_dim / 2) each
    return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], dim=-1)


def _turned_by_steps(x, positions):
    B, num_heads, T, head_dim = x.shape
    half = head_dim // 2
    exponents = torch.arange(half) / half
    speeds = 10000.0**-exponents
    angle = positions[:, :, None] * speeds  # (B, T, half)
    angle = angle[:, None]  # -> (B, 1, T, half)
    cos = angle.cos()
    sin = angle.sin()
    a = x[..., :half]
    b = x[..., half:]
    first = a * cos - b * sin
    second = a * sin + b * cos
    return torch.cat([first, second], dim=-1)


def _turned_by_rotate_half(x, positions):
    head_dim = x.shape[-1]
    half = head_dim // 2
    speeds = 1 / 10000 ** (torch.arange(0, head_dim, 2) / head_dim)
    angle = positions[:, None, :, None] * speeds  # (B, 1, T, half)
    angle = torch.cat([angle, angle], dim=-1)  # -> (B, 1, T, head_dim)
    partner = torch.cat([-x[..., half:], x[..., :half]], dim=-1)
    return x * angle.cos() + partner * angle.sin()


def _by_feature(exponents):
    """Return a solution with an exponent for each feature; a feature's partner is half a head away."""

    def answer(x, positions):
        angle = positions[:, None, :, None] * 10000.0 ** -exponents(x.shape[-1])
        a, b = x.chunk(2, dim=-1)
        return x * angle.cos() + torch.cat([-b, a], dim=-1) * angle.sin()

    return answer


def _turned_cases():
    by_hand = torch.tensor([[[[1.0, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 2]]]])  # one head of two pairs
    sizes = [(2, 3, 5, 8), (3, 4, 6, 2), (2, 3, 1, 6), (1, 2, 7, 10), (3, 5, 4, 12)]  # B, num_heads, T, head_dim
    cases = [(by_hand, torch.tensor([[0, 1, 2]]))]
    for i, (B, h, T, hd) in enumerate(sizes):
        positions = (torch.arange(T) - torch.arange(B)[:, None]).clamp(min=0) + 3 * i  # as after padding
        cases.append((draw(i, B, h, T, hd), positions))
    return cases


turned_pairs = Exercise(
    task=(
        "Write turned_pairs(x, positions). x is (B, num_heads, T, head_dim), and positions, (B, T), holds integers. "
        "Rotate each pair of features of x in the rotate-half layout: pair i turns by 10000 ** (-2 * i / head_dim) "
        "per position. Return a tensor of the same shape as x."
    ),
    answer=turned_pairs_solution,
    plain=(_turned_by_steps, _turned_by_rotate_half),
    cases=_turned_cases,
    axes=("sample", "head", "token", "feature"),
    hints=(
        "There are three steps: a speed for each pair, an angle for each token and pair, and the rotation of each "
        "pair.",
        "The angles are positions times speeds, (B, T, head_dim / 2). All heads share them, so which axis is missing?",
        "Take a, b = x.chunk(2, dim=-1). The first half of the result is a cos - b sin, the second is a sin + b cos.",
    ),
    wrong={
        "Neighbours": Wrong(
            lambda x, p: torch.stack(
                turned_pairs_solution(torch.cat([x[..., 0::2], x[..., 1::2]], dim=-1), p).chunk(2, dim=-1), dim=-1
            ).flatten(-2),
            "you pair features 0 and 1, as in the interleaved layout.",
            "In rotate-half, feature 0 is paired with feature head_dim / 2.",
        ),
        "Turned halfway": Wrong(
            Change("second = a * sin", "second = first * sin"),
            "you compute the second half from a first half that has already been rotated.",
            "Both halves need the original numbers: keep a, b = x.chunk(2, dim=-1) until both are done.",
        ),
        "Pairs from both ends": Wrong(
            Change(
                "torch.cat([-x[..., half:], x[..., :half]], dim=-1)",
                "x.flip(-1) * torch.cat([-torch.ones(half), torch.ones(half)])",
            ),
            "you pair the first feature with the last one, as flip does.",
            "In rotate-half, feature 0 is paired with feature head_dim / 2: exchange the halves, without reversing "
            "them.",
        ),
        "Two layouts mixed": Wrong(
            _by_feature(lambda d: torch.arange(0, d, 2).repeat_interleave(2) / d),
            "cos and sin are laid out for neighbours, with each angle twice in a row, but here partners are half a "
            "head apart. So the two features of a pair turn by different angles.",
            "In rotate-half, the angles are cat([angle, angle], -1): feature i and feature i + head_dim / 2 share one "
            "angle.",
        ),
        "Backwards": Wrong(
            Change("positions[:, :, None]", "-positions[:, :, None]"),
            "the pairs turn the other way.",
            "If q and k both turned backwards, scores would stay the same, but weights trained elsewhere would no "
            "longer fit.",
        ),
        "Other speeds": Wrong(
            Change("torch.arange(half) / half", "torch.arange(half) / head_dim"),
            "your exponent is -i / head_dim.",
            "It should be -2 i / head_dim. In the interleaved layout, pair i begins at feature 2 i: torch.arange(0, "
            "head_dim, 2).",
            also=(
                Wrong(
                    Change("torch.arange(half) / half", "torch.arange(1, half + 1) / half"),
                    "you number the pairs from 1.",
                    "Pair 0 turns by 1 radian for each position: 10000 ** 0 is 1.",
                ),
            ),
        ),
        "The first sample's positions": Wrong(
            Change("positions[:, :, None]", "positions[:1, :, None]"),
            "all samples get the positions of the first sample.",
            "Each sample has its own positions, (B, T). Give them a head axis of size 1.",
        ),
    },
    see="Positions by rotation",
    remarks=(Grows(lambda heads=3, tokens=4: (draw(0, 2, heads, tokens, 6), torch.arange(tokens).expand(2, tokens))),),
)
