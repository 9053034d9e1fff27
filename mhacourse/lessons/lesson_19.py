"""The exercises of lesson 19: rounding or a bug, packed positions, the last real token, a prefix mask."""

import torch
import torch.nn.functional as F

from mhacourse.exercise import Change, Choice, Exercise, Wrong
from mhacourse.inputs import draw, labels
from mhacourse.remarks import Grows

rounding_or_bug = Choice(
    task=(
        "Six people compare two runs of one model, and each measures how far the logits differ, as a share of the "
        "largest. Who has found a bug? Give the letters of all that apply."
    ),
    answer="BDF",
    options={
        "A": (
            "in float32 the same difference is tens of thousands of times smaller, and neither is much larger than the "
            "rounding of its format."
        ),
        "B": "a difference that stays the same in float32 and in float64 is no rounding. Here positions are missing.",
        "C": "the last bits of a sum depend on its order, and the order depends on the sizes.",
        "D": "under a block mask, nothing of the first text may reach the second, not even a rounding error.",
        "E": (
            "where two tokens are nearly tied, rounding decides, and from there on the texts differ. In float64 the "
            "kernels agree."
        ),
        "F": "float64 leaves no room for rounding of this size: the two ways do not show each token the same tokens.",
    },
    hints=(
        "Rounding shrinks when the precision grows. What becomes of each difference in float64?",
        "And some numbers have no reason to move at all: which of them are not even computed from what changed?",
    ),
    see="Rounding, or a bug?",
)


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
        "A new text begins at 1": Wrong(
            lambda text: packed_positions_solution(text) + (text != text[:, :1]).cummax(1).values.long(),
            "the first text begins at 0, but every later one at 1.",
            "Each text starts anew, and its first token has none of its own text before it: position 0.",
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


def last_real_solution(hidden, real):
    places = torch.arange(real.shape[1])
    last = (real * places).argmax(-1)  # (B,): the largest place that is real
    return hidden[torch.arange(len(hidden)), last]  # (B, T, d_model) -> (B, d_model)


def _last_by_loop(hidden, real):
    rows = []
    for b in range(len(hidden)):
        places = real[b].nonzero().flatten()
        rows.append(hidden[b, places[-1]])
    return torch.stack(rows)


def _last_by_gather(hidden, real):
    T, d_model = hidden.shape[1:]
    from_the_end = real.flip(1).int().argmax(1)  # (B,): how much padding comes after it
    last = T - 1 - from_the_end
    index = last[:, None, None].expand(-1, 1, d_model)
    return hidden.gather(1, index)[:, 0]


def _last_cases():
    def real(*rows):
        return torch.tensor(rows).bool()

    right, left = [[1, 1, 0], [1, 1, 1]], [[0, 1, 1], [1, 1, 1]]
    sides = real([1, 1, 1, 0, 0], [0, 0, 1, 1, 1], [0, 1, 1, 1, 0], [1, 0, 0, 0, 0])
    cases = [(labels(3, 2, 2), real(*right)), (labels(3, 2, 2), real(*left)), (draw(0, 4, 5, 3), sides)]
    return [
        *cases,
        (draw(1, 1, 4, 3), real([0, 0, 0, 1])),
        (draw(2, 3, 6, 5), torch.arange(6) < draw(3, 3, 1).abs() + 2),
    ]


last_real = Exercise(
    task=(
        "Write last_real(hidden, real). hidden is (B, T, d_model). real, (B, T), is True at the tokens of the text and "
        "False at the padding, which may be on the right, on the left or on both sides. Return the row of each text's "
        "last real token: (B, d_model)."
    ),
    answer=last_real_solution,
    plain=(_last_by_loop, _last_by_gather),
    cases=_last_cases,
    axes=("sample", "feature"),
    hints=(
        "First find the place of each text's last real token: (B,).",
        "real * torch.arange(T) holds the place of each real token and 0 elsewhere. Which of these is the largest?",
        "With last, (B,), you need one row for each sample: hidden[torch.arange(B), last].",
    ),
    wrong={
        "The last column": Wrong(
            lambda hidden, real: hidden[:, -1],
            "you take the last column, whatever is there.",
            "With padding on the right, this is the row of a pad. Find the last place at which real is True.",
        ),
        "Counted, not looked up": Wrong(
            lambda hidden, real: hidden[torch.arange(len(hidden)), real.sum(-1) - 1],
            "you count the real tokens and take that place, which is right only for padding on the right.",
            "Padding on the left moves the text. Look up the place: (real * torch.arange(T)).argmax(-1).",
        ),
        "The place before the first pad": Wrong(
            lambda hidden, real: hidden[torch.arange(len(hidden)), (~real).int().argmax(-1) - 1],
            "you take the place before the first pad, which is right for padding on one side only.",
            "With padding on both sides, the first pad is at the start. Look for the last True instead: "
            "(real * torch.arange(T)).argmax(-1).",
        ),
        "One too far": Wrong(
            lambda hidden, real: hidden[
                torch.arange(len(hidden)), ((real * torch.arange(real.shape[1])).argmax(-1) + 1) % real.shape[1]
            ],
            "you take the place after the last real token.",
            "A length is one more than the last place, since places begin at 0.",
            also=(
                lambda hidden, real: hidden[
                    torch.arange(len(hidden)),
                    ((real * torch.arange(real.shape[1])).argmax(-1) + 1).clamp(max=real.shape[1] - 1),
                ],
                Wrong(
                    lambda hidden, real: hidden[torch.arange(len(hidden)), real.sum(-1) % real.shape[1]],
                    "you take the place that the number of real tokens gives, one after the last, if padding is on "
                    "the right.",
                    "Places begin at 0. And with padding on the left, counting is not enough: look up the place.",
                ),
            ),
        ),
        "The first real token": Wrong(
            lambda hidden, real: hidden[torch.arange(len(hidden)), real.int().argmax(-1)],
            "argmax of the mask gives its first True.",
            "Weigh each place with its number first: (real * torch.arange(T)).argmax(-1).",
        ),
        "A mean over the text": Wrong(
            lambda hidden, real: (hidden * real[..., None]).sum(1) / real.sum(1, keepdim=True),
            "you take the mean over the real tokens.",
            "Only the last token has seen the whole text, and it alone says what comes next.",
            also=(
                Wrong(
                    lambda hidden, real: (hidden * real[..., None]).sum(1),
                    "you add up the rows of all real tokens.",
                    "Take one row of each text, that of its last real token.",
                ),
            ),
        ),
        "Padding emptied, then the last column": Wrong(
            lambda hidden, real: (hidden * real[..., None])[:, -1],
            "you set the padding to 0 and take the last column.",
            "A row of zeros is no answer. The last real token may be further left.",
        ),
        "The first sample's place for all": Wrong(
            lambda hidden, real: hidden[:, (real[0] * torch.arange(real.shape[1])).argmax()],
            "all samples give the row at which the first sample ends.",
            "Each text has its own last place.",
        ),
        "Every place of every sample": Wrong(
            lambda hidden, real: hidden[:, (real * torch.arange(real.shape[1])).argmax(-1)],
            "hidden[:, last] takes every sample's last place from every sample: (B, B, d_model).",
            "Pair each sample with its own place: hidden[torch.arange(B), last].",
        ),
    },
    see="Padding on the right",
    remarks=(Grows(lambda samples=2: (draw(0, samples, 4, 3), torch.ones(samples, 4).bool())),),
)


def prefix_mask_solution(prefix, T):
    place = torch.arange(T)
    causal = place[:, None] >= place  # (T, T)
    return causal | (place < prefix[:, None, None])  # (B, 1, 1) and (T,) -> (B, T, T)


def _prefix_by_loop(prefix, T):
    mask = torch.zeros(len(prefix), T, T, dtype=torch.bool)
    for b in range(len(prefix)):
        for query in range(T):
            for key in range(T):
                if key <= query or key < prefix[b]:
                    mask[b, query, key] = True
    return mask


def _prefix_by_slices(prefix, T):
    masks = []
    for n in prefix.tolist():
        mask = torch.ones(T, T).tril().bool()
        mask[:n, :n] = True
        masks.append(mask)
    return torch.stack(masks)


def _ones(prefix, T):
    return torch.ones(len(prefix), T, T, dtype=torch.bool)


def _in_prefix(prefix, T):
    """Return whether a query, (B, T, 1), and whether a key, (B, 1, T), belong to the prefix."""
    inside = torch.arange(T) < prefix[:, None]
    return inside[..., None], inside[:, None]


prefix_mask = Exercise(
    task=(
        "Write prefix_mask(prefix, T). The first prefix[b] tokens of sample b are an image and all see one another. "
        "The other tokens are text: each sees the image, itself and the text before it. prefix is (B,), integers. "
        "Return the mask, (B, T, T), boolean, True where a query may look."
    ),
    answer=prefix_mask_solution,
    plain=(_prefix_by_loop, _prefix_by_slices),
    cases=lambda: [
        (torch.tensor([2]), 4),
        (torch.tensor([3, 1]), 5),
        (torch.tensor([0, 4, 2]), 4),  # no image, and nothing but an image
        (torch.tensor([5, 2, 3, 6]), 7),
        (torch.tensor([1]), 1),
    ],
    axes=("sample", "query", "key"),
    hints=(
        "Begin with the causal mask. Which cells does it hide that must be visible here?",
        "Every query may look at a key of the image: the condition is about the key's place alone.",
        "place < prefix[:, None, None] is (B, 1, T). Join it with the causal mask by |.",
    ),
    wrong={
        "Only causal": Wrong(
            lambda prefix, T: _ones(prefix, T).tril(),
            "your mask is causal, so a token of the image does not see the image's later tokens.",
            "The image is complete from the start: allow its keys to every query.",
        ),
        "One key too many": Wrong(
            Change("key < prefix[b]", "key <= prefix[b]"),
            "every query sees the first token of the text, too, even those before it.",
            "A prefix of n tokens has the places 0 to n - 1: key < prefix.",
        ),
        "One key too few": Wrong(
            Change("key < prefix[b]", "key < prefix[b] - 1"),
            "the last token of the image is hidden from the tokens before it.",
            "A prefix of n tokens has the places 0 to n - 1, and all of them are visible.",
        ),
        "The image sees the text": Wrong(
            lambda prefix, T: _ones(prefix, T).tril() | _in_prefix(prefix, T)[0],
            "queries of the image see everything, so the text that is still to be written, too.",
            "The condition is about the key, not the query: keys before prefix are visible to all.",
        ),
        "The text does not see the image": Wrong(
            lambda prefix, T: prefix_mask_solution(prefix, T) & (_in_prefix(prefix, T)[0] == _in_prefix(prefix, T)[1]),
            "image and text are kept apart, as in a packed row.",
            "The text is about the image, so each of its tokens sees the whole image.",
        ),
        "The text does not see itself": Wrong(
            lambda prefix, T: _ones(prefix, T) & _in_prefix(prefix, T)[1],
            "every query sees the image, but nothing else.",
            "A token of the text also sees itself and the text before it: join the causal mask by |.",
        ),
        "And instead of or": Wrong(
            Change("key <= query or key < prefix[b]", "key <= query and key < prefix[b]"),
            "a query sees a key only if both conditions hold: earlier tokens of the image, and no text.",
            "Either condition is enough: |.",
        ),
        "The text sees its future": Wrong(
            lambda prefix, T: ~_in_prefix(prefix, T)[0] | _in_prefix(prefix, T)[1],
            "tokens of the text see one another both ways.",
            "Only the image is complete from the start. The text is written token by token, so it stays causal.",
            also=(
                Wrong(
                    _ones,
                    "everything is visible to everyone.",
                    "The text is written token by token: no query may see later text.",
                ),
            ),
        ),
        "True = blocked": Wrong(
            lambda prefix, T: ~prefix_mask_solution(prefix, T),
            "every entry is the wrong way round.",
            "True means that the query may look.",
        ),
        "Queries in columns": Wrong(
            Change("mask[b, query, key] = True", "mask[b, key, query] = True"),
            "this is the right mask, transposed: each token sees itself and later ones.",
            "Rows are queries, and columns are keys.",
        ),
        "The result lacks an axis for the samples": Wrong(
            lambda prefix, T: torch.ones(T, T).tril().bool() | (torch.arange(T) < prefix),
            "one sample gives (T, T), and several raise an error or share an axis with the queries or keys.",
            "Give prefix two more axes, for queries and keys: prefix[:, None, None].",
        ),
        "The first sample's prefix for all": Wrong(
            lambda prefix, T: prefix_mask_solution(prefix[:1].expand_as(prefix), T),
            "all samples get the prefix of the first one.",
            "Each sample has its own prefix: prefix[:, None, None].",
        ),
    },
    see="Image first, then text",
    remarks=(Grows(lambda samples=2, tokens=5: (torch.arange(samples), tokens)),),
)
