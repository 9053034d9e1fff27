"""The last two problems: a layer that is healthy in itself, and one that goes wrong only from its second call on."""

import torch

from attention_doctor import adapt
from mhacourse.exercise import Change, Wrong
from mhacourse.lessons.problems import cases, layers
from mhacourse.lessons.problems.mendings import everywhere
from mhacourse.problem_set import Problem

_SHARED = "part.repeat_interleave(share, dim=1)"
_ROWS, _MASKED = "self.tril[S - T : S, :S]", "scores.masked_fill(~self.tril[S - T : S, :S], -torch.inf)"
_GROWN = "torch.cat([cache[0], k], dim=2), torch.cat([cache[1], v], dim=2)"


def _repeated(heads: str) -> list[Change]:
    """Return the change that gives the archive layer these KV heads."""
    return [Change(_SHARED, heads)]


def _seen(rows: str) -> list[Change]:
    """Return the change that gives the dictation layer this piece of its causal mask."""
    return [Change(_ROWS, rows)]


_OWN_KIND = (
    "A second layer of the same class hands out the heads in the same wrong order. Compare with a different class that "
    "is known to be right, such as MultiHeadAttention, with the same weights."
)


def _same_with_the_same_weights(layer):
    from mhalib import MultiHeadAttention

    known = MultiHeadAttention(layer.d_model, layer.num_heads, num_kv_heads=layer.num_kv_heads)
    known.load_state_dict(layer.state_dict())
    x = torch.randn(2, 5, layer.d_model)
    return torch.allclose(layer(x), known(x), atol=1e-3)


def _in_steps_as_at_once(layer):
    x, outs, cache = torch.randn(2, 6, layer.d_model), [], None
    for token in x.split(1, dim=1):
        out, cache = layer(token, cache)
        outs.append(out)
    return torch.allclose(torch.cat(outs, dim=1), layer(x)[0], atol=1e-4)


archive = Problem(
    saw="fine when trained here, nonsense with published weights",
    healthy=layers.ArchiveAttention,
    changes=[Change("repeat_interleave(share, dim=1)", "repeat(1, share, 1, 1)")],
    right="A",
    options={
        "A": "repeat hands out the KV heads in the order 0, 1, 0, 1, but the published weights were trained with 0, 0, "
        "1, 1. So some query heads meet keys that they were never trained with. A layer trained from scratch adapts to "
        "its own order.",
        "B": "The number comes from the published model itself, as the shapes of W_k and W_v show.",
        "C": "With as many KV heads as query heads (num_kv_heads=num_heads) and the same weights, it agrees with the "
        "course's own layer, so the scale is right.",
        "D": "Axis 1 is the head axis. Put the tokens in a different order, and you get the same outputs in that "
        "order.",
        "E": "With the code that they came with, the same weights produce sensible text. So the two layers compute "
        "different things.",
    },
    hints=[
        "Number the KV heads: print torch.arange(2).repeat(2) and .repeat_interleave(2).",
        "For the test: seen from outside, this layer is as good as the right one. Which layer could you compare it "
        "with, if both had the same weights? You can use layer.W_q, W_k, W_v, W_o and layer.num_kv_heads.",
        "To mend it: neighbouring query heads share a KV head.",
    ],
    shown_by=_same_with_the_same_weights,
    cases=cases.MASKED,
    blind={
        "own kind": _OWN_KIND,
        "from outside": "Only the order of the heads is different. From outside, this is a correct layer with "
        "different weights: reorder, mask or cut its tokens, and it behaves as it should. Compare it with a known "
        "layer that has the same weights.",
    },
    alarm={
        "not copied": "Any two layers differ as long as their weights do. known.load_state_dict(layer.state_dict()) "
        "copies the weights.",
        "as broken": "You expect the KV heads in the order of the broken layer, 0, 1, 0, 1, which repeat and cat "
        "produce. In the published model, neighbouring query heads share a KV head: 0, 0, 1, 1, which "
        "repeat_interleave produces.",
    },
    fellows={
        "the layer of the course": lambda d, h: layers.FromTheLibrary(d, h, num_kv_heads=2),
    },
    sizes=((8, 4), (24, 6), (32, 8)),
    wrong={
        "The wrong axis is repeated": Wrong(
            _repeated("part.repeat_interleave(share, dim=2)"),
            "tokens, features or samples are repeated, so there are no more heads than before.",
            "In (B, num_kv_heads, T, head_dim), the heads are on axis 1.",
            also=(
                _repeated("part.repeat(1, 1, share, 1)"),
                _repeated("part.repeat_interleave(share, dim=-1)"),
                _repeated("part.repeat_interleave(share, dim=0)"),
                Wrong(
                    _repeated("part.repeat_interleave(share, dim=2).reshape(len(x), -1, *part.shape[2:])"),
                    "tokens are repeated, and the reshape then cuts one head into several.",
                    "Repeat whole heads, axis 1 of (B, num_kv_heads, T, head_dim). Then there is nothing to reshape.",
                ),
            ),
        ),
        "Single features are repeated": Wrong(
            _repeated(
                "part.transpose(1, 2).flatten(2).repeat_interleave(share, -1)"
                ".unflatten(-1, (-1, self.head_dim)).transpose(1, 2)"
            ),
            "each feature of the projection is repeated, so a head consists of a few features and their copies.",
            "Each KV head is shared whole by its query heads: split into heads first, then repeat along the head axis.",
        ),
        "No axis is given": Wrong(
            _repeated("part.repeat_interleave(share)"),
            "without dim, repeat_interleave makes one long row of all numbers.",
            "Name the axis: in (B, num_kv_heads, T, head_dim), the heads are on axis 1.",
        ),
        "Repeated as often as there are KV heads": Wrong(
            _repeated("part.repeat_interleave(self.num_kv_heads, dim=1)"),
            "each head is repeated num_kv_heads times.",
            "Each KV head serves num_heads / num_kv_heads query heads, so repeat it share times.",
        ),
        "Keys and values disagree": Wrong(
            [
                Change(
                    f"k, v = ({_SHARED} for part in (k, v))",
                    "k, v = k.repeat_interleave(share, dim=1), v.repeat(1, share, 1, 1)",
                )
            ],
            "of the keys and the values, one is now shared by neighbours, and the other is still shared in turn.",
            "A query head needs keys and values from the same KV head, so use repeat_interleave for both.",
            also=(
                [
                    Change(
                        f"k, v = ({_SHARED} for part in (k, v))",
                        "k, v = k.repeat(1, share, 1, 1), v.repeat_interleave(share, dim=1)",
                    )
                ],
            ),
        ),
        "The heads are not put back in their order": Wrong(
            [
                Change(
                    f"k, v = ({_SHARED} for part in (k, v))",
                    "q = q.unflatten(1, (self.num_kv_heads, share)).transpose(1, 2).flatten(1, 2)\n"
                    "        k, v = (part.repeat(1, share, 1, 1) for part in (k, v))",
                )
            ],
            "the query heads are reordered to fit the keys, but their outputs then enter W_o in that order.",
            "Restore their order before W_o, or leave the queries alone and give neighbours the same keys, with "
            "repeat_interleave.",
        ),
        **everywhere(layers.ArchiveAttention),
    },
    same={
        "": "The KV heads are still in the order 0, 1, 0, 1, which repeat, tile, cat and a new axis in front all "
        "produce. Neighbouring query heads share a KV head: 0, 0, 1, 1.",
    },
    word="The doctor finds nothing, and rightly so: taken alone, this is a layer like any other. But it notes how the "
    'query heads share KV heads: "cycled". In the published model, neighbouring query heads share one.',
)

