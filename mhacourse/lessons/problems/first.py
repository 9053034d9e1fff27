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
        "as many tokens as heads": "With as many tokens as heads each head holds one token, and with fewer a piece of "
        "one: none is mixed up with another. T = num_heads hides it, so take more.",
        "equal tokens": "All tokens are alike: whatever is mixed up, nothing changes. Draw them: torch.randn.",
        "one call": "It calls the layer once. With what do you compare the output, other than its shape?",
        "partly": "In a head lie T / num_heads tokens. Where T = num_heads, or where your order exchanges tokens "
        "within a head, or where the order that you drew is the old one (print it), nothing is mixed up: take T = 6, "
        "and an order that moves every token far.",
    },
    alarm={
        "seen": "Each token sees all others, before it and behind it, so each output may change with any of them. It "
        "is their order that must not matter.",
    },
    fellows=PLAIN,
    wrong={
        "The merge is not mended": Wrong(
            [MERGE],
            "the split is right now; the reshape at the end still joins numbers that belong to several tokens.",
            "Go the same way back: heads.transpose(1, 2) makes (B, T, num_heads, head_dim), and then reshape.",
        ),
        "The split is not mended": Wrong(
            [Change(_SPLIT, "view(B, self.num_heads, T, -1)")],
            "the merge is right now; the split still gives a head some tokens whole.",
            "Cut the features first, view(B, T, num_heads, -1), then exchange axes 1 and 2.",
        ),
        "A transpose behind the wrong view": Wrong(
            [Change(_SPLIT, "view(B, self.num_heads, T, -1).transpose(1, 2)")],
            "the view still cuts the sentence into pieces, and the transpose moves these.",
            "view reads numbers as they lie, token after token: its sizes must be (B, T, num_heads, -1) in this order.",
            also=([Change(_SPLIT, "view(B, self.num_heads, T, -1).transpose(1, 2)"), MERGE],),
        ),
        "Heads attend to heads": Wrong(
            [Change(_SPLIT, "view(B, T, self.num_heads, -1)"), MERGE],
            "q and k are (B, T, num_heads, head_dim), so each token compares its own heads, and sees no other token.",
            "The last two axes enter q @ k: transpose(1, 2) puts the tokens there.",
            also=([Change(_SPLIT, "view(B, T, self.num_heads, -1)")],),
        ),
        "Features in the place of tokens": Wrong(
            [Change(_SPLIT, f"{_CUT}.permute(0, 2, 3, 1)"), Change(_JOIN, "heads.permute(0, 3, 1, 2).reshape")],
            "q and k are (B, num_heads, head_dim, T), so features are compared with features.",
            "The last two axes enter q @ k: tokens and features, in this order. transpose(1, 2) exchanges tokens and "
            "heads, and nothing else.",
            also=(
                [Change(_SPLIT, f"{_CUT}.permute(0, 2, 3, 1)")],
                [Change(_SPLIT, f"{_CUT}.permute(0, 2, 3, 1)"), MERGE],
                *(
                    Wrong(
                        [Change(_SPLIT, f"{_CUT}.transpose(2, 3)"), *merge],
                        "q and k are (B, T, head_dim, num_heads): each token compares its own features.",
                        "Axes 1 and 2 change places, not the last two: .transpose(1, 2).",
                    )
                    for merge in ([Change(_JOIN, "heads.transpose(2, 3).reshape")], [MERGE], [])
                ),
            ),
        ),
        "Features dealt out in turn": Wrong(
            [Change(_SPLIT, "view(B, T, -1, self.num_heads).permute(0, 3, 1, 2)")],
            "head 0 holds features 0, h, 2h, …",
            "No token is mixed with another, but these weights were made for heads of neighbouring features: "
            "view(B, T, num_heads, -1), in this order.",
            also=(
                [
                    Change(_SPLIT, "view(B, T, -1, self.num_heads).permute(0, 3, 1, 2)"),
                    Change("heads.transpose(1, 2)", "heads.permute(0, 2, 3, 1)"),
                ],
            ),
        ),
        "Exchanged before the cut": Wrong(
            [Change(_SPLIT, "transpose(1, 2).reshape(B, self.num_heads, T, -1)")],
            "tokens and features change places first, and are then cut together.",
            "First cut the last axis, view(B, T, num_heads, -1), then exchange axes 1 and 2.",
            also=([Change(_SPLIT, "transpose(1, 2).reshape(B, self.num_heads, T, -1)"), MERGE],),
        ),
        **everywhere(layers.ReviewAttention, but=("The heads are joined as they lie",)),
    },
    same={
        "": "What you rewrote was right already. What mixes the tokens is the way into the heads and the way back: "
        "which numbers does view put into head 0?",
    },
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
    blind={
        "one call": "It calls the layer once. One answer alone does not show that the next one differs.",
        "same draw": "Before each call the random numbers stand at the same place, by a seed that is set each time: so "
        "chance repeats itself. Set it once, or not at all.",
    },
    alarm={
        "training": "A fresh layer is in training mode, and there it is meant to drop weights: call layer.eval() "
        "first.",
        "other inputs": "Each call gets other numbers, which give other outputs in any layer. Hand over one x twice.",
    },
    fellows={
        "nn.Dropout": layers.DropoutModule,
        "the layer of the course, dropout=0.5": lambda d, h: MultiHeadAttention(d, h, dropout=0.5),
        "einsum": layers.TicketAttention,
    },
    wrong={
        "It never drops": Wrong(
            [Change("self.dropout if self.training else 0.0", "0.0")],
            "two calls agree now, in training as well: as it is made here, it never drops anything.",
            "In training it is wanted. Ask for the mode: self.dropout if self.training else 0.0.",
            also=(
                Wrong(
                    [Change("self.dropout if self.training else 0.0", "self.dropout"), Change(_FORWARD, _FOR_GOOD)],
                    "once eval() was called, the rate is 0 for good, after train() as well.",
                    "Leave the rate as it is, and ask for the mode in each call: self.dropout if self.training else "
                    "0.0.",
                ),
            ),
        ),
        "The mode is read the wrong way round": Wrong(
            [Change("self.dropout if self.training else 0.0", "0.0 if self.training else self.dropout")],
            "it drops weights in use, and none in training.",
            "self.training is True in training, and False after eval().",
        ),
        "Features are dropped, not weights": Wrong(
            [Change("dropout_p=dropout)", "dropout_p=0.0)\n        heads = F.dropout(heads, dropout)")],
            "in use it is right. In training it drops single features of what the heads found, or of the output.",
            "A layer may do that besides, but this one dropped weights, so that a query misses a key with all its "
            "features: dropout_p=self.dropout if self.training else 0.0.",
        ),
        "Dropout that does not ask for the mode": Wrong(
            [Change("dropout_p=dropout)", "dropout_p=0.0)\n        heads = F.dropout(heads, self.dropout)")],
            "F.dropout(x, p), for which training=True is the default, and an nn.Dropout made anew in forward drop in "
            "use as well; and they drop features here, where the layer dropped weights.",
            "Hand the mode to the fused function: dropout_p=self.dropout if self.training else 0.0.",
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
            "weights are still dropped, always the same ones.",
            "A fixed seed hides chance, and resets everybody else's. Ask for the mode: self.dropout if self.training.",
        ),
        "All is dropped in use": Wrong(
            [Change("else 0.0", "else 1.0")],
            "in use it drops each weight.",
            "The second number is the share of weights that are dropped after eval(): 0.0.",
            also=([Change("else 0.0", "else 1 - self.dropout")],),
        ),
        "q, k and v change places": Wrong(
            [Change("q, k, v = F.linear", "k, q, v = F.linear")],
            "the first piece of weight_in is used for the keys.",
            "It was the queries', and these weights were made for that; the order had nothing to do with chance.",
            also=(
                [Change("q, k, v = F.linear", "v, k, q = F.linear")],
                [Change("q, k, v = F.linear", "q, v, k = F.linear")],
            ),
        ),
        **everywhere(layers.TriageAttention, but=("Keys ask queries",), by_hand=[Change(_FUSED, _BY_HAND)]),
    },
    same={
        "grad_enabled|inference_mode": "Whether gradients are kept is another setting than the mode, and eval() leaves "
        "it alone: what decides is self.training.",
        r"F\.dropout": "F.dropout(x, p) drops in use as well, for training=True is its default: hand it "
        "self.training, or leave it to nn.Dropout, which asks for the mode.",
        "": "What counts is when weights are dropped: in training, and not after eval(). Ask self.training.",
    },
    word="It sets eval mode and calls twice, before anything else: in a layer that answers by chance, no other "
    "comparison means anything.",
)

