"""The exercises of lesson 00: shapes, what a map is, reading one, and a head that looks back."""

import torch

from mhacourse.exercise import Change, Choice, Exercise, Wrong
from mhacourse.inputs import draw
from mhacourse.remarks import Grows
from mhalib import scaled_dot_product_attention, split_heads

first_shapes = Exercise(
    task=(
        "You split a batch of two sentences, with 12 words of 64 features each, into 4 heads. What shapes do the split "
        "heads and the weights have? Give a pair of tuples."
    ),
    answer=((2, 4, 12, 16), (2, 4, 12, 12)),
    sizes={"B": 2, "T": 12, "d_model": 64, "num_heads": 4, "head_dim": 16},
    hints=(
        "The heads are (B, num_heads, T, head_dim), and the weights are (B, num_heads, Tq, Tk).",
        "If the heads divide a word's features among themselves, how many does each head get?",
        "B is 2. head_dim is d_model divided by num_heads. Tq and Tk are both the number of words.",
    ),
    wrong={
        "Heads after the tokens": Wrong(
            ((2, 12, 4, 16), (2, 12, 4, 4)),
            "you put tokens before heads.",
            "In this course heads are on axis 1, (B, num_heads, T, head_dim), and every head holds a whole sentence.",
            also=(((2, 12, 4, 16), (2, 4, 12, 12)),),
        ),
        "Every head keeps all features": Wrong(
            ((2, 4, 12, 64), (2, 4, 12, 12)),
            "your heads have 64 features each.",
            "The split divides the 64 features among the heads: 64 / 4 = 16 for each.",
        ),
        "The sentence cut instead of the features": Wrong(
            ((2, 4, 3, 64), (2, 4, 3, 3)),
            "you cut the 12 words into 4 groups of 3.",
            "Each head sees every word, but fewer features of it.",
        ),
        "The two exchanged": Wrong(
            ((2, 4, 12, 12), (2, 4, 12, 16)),
            "you gave the shape of the weights first.",
            "Give the heads first, (B, num_heads, T, head_dim), then the weights.",
        ),
        "A map between features": Wrong(
            ((2, 4, 12, 16), (2, 4, 16, 16)),
            "your map has a row and a column for each feature of a head.",
            "A map says which word looks at which, so it has a row for each query and a column for each key: 12 by 12.",
        ),
        "One map for all heads": Wrong(
            ((2, 4, 12, 16), (2, 12, 12)),
            "your weights have no head axis.",
            "Every head has its own map: (B, num_heads, Tq, Tk).",
        ),
        "No samples in the weights": Wrong(
            ((2, 4, 12, 16), (4, 12, 12)),
            "your weights have no batch axis.",
            "Each of the two sentences has its own maps: (B, num_heads, Tq, Tk).",
        ),
        "Heads folded into the batch": Wrong(
            ((8, 12, 16), (8, 12, 12)),
            "samples and heads share one axis of size 2 · 4 = 8.",
            "Some libraries do that. In this course each has its own axis: (B, num_heads, T, head_dim).",
        ),
    },
    see="Seven names for all shapes",
)

attention_maps = Choice(
    task="Which of the four tables can be attention maps, if rows are queries? Give the letters of all that can.",
    answer="BD",
    options={
        "A": "its columns sum to 1, but its rows do not. Each query shares out a weight of exactly 1.",
        "B": "no weight is negative, and every row sums to 1. The columns do not, and they need not.",
        "C": "its rows sum to 1, but one weight is negative. A share lies between 0 and 1.",
        "D": "every query looks only at itself. That is a map, if a dull one.",
    },
    hints=(
        "Each row is a query that shares out one whole among the keys. Can a share be below 0?",
        "Ask two questions of each table. Is every number between 0 and 1? What does each row sum to?",
        "Sum the rows of A, and look at the smallest number in C. It does not matter what the columns sum to.",
    ),
    see="What a map is",
)


def most_looked_at_solution(weights):
    itself = torch.eye(weights.shape[-1], dtype=torch.bool)
    return weights.masked_fill(itself, -1).argmax(-1)  # (num_heads, T, T) -> (num_heads, T)


def _row_cut_short(weights):
    T = weights.shape[-1]
    others = ~torch.eye(T, dtype=torch.bool).expand_as(weights)
    return weights[others].view(-1, T, T - 1).argmax(-1)  # (num_heads, T, T - 1) -> (num_heads, T)


