"""The first four problems: one look at the layer's inputs and outputs is enough, if it is the right look."""

import torch

from mhacourse.exercise import Change, Wrong
from mhacourse.lessons.problems import cases, layers
from mhacourse.lessons.problems.mendings import everywhere
from mhacourse.problem_set import Problem
from mhalib.attention import MultiHeadAttention

_CUT, _JOIN = "view(B, T, self.num_heads, -1)", "heads.transpose(1, 2).reshape"
_SPLIT = f"{_CUT}.transpose(1, 2)"
MERGE = Change(_JOIN, "heads.reshape")
_FORWARD = "    def forward"
_FOR_GOOD = f"    def eval(self):\n        self.dropout = 0.0\n        return super().eval()\n\n{_FORWARD}"
_FUSED = "heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout)"
_BY_HAND = """\
scores = q @ k.mT / q.shape[-1] ** 0.5
        if mask is not None:
            scores = scores.masked_fill(~mask, -1e9)
        heads = F.dropout(scores.softmax(-1), dropout) @ v"""
_TIME_FIRST = [Change(", batch_first=True", "")]
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
    changes=[Change(_SPLIT, "view(B, self.num_heads, T, -1)"), MERGE],
    right="B",
    options={
        "A": "The scores are (B, num_heads, Tq, Tk), so softmax(-1) runs over the keys. Print weights.sum(-1): it is 1 "
        "everywhere.",
        "B": "view reads the numbers in memory order, token after token. With 4 tokens and 2 heads, head 0 gets tokens "
        "0 and 1 whole, and head 1 gets the other two. So a head holds some of the tokens, instead of some features of "
        "all tokens. The reshape at the end puts the pieces back as if nothing had happened.",
        "C": "q.shape[-1] is head_dim here, so the scale is the usual one. And a wrong scale alone would not make the "
        "order of the tokens matter.",
        "D": "W_o works on one token at a time, so it cannot carry anything from one token to another. Try "
        "layer.W_o(x) with the tokens in a different order.",
        "E": "Without positions, attention treats its tokens as a set: reorder them, and you get the same outputs in "
        "the new order. Here you get different numbers.",
    },
    hints=[
        "Follow one token: arange(8).view(1, 4, 2) is 4 tokens of 2 features. What is in head 0 after "
        ".view(1, 2, 4, 1)?",
        "For the test: put the tokens in a different order. What should happen to the outputs?",
        "To mend it: first give each token its heads, view(B, T, num_heads, -1), then bring the heads to the front. At "
        "the end, go back the same way.",
    ],
    shown_by=_keeps_order,
    cases=cases.TOKENS_ONLY,
    blind={
        "one token": "A single token cannot be mixed up with another: T = 1 hides the mistake.",
        "as many tokens as heads": "If there are as many tokens as heads, each head holds exactly one token. If there "
        "are fewer, it holds a piece of one. Either way, no token is mixed up with another, so T = num_heads hides the "
        "mistake. Use more tokens.",
        "equal tokens": "All tokens are alike, so mixing them up changes nothing. Draw them with torch.randn.",
        "one call": "Your test calls the layer once. What do you compare the output with, other than its shape?",
        "partly": "Each head holds T / num_heads tokens. Nothing is mixed up if T = num_heads, if the order only "
        "exchanges tokens within a head, or if the order you drew happens to be the original one (print it). Take T = "
        "6 and an order without a pattern, such as [2, 4, 5, 0, 3, 1].",
    },
    alarm={
        "seen": "Each token sees all others, before and after it, so each output may change with any of them. But "
        "their order must not matter.",
    },
    fellows=PLAIN,
    wrong={
        "The merge is not mended": Wrong(
            [MERGE],
            "the split is now right, but the reshape at the end still joins numbers from several tokens.",
            "Go back the same way: first heads.transpose(1, 2), which makes (B, T, num_heads, head_dim), then reshape.",
        ),
        "The split is not mended": Wrong(
            [Change(_SPLIT, "view(B, self.num_heads, T, -1)")],
            "the merge is now right, but the split still gives each head whole tokens.",
            "Cut the features first, view(B, T, num_heads, -1), then exchange axes 1 and 2.",
        ),
        "A transpose after the wrong view": Wrong(
            [Change(_SPLIT, "view(B, self.num_heads, T, -1).transpose(1, 2)")],
            "the view still cuts the sentence into pieces, and the transpose only moves these pieces.",
            "view reads numbers in memory order, token after token, so its sizes must be (B, T, num_heads, -1), in "
            "this order.",
            also=([Change(_SPLIT, "view(B, self.num_heads, T, -1).transpose(1, 2)"), MERGE],),
        ),
        "Heads attend to heads": Wrong(
            [Change(_SPLIT, "view(B, T, self.num_heads, -1)"), MERGE],
            "q and k are (B, T, num_heads, head_dim), so each token's heads see one another, but no other token.",
            "q @ k works on the last two axes, and transpose(1, 2) brings the tokens there.",
            also=([Change(_SPLIT, "view(B, T, self.num_heads, -1)")],),
        ),
        "Features in place of tokens": Wrong(
            [Change(_SPLIT, f"{_CUT}.permute(0, 2, 3, 1)"), Change(_JOIN, "heads.permute(0, 3, 1, 2).reshape")],
            "q and k are (B, num_heads, head_dim, T), so features are compared with features.",
            "q @ k works on the last two axes, which must be tokens and features, in this order. transpose(1, 2) "
            "exchanges tokens and heads, and nothing else.",
        ),
        "Features dealt out in turn": Wrong(
            [Change(_SPLIT, "view(B, T, -1, self.num_heads).permute(0, 3, 1, 2)")],
            "head 0 holds features 0, num_heads, 2 * num_heads, …",
            "No token is mixed with another, but these weights expect each head to hold neighbouring features: view(B, "
            "T, num_heads, -1), in this order.",
            also=(
                [
                    Change(_SPLIT, "view(B, T, -1, self.num_heads).permute(0, 3, 1, 2)"),
                    Change("heads.transpose(1, 2)", "heads.permute(0, 2, 3, 1)"),
                ],
            ),
        ),
        "Axes exchanged before the cut": Wrong(
            [Change(_SPLIT, "transpose(1, 2).reshape(B, self.num_heads, T, -1)")],
            "the axes of tokens and features are exchanged first, and reshape then cuts across both.",
            "First cut the last axis, view(B, T, num_heads, -1), then exchange axes 1 and 2.",
            also=([Change(_SPLIT, "transpose(1, 2).reshape(B, self.num_heads, T, -1)"), MERGE],),
        ),
        **everywhere(layers.ReviewAttention, but=("The heads are joined without a transpose",)),
    },
    same={
        "": "Your code still mixes the tokens, when it splits them into heads and when it joins the heads again. "
        "Which numbers end up in head 0?",
    },
    word="The diagnosis is right: the split mixes tokens. The doctor changed the rows of a projection one by one and "
    "saw where each change showed up in the maps.",
)

