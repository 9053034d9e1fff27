"""The exercises of lesson 00: shapes, what a map is, reading one, and a head that looks back."""

import torch

from mhacourse.exercise import Change, Choice, Exercise, Wrong
from mhacourse.inputs import draw
from mhacourse.remarks import Grows
from mhalib import scaled_dot_product_attention, split_heads

first_shapes = Exercise(
    task=(
        "Two sentences of 12 words, 64 features, 4 heads. Which shapes have the split heads and the weights? "
        "A pair of tuples."
    ),
    answer=((2, 4, 12, 16), (2, 4, 12, 12)),
    sizes={"B": 2, "T": 12, "d_model": 64, "num_heads": 4, "head_dim": 16},
    hints=(
        "The heads: (B, num_heads, T, head_dim). The weights: (B, num_heads, Tq, Tk).",
        "How many numbers of a word does each head get, when all heads together get all of them?",
        "B is 2. head_dim is d_model divided by num_heads. Tq and Tk are both the number of words.",
    ),
    wrong={
        "Heads behind the tokens": Wrong(
            ((2, 12, 4, 16), (2, 12, 4, 4)),
            "tokens stand before heads.",
            "In this course heads sit at axis 1: (B, num_heads, T, head_dim). Then every head holds a whole sentence.",
            also=(((2, 12, 4, 16), (2, 4, 12, 12)),),
        ),
        "Every head keeps all features": Wrong(
            ((2, 4, 12, 64), (2, 4, 12, 12)),
            "your heads have 64 features each.",
            "The split shares the 64 features out: 64 / 4 = 16 for each head.",
        ),
        "The sentence cut instead of the features": Wrong(
            ((2, 4, 3, 64), (2, 4, 3, 3)),
            "you cut 12 words into 4 times 3.",
            "Each head sees every word, with fewer features.",
        ),
        "The two exchanged": Wrong(
            ((2, 4, 12, 12), (2, 4, 12, 16)),
            "the shape of the weights comes first.",
            "First the heads, (B, num_heads, T, head_dim), then the weights.",
        ),
        "A map between features": Wrong(
            ((2, 4, 12, 16), (2, 4, 16, 16)),
            "your map has a row and a column for each feature of a head.",
            "A map says which word looks at which: a row for each query, a column for each key, 12 by 12.",
        ),
        "One map for all heads": Wrong(
            ((2, 4, 12, 16), (2, 12, 12)),
            "your weights have no axis for the heads.",
            "Every head has a map of its own: (B, num_heads, Tq, Tk).",
        ),
        "No samples in the weights": Wrong(
            ((2, 4, 12, 16), (4, 12, 12)),
            "your weights have no axis for the samples.",
            "Each of the two sentences has maps of its own: (B, num_heads, Tq, Tk).",
        ),
        "Heads folded into the batch": Wrong(
            ((8, 12, 16), (8, 12, 12)),
            "samples and heads share one axis, 2 · 4 = 8.",
            "Some libraries do that. In this course each has an axis of its own: (B, num_heads, T, head_dim).",
        ),
    },
    see="Seven names for all shapes",
)

