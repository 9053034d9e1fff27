"""The exercises of lesson 19: packed positions."""

import torch
import torch.nn.functional as F

from mhacourse.exercise import Change, Exercise, Wrong
from mhacourse.remarks import Grows


def packed_positions_solution(text):
    before = text[:, :, None] == text[:, None, :]  # (B, T, T): is it the same text?
    return before.tril(-1).sum(-1)  # (B, T): how many tokens of it stand before


def _packed_by_loop(text):
    B, T = text.shape
    positions = torch.zeros(B, T, dtype=torch.long)
    for b in range(B):
        for t in range(1, T):
            if text[b, t] == text[b, t - 1]:
                positions[b, t] = positions[b, t - 1] + 1
    return positions


def _packed_by_starts(text):
    B, T = text.shape
    places = torch.arange(T).expand(B, T)
    new = torch.ones(B, T, dtype=torch.bool)
    new[:, 1:] = text[:, 1:] != text[:, :-1]
    starts = torch.where(new, places, 0)
    first = starts.cummax(-1).values
    return places - first


def _packed_by_sorted_numbers(text):
    rows = []
    for row in text:
        _, which, counts = row.unique(return_inverse=True, return_counts=True)
        rows.append(torch.arange(len(row)) - (counts.cumsum(0) - counts)[which])
    return torch.stack(rows)


def _packed_cases():
    rows = [
        [[0, 0, 0, 1, 1]],
        [[0, 0, 1, 1, 1, 2, 2], [4, 4, 4, 4, 2, 3, 3]],
        [[5, 5, 5, 5]],
        [[0, 0, 1, 1], [1, 1, 1, 2]],  # the second row begins with a text of the number with which the first ends
        [[2], [0]],
        [[3, 0, 0, 0, 0, 7, 7, 7, 1], [2, 2, 2, 2, 2, 2, 9, 9, 9], [0, 0, 0, 4, 5, 6, 6, 6, 6]],
    ]
    return [(torch.tensor(row),) for row in rows]


packed_positions = Exercise(
    task=(
        "Write packed_positions(text). Each row packs one or more texts end to end, and text, (B, T), holds the ID of "
        "each token's text. IDs can be any integers, in any order. Return integer positions, (B, T), that start again "
        "with each text: [[0, 0, 0, 1, 1]] gives [[0, 1, 2, 0, 1]]."
    ),
    answer=packed_positions_solution,
    plain=(_packed_by_loop, _packed_by_starts),
    cases=_packed_cases,
    axes=("sample", "token"),
    hints=(
        "The position of a token is the number of tokens of its own text that come before it.",
        "text[:, :, None] == text[:, None, :] is True where two tokens belong to the same text. Which entries of a "
        "row are for earlier tokens?",
        "Keep the entries below the diagonal, tril(-1), and count them with sum(-1).",
    ),
    wrong={
        "Counted from 1": Wrong(
            lambda text: packed_positions_solution(text) + 1,
            "the first token of a text gets position 1.",
            "A token counts only the tokens before it, not itself: tril(-1).",
        ),
        "Counted over the end of a row": Wrong(
            lambda text: _packed_by_loop(text.reshape(1, -1)).view(text.shape),
            "if the row above uses the same ID, your count goes on from there.",
            "Each row is packed separately: compare and count along the last axis, row by row.",
            also=(
                lambda text: packed_positions_solution(text.reshape(1, -1)).view(text.shape),
                Wrong(
                    lambda text: torch.cat([torch.arange(n) for n in text.unique(return_counts=True)[1]]).view(
                        text.shape
                    ),
                    "you count each text's tokens across all rows together instead of row by row, and go through the "
                    "texts in order of their IDs.",
                    "Each row is packed separately, and IDs can come in any order.",
                ),
            ),
        ),
        "Numbers taken in order": Wrong(
            _packed_by_sorted_numbers,
            "you assume that the IDs of the texts rise along the row.",
            "IDs can be any numbers in any order, so only == and != mean something here, not < or a sorted list.",
            also=(
                lambda text: torch.arange(text.shape[1]) - torch.searchsorted(text, text),
                lambda text: torch.stack(
                    [torch.cat([torch.arange(n) for n in row.unique(return_counts=True)[1]]) for row in text]
                ),
                Change("text[b, t] == text[b, t - 1]", "text[b, t] <= text[b, t - 1]"),
                lambda text: packed_positions_solution(text.cummax(1).values),
            ),
        ),
        "Never reset": Wrong(
            lambda text: F.pad((text[:, 1:] == text[:, :-1]).cumsum(1), (1, 0)),
            "you count tokens of the same text as the token before, but never reset the count for a new text.",
            "A running sum never falls: subtract its value where the text began.",
            also=(lambda text: (same := F.pad(text[:, 1:] == text[:, :-1], (1, 0))).cumsum(1) * same,),
        ),
        "Starts added up": Wrong(
            Change("starts.cummax(-1).values", "starts.cumsum(-1)"),
            "you add up the starts of the texts, so from the third text on you subtract too much.",
            "Subtract only the start of the token's own text, the largest start so far: cummax(-1).values, not cumsum.",
        ),
        "Counted from the end": Wrong(
            lambda text: packed_positions_solution(text.flip(1)).flip(1),
            "you count the later tokens of the text, so positions fall.",
            "Count the earlier tokens: tril, not triu, or text[:, :t], not text[:, t + 1 :].",
        ),
        "Texts of one length": Wrong(
            lambda text: torch.arange(text.shape[1]).expand_as(text) % (text[0] == text[0, 0]).sum(),
            "you assume that all texts are equally long: as long as the first, or a fixed share of the row.",
            "In every row, each text has its own length.",
            also=(
                lambda text: torch.arange(text.shape[1]) % (text == text[:, :1]).sum(1, keepdim=True),
                lambda text: (torch.arange(text.shape[1]) % (text.shape[1] // (int(text.max()) + 1))).expand_as(text),
            ),
        ),
        "The first row's for all": Wrong(
            lambda text: packed_positions_solution(text[:1]).expand_as(text),
            "all rows get the positions of the first row.",
            "Each row is packed differently.",
        ),
    },
    see="Two texts in one row",
    remarks=(Grows(lambda tokens=6: (torch.arange(tokens).div(3, rounding_mode="floor")[None],)),),
)