triage = Problem(
    saw="the same call gets a different priority each time",
    healthy=layers.TriageAttention,
    changes=[Change("self.dropout if self.training else 0.0", "self.dropout")],
    right="D",
    options={
        "A": "The weights are drawn once, when the layer is made. Compare layer.weight_in before and after a call: it "
        "is the same.",
        "B": "A wrong order of the three pieces would give the same wrong answer each time. Here the same input gives "
        "two different answers.",
        "C": "Make the layer with dropout=0.0, and it gives the same numbers at each call, to the last bit.",
        "D": "eval() only sets layer.training to False, and the code has to check that. nn.Dropout does, but a "
        "function with dropout_p= drops at the rate it is given, whatever the mode.",
        "E": "In eval mode, the same input must give the same output. Here two calls differ in the first digit.",
    },
    hints=[
        "Make the layer with dropout=0.0 and call it twice.",
        "For the test: a fresh layer is in training mode. In which mode may it drop weights, and in which may it not?",
        "To mend it: every nn.Module has self.training.",
    ],
    shown_by=_repeats_itself,
    cases=cases.DROPPED,
    blind={
        "one call": "Your test calls the layer once. A single answer cannot show that the next one differs.",
        "no eval": "You make each call in training mode, in which a healthy layer drops weights as well: call "
        "layer.eval(), with its brackets.",
        "same draw": "Every call draws the same random numbers, as happens when you set a seed before each one, so "
        "chance repeats itself. Set a seed once, or not at all.",
        "equal inputs": "",  # as they should be
    },
    alarm={
        "training": "A fresh layer is in training mode, where it is meant to drop weights: call layer.eval() first.",
        "other inputs": "Each call gets different numbers, which give different outputs in any layer. Pass the same x "
        "twice.",
    },
    fellows={
        "nn.Dropout": layers.DropoutModule,
        "the layer of the course, dropout=0.5": lambda d, h: MultiHeadAttention(d, h, dropout=0.5),
        "einsum": layers.TicketAttention,
    },
    wrong={
        "It never drops": Wrong(
            [Change("self.dropout if self.training else 0.0", "0.0")],
            "two calls now agree, but they agree in training as well: this layer never drops anything.",
            "Training needs dropout. Check the mode: self.dropout if self.training else 0.0.",
        ),
        "Once switched off, it stays off": Wrong(
            [Change("self.dropout if self.training else 0.0", "self.dropout"), Change(_FORWARD, _FOR_GOOD)],
            "once the layer has been in eval mode, the rate stays 0 for good, even after train().",
            "Leave the rate as it is, and check the mode in each call: self.dropout if self.training else 0.0.",
        ),
        "The mode is asked for only once": Wrong(
            [
                Change(
                    "dropout = self.dropout if self.training else 0.0",
                    'self.rate = vars(self).get("rate", self.dropout if self.training else 0.0)\n'
                    "        dropout = self.rate",
                )
            ],
            "the mode at the first call sets the rate, which then never changes.",
            "train() and eval() may be called at any time, so check the mode at each call.",
        ),
        "The mode is read the wrong way round": Wrong(
            [Change("self.dropout if self.training else 0.0", "0.0 if self.training else self.dropout")],
            "it drops weights after eval(), and none in training.",
            "self.training is True in training, and False after eval().",
        ),
        "Everything is dropped in training": Wrong(
            [Change("self.dropout if self.training else 0.0", "float(self.training)")],
            "in training the rate is 1, so every weight is dropped.",
            "self.training is True or False, and True counts as 1. It says whether to drop; self.dropout says how "
            "much.",
        ),
        "Dropout that does not ask for the mode": Wrong(
            [Change("dropout_p=dropout)", "dropout_p=0.0)\n        heads = F.dropout(heads, self.dropout)")],
            "F.dropout(x, p) defaults to training=True, so it drops after eval() as well. So does an nn.Dropout that "
            "is created in forward. Besides, both drop features here, whereas the layer dropped weights.",
            "Pass the mode to the fused function: dropout_p=self.dropout if self.training else 0.0.",
            also=(
                [
                    Change("dropout_p=dropout)", "dropout_p=0.0)"),
                    Change(
                        "heads.transpose(1, 2).flatten(2)", "F.dropout(heads.transpose(1, 2).flatten(2), self.dropout)"
                    ),
                ],
                [
                    Change("dropout_p=dropout)", "dropout_p=0.0)"),
                    Change("return F.linear(", "return F.dropout(F.linear("),
                    Change("self.weight_out)  #", "self.weight_out), self.dropout)  #"),
                ],
            ),
        ),
        "The same draw each time": Wrong(
            [Change("dropout = self.dropout if", "torch.manual_seed(0)\n        dropout = self.dropout if True or")],
            "weights are still dropped, but always the same ones.",
            "A fixed seed only hides the randomness, and resets everybody else's random numbers, too. Check the mode: "
            "self.dropout if self.training.",
            also=(
                Wrong(
                    [
                        Change(
                            " if self.training else 0.0",
                            "\n        if not self.training:\n            torch.manual_seed(0)",
                        )
                    ],
                    "after eval() weights are still dropped, but always the same ones.",
                    "A fixed seed only hides the randomness. Drop nothing after eval(): self.dropout if self.training.",
                ),
                Wrong(
                    [Change("dropout = self.dropout if", "torch.manual_seed(0)\n        dropout = self.dropout if")],
                    "after eval() it is right, but in training it always drops the same weights.",
                    "A fixed seed resets everybody else's random numbers, too. The mode alone is enough.",
                ),
            ),
        ),
        **everywhere(layers.TriageAttention, but=("Keys ask queries",), by_hand=[Change(_FUSED, _BY_HAND)]),
    },
    same={
        "grad_enabled|inference_mode": "Switching gradients off is a separate setting, which eval() does not touch. "
        "Only self.training tells you the mode.",
        r"F\.dropout": "F.dropout(x, p) drops after eval() as well, because training=True is its default. Pass "
        "self.training as well, or use nn.Dropout, which checks the mode.",
        r"def __init__(?:(?!def )[\s\S])*\.training": "__init__ runs once, when the layer is made, and a new layer is "
        "in training mode. The mode may change later, so check it in forward, at each call.",
        r"\.training": "You check the mode, but after eval() the line that drops still gets the same rate. Print the "
        "rate there: why does it not change?",
        "": "Weights should be dropped in training, and not after eval(). Check self.training.",
    },
    word="Before anything else, the doctor sets eval mode and calls the layer twice. If a layer's outputs are random, "
    "no other comparison means anything.",
)