sensors = Problem(
    saw="an alarm depends on the other machines in the batch",
    healthy=layers.SensorAttention,
    changes=_TIME_FIRST,
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
        "tokens moved": "You put the moments in another order, for all machines alike, so each still has the same "
        "neighbours in the batch. Change one machine, axis 0, or leave the others out.",
        "samples moved": "You put the samples in another order, and each of them still has the same company: what it "
        "takes from the others stays the same. Change one sample, or leave the others out.",
    },
    alarm={
        "own sample": "A sample that you change may change its own output. Compare the others alone.",
        "as broken": "You ask for what the broken layer does: it looks at no other moment of the same machine, axis 1, "
        "and at that moment of the other machines, axis 0. It is these that must not matter.",
    },
    fellows={"three linears": layers.ReviewAttention, **PLAIN},
    wrong={
        "Turned on the way in only": Wrong(
            [*_TIME_FIRST, Change("self.norm(x)", "self.norm(x).transpose(0, 1)")],
            "the attention gets (T, B, d_model), and its answer is added to x as it comes, (T, B, d_model) as well.",
            "Turn it back, found.transpose(0, 1); or say batch_first=True, and turn nothing.",
            also=(
                Wrong(
                    [
                        *_TIME_FIRST,
                        Change("self.norm(x)", "self.norm(x).transpose(0, 1)"),
                        Change("x + found", "x + found.reshape(x.shape)"),
                    ],
                    "the attention gets (T, B, d_model), which is right; then reshape writes its answer as (B, T, "
                    "d_model) and leaves each number where it was, so samples and moments are mixed.",
                    "What transpose exchanged, transpose puts back: found.transpose(0, 1). Or say batch_first=True, "
                    "and turn nothing.",
                ),
                Wrong(
                    [
                        *_TIME_FIRST,
                        Change("self.norm(x)", "self.norm(x).reshape(x.shape[1], x.shape[0], -1)"),
                        Change("x + found", "x + found.transpose(0, 1)"),
                    ],
                    "reshape writes (T, B, d_model) and leaves each number where it was, so samples and moments are "
                    "mixed.",
                    "What exchanges axes is transpose(0, 1), on the way in as well. Or say batch_first=True, and turn "
                    "nothing.",
                ),
            ),
        ),
        "Turned on the way out only": Wrong(
            [*_TIME_FIRST, Change("x + found", "x + found.transpose(0, 1)")],
            "the attention still gets samples as tokens, and only its answer is turned.",
            "What goes in must be (T, B, d_model); or say batch_first=True, and turn nothing.",
        ),
        "A reshape in the place of a transpose": Wrong(
            [
                *_TIME_FIRST,
                Change("self.norm(x)", "self.norm(x).reshape(x.shape[1], x.shape[0], -1)"),
                Change("x + found", "x + found.reshape(x.shape)"),
            ],
            "the shape is (T, B, d_model), and the numbers stay where they were: samples and moments are mixed.",
            "Axes change places by transpose(0, 1). Or say batch_first=True, and turn nothing.",
        ),
        "The answer is not turned back": Wrong(
            [*_TIME_FIRST, Change("        normed =", "        x = x.transpose(0, 1)\n        normed =")],
            "the result is (T, B, d_model).",
            "Who calls it expects (B, T, d_model): turn it back, or say batch_first=True, and turn nothing.",
        ),
        "Each moment sees itself alone": Wrong(
            [
                *_TIME_FIRST,
                Change(
                    "found, _ = self.attention(normed, normed, normed, need_weights=False)",
                    "found = torch.cat([self.attention(n, n, n, need_weights=False)[0] for n in normed.split(1)])",
                ),
            ],
            "each sample goes in as (1, T, d_model), and is read as T samples of one token.",
            "No sample sees another now, and no moment its own past. Say batch_first=True.",
        ),
        "The residual connection is gone": Wrong(
            [Change("x + found", "found")],
            "what was found is returned without x.",
            "x + found adds to each number the one in the same place, and mixes nothing.",
        ),
        "The norm is added, not x": Wrong(
            [Change("x + found", "normed + found")],
            "the normed tokens are added to what was found.",
            "The residual connection adds the layer's input as it came.",
        ),
        "The norm comes last": Wrong(
            [Change("self.norm(x)", "x"), Change("x + found", "self.norm(x + found)")],
            "the attention gets the tokens as they are, and the sum is normed.",
            "Many layers do that, but these weights were made for a norm before the attention; and LayerNorm mixes no "
            "samples.",
        ),
        "The values are not normed": Wrong(
            [Change("normed, normed, normed", "normed, normed, x")],
            "queries and keys are normed, and the values are x as it came.",
            "All three are handed the normed tokens; x itself is added afterwards.",
        ),
        "The norm is gone": Wrong(
            [Change("self.norm(x)", "x")],
            "the tokens go into the attention as they are.",
            "LayerNorm takes its mean over the features of one token, and so it mixes nothing.",
        ),
    },
    same={
        r"batch_first\s*=\s*True[\s\S]*(transpose|permute|swapaxes|movedim|rearrange)": "Two changes cancel out: "
        "batch_first=True makes the attention read (B, T, d_model), and the transposes hand it (T, B, d_model). One of "
        "the two is enough.",
        "": "The norm and the residual connection mix no samples. What does is the order of axes in which "
        "nn.MultiheadAttention reads what it gets: (T, B, d_model), unless it is told otherwise.",
    },
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
    alarm={"later": "The token that you change may change its own output, and later ones. Compare earlier ones."},
    fellows={
        "a fused function": layers.CausalFused,
        "a loop over heads": layers.DraftAttention,
    },
    wrong={
        "The mask of the past": Wrong(
            [Change(".tril())", ".triu())")],
            "each token sees itself and the future.",
            "Rows are queries and columns keys; the past lies on and below the diagonal: tril.",
        ),
        "q, k and v of each head side by side": Wrong(
            [
                Change(
                    "view(B, T, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)",
                    "view(B, T, self.num_heads, 3, -1).permute(3, 0, 2, 1, 4)",
                )
            ],
            "the rows of qkv are read as q, k, v of head 0, then q, k, v of head 1.",
            "That is a legal layout, for other weights: these hold q of all heads first.",
        ),
        "Heads attend to heads": Wrong(
            [Change("permute(2, 0, 3, 1, 4)", "permute(2, 0, 1, 3, 4)")],
            "q, k and v are (B, T, num_heads, head_dim), so the scores are (B, T, num_heads, num_heads).",
            "permute was right as it was given: the tokens have to be the last axis but one.",
        ),
        **everywhere(layers.VerseAttention, but=("The heads are joined as they lie",)),
    },
    same={
        "": "Mask and scores were right already. What goes wrong is the way back from heads to rows: whose numbers "
        "does the row of token 0 hold, when (B, num_heads, T, head_dim) is reshaped as it lies?",
    },
    word="The merge mixes the tokens. The doctor changed what the heads write for one token, and saw at which "
    "tokens it comes out.",
)