dictation = Problem(
    saw="right in one go, word salad when it writes",
    healthy=layers.DictationAttention,
    changes=[Change("self.tril[S - T : S, :S]", "self.tril[:T, :S]")],
    right="B",
    options={
        "A": "cache[0] holds the keys and cache[1] the values, in the order in which the layer returns them.",
        "B": "The T new tokens are the last of S tokens, so they need the last T of the first S rows of tril. tril[:T] "
        "takes the first T rows instead: a single new token gets row 0 and sees only token 0, whatever has been said "
        "since. Without a cache, S = T, and the two slices are the same.",
        "C": "Axis 2 of (B, num_heads, T, head_dim) is the token axis, so cache[0].shape[2] grows by one with "
        "each step.",
        "D": "A text that is too long for tril raises an error. Here, things go wrong as early as the second token.",
        "E": "Whether in steps or all at once, a causal layer must give the same outputs up to rounding, about 1e-6. "
        "Here they differ in the first digit.",
    },
    hints=[
        "For the third token that the layer writes, note down T, S and the row of tril that this token gets.",
        "For the test: pass all the tokens at once, and then the same tokens one after another, passing on the cache.",
        "To mend it: of the S rows, take the last T.",
    ],
    shown_by=_in_steps_as_at_once,
    cases=cases.CACHED,
    blind={
        "no cache": "None of your calls gets a cache, and without one the layer is right. Give each call the cache "
        "that the previous one returned.",
        "no whole": "What do you compare the outputs of the steps with? Pass the same tokens in one call to get the "
        "right outputs.",
    },
    alarm={
        "seen": "",  # by later ones only
        "tokens moved": "The layer is always causal, so in a different order a token sees different tokens, as it "
        "should.",
        "later": "Changing a token may change its own output and later ones. Compare only earlier outputs.",
        "old cache": "Several calls get the same cache, so what was said in between is forgotten. Pass on the cache "
        "that the last call returned: out, cache = layer(token, cache).",
        "cut": "Each call begins anew. Pass on the cache: out, cache = layer(token, cache).",
        "tokens twice": "The cache already holds the earlier tokens. Hand over each token once, and compare its output "
        "with the one from a single call with all tokens.",
    },
    fellows={"a cache of inputs": layers.KeepsInputs},
    returns="This layer returns a pair: out, cache = layer(x).",
    adapted=(lambda layer: adapt(layer, mask=None, causal=True), "adapt(layer, mask=None, causal=True)"),
    wrong={
        "New tokens see each other": Wrong(
            _seen("self.tril[S - 1 : S, :S]"),
            "it now works for a single new token, but with several, the first sees the later ones.",
            "Each of the T new tokens needs its own row: tril[S - T : S, :S]. The last of these rows alone, the rows "
            "from S on, and the last rows of the whole mask all hide nothing.",
            also=(_seen("self.tril[S : S + T, :S]"), _seen("self.tril[-T:, :S]"), _seen("self.tril[-1, :S]")),
        ),
        "One row too late": Wrong(
            _seen("self.tril[S - T + 1 : S + 1, :S]"),
            "the rows begin one token too late, so each new token sees the next one.",
            "Rows are counted from 0: the last of S tokens has row S - 1, and the first of the T new ones row S - T.",
        ),
        "One row too early": Wrong(
            _seen("self.tril[S - T - 1 : S - 1, :S]"),
            "the rows begin one token too early.",
            "The last of S tokens has row S - 1, and a slice leaves out its end value: tril[S - T : S, :S].",
        ),
        "All rows to the end": Wrong(
            _seen("self.tril[S - T :, :S]"),
            "the slice goes on to row 63, but there are only T new tokens.",
            "It has to stop at S: tril[S - T : S, :S].",
        ),
        "A row for every token": Wrong(
            _seen("self.tril[:S, :S]"),
            "there are S rows, but only the T new tokens have queries.",
            "Of the S rows, take the last T: tril[S - T : S, :S].",
        ),
        "Rows counted along another axis": Wrong(
            _seen("self.tril[0 if cache is None else cache[0].shape[1] :][:T, :S]"),
            "the index of the first row is the size of another axis of the cache, not the number of cached tokens.",
            "The cache is (B, num_heads, tokens, head_dim), so its tokens are on axis 2.",
            also=tuple(_seen(f"self.tril[0 if cache is None else len({x}) :][:T, :S]") for x in ("x", "q[0, 0, 0]")),
        ),
        "New tokens see only new ones": Wrong(
            _seen("F.pad(self.tril[:T, :T], (S - T, 0))"),
            "new tokens see themselves and each other, but nothing in the cache.",
            "All new tokens may see earlier tokens: tril[S - T : S, :S].",
        ),
        "The diagonal moved the wrong way": Wrong(
            _seen("torch.ones(T, S, dtype=torch.bool).tril(T - S)"),
            "the diagonal moves to the left by the number of cached tokens, so new tokens see even less.",
            "Each new token may see S - T more tokens: tril(S - T), or tril[S - T : S, :S] of the stored mask.",
        ),
        "No mask once there is a cache": Wrong(
            [Change(_MASKED, f"({_MASKED} if cache is None else scores)")],
            "it now works for a single new token, but with several, the first sees the later ones.",
            "Several new tokens need a mask, too: the last T of the S rows.",
        ),
        "No mask for a single token": Wrong(
            [Change(_MASKED, f"({_MASKED.replace('S - T : S', ':T')} if T > 1 else scores)")],
            "it now works for a single new token, but several still get the first rows.",
            "The last T of the S rows are right in either case: tril[S - T : S, :S].",
        ),
        "New tokens before the old ones": Wrong(
            [Change(_GROWN, "torch.cat([k, cache[0]], dim=2), torch.cat([v, cache[1]], dim=2)")],
            "the cache has the newest token first.",
            "The rows and columns of tril count tokens in the order in which they were said, so cat([cache[0], k]) was "
            "right.",
        ),
        "The cache grows along the wrong axis": Wrong(
            [Change(_GROWN, "torch.cat([cache[0], k], dim=1), torch.cat([cache[1], v], dim=1)")],
            "with each step there are more heads, but no more tokens.",
            "In (B, num_heads, T, head_dim), the tokens are on axis 2.",
        ),
        "Only the newest tokens are kept": Wrong(
            [Change("(k, v)\n", "(k[:, :, -T:], v[:, :, -T:])\n")],
            "the returned cache holds only the new tokens.",
            "Earlier tokens must stay in it: return the joined (k, v).",
        ),
        **everywhere(layers.DictationAttention, but=("The mask is not used",)),
    },
    same={
        "": "The cache was right already. The T new tokens still get the wrong rows of tril: for T = 1 it is row 0, "
        "however long the text is.",
    },
    word="With the whole text, nothing is wrong. But the doctor saw that the layer takes a cache and returns one, so "
    "it also passed the text in pieces and compared the outputs.",
)