def _fill_in_place(weights):
    for head in weights:
        head.fill_diagonal_(-1)
    return weights.argmax(-1)


most_looked_at = Exercise(
    task=(
        "Write most_looked_at(weights). For each head and each word, return the index of the other word that it looks "
        "at most. (num_heads, T, T) -> (num_heads, T)."
    ),
    answer=most_looked_at_solution,
    cases=lambda: [
        # In head 0 words look at themselves most, in head 1 they do not.
        (
            torch.tensor(
                [
                    [[0.6, 0.3, 0.1], [0.1, 0.7, 0.2], [0.4, 0.1, 0.5]],
                    [[0.2, 0.3, 0.5], [0.8, 0.1, 0.1], [0.3, 0.6, 0.1]],
                ]
            ),
        ),
        (draw(0, 2, 4, 4).softmax(-1),),
        (draw(2, 1, 6, 6).softmax(-1),),  # one head keeps its axis
        ((4 * draw(1, 3, 5, 5)).softmax(-1),),
        (torch.eye(2)[None],),  # nothing for the other word, and it is the only other one
    ],
    axes=("head", "word"),
    hints=(
        "argmax(-1) gives the column of the largest number in each row.",
        "The word itself must not win, so put something smaller than any weight on the diagonal of a copy.",
        "weights.masked_fill(torch.eye(T, dtype=torch.bool), -1) makes such a copy.",
    ),
    wrong={
        "The word itself counts": Wrong(
            Change("weights.masked_fill(itself, -1)", "weights"),
            "where a word looks at itself most, you return the word itself.",
            "Leave the diagonal out before you look for the largest weight.",
        ),
        "Word 0 itself": Wrong(
            Change("(itself, -1)", "(itself & (torch.arange(len(itself)) > 0), -1)"),
            "for word 0, the word itself can still win. This happens if each search for the largest starts with column "
            "0.",
            "Leave the word itself out of every row, the first one included.",
        ),
        "A zero on the diagonal": Wrong(
            Change("(itself, -1)", "(itself, 0)"),
            "a weight can be 0, too. Where all the other weights are 0, you return the word itself.",
            "Put something smaller than any weight on the diagonal, such as -1.",
        ),
        "Columns instead of rows": Wrong(
            Change(".argmax(-1)", ".argmax(-2)"),
            "for each word, you find the word that looks at it most.",
            "Rows are queries, so look for the largest number along the last axis.",
        ),
        "The weight instead of the word": Wrong(
            Change(".argmax(-1)", ".amax(-1)"),
            "you return the weight of the other word, not its index.",
            "argmax gives the index of the largest number.",
        ),
        "The map of the caller changed": Wrong(
            _fill_in_place,
            "the words are right, but you overwrote the diagonal of the map you were given.",
            "Work on a copy made with masked_fill or clone(); fill_diagonal_ and weights[...] = ... write in place.",
        ),
        "Counted without the word itself": Wrong(
            _row_cut_short,
            "you cut the word itself out of its row, then count positions in what is left.",
            "After the gap, every index is one too low. Keep the row at its full length, with -1 on the diagonal.",
        ),
        "The diagonal of a cube": Wrong(
            lambda w: w.clone().fill_diagonal_(-1).argmax(-1),
            "fill_diagonal_ runs along all three axes at once ([0, 0, 0], [1, 1, 1], …), and needs them to be equally "
            "long.",
            "Each head has its own diagonal, so use masked_fill with torch.eye(T, dtype=torch.bool).",
        ),
        "Counted from 1": Wrong(
            Change(".argmax(-1)", ".argmax(-1) + 1"),
            "your indices are one too high.",
            "Words are counted from 0, like everything in Python.",
        ),
        "The second place": Wrong(
            lambda w: w.topk(2).indices[..., 1],
            "you take the second-largest weight of each row. That is right only where a word looks at itself most.",
            "Leave the diagonal out, then take the largest.",
        ),
    },
    see="What a map is",
    remarks=(Grows(lambda heads=2, words=4: (draw(0, heads, words, words).softmax(-1),)),),
)


def looking_back_solution(features, words):
    q = split_heads(features(words, shift=1), 2)  # (1, T, d_model) -> (1, 2, T, 32)
    k = split_heads(features(words), 2)  # (1, T, d_model) -> (1, 2, T, 32)
    return scaled_dot_product_attention(q, k, k)[1][0]  # (1, 2, T, T) -> (2, T, T)


