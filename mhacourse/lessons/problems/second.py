"""The five problems in the middle: without the right mask, the right mode or the right neighbour, nothing shows."""

import torch

from attention_doctor import adapt
from mhacourse.exercise import Change, Wrong
from mhacourse.lessons.problems import cases, layers
from mhacourse.lessons.problems.mendings import everywhere
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
_FILL = "scores.masked_fill(~mask.unsqueeze(-3), -1e9)"
_FOLD = "heads.reshape(B * self.num_heads, T, -1)"
_REPEAT = "mask.expand(B, T, T).repeat_interleave(self.num_heads, dim=0)"
_AND = "allowed = allowed & torch.ones"
_CAUSAL = "allowed & torch.ones(T, T, dtype=torch.bool).tril()"
_NEIGHBOURS = Change("unflatten(-1, (-1, self.num_heads))", "unflatten(-1, (self.num_heads, -1))")
_ANOTHER = "Your test never looks at the outputs of the sample that it changes, and no sample reads from another one."
_UNMASKED = "No call has a mask, so each token sees all the others, and each output may change with any of them."
_NO_MASK = "No call has a mask, and without one the layer is right."
_OF_A_ROW = "Divide each row by its own sum, weights.sum(-1, keepdim=True). Or fill the scores before the softmax."
_OPEN = "The masks hide nothing: all their entries are True."


def _erased(weights: str) -> list[Change]:
    """Return the changes that give the ticket layer these weights, with its mask still after the softmax."""
    return [Change(_HIDE, _ERASE), Change("weights * mask.unsqueeze(-3)", weights)]


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
        "A": "The softmax shares out a weight of 1 among all keys, including the hidden ones, whose weights are set to "
        "0 only afterwards. The remaining weights sum to less than 1; how much less depends on what was hidden.",
        "B": "(B, T, T) becomes (B, 1, T, T), so the heads of a sample share its mask. (T, T) becomes (1, T, T), which "
        "fits as well.",
        "C": "If True meant hidden, a mask that is True everywhere would set all weights, and so the output, to 0. In "
        "fact, the output is the same as without a mask.",
        "D": "With the same weights and no mask, this layer agrees with the course's own, so no einsum letter is in "
        "the wrong place.",
        "E": "Hidden tokens should count as absent. A ticket alone and the same ticket padded and masked must give the "
        "same outputs.",
    },
    hints=[
        "Print weights.sum(-1) with a mask and without.",
        "For the test: hide the last tokens, and compare with an input that ends before them.",
        "To mend it: hidden keys must be ruled out before the softmax. Which score gets a weight of 0?",
    ],
    shown_by=_hidden_as_cut,
    cases=cases.MASKED,
    blind={"no mask": _NO_MASK, "open masks": _OPEN, "another sample": _ANOTHER},
    alarm={"two inputs": _UNMASKED},
    fellows=_with_masks(**{"folded heads": layers.LetterAttention}),
    wrong={
        "The mask is added to the scores": Wrong(
            [Change(_FILL, "scores + mask.unsqueeze(-3)")],
            "the score of each allowed key is raised by 1, because True counts as 1.",
            "A hidden key only gets a smaller weight. For a weight of 0, its score must be -1e9 or -inf.",
        ),
        "Hidden scores are only lowered": Wrong(
            [Change(_FILL, "scores - 10.0 * ~mask.unsqueeze(-3)")],
            "a hidden key's score is only lowered, so the key keeps some weight; the larger its score was, the more it "
            "keeps.",
            "A hidden score must be far below all others, whatever it was: -1e9 or -inf.",
            also=tuple([Change(_FILL, f"scores - {n} * ~mask.unsqueeze(-3)")] for n in (2.0, 5.0)),
        ),
        "A second softmax": Wrong(
            _erased("(weights * mask.unsqueeze(-3)).softmax(-1)"),
            "the weights go through a second softmax, in which a hidden weight of 0 counts as exp(0) = 1.",
            "Use only one softmax, over scores in which the hidden ones are -1e9.",
        ),
        "Hidden weights of -1e9": Wrong(
            _erased("weights.masked_fill(~mask.unsqueeze(-3), -1e9)"),
            "the weights are filled with -1e9, after the softmax.",
            "Such a number is a score, not a weight. Fill the hidden scores with it, and the softmax gives those keys "
            "weights of 0.",
            also=(_erased("weights.masked_fill(~mask.unsqueeze(-3), -torch.inf)"),),
        ),
        "What may be seen is erased": Wrong(
            _erased("weights * ~mask.unsqueeze(-3)"),
            "the weights of hidden keys are kept, and the others are set to 0.",
            "The mask was read the right way round. The problem is its place, after the softmax.",
        ),
        "Shared out among the queries": Wrong(
            _erased("weights * mask.unsqueeze(-3)\n            weights = weights / weights.sum(-2, keepdim=True)"),
            "the remaining weights are divided by their sum over the queries.",
            "A query shares out a weight of 1 among its keys, so divide by sum(-1). Or fill the scores before the "
            "softmax.",
            also=(
                _erased(
                    "weights * mask.unsqueeze(-3)\n"
                    "            weights = weights / weights.sum(-2, keepdim=True).clamp(min=1e-9)"
                ),
            ),
        ),
        "Divided by something other than their sum": Wrong(
            _erased("weights * mask.unsqueeze(-3) / mask.unsqueeze(-3).sum(-1, keepdim=True)"),
            "the remaining weights are divided by the number of allowed keys.",
            _OF_A_ROW,
            also=(
                _erased("weights * mask.unsqueeze(-3) / mask.unsqueeze(-3).float().mean(-1, keepdim=True)"),
                Wrong(
                    _erased("F.normalize(weights * mask.unsqueeze(-3), dim=-1)"),
                    "F.normalize divides by the root of the sum of squares.",
                    _OF_A_ROW,
                ),
                Wrong(
                    _erased("weights * mask.unsqueeze(-3)\n            weights = weights / weights.sum()"),
                    "the remaining weights are divided by their sum over all rows, heads and samples.",
                    _OF_A_ROW,
                ),
            ),
        ),
        "The axis for the heads is counted from the front": Wrong(
            [Change("mask.unsqueeze(-3)", "mask.unsqueeze(1)")],
            "a mask (T, T) for all samples becomes (T, 1, T).",
            "unsqueeze(-3) puts the axis right before queries and keys, whatever comes first.",
        ),
        **everywhere(layers.TicketAttention),
    },
    same={
        "": "The softmax still shares out the weight among all keys. Setting hidden weights to 0 afterwards is too "
        "late, so fill the scores before the softmax.",
    },
    word="Hidden tokens still have an effect. The doctor recorded the weights that the layer used, and saw that hidden "
    "keys had taken part in the sum.",
)