attention_maps = Choice(
    task="Which of the four tables can be attention maps, rows for queries? All that can, as letters.",
    answer="BD",
    options={
        "A": "its columns sum to 1, its rows do not. Each query shares out exactly 1.",
        "B": "no weight is negative and every row sums to 1. That columns do not is as it should be.",
        "C": "rows sum to 1, but a weight is negative. A share lies between 0 and 1.",
        "D": "every query looks at itself only. That is a map, if a dull one.",
    },
    hints=(
        "Each row is a query that shares out one whole over the keys. Can a share be below 0?",
        "Two questions for each table: is every number between 0 and 1? What does a row sum to?",
        "Sum the rows of A, and look at the smallest number of C. What a column sums to does not matter.",
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
        "Write most_looked_at(weights): for each head and each word, the number of the other word that it looks at "
        "most. (num_heads, T, T) -> (num_heads, T)."
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
        "argmax(-1) gives the column of the largest number of each row.",
        "The word itself is not asked for: put something smaller than any weight on the diagonal of a copy.",
        "weights.masked_fill(torch.eye(T, dtype=torch.bool), -1) makes such a copy.",
    ),
    wrong={
        "The word itself counts": Wrong(
            Change("weights.masked_fill(itself, -1)", "weights"),
            "most words look at themselves most.",
            "Leave the diagonal out before you look for the largest.",
        ),
        "A zero on the diagonal": Wrong(
            Change("(itself, -1)", "(itself, 0)"),
            "a weight can be 0, too: where all the others are, you name the word itself.",
            "Put something smaller than any weight on the diagonal, such as -1.",
        ),
        "Columns instead of rows": Wrong(
            Change(".argmax(-1)", ".argmax(-2)"),
            "you say who looks most at each word.",
            "Rows are queries: look for the largest number along the last axis.",
        ),
        "The weight instead of the word": Wrong(
            Change(".argmax(-1)", ".amax(-1)"),
            "you return how much, not whom.",
            "argmax gives the place of the largest number.",
        ),
        "The map of the caller changed": Wrong(
            _fill_in_place,
            "the words are right, but the map that came in has a broken diagonal now.",
            "Work on a copy, by masked_fill or clone(): fill_diagonal_ and weights[...] = ... write into what came in.",
        ),
        "Counted without the word itself": Wrong(
            _row_cut_short,
            "you cut the word itself out of its row, and count the places of what is left.",
            "Behind the gap every place is one too low. Keep the row as long as it is, with -1 on the diagonal.",
        ),
        "The diagonal of a cube": Wrong(
            lambda w: w.clone().fill_diagonal_(-1).argmax(-1),
            "fill_diagonal_ takes all three axes together: [0, 0, 0], [1, 1, 1], … It wants them equally long.",
            "Each head has a diagonal of its own: masked_fill with torch.eye(T, dtype=torch.bool).",
        ),
        "Counted from 1": Wrong(
            Change(".argmax(-1)", ".argmax(-1) + 1"),
            "your numbers are one too high.",
            "Words are counted from 0, as everything in Python.",
        ),
        "The second place": Wrong(
            lambda w: w.topk(2).indices[..., 1],
            "you take the second largest of each row. That is right only where a word looks at itself most.",
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
    """The features of the lesson in short: 32 of the spelling, 32 of the position; called in the same way."""
    letters = (draw(1000 * seed + sum(map(ord, word)), 32) for word in words)
    spelling = torch.stack([4 * torch.nn.functional.normalize(word, dim=0) for word in letters])
    angles = 2 * torch.pi * (torch.arange(len(words)) - shift)[:, None] / (6 * 10 ** torch.linspace(0, 1, 16))
    waves = 2**0.5 * torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)  # (T, 32)
    return torch.cat([spelling, waves], dim=-1)[None]  # (1, T, 64)


def _loud_features(words, seed=0, shift=0):
    """The same, so large that weights are nearly 0 or 1, which can be read, and so small that exp is finite."""
    return 3.9 * _features(words, seed, shift)


looking_back = Exercise(
    task=(
        "Write looking_back(features, words): maps (2, T, T) of two heads, in which head 1 looks at the word before. "
        "features(words, shift=1) pretends that each word stands one place earlier."
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
        "A query that pretends to stand one place earlier finds the key of the word before.",
        "scaled_dot_product_attention(q, k, k) returns the output and the weights (1, 2, T, T).",
    ),
    wrong={
        "It looks ahead": Wrong(
            Change("shift=1", "shift=-1"),
            "every word finds the one after it: the keys pretend, or the queries pretend to stand later.",
            "The one who asks must pretend, with shift=1, which is one place earlier.",
        ),
        "It looks at itself": Wrong(
            Change(", shift=1", ""),
            "queries and keys have the same positions, shifted or not: only the distance counts.",
            "Give features(words, shift=1) to the queries only.",
        ),
        "The words moved, not their places": Wrong(
            Change("features(words, shift=1)", "features(words[-1:] + words[:-1])"),
            "the queries are those of the sentence with its words moved on, so their spelling moves as well.",
            "Only the places shall pretend: features(words, shift=1), with the words as they are.",
        ),
        "The finished map shifted": Wrong(
            Change(
                "return scaled_dot_product_attention(q, k, k)[1][0]",
                "maps = scaled_dot_product_attention(k, k, k)[1][0]\n"
                "    return torch.stack([maps[0], maps[1].roll(-1, -1)])",
            ),
            "each word keeps its own query, and the columns of the finished map are moved; the first word wraps round.",
            "Shift the question, not the answer: queries of features(words, shift=1), and the usual keys.",
        ),
        "The output, not the weights": Wrong(
            Change("[1][0]", "[0][0]"),
            "you return what the heads hand on, (2, T, 32).",
            "scaled_dot_product_attention returns the output [0] and the weights [1]: take [1].",
        ),
        "One head": Wrong(
            Change(", 2)", ", 1)"),
            "there is one map.",
            "Split into two heads: head 1 gets the 32 features of the position.",
        ),
    },
    see="The head explorer",
    explanation="In trained models such heads arise by themselves; lesson 10 finds them.",
)