def _looking_back_by_steps(features, words):
    q = split_heads(features(words, shift=1), 2)
    k = split_heads(features(words), 2)
    scores = q @ k.transpose(2, 3) / q.shape[-1] ** 0.5
    return scores.softmax(-1)[0]


def _features(words, seed=0, shift=0):
    """A short version of the lesson's features, called in the same way: 32 for the spelling, 32 for the position."""
    letters = (draw(1000 * seed + sum(map(ord, word)), 32) for word in words)
    spelling = torch.stack([4 * torch.nn.functional.normalize(word, dim=0) for word in letters])
    angles = 2 * torch.pi * (torch.arange(len(words)) - shift)[:, None] / (6 * 10 ** torch.linspace(0, 1, 16))
    waves = 2**0.5 * torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)  # (T, 32)
    return torch.cat([spelling, waves], dim=-1)[None]  # (1, T, 64)


def _loud_features(words, seed=0, shift=0):
    """The same features, scaled up until weights are near 0 or 1 and easy to read, while exp stays finite."""
    return 3.9 * _features(words, seed, shift)


looking_back = Exercise(
    task=(
        "Write looking_back(features, words), which returns the maps of two heads, (2, T, T). Head 1 should look at "
        "the previous word. features(words, shift=1) pretends that each word is one place earlier."
    ),
    answer=looking_back_solution,
    cases=lambda: [
        (_loud_features, "a b".split()),
        (_features, "a b c".split()),
        (_features, ["a"]),  # one word keeps its axes
        (_features, "the old cat saw the old dog".split()),
    ],
    plain=(looking_back_solution, _looking_back_by_steps),
    axes=("head", "query", "key"),
    hints=(
        "So far q, k and v were the same features. Now q and k have to differ.",
        "A query that pretends to be one place earlier finds the key of the previous word.",
        "scaled_dot_product_attention(q, k, k) returns the output and the weights, which are (1, 2, T, T).",
    ),
    wrong={
        "No scale": Wrong(
            Change(" / q.shape[-1] ** 0.5", ""),
            "your scores are not divided by the root of a head's 32 features, so the maps are too sharp.",
            "scaled_dot_product_attention divides for you; by hand, divide by q.shape[-1] ** 0.5.",
        ),
        "Four heads": Wrong(
            lambda features, words: scaled_dot_product_attention(
                *(split_heads(features(words, shift=s), 4) for s in (1, 0, 0))
            )[1][0],
            "you cut the 64 features into four heads.",
            "The task has two: one for the spelling and one for the position.",
        ),
        "One of the two heads": Wrong(
            lambda features, words: looking_back_solution(features, words)[1],
            "you return the map of head 1 alone.",
            "The task asks for the maps of both heads, (2, T, T).",
            also=(lambda features, words: looking_back_solution(features, words)[0],),
        ),
        "It looks ahead": Wrong(
            Change("shift=1", "shift=-1"),
            "every word finds the next word, because the keys pretend to be earlier, or the queries later.",
            "The query must pretend to be one place earlier, with shift=1.",
        ),
        "It looks at itself": Wrong(
            Change(", shift=1", ""),
            "you shift both queries and keys, or neither, and only the distance between them counts.",
            "Give features(words, shift=1) to the queries only.",
        ),
        "The words moved, not their places": Wrong(
            Change("features(words, shift=1)", "features(words[-1:] + words[:-1])"),
            "you move the words themselves to make the queries, so their spelling moves as well.",
            "Only the positions should shift: use features(words, shift=1), with the words in their order.",
            also=(
                Wrong(
                    Change("features(words, shift=1)", "features(words).roll(1, dims=1)"),
                    "you move whole rows of features, so the spelling moves along with the position, and the first "
                    "word gets the last word's features.",
                    "Only the positions should shift: use features(words, shift=1).",
                ),
            ),
        ),
        "The output, not the weights": Wrong(
            Change("[1][0]", "[0][0]"),
            "you return the outputs of the heads, (2, T, 32).",
            "scaled_dot_product_attention returns the output [0] and the weights [1]: take [1].",
        ),
        "One head": Wrong(
            Change(", 2)", ", 1)"),
            "you return only one map.",
            "Split into two heads: head 1 gets the 32 features of the position.",
        ),
    },
    see="The head explorer",
    explanation="In trained models, heads like this arise by themselves; lesson 10 finds them.",
)