letters = Problem(
    saw="each letter is right alone, but not in a batch of mixed lengths",
    healthy=layers.LetterAttention,
    changes=[Change("repeat_interleave(self.num_heads, dim=0)", "repeat(self.num_heads, 1, 1)")],
    right="B",
    options={
        "A": "exp(-1e9) is 0, to the last bit, so a hidden key gets no weight at all.",
        "B": "fold puts the heads of letter 0 first, then the heads of letter 1: 0, 0, 1, 1. repeat lays the masks end "
        "to end: 0, 1, 0, 1. So some heads of a letter get the mask of another letter. With equal lengths, or with one "
        "letter, nobody can tell.",
        "C": "From (B, num_heads, T, head_dim), reshape(B * num_heads, …) puts the heads of one letter side by side, "
        "and view(B, num_heads, …) separates them in the same order. Without a mask the layer is right.",
        "D": "Without a mask, the outputs agree with those of the course's own layer, so the transpose(1, 2) and "
        "reshape at the end are the right merge.",
        "E": "A letter must get the same outputs in a batch as it does alone with its own mask.",
    },
    hints=[
        "Print torch.tensor([3, 2]).repeat(2) and .repeat_interleave(2).",
        "For the test: pass several samples with different masks, and then each sample alone with its own mask.",
        "To mend it: repeat the masks in the order in which the heads were folded.",
    ],
    shown_by=_each_sample_its_mask,
    cases=cases.MASKED,
    blind={
        "no mask": _NO_MASK,
        "open masks": _OPEN,
        "one sample": "Each call has only one sample, so there is no other mask that it could get by mistake.",
        "shared masks": "All samples have the same mask, so nothing changes if a sample gets another one's mask.",
        "another sample": _ANOTHER,
    },
    alarm={
        "two inputs": _UNMASKED,
        "as broken": "You expect the masks or the heads in the order of the broken layer, 0, 1, 0, 1. But fold puts "
        "all heads of letter 0 first: 0, 0, 1, 1.",
    },
    fellows=_with_masks(einsum=layers.TicketAttention),
    wrong={
        "The queries are repeated": Wrong(
            [Change("repeat_interleave(self.num_heads, dim=0)", "repeat_interleave(self.num_heads, dim=1)")],
            "each row of a mask is repeated, which makes (B, num_heads * T, T).",
            "Repeat whole masks, each of them for the heads of its letter: dim=0.",
            also=(
                [Change("repeat_interleave(self.num_heads, dim=0)", "repeat(1, self.num_heads, 1)")],
                [Change("repeat_interleave(self.num_heads, dim=0)", "repeat_interleave(self.num_heads, dim=-1)")],
                Wrong(
                    [Change(_REPEAT, f"{_REPEAT.replace('dim=0', 'dim=1')}.view(-1, T, T)")],
                    "each row of a mask is repeated, and view then cuts one mask into several.",
                    "Repeat whole masks, each of them for the heads of its letter: dim=0, and no view.",
                ),
                Wrong(
                    [Change(_REPEAT, f"{_REPEAT.replace('dim=0', 'dim=2')}.view(-1, T, T)")],
                    "each key of a mask is repeated, and view then cuts one mask into several.",
                    "Repeat whole masks, each of them for the heads of its letter: dim=0, and no view.",
                ),
            ),
        ),
        "Repeated as often as there are letters": Wrong(
            [Change("repeat_interleave(self.num_heads, dim=0)", "repeat_interleave(B, dim=0)")],
            "each mask is repeated B times.",
            "A letter has num_heads heads, and each head needs the letter's mask.",
        ),
        "The first letter's mask for all": Wrong(
            [Change(_REPEAT, "mask.expand(B, T, T)[:1]")],
            "all letters get the mask of letter 0.",
            "Each letter has its own mask, which its num_heads heads share.",
        ),
        "A mask for all letters is overlooked": Wrong(
            [Change("mask.expand(B, T, T).repeat_interleave", "mask.repeat_interleave")],
            "a mask (T, T) has no axis for letters, so its rows are repeated.",
            "expand(B, T, T) was right: it gives each letter that mask.",
        ),
        "Heads in place of letters": Wrong(
            [Change(_REPEAT, "mask.expand(B, self.num_heads, T, T).reshape(-1, T, T)")],
            "expand mistakes the letter axis for the head axis.",
            "Put a head axis after the letter axis: mask[:, None].expand(-1, num_heads, -1, -1).",
        ),
        "Folded in a different order, but not unfolded": Wrong(
            [Change(_FOLD, "heads.transpose(0, 1).reshape(B * self.num_heads, T, -1)")],
            "fold puts head 0 of all letters first, but the view at the end still expects all heads of letter 0 first.",
            "You may choose the order, but fold, mask and view must agree. It is less work to mend only the mask.",
            also=(
                [
                    Change(_FOLD, "heads.transpose(0, 1).reshape(B * self.num_heads, T, -1)"),
                    Change("repeat_interleave(self.num_heads, dim=0)", "repeat(self.num_heads, 1, 1)"),
                ],
            ),
        ),
        "Folded and unfolded in a different order": Wrong(
            [
                Change(_FOLD, "heads.transpose(0, 1).reshape(B * self.num_heads, T, -1)"),
                Change(".view(B, self.num_heads, T, -1)", ".view(self.num_heads, B, T, -1).transpose(0, 1)"),
            ],
            "fold and view now put head 0 of all letters first, but the masks come letter by letter, 0, 0, 1, 1.",
            "All three must agree. With fold as it was given, 0, 0, 1, 1 is right.",
        ),
        "Unfolded in a different order": Wrong(
            [Change(".view(B, self.num_heads, T, -1)", ".view(self.num_heads, B, T, -1).transpose(0, 1)")],
            "the view at the end reads the rows as head 0 of all letters, then head 1 of all.",
            "fold puts letter 0 with all its heads first, so the view at the end was right.",
        ),
        **everywhere(layers.LetterAttention),
    },
    same={
        "": "The masks are still in the order 0, 1, 0, 1, which repeat, tile, cat and a new axis in front all produce. "
        "The heads were folded in the order 0, 0, 1, 1.",
    },
    word="A sample gets the mask of another sample. The doctor gave each sample its own mask, and the weights showed "
    "which mask each sample followed.",
)

