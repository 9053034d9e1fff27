"""The exercises of lesson 18: the label that a head deserves, occlusion and rollout by hand."""

import torch

from mhacourse.exercise import Change, Exercise, Wrong
from mhacourse.inputs import draw


def deserved_labels_solution(shares):
    mean, kind = shares.nanmean(0).max(0)  # (texts, kinds, heads) -> (heads,) twice
    return torch.where(mean >= 0.4, kind, -1)


def _most_frequent(shares):
    labels = torch.where(shares.nan_to_num(0).amax(1) >= 0.4, shares.nan_to_num(0).argmax(1), -1)  # (texts, heads)
    return labels.mode(0).values


def _label_cases():
    nan = torch.nan
    one = [[0.9, 0.0], [0.3, 0.5], [0.3, 0.5]]  # of head 0 a kind in each of three texts
    tiny = torch.tensor([[[a], [b]] for a, b in one])
    gaps = torch.tensor([[[0.7, 0.1], [nan, nan]], [[0.1, 0.3], [0.6, 0.3]], [[0.1, 0.3], [nan, nan]]])
    cases = [(tiny,), (gaps,)]
    for seed, sizes in enumerate([(7, 4, 5), (5, 3, 6)]):
        shares = draw(seed, *sizes).mul(2).softmax(1)
        cases.append((shares.masked_fill((draw(seed + 10, sizes[0], sizes[1], 1) > 0.8), nan),))
    return cases


deserved_labels = Exercise(
    task=(
        "Write deserved_labels(shares). shares is (texts, kinds, heads): what share of its weight each head gives to "
        "each kind of token, in each text, and NaN where a text has no such token. For each head, return the number of "
        "the kind with the largest mean over the texts that have it, or -1 if that mean is below .4: (heads,)."
    ),
    answer=deserved_labels_solution,
    cases=_label_cases,
    axes=("head",),
    hints=(
        "First take the mean over the texts, then compare the kinds. Which mean leaves NaN out?",
        "shares.nanmean(0) is (kinds, heads). Its max(0) gives the largest mean of each head, and the kind's number.",
        "torch.where(mean >= 0.4, kind, -1) puts in the -1.",
    ),
    wrong={
        "A vote of the texts": Wrong(
            _most_frequent,
            "you label each text by itself, and take the label that occurs most often.",
            "A vote ignores how large the shares are. Take the mean over the texts first, and label once.",
        ),
        "Missing counts as 0": Wrong(
            Change("shares.nanmean(0)", "shares.nan_to_num(0).mean(0)"),
            "texts without such a token count as texts in which the head ignores it.",
            "These texts tell you nothing about this kind, so leave them out: nanmean.",
        ),
        "NaN wins": Wrong(
            Change("nanmean", "mean"),
            "a single text without such a token makes the mean NaN, and no comparison with NaN holds.",
            "Take the mean over the texts that have one: nanmean.",
        ),
        "The strongest text": Wrong(
            Change("shares.nanmean(0)", "shares.nan_to_num(0).amax(0)"),
            "you take the largest share in any text.",
            "A text in which the head is strong is exactly the kind of sentence that lied. Take the mean: nanmean(0).",
        ),
        "One sentence": Wrong(
            Change("shares.nanmean(0)", "shares[0].nan_to_num(0)"),
            "you look at the first text only.",
            "The label from one sentence is a guess. Take the mean over all texts: nanmean(0).",
        ),
        "Always a label": Wrong(
            lambda shares: shares.nanmean(0).argmax(0),
            "you give every head a label, however small its largest mean is.",
            "Where no mean reaches .4, the head is mixed: return -1 there.",
        ),
        "A head for each kind": Wrong(
            Change(".max(0)", ".max(1)"),
            "you find the best head for each kind.",
            "Each head needs a label, so compare the kinds: axis 0 of (kinds, heads).",
        ),
    },
    see="What one sentence tells",
)


def occlusion_solution(f, tokens, other):
    before = f(tokens[None])[0]  # (vocab,)
    said = before.argmax()
    lost = torch.zeros(len(tokens))
    for place in range(len(tokens)):
        text = tokens.clone()
        text[place] = other
        after = f(text[None])[0]
        lost[place] = before[said] - after[said]
    return lost


def _follows(tokens):
    """Return how often each of five tokens has followed the last token before."""
    behind = (tokens[:, :-1] == tokens[:, -1:]).float()  # (B, T - 1)
    return (behind[..., None] * torch.nn.functional.one_hot(tokens[:, 1:], 5)).sum(1)  # -> (B, vocab)


def _reader(seed, vocab):
    """Return a small model in which what a token says depends on the others."""
    E, places, U = draw(seed, vocab, 8), draw(seed + 1, 8, 8), draw(seed + 2, 8, vocab)

    def f(tokens):
        x = E[tokens] + places[: tokens.shape[1]]  # (B, T, 8)
        return ((x[:, -1:] @ x.mT / 8**0.5).softmax(-1) @ x)[:, 0] @ U  # -> (B, vocab)

    return f


def _occlusion_cases():
    texts = [([1, 2, 0, 1], 3, _follows), ([4, 0, 3, 2, 5, 0], 1, _reader(0, 6)), ([0, 1, 6, 3, 2], 5, _reader(10, 7))]
    return [(f, torch.tensor(tokens), other) for tokens, other, f in texts]


def _instead(after):
    return Change("before[said] - after[said]", after)


