"""The first four problems: one look at the layer's inputs and outputs is enough, if it is the right look."""

import torch

from mhacourse.exercise import Change
from mhacourse.lessons.problems import cases, layers
from mhacourse.problem_set import Problem
from mhalib.attention import MultiHeadAttention

MERGE = Change("heads.transpose(1, 2).reshape", "heads.reshape")
PLAIN = {
    "einsum": layers.TicketAttention,
    "folded heads": layers.LetterAttention,
    "heads on the last axis": layers.AtlasAttention,
    "the layer of the course": MultiHeadAttention,
}


def _keeps_order(layer):
    x = torch.randn(2, 6, layer.d_model)
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    return torch.allclose(layer(x[:, order]), layer(x)[:, order], atol=1e-4)


def _repeats_itself(layer):
    layer.eval()
    x = torch.randn(2, 5, layer.d_model)
    return torch.equal(layer(x), layer(x))


def _alone_as_in_company(layer):
    x = torch.randn(3, 5, layer.d_model)
    alone = torch.cat([layer(sample[None]) for sample in x])
    return torch.allclose(layer(x), alone, atol=1e-4)


def _does_not_see_the_future(layer):
    x = torch.randn(2, 6, layer.d_model)
    other = x.clone()
    other[:, -1] = torch.randn(2, layer.d_model)
    return torch.allclose(layer(x)[:, :-1], layer(other)[:, :-1], atol=1e-4)


reviews = Problem(
    saw="the stars change with the order of the words",
    healthy=layers.ReviewAttention,
    changes=[Change("view(B, T, self.num_heads, -1).transpose(1, 2)", "view(B, self.num_heads, T, -1)"), MERGE],
    right="B",
    options={
        "A": "softmax(-1) of scores (B, num_heads, Tq, Tk) goes over the keys. Print weights.sum(-1): ones everywhere.",
        "B": "view reads the numbers as they lie in memory, token after token. Of 4 tokens and 2 heads, head 0 gets "
        "tokens 0 and 1 whole, and head 1 the other two: a head holds some tokens, where it should hold some "
        "features of all. The reshape at the end puts the pieces back as if nothing had happened.",
        "C": "q.shape[-1] is head_dim here, so the scale is the usual one. And a wrong scale alone would "
        "not care about the order of the tokens.",
        "D": "W_o takes one token at a time. It cannot carry anything from one token to another; try layer.W_o(x) with "
        "the tokens in another order.",
        "E": "Without positions, attention takes its tokens as a set: in another order they give the same outputs, in "
        "that order. Here they give other numbers.",
    },
    hints=[
        "Follow one token: arange(8).view(1, 4, 2) is 4 tokens of 2 features. What is in head 0 after "
        ".view(1, 2, 4, 1)?",
        "For the test: put the tokens into another order. What should happen to the outputs?",
        "For the mending: first give each token its heads, view(B, T, num_heads, -1), then bring the heads to the "
        "front. At the end go the same way back.",
    ],
    shown_by=_keeps_order,
    cases=cases.TOKENS_ONLY,
    blind={
        "one token": "With one token, there is none to be mixed up with: T = 1 hides it.",
        "equal tokens": "All tokens are alike: whatever is mixed up, nothing changes. Draw them: torch.randn.",
        "one call": "It calls the layer once. With what do you compare the output, other than its shape?",
        "partly": "In a head lie T / num_heads tokens. Where T = num_heads, or where your order exchanges tokens "
        "within a head, or where the order that you drew is the old one (print it), nothing is mixed up: take T = 6, "
        "and an order that moves every token far.",
    },
    alarm={"otherwise": "Tokens in another order give outputs in that other order: reorder one side to compare."},
    fellows=PLAIN,
    word="The right word: the split mixes tokens. It changed one row of a projection after another, and saw where "
    "in the maps it stands.",
)