atlas = Problem(
    saw="a reviewer stopped at four lines",
    healthy=layers.AtlasAttention,
    right="E",
    options={
        "A": "Read the letters: scores are (b, k, q, h), so axis 1 is the key axis. Print weights.sum(1), and you get "
        "ones everywhere.",
        "B": "A mask is (queries, keys), but here the scores have the keys first, so the mask has to be transposed. "
        "Hide a token and change it: the outputs of the others stay the same.",
        "C": "Head i gets features i, i + num_heads, and so on; in other layers, each head gets neighbouring features. "
        "Only the order is different. It is the same in q, k and v, and the last line undoes it.",
        "D": "q and k are each divided by the fourth root of head_dim, so the scores are divided by its square root. "
        "And q.shape[2] is head_dim here.",
        "E": "All four lines are right. The layer puts keys before queries and heads at the end, but it computes the "
        "same as the other layers.",
    },
    hints=[
        "Write the names of the axes beside each line: q is (B, T, head_dim, num_heads).",
        "For the test: which two things must hold for any attention layer with a causal mask? Change the last token.",
        "To mend it: before you change a line, name the output that is wrong.",
    ],
    shown_by=_mask_and_softmax,
    cases=cases.MASKED,
    near={
        "the softmax over the queries": Change("softmax(1)", "softmax(2)"),
        "the mask not transposed": Change("mask.mT[..., None]", "mask[..., None]"),
    },
    wrong={
        "Neighbouring features": Wrong(
            [_NEIGHBOURS],
            "each head gets different features.",
            "With these weights, the layer deals out features to the heads in turn, which is just as good.",
            also=(
                [Change(_NEIGHBOURS.before, f"{_NEIGHBOURS.after}.mT")],
                [Change(_NEIGHBOURS.before, f"{_NEIGHBOURS.after}.mT"), Change(".flatten(2)", ".mT.flatten(2)")],
            ),
        ),
        "The mask is not transposed": Wrong(
            [Change("mask.mT[..., None]", "mask[..., None]")],
            "the mask is read with queries and keys exchanged.",
            "A mask is (queries, keys), but here the scores have the keys first.",
        ),
        "One of the two roots is gone": Wrong(
            [Change(", k / k.shape[2] ** 0.25", ", k")],
            "the scores are divided by only the fourth root of head_dim.",
            "Together, the fourth roots on q and on k make the square root of head_dim.",
            also=([Change("q / q.shape[2] ** 0.25, k", "q, k")],),
        ),
        "Keys ask queries": Wrong(
            [Change("mask.mT[..., None]", "mask[..., None]"), Change("softmax(1)", "softmax(2)")],
            "mask and softmax agree, but both now mistake the query axis for the key axis.",
            "Read the letters: scores are (b, k, q, h), with the keys first, so axis 1 and mask.mT were right.",
        ),
        **everywhere(layers.AtlasAttention),
    },
    fellows=_with_masks(einsum=layers.TicketAttention),
    blind={
        "no mask": "No call has a mask. Use a mask that changes when you transpose it.",
        "symmetric masks": "Your masks stay the same when you transpose them, so they cannot tell queries from keys. "
        "Use a causal mask, or hide a token from the others.",
        "one call": "Your test calls the layer once. What do you compare the output with?",
    },
    alarm={
        "differs": "Your test returns True if outputs differ, even if they are random numbers. True means: the layer "
        "is fine. Which outputs must be equal, then?",
        "two inputs": _UNMASKED,
    },
    word="The doctor finds nothing, although it has looked at the softmax, the scale, the split, the merge and the "
    "masks. Its remark concerns a matter of taste.",
)