occlusion = Exercise(
    task=(
        "Write occlusion(f, tokens, other). f takes texts, (B, T), and returns the scores of what comes next, (B, "
        "vocab). tokens, (T,), is one text. Replace its tokens one at a time by the token other, and return for each "
        "place how far the score falls that f gives to its original answer: (T,). Leave the caller's tokens as they "
        "are."
    ),
    answer=occlusion_solution,
    cases=_occlusion_cases,
    axes=("place",),
    hints=(
        "What does f answer to the whole text? Keep this answer, and its score.",
        "For each place, take a fresh copy of the text, tokens.clone(), and put other there.",
        "It is before[said] - f(text[None])[0][said], where said = before.argmax().",
    ),
    wrong={
        "Never put back": Wrong(
            Change("text = tokens.clone()", "text = tokens.clone() if place == 0 else text"),
            "the tokens that you replaced stay replaced, so the text fades from the left.",
            "Begin each place with a fresh copy of the whole text: tokens.clone().",
        ),
        "The new answer's score": Wrong(
            _instead("before[said] - after.max()"),
            "you compare with the score of whatever f answers now.",
            "The question is what happens to the original answer: after[said].",
        ),
        "Gained, not lost": Wrong(
            _instead("after[said] - before[said]"),
            "the sign is the other way round.",
            "A token that the answer needs should get a positive number: before minus after.",
        ),
        "Without the sign": Wrong(
            _instead("(before[said] - after[said]).abs()"),
            "you drop the sign, so a token that spoke against the answer counts as one that supports it.",
            "Keep the sign: before minus after.",
        ),
        "Whether, not how far": Wrong(
            _instead("float(after.argmax() != said)"),
            "you return whether the answer changes.",
            "The score may fall a long way before the answer changes: return the fall.",
        ),
        "Probabilities": Wrong(
            _instead("before.softmax(-1)[said] - after.softmax(-1)[said]"),
            "you compare probabilities.",
            "The task asks for the scores as f returns them, without a softmax.",
            also=(_instead("before.log_softmax(-1)[said] - after.log_softmax(-1)[said]"),),
        ),
        "Left out": Wrong(
            Change("text[place] = other", "text = torch.cat([tokens[:place], tokens[place + 1 :]])"),
            "you take the token out, so all later tokens move one place to the left.",
            "That tests positions as well. Put other in its place.",
        ),
        "Nothing but this token": Wrong(
            Change("text[place] = other", "text[torch.arange(len(text)) != place] = other"),
            "you keep this token and replace all others.",
            "Replace this one, and keep the others.",
        ),
    },
    see="Which tokens matter?",
)


def rollout_by_hand_solution(maps):
    tokens = torch.eye(maps.shape[-1])
    mixed = tokens
    for layer in maps:
        brought = layer.mean(0)  # (num_heads, T, T) -> (T, T)
        mixed = (0.5 * brought + 0.5 * tokens) @ mixed
    return mixed


def _rollout_cases():
    back = torch.tensor([[1.0, 0, 0], [1, 0, 0], [0, 1, 0]])  # each looks at the token before
    last = torch.tensor([[1.0, 0, 0], [0, 1, 0], [0, 1, 0]])
    tiny = torch.stack([back, last])[:, None]  # two layers of one head
    return [(tiny,)] + [(draw(seed, *sizes).softmax(-1),) for seed, sizes in enumerate([(2, 3, 4, 4), (3, 2, 5, 5)])]


def _own(layer):
    return Change("(0.5 * brought + 0.5 * tokens)", layer)


rollout_by_hand = Exercise(
    task=(
        "Write rollout_by_hand(maps). maps, (layers, num_heads, T, T), holds the attention weights of all layers, the "
        "first layer first. Half of what leaves a layer is what came in, and half is what its heads bring, on average "
        "over the heads. Return how much of each token arrives at each query after the last layer, (T, T)."
    ),
    answer=rollout_by_hand_solution,
    cases=_rollout_cases,
    axes=("query", "token"),
    hints=(
        "One layer hands on 0.5 * layer.mean(0) + 0.5 * torch.eye(T).",
        "Row i of a layer says what query i takes from where. What it finds there was mixed by the layer below.",
        "So each layer multiplies from the left: mixed = own @ mixed.",
    ),
    wrong={
        "The wrong order": Wrong(
            lambda maps: torch.linalg.multi_dot([0.5 * x.mean(0) + 0.5 * torch.eye(len(x[0])) for x in maps]),
            "you multiply the layers from the first to the last, left to right.",
            "The last layer asks first, so it is on the left: own @ mixed.",
        ),
        "Without what came in": Wrong(
            _own("brought"),
            "you multiply the maps alone.",
            "Half of what leaves a layer is what came in: add half of torch.eye(T).",
        ),
        "Not halved": Wrong(
            _own("(brought + tokens)"),
            "you add what came in without taking half of each, so the rows of two layers sum to 4.",
            "Take half of both, and every row sums to 1.",
        ),
        "Heads added up": Wrong(
            Change("layer.mean(0)", "layer.sum(0)"),
            "you add up the heads.",
            "The task asks for their average: layer.mean(0).",
        ),
        "The largest of the heads": Wrong(
            Change("layer.mean(0)", "layer.amax(0)"),
            "you take the largest weight of any head.",
            "Some people do, but the task asks for the average over the heads: layer.mean(0).",
        ),
        "Layers averaged": Wrong(
            lambda maps: 0.5 * maps.mean((0, 1)) + 0.5 * torch.eye(maps.shape[-1]),
            "you average the layers, as if they were side by side.",
            "The layers come one after the other, so multiply them.",
        ),
        "Cell by cell": Wrong(
            Change("@ mixed", "* mixed"),
            "you multiply cell by cell, so only direct looks survive.",
            "A token may arrive through any token in between. A matrix product, @, adds up all these ways.",
        ),
        "The last layer alone": Wrong(
            Change("@ mixed", "@ tokens"),
            "your result holds the last layer only.",
            "What the last layer finds was mixed by the layers below: multiply by mixed.",
        ),
    },
    see="Rollout",
)
