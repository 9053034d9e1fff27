"""The five problems in the middle: without the right mask, the right mode or the right neighbour nothing shows."""

import torch

from attention_doctor import adapt
from mhacourse.exercise import Change, Wrong
from mhacourse.lessons.problems import cases, layers
from mhacourse.problem_set import Problem

_HIDE = """\
        if mask is not None:
            scores = scores.masked_fill(~mask.unsqueeze(-3), -1e9)
        weights = scores.softmax(-1)
"""
_ERASE = """\
        weights = scores.softmax(-1)
        if mask is not None:
            weights = weights * mask.unsqueeze(-3)
"""
_NEIGHBOURS = Change("unflatten(-1, (-1, self.num_heads))", "unflatten(-1, (self.num_heads, -1))")
_OWN_OUTPUT = "A hidden token still asks: its own output changes with it. Compare the outputs of the others."
_NO_MASK = "No call has a mask, and without one the layer is right."
_OPEN = "The masks hide nothing: all of their entries are True."


def _with_masks(**more) -> dict:
    """Return healthy layers that take `(x, mask)`."""
    return {
        **more,
        "heads on the last axis": layers.AtlasAttention,
        "a fused function": lambda d, h: layers.TriageAttention(d, h, dropout=0.0),
        "the layer of the course": layers.FromTheLibrary,
    }


def _hidden_as_cut(layer):
    x = torch.randn(2, 6, layer.d_model)
    mask = torch.ones(6, 6, dtype=torch.bool)
    mask[:, 4:] = False
    return torch.allclose(layer(x, mask)[:, :4], layer(x[:, :4]), atol=1e-4)


def _each_sample_its_mask(layer):
    x = torch.randn(3, 5, layer.d_model)
    mask = torch.ones(3, 5, 5, dtype=torch.bool)
    mask[0, :, 3:], mask[1, :, 2:] = False, False
    alone = torch.cat([layer(x[i : i + 1], mask[i : i + 1]) for i in range(3)])
    return torch.allclose(layer(x, mask), alone, atol=1e-4)


def _mask_and_softmax(layer):
    x = torch.randn(2, 6, layer.d_model)
    other = torch.cat([x[:, :-1], torch.randn(2, 1, layer.d_model)], dim=1)
    mask = torch.ones(6, 6, dtype=torch.bool).tril()
    return torch.allclose(layer(x, mask)[:, :-1], layer(other, mask)[:, :-1], atol=1e-4)


def _memory_hidden_as_cut(layer):
    x, memory = torch.randn(2, 4, layer.d_model), torch.randn(2, 7, layer.d_model)
    mask = torch.ones(2, 4, 7, dtype=torch.bool)
    mask[:, :, 5:] = False
    return torch.allclose(layer(x, memory, mask), layer(x, memory[:, :5]), atol=1e-4)


def _leaves_the_mask(layer):
    mask = torch.ones(2, 5, 5, dtype=torch.bool)
    before = mask.clone()
    layer(torch.randn(2, 5, layer.d_model), mask)
    return torch.equal(mask, before)


tickets = Problem(
    saw="fine until we padded",
    healthy=layers.TicketAttention,
    changes=[Change(_HIDE, _ERASE)],
    right="A",
    options={
        "A": "The softmax has shared out a weight of 1 among all keys, hidden ones too, and only then are these set to "
        "0. What is left sums to less than 1, and how much less depends on what was hidden.",
        "B": "(B, T, T) becomes (B, 1, T, T), so the heads of a sample share its mask; (T, T) becomes (1, T, T), which "
        "fits as well.",
        "C": "Then a mask of True everywhere would erase everything, and the output would be 0. It is that of no mask.",
        "D": "Without a mask it agrees with the layer of the course at the same weights: no letter is in a wrong "
        "place.",
        "E": "Hidden tokens are as if they were not there. A ticket alone and the same ticket padded and masked have "
        "to give the same outputs.",
    },
    hints=[
        "Print weights.sum(-1) with a mask and without.",
        "For the test: hide the last tokens, and compare with an input from which they are cut off.",
        "For the mending: a hidden key must lose before the softmax shares out. Which score has a weight of 0?",
    ],
    shown_by=_hidden_as_cut,
    cases=cases.MASKED,
    blind={"no mask": _NO_MASK, "open masks": _OPEN},
    alarm={"otherwise": _OWN_OUTPUT},
    fellows=_with_masks(**{"folded heads": layers.LetterAttention}),
    word="Hidden tokens still have an effect. The doctor read the weights as they were used: what is "
    "hidden has had its part in the sum.",
)