captions = Problem(
    saw="the captions mention the grey border",
    healthy=layers.CaptionAttention,
    changes=[Change("hidden = mask == 0", "hidden = mask == 0 if memory is None else mask == 1")],
    right="C",
    options={
        "A": "Either half of W_kv may be called k, as long as it is always the same half. With the same weights and no "
        "mask, the outputs agree with those of the course's own layer, even with memory.",
        "B": "softmax(-1) runs over the keys, however many there are. Even with 4 queries and 7 keys, each row of the "
        "map sums to 1.",
        "C": "With memory, the layer hides the keys whose mask is 1, but these are the allowed keys. In "
        "self-attention, it rightly hides the other keys. So the captions see only the border.",
        "D": "unsqueeze(-3) turns a mask (B, Tq, Tk) into (B, 1, Tq, Tk), and that fits scores (B, num_heads, Tq, Tk).",
        "E": "The picture was masked, so its border should count as absent. Cut it off, and the outputs change.",
    },
    hints=[
        "There are two ways through this layer. Which one have you tried?",
        "For the test: hide the last tokens of memory, and compare with a memory that ends before them.",
        "To mend it: True means may attend, in both branches.",
    ],
    shown_by=_memory_hidden_as_cut,
    cases=cases.ACROSS,
    blind={
        "x alone": "Your calls differ only in x, which holds the queries, and no query reads another query. Instead, "
        "change tokens of memory that the mask hides.",
        "no memory": "No call has a memory, and without one the layer is right. Call it as layer(x, memory, mask).",
        "no mask with memory": "No call with a memory has a mask.",
        "another sample": _ANOTHER,
    },
    alarm={"two inputs": _UNMASKED},
    fellows={"torch's layer": layers.AcrossFromTorch, "the layer of the course": layers.AcrossFromTheLibrary},
    adapted=(
        lambda layer: adapt(lambda x, mask=None: layer(x, x, mask)),
        "adapt(lambda x, mask=None: layer(x, x, mask))",
    ),
    wrong={
        "Self-attention reads it the wrong way round": Wrong(
            [Change("mask == 0\n", "mask == 1\n")],
            "self-attention hides the allowed keys.",
            "True means may attend in both branches, so a key is hidden where the mask is False: mask == 0, or ~mask.",
        ),
        "The branches are exchanged": Wrong(
            [Change("mask == 0\n", "mask == 1 if memory is None else mask == 0\n")],
            "with memory it is now right, but self-attention is not.",
            "True means may attend in both branches, so a single line without a condition is enough.",
        ),
        "With memory there is no mask": Wrong(
            [Change("if mask is not None:", "if mask is not None and memory is None:")],
            "with memory the mask is never used, so the border stays visible.",
            "The border of a picture has to be hidden: mask == 0 in both branches.",
        ),
        "No mask for self-attention": Wrong(
            [Change("if mask is not None:", "if mask is not None and memory is not None:")],
            "without memory the mask is never used.",
            "Words are padded as well: mask == 0 in both branches.",
        ),
        "Keys and values exchanged": Wrong(
            [Change(".chunk(2, dim=-1)", ".chunk(2, dim=-1)[::-1]")],
            "the first half of W_kv is used for the values.",
            "These weights were made for a layer that uses the first half for the keys.",
        ),
        **everywhere(layers.CaptionAttention, but=("The mask is read the wrong way round",)),
    },
    same={
        "": "The mistake is in the line that says which keys are hidden when there is a memory. True means may attend "
        "there, too.",
    },
    word="If the doctor gets the layer as self-attention, layer(x, None, mask), it finds nothing, because only the "
    "branch without memory runs. With a memory (here x itself), the doctor reaches the other branch.",
)