sensors = Problem(
    saw="an alarm depends on the other machines in the batch",
    healthy=layers.SensorAttention,
    changes=_TIME_FIRST,
    right="A",
    options={
        "A": "nn.MultiheadAttention reads (T, B, d_model) unless you say batch_first=True. So it mistakes samples for "
        "tokens and tokens for samples: moment 3 of one machine looks at moment 3 of the others, and never at its own "
        "past. The output shape is still right.",
        "B": "LayerNorm takes the mean over the features of one token. Batch norm would mix samples, but LayerNorm "
        "does not: try layer.norm(x) with one sample changed.",
        "C": "x + found adds each number to the one in the same place. Nothing moves to another sample.",
        "D": "need_weights=False leaves out the map and nothing else. With True, the output is the same up to "
        "rounding.",
        "E": "Nothing in attention is computed across the batch, so a sample's output depends on that sample alone. "
        "Here a sample gets one output on its own and a different one in company.",
    },
    hints=[
        "Which axis is which? Read the help of nn.MultiheadAttention from its first argument to batch_first.",
        "For the test: change one sample, or leave the others out. What must not change?",
        "To mend it: add one argument where the attention is made.",
    ],
    shown_by=_alone_as_in_company,
    cases=cases.TOKENS_ONLY,
    blind={
        "one sample": "Each call has only one sample, and B = 1 has no neighbours that could change its output.",
        "equal samples": "All samples are alike, so taking a number from a neighbour changes nothing.",
        "nothing changed": "Your change to x does not show. It would if you drew the changed part anew with "
        "torch.randn: a LayerNorm removes anything that you add equally to all features.",
        "tokens moved": "You reorder the moments of all machines in the same way, so each moment still has the same "
        "neighbours in the batch. Change one machine (axis 0), or leave the others out.",
        "samples moved": "You put the samples in a different order, but each of them is still in the same company, so "
        "it takes the same numbers from the others. Change one sample, or leave the others out.",
    },
    alarm={
        "as broken": "Your test demands what the broken layer does. Instead of the other moments of the same machine "
        "(axis 1), that layer looks at the same moment of the other machines (axis 0). Those machines must not matter.",
        "own sample": "The output of a sample that you change may change, too. Compare only the other outputs.",
    },
    fellows={"three linears": layers.ReviewAttention, **PLAIN},
    wrong={
        "Transposed only on the way in": Wrong(
            [*_TIME_FIRST, Change("self.norm(x)", "self.norm(x).transpose(0, 1)")],
            "the attention gets (T, B, d_model), but its output, which is also (T, B, d_model), is added to x "
            "without being transposed back.",
            "Transpose it back, found.transpose(0, 1), or say batch_first=True and transpose nothing.",
            also=(
                Wrong(
                    [
                        *_TIME_FIRST,
                        Change("self.norm(x)", "self.norm(x).transpose(0, 1)"),
                        Change("x + found", "x + found.reshape(x.shape)"),
                    ],
                    "the attention gets (T, B, d_model), which is right. But then reshape turns its output into (B, T, "
                    "d_model) and leaves each number where it was, so samples and moments are mixed.",
                    "Only a transpose undoes a transpose: found.transpose(0, 1). Or say batch_first=True and transpose "
                    "nothing.",
                ),
                Wrong(
                    [
                        *_TIME_FIRST,
                        Change("self.norm(x)", "self.norm(x).reshape(x.shape[1], x.shape[0], -1)"),
                        Change("x + found", "x + found.transpose(0, 1)"),
                    ],
                    "reshape makes the shape (T, B, d_model) but leaves each number where it was, so samples and "
                    "moments are mixed.",
                    "To exchange axes, write transpose(0, 1), on the way in as well. Or say batch_first=True and "
                    "transpose nothing.",
                ),
            ),
        ),
        "Transposed only on the way out": Wrong(
            [*_TIME_FIRST, Change("x + found", "x + found.transpose(0, 1)")],
            "the attention still gets samples as tokens, and only its output is transposed.",
            "The attention's input must be (T, B, d_model). Or say batch_first=True and transpose nothing.",
        ),
        "A reshape in place of a transpose": Wrong(
            [
                *_TIME_FIRST,
                Change("self.norm(x)", "self.norm(x).reshape(x.shape[1], x.shape[0], -1)"),
                Change("x + found", "x + found.reshape(x.shape)"),
            ],
            "the shape is (T, B, d_model), but the numbers stay where they were, so samples and moments are mixed.",
            "To exchange axes, write transpose(0, 1). Or say batch_first=True and transpose nothing.",
        ),
        "The answer is not transposed back": Wrong(
            [*_TIME_FIRST, Change("        normed =", "        x = x.transpose(0, 1)\n        normed =")],
            "the result is (T, B, d_model).",
            "The caller expects (B, T, d_model). Transpose it back, or say batch_first=True and transpose nothing.",
        ),
        "The residual connection is gone": Wrong(
            [Change("x + found", "found")],
            "found is returned without x.",
            "x + found adds each number to the one in the same place, so it mixes nothing.",
        ),
        "The norm is added, not x": Wrong(
            [Change("x + found", "normed + found")],
            "the normed tokens, not x, are added to found.",
            "The residual connection adds the layer's input unchanged.",
        ),
        "The norm comes last": Wrong(
            [Change("self.norm(x)", "x"), Change("x + found", "self.norm(x + found)")],
            "the attention gets x itself, and the norm is applied to the sum.",
            "Many layers put the norm last, but these weights were made for a norm before the attention. And LayerNorm "
            "does not mix samples.",
        ),
        "The values are not normed": Wrong(
            [Change("normed, normed, normed", "normed, normed, x")],
            "queries and keys are computed from the normed tokens, but the values from x itself.",
            "All three get the normed tokens; x itself is added afterwards.",
            also=(
                Wrong(
                    [Change("normed, normed, normed", "normed, x, x")],
                    "the queries are computed from the normed tokens, but keys and values from x itself.",
                    "All three get the normed tokens; x itself is added afterwards.",
                ),
            ),
        ),
        "The norm is gone": Wrong(
            [Change("self.norm(x)", "x")],
            "the attention gets x itself, without the norm.",
            "LayerNorm takes its mean over the features of one token, so it mixes nothing.",
        ),
    },
    same={
        r"batch_first\s*=\s*True[\s\S]*(transpose|permute|swapaxes|movedim|rearrange)": "Two changes cancel out: "
        "batch_first=True makes the attention read (B, T, d_model), and the transposes hand it (T, B, d_model). One of "
        "the two is enough.",
        "": "The norm and the residual connection mix no samples. But unless you tell it otherwise, "
        "nn.MultiheadAttention treats the first axis of its input as the token axis, and that axis still holds the "
        "samples.",
    },
    word="One sample changes the output of another. The doctor changed one sample and looked at the others.",
)