letters = Problem(
    saw="each letter alone is right, a batch of mixed lengths is not",
    healthy=layers.LetterAttention,
    changes=[Change("repeat_interleave(self.num_heads, dim=0)", "repeat(self.num_heads, 1, 1)")],
    right="B",
    options={
        "A": "exp(-1e9) is 0, to the last bit: a hidden key gets no weight at all.",
        "B": "fold puts the heads of letter 0 first, then those of letter 1: 0, 0, 1, 1. repeat lays the masks "
        "end to end: 0, 1, 0, 1. So some heads of a letter get the mask of another one. With equal lengths, or with "
        "one letter, nobody can tell.",
        "C": "reshape(B * num_heads, …) of (B, num_heads, T, head_dim) lays the heads of one letter side by side, and "
        "view(B, num_heads, …) takes them apart in the same order: without a mask the layer is right.",
        "D": "transpose(1, 2) and reshape at the end are the right merge: without a mask the layer agrees with the "
        "one of the course.",
        "E": "In a batch, a letter must get the outputs that it gets alone with its mask.",
    },
    hints=[
        "torch.tensor([3, 2]).repeat(2) and .repeat_interleave(2): print both.",
        "For the test: several samples, each with another mask; then each sample alone with its own.",
        "For the mending: the masks must be repeated in the order in which the heads were folded.",
    ],
    shown_by=_each_sample_its_mask,
    cases=cases.MASKED,
    blind={
        "no mask": _NO_MASK,
        "open masks": _OPEN,
        "one sample": "Each call has one sample, and so there is no other mask to be mistaken for its own.",
        "shared masks": "All samples have the same mask; one that is mistaken for another looks just like it.",
    },
    alarm={"otherwise": _OWN_OUTPUT},
    fellows=_with_masks(einsum=layers.TicketAttention),
    word="A sample is given the mask of another. The doctor gave each sample a mask of its own, and read off the "
    "weights whose mask it follows.",
)

atlas = Problem(
    saw="a reviewer stopped at four lines",
    healthy=layers.AtlasAttention,
    right="E",
    options={
        "A": "Read the letters: scores are (b, k, q, h), so axis 1 is that of the keys. Print "
        "weights.sum(1): ones everywhere.",
        "B": "A mask is (queries, keys), and here the scores have the keys first: so it has to be turned. Hide a "
        "token, change it: the outputs of the others stay.",
        "C": "Head i gets the features i, i + num_heads, and so on, where others take neighbours. It is another order "
        "of the same features, in q, k and v alike, and the last line puts them back in that order.",
        "D": "A fourth root on q and a fourth root on k: in the product they are the root of head_dim. q.shape[2] is "
        "head_dim here.",
        "E": "All four are right: with its keys before its queries and its heads at the end, it computes what the "
        "others compute.",
    },
    hints=[
        "Write the names of the axes beside each line: q is (B, T, head_dim, num_heads).",
        "For the test: which two things must hold of any attention layer with a causal mask? Change the last token.",
        "For the mending: before you change a line, name the output that is wrong.",
    ],
    shown_by=_mask_and_softmax,
    cases=cases.MASKED,
    near={
        "the softmax over the queries": Change("softmax(1)", "softmax(2)"),
        "the mask not turned": Change("mask.mT[..., None]", "mask[..., None]"),
    },
    wrong={
        "Neighbours": Wrong(
            [_NEIGHBOURS],
            "gives each head other features",
            "At these weights the layer deals features out to the heads in turn.",
            also=(
                [Change(_NEIGHBOURS.before, f"{_NEIGHBOURS.after}.mT")],
                [Change(_NEIGHBOURS.before, f"{_NEIGHBOURS.after}.mT"), Change(".flatten(2)", ".mT.flatten(2)")],
            ),
        ),
    },
    fellows=_with_masks(einsum=layers.TicketAttention),
    blind={"no mask": "No call has a mask.", "one call": "It calls the layer once: with what is the output compared?"},
    alarm={"otherwise": _OWN_OUTPUT},
    word="The doctor finds nothing, and it has looked at the softmax, the scale, the split, the merge and the masks. "
    "The remark is a matter of taste.",
)