triage = Problem(
    saw="the same call gets another priority each time",
    healthy=layers.TriageAttention,
    changes=[Change("self.dropout if self.training else 0.0", "self.dropout")],
    right="D",
    options={
        "A": "The weights are drawn once, when the layer is made; layer.weight_in is the same before and after a call.",
        "B": "Whichever of the three pieces is called q: a wrong order would be wrong in the same way each time. Here "
        "the same input gives two answers.",
        "C": "Made with dropout=0.0, the layer gives the same numbers at each call, to the last bit.",
        "D": "eval() sets layer.training to False, and it is up to the code to ask for it. nn.Dropout does; "
        "dropout_p= of a function does what it is told, whatever the mode.",
        "E": "A layer in eval mode is a function: one input, one output. Two calls here differ in the first digit.",
    },
    hints=[
        "Make the layer with dropout=0.0 and call it twice.",
        "For the test: a fresh layer is in training mode. In which mode may it drop weights, and in which not?",
        "For the mending: every nn.Module knows self.training.",
    ],
    shown_by=_repeats_itself,
    cases=cases.DROPPED,
    blind={"one call": "It calls the layer once. One answer alone does not show that the next one differs."},
    alarm={
        "training": "A fresh layer is in training mode, and there it is meant to drop weights: call layer.eval() first."
    },
    fellows={
        "nn.Dropout": layers.DropoutModule,
        "the layer of the course, dropout=0.5": lambda d, h: MultiHeadAttention(d, h, dropout=0.5),
        "einsum": layers.TicketAttention,
    },
    word="It sets eval mode and calls twice, before anything else: in a layer that answers by chance, no other "
    "comparison means anything.",
)

sensors = Problem(
    saw="an alarm depends on the other machines in the batch",
    healthy=layers.SensorAttention,
    changes=[Change(", batch_first=True", "")],
    right="A",
    options={
        "A": "nn.MultiheadAttention reads (T, B, d_model) unless it is told batch_first=True. It takes samples for "
        "tokens and tokens for samples: moment 3 of one machine looks at moment 3 of the others, never at its own "
        "past. The shape that comes out is right all the same.",
        "B": "LayerNorm takes the mean over the features of one token. Batch norm would mix samples: try layer.norm(x) "
        "with one sample changed.",
        "C": "x + found adds to each number the one in the same place. Nothing moves to another sample.",
        "D": "need_weights=False leaves out the map, nothing else: with True the output is the same up to rounding.",
        "E": "The answer for a sample is its own matter: nothing in attention adds up over the batch. Alone it gives "
        "other numbers here than in company.",
    },
    hints=[
        "Which axis is which? Read the help of nn.MultiheadAttention from its first argument to batch_first.",
        "For the test: change one sample, or leave the others away. What must not change?",
        "For the mending: one argument more where the attention is made.",
    ],
    shown_by=_alone_as_in_company,
    cases=cases.TOKENS_ONLY,
    blind={
        "one sample": "Each call has one sample: B = 1 has no neighbours that could change it.",
        "equal samples": "All samples are alike: taken from a neighbour, a number is the same.",
    },
    alarm={"otherwise": "A sample that you change may change its own output. Compare the others alone."},
    fellows={"three linears": layers.ReviewAttention, **PLAIN},
    word="One sample changes the output of another: the doctor changed one and looked at the others.",
)

verses = Problem(
    saw="the loss is too good, and what it writes makes no sense",
    healthy=layers.VerseAttention,
    changes=[Change("heads = (weights @ v).transpose(1, 2)", "heads = weights @ v")],
    right="C",
    options={
        "A": "tril keeps the diagonal, and it should: token t has to tell token t + 1, so it may see itself.",
        "B": "The axes after view are (B, T, 3, num_heads, head_dim), and permute makes (3, B, num_heads, T, head_dim) "
        "of them: q[b, head, t] is a piece of qkv(x)[b, t], as it should be.",
        "C": "weights @ v is (B, num_heads, T, head_dim). Reshaped as it lies, the row of token 0 holds what head 0 "
        "found for tokens 0, 1, 2, …: a token gets what later tokens found, and those have seen what it has to tell.",
        "D": "Each query may see itself, so no row is all -inf, and no softmax is 0/0: the outputs are finite.",
        "E": "The digits were new at each step, so there was nothing to learn by heart. Change the last token: earlier "
        "outputs move.",
    },
    hints=[
        "The mask is right. So where else could something of a later token get to an earlier one?",
        "For the test: change the last token. Which outputs may change? And try it with num_heads=1.",
        "For the mending: the heads go back behind the tokens, (B, T, num_heads, head_dim), before they are joined.",
    ],
    shown_by=_does_not_see_the_future,
    cases=cases.TOKENS_ONLY,
    blind={
        "one token": "With T = 1 there is no later token.",
        "equal tokens": "All tokens are alike: taken from a later one, a number is the same.",
        "one call": "It calls the layer once. What depends on a later token shows when that token changes.",
    },
    alarm={"otherwise": "The token that you change may change its own output, and later ones. Compare earlier ones."},
    fellows={
        "a fused function": layers.CausalFused,
        "a loop over heads": layers.DraftAttention,
    },
    word="The merge mixes the tokens. The doctor changed what the heads write for one token, and saw at which "
    "tokens it comes out.",
)