verses = Problem(
    saw="the loss is too good, and what it writes makes no sense",
    healthy=layers.VerseAttention,
    changes=[Change("heads = (weights @ v).transpose(1, 2)", "heads = weights @ v")],
    right="C",
    options={
        "A": "tril keeps the diagonal, and it should: token t has to predict token t + 1, so it may see itself.",
        "B": "After view the axes are (B, T, 3, num_heads, head_dim), and permute turns them into (3, B, num_heads, T, "
        "head_dim). So q[b, head, t] is a piece of qkv(x)[b, t], as it should be.",
        "C": "weights @ v is (B, num_heads, T, head_dim). If you reshape it directly, the row of token 0 holds what "
        "head 0 found for tokens 0, 1, 2, … So a token gets the results of later tokens, which have seen what it has "
        "to predict.",
        "D": "Each query may see itself, so no row is all -inf and no softmax is 0/0. The outputs are finite.",
        "E": "The digits were new at each step, so there was nothing to learn by heart. Change the last token, and "
        "earlier outputs change with it.",
    },
    hints=[
        "The mask is right. So where else could something from a later token get to an earlier one?",
        "For the test: change the last token. Which outputs may change? Try it with num_heads=1, too.",
        "To mend it: before you join the heads, move their axis back behind the tokens: (B, T, num_heads, head_dim).",
    ],
    shown_by=_does_not_see_the_future,
    cases=cases.TOKENS_ONLY,
    blind={
        "one token": "With T = 1 there is no later token.",
        "equal tokens": "All tokens are alike, so taking a number from a later one changes nothing.",
        "one call": "Your test calls the layer once. To see whether an output depends on a later token, you have to "
        "change that token.",
        "another sample": "You change one sample (axis 0) and look at the others, but no sample reads from another "
        "one. The tokens are on axis 1.",
    },
    alarm={
        "seen": "",  # by later ones only
        "later": "Changing a token may change its own output and later ones. Compare only earlier outputs.",
        "tokens moved": "The layer is always causal, so in a different order a token sees different tokens, as it "
        "should.",
        "gradient": "Output t may depend on token t and on the tokens before it. Only the gradients of later tokens "
        "are 0: x.grad[:, t + 1 :].",
    },
    fellows={
        "a fused function": layers.CausalFused,
        "a loop over heads": layers.DraftAttention,
    },
    wrong={
        "The mask hides the past": Wrong(
            [Change(".tril())", ".triu())")],
            "each token sees itself and the future.",
            "Rows are queries and columns are keys, so the past is on and below the diagonal: tril.",
        ),
        "Cut up before the transpose": Wrong(
            [Change("(weights @ v).transpose(1, 2)", "(weights @ v).reshape(B, -1, T).mT")],
            "reshape(B, -1, T) cuts the numbers up in memory order, so a row still gets numbers from several tokens.",
            "The axes are (B, num_heads, T, head_dim): exchange tokens and heads first, transpose(1, 2), then reshape.",
        ),
        "q, k and v of each head side by side": Wrong(
            [
                Change(
                    "view(B, T, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)",
                    "view(B, T, self.num_heads, 3, -1).permute(3, 0, 2, 1, 4)",
                )
            ],
            "the rows of qkv are read as q, k, v of head 0, then q, k, v of head 1.",
            "That layout is legal, but it belongs to other weights: in these, the q rows of all heads come first.",
        ),
        "Heads attend to heads": Wrong(
            [Change("permute(2, 0, 3, 1, 4)", "permute(2, 0, 1, 3, 4)")],
            "q, k and v are (B, T, num_heads, head_dim), so the scores are (B, T, num_heads, num_heads).",
            "permute was right as it was given: the tokens must be on the last axis but one.",
        ),
        **everywhere(layers.VerseAttention, but=("The heads are joined without a transpose",)),
    },
    same={
        "": "The mistake is on the way back from heads to rows: which tokens' numbers end up in the row of token 0 "
        "when (B, num_heads, T, head_dim) is reshaped directly?",
    },
    word="The merge mixes the tokens. The doctor changed what the heads write for one token, and saw which tokens' "
    "outputs changed.",
)