captions = Problem(
    saw="the captions speak of the grey border",
    healthy=layers.CaptionAttention,
    changes=[Change("hidden = mask == 0", "hidden = mask == 0 if memory is None else mask == 1")],
    right="C",
    options={
        "A": "Which half of W_kv is called k is a matter of names, as long as it stays the same; without a mask the "
        "layer agrees with that of the course at the same weights, with memory as well.",
        "B": "softmax(-1) goes over the keys, however many there are: each row of the map sums to 1 for 4 queries "
        "and 7 keys as well.",
        "C": "With memory the line hides the keys where the mask is 1, which are those that may be seen. In "
        "self-attention it hides the others. What is left for the captions is the border.",
        "D": "unsqueeze(-3) makes (B, 1, Tq, Tk) of a mask (B, Tq, Tk), and that fits scores (B, num_heads, Tq, Tk).",
        "E": "The picture was masked, so its border is as if it were not there. Cut it off: the outputs change.",
    },
    hints=[
        "There are two ways through this layer. Which one have you tried?",
        "For the test: hide the last tokens of memory, and compare with a memory from which they are cut off.",
        "For the mending: True means may attend, in both branches.",
    ],
    shown_by=_memory_hidden_as_cut,
    cases=cases.ACROSS,
    blind={
        "no memory": "No call has a memory: self-attention is right. Call it as layer(x, memory, mask).",
        "no mask with memory": "No call with a memory has a mask.",
        "open masks": "The masks hide nothing, or everything: all of their entries are True.",
    },
    fellows={"torch's layer": layers.AcrossFromTorch, "the layer of the course": layers.AcrossFromTheLibrary},
    adapted=(
        lambda layer: adapt(lambda x, mask=None: layer(x, x, mask)),
        "adapt(lambda x, mask=None: layer(x, x, mask))",
    ),
    word="Handed over as self-attention, layer(x, None, mask), the doctor finds nothing. It examines "
    "what it is handed: only with memory, here x itself, does it come by the second branch.",
)

drafts = Problem(
    saw="the next layer sees only the past",
    healthy=layers.DraftAttention,
    changes=[Change("allowed = allowed & torch.ones", "allowed &= torch.ones")],
    right="D",
    options={
        "A": "arange(d_model).chunk(num_heads) gives neighbouring features to each head, in q, k and v alike; the "
        "layer agrees with that of the course at the same weights under a causal mask.",
        "B": "The projections are computed anew for each head. That is slow, and it gives the same numbers.",
        "C": "-1e9 would matter for a query that sees no key at all: it gets an average. Here each one sees a key.",
        "D": "allowed is the caller's own mask, not a copy, and &= writes into it. Whoever gets that mask next finds "
        "the future hidden as well.",
        "E": "The next layer does as its mask says. Print the mask before and after: it is another one.",
    },
    hints=[
        "The outputs of this layer are right. What else can a function do to the world?",
        "For the test: keep a copy of something.",
        "For the mending: a & b makes a new tensor, a &= b writes into a.",
    ],
    shown_by=_leaves_the_mask,
    cases=cases.KEPT,
    blind={
        "no mask": "No call has a mask; without one the layer makes its own.",
        "lower masks": "Your masks hide the future already, so there is nothing more to write into them.",
        "otherwise": "Its outputs are right, each time. Look at what you handed over: is the mask the same afterwards?",
    },
    fellows={"a fused function": layers.CausalFused},
    word="It changes what it was given. The doctor keeps a copy of each tensor that it hands over, and compares.",
)