drafts = Problem(
    saw="the next layer sees only the past",
    healthy=layers.DraftAttention,
    changes=[Change(_AND, "allowed &= torch.ones")],
    spoils=True,
    right="D",
    options={
        "A": "arange(d_model).chunk(num_heads) gives neighbouring features to each head, in q, k and v alike. With the "
        "same weights and a causal mask, the outputs agree with those of the course's own layer.",
        "B": "The projections are computed anew for each head. That is slow, but it gives the same numbers.",
        "C": "-1e9 would matter for a query that sees no key at all, because such a query gets an average. Here every "
        "query sees at least one key.",
        "D": "allowed is the caller's own mask, not a copy, and &= writes into it. The next layer to get that mask "
        "finds the future hidden as well.",
        "E": "The next layer does what its mask says. Print the mask before and after: it has changed.",
    },
    hints=[
        "The outputs of this layer are right. What else can a function do to the world?",
        "For the test: keep a copy of something.",
        "To mend it: a & b makes a new tensor, while a &= b writes into a.",
    ],
    shown_by=_leaves_the_mask,
    cases=cases.KEPT,
    blind={
        "no mask": "No call has a mask, and without one the layer makes its own.",
        "lower masks": "Your masks already hide the future, so there is nothing more to write into them.",
        "mask unheard": "Your test gives the same answer even if the last call inverts the very mask that you pass. "
        "The outputs are right each time. But is every entry of that tensor what it was before the call?",
        "some entries": "Your test would notice if the layer inverted the whole mask, but not if it changed only some "
        "entries. Every entry must keep its value.",
    },
    alarm={
        "seen": "",  # by later ones only
        "tokens moved": "The layer is always causal, so in a different order a token sees different tokens, as it "
        "should.",
        "as broken": "Your test demands what the broken layer does to your mask. A healthy layer leaves every entry as "
        "you made it.",
        "later": "Changing a token may change its own output and later ones. Compare only earlier outputs.",
        "always causal": "The layer is always causal, and a mask can only hide more: True does not make the future "
        "visible. The outputs are right, so look at the mask afterwards.",
        "mask kept": "This layer leaves your mask just as you made it. To check that, compare the mask with a copy "
        "from before the call: mask.clone().",
    },
    fellows={"a fused function": layers.CausalFused},
    wrong={
        "The padding mask is lost": Wrong(
            [Change("allowed & torch.ones", "torch.ones")],
            "the causal mask replaces the caller's, so padding is visible.",
            "Both masks count: allowed & torch.ones(...).tril() makes a new tensor from the two.",
            also=([Change(_CAUSAL, "torch.ones(B, T, T, dtype=torch.bool).tril()")],),
        ),
        "One of the two is enough": Wrong(
            [Change("allowed & torch.ones", "allowed | torch.ones")],
            "a key is seen where either the padding mask or the causal mask allows it.",
            "Both masks must allow it, so combine them with &.",
        ),
        "No longer causal": Wrong(
            [Change(_CAUSAL, "allowed.clone()")],
            "the caller's mask is left alone, but the future is visible.",
            "A copy is right, but it still needs the causal mask: allowed & torch.ones(...).tril().",
        ),
        "Causal only without a mask": Wrong(
            [
                Change(
                    f"if mask is None else mask\n        allowed = {_CAUSAL}",
                    "if mask is None else mask\n        allowed = allowed.tril() if mask is None else mask",
                )
            ],
            "with a padding mask, the future is visible.",
            "The layer is always causal, and the padding mask comes on top: allowed & torch.ones(...).tril().",
        ),
        "The mask hides the past": Wrong(
            [Change(".tril()", ".triu()")],
            "each token sees itself and the future.",
            "Rows are queries and columns are keys, so the past is on and below the diagonal: tril.",
        ),
        "What was overwritten is not given back": Wrong(
            [
                Change(_AND, "allowed &= torch.ones"),
                Change(
                    "        return",
                    "        if mask is not None:\n            mask |= ~torch.ones_like(mask).tril()\n        return",
                ),
            ],
            "the outputs are right, and you then undo &= by setting the future to True. But some of these entries were "
            "False before.",
            "Once overwritten, those entries are lost. Make a new tensor and leave the mask alone: a & b.",
        ),
        "A tensor has no copy()": Wrong(
            [Change("else mask", "else mask.copy()")],
            "copy() is a method of lists and of NumPy arrays.",
            "For a tensor it is called clone(). Or make a new tensor: allowed & ...",
        ),
        **everywhere(layers.DraftAttention),
    },
    same={
        "": "One of your lines still changes the caller's mask in place: look for &=, an assignment to an index "
        "(mask[...] = ...), out=, or a method whose name ends in an underscore. Giving the mask a second name does not "
        "copy it. Nor do [:], view(), detach() and copy.copy(), or to() and bool() when there is nothing to convert: "
        "the result shares the mask's memory. Call clone() before that line, or write a & b, which makes a new tensor.",
    },
    word="The layer changes what it was given. The doctor keeps a copy of each tensor that it hands over, and compares "
    "the two afterwards.",
)
