"""The last two problems: a layer that is healthy in itself, and one that is ill only from its second call on."""

import torch

from attention_doctor import adapt
from mhacourse.exercise import Change
from mhacourse.lessons.problems import cases, layers
from mhacourse.problem_set import Problem


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
    saw="trained here it is fine, with published weights it talks nonsense",
    healthy=layers.ArchiveAttention,
    changes=[Change("repeat_interleave(share, dim=1)", "repeat(1, share, 1, 1)")],
    right="A",
    options={
        "A": "repeat hands out the heads of keys as 0, 1, 0, 1; the published weights were trained as 0, 0, 1, 1. So "
        "some heads of queries ask keys that they have never met. Trained from the start, the layer gets used to its "
        "own order.",
        "B": "The number comes from the published model itself: the shapes of W_k and W_v say so.",
        "C": "With as many heads of keys as of queries, num_kv_heads=num_heads, it agrees with the layer of the "
        "course at the same weights: the scale is right.",
        "D": "Axis 1 is that of the heads. Tokens in another order give the same outputs in that order.",
        "E": "In the code that they came with, the same weights talk sense. So the two compute something else.",
    },
    hints=[
        "Number the heads of keys: torch.arange(2).repeat(2) and .repeat_interleave(2).",
        "For the test: as a function this layer is as good as the right one. Which layer could you compare it with, if "
        "both had the same weights? layer.W_q, W_k, W_v, W_o and layer.num_kv_heads are there.",
        "For the mending: neighbouring heads of queries share a head of keys.",
    ],
    shown_by=_same_with_the_same_weights,
    cases=cases.MASKED,
    blind={
        "otherwise": "Only the order of the heads is another one. Seen from outside, this is a right layer with other "
        "weights: reordered, masked, cut, it behaves. Compare it with a known layer at the same weights.",
    },
    fellows={
        "the layer of the course": lambda d, h: layers.FromTheLibrary(d, h, num_kv_heads=2),
    },
    sizes=((8, 4), (24, 6), (32, 8)),
    word="No finding, and rightly: as it stands it is a layer like any other. But the doctor remarks how the heads "
    "share: cycled. The published ones share as neighbours.",
)

dictation = Problem(
    saw="right in one go, word salad when it writes",
    healthy=layers.DictationAttention,
    changes=[Change("self.tril[S - T : S, :S]", "self.tril[:T, :S]")],
    right="B",
    options={
        "A": "cache[0] holds keys and cache[1] values, in the order in which the layer returns them.",
        "B": "The new tokens are the last of the S, and so they need the last T rows of tril. tril[:T] are the "
        "first: one new token gets row 0, and sees token 0, whatever was said since. Without a cache S = T, and the "
        "two are the same.",
        "C": "Axis 2 of (B, num_heads, T, head_dim) is that of the tokens: with each step cache[0].shape[2] grows by "
        "one.",
        "D": "A text longer than tril stops with an error. This one is wrong at its second token.",
        "E": "In steps or at once, a causal layer gives the same outputs up to rounding, some 1e-6. Here they differ "
        "in the first digit.",
    },
    hints=[
        "Write down T and S for the third token that is written, and the row of tril that it gets.",
        "For the test: the same tokens at once, and one after another with the cache handed on.",
        "For the mending: of the S rows, the last T.",
    ],
    shown_by=_in_steps_as_at_once,
    cases=cases.CACHED,
    blind={
        "no cache": "No call has a cache: in one go the layer is right. Hand on what the call before returned.",
        "otherwise": "With what do you compare the outputs of the steps? At once, the same tokens give the right ones.",
    },
    alarm={"no cache": "Each call begins anew: hand on the cache, out, cache = layer(token, cache)."},
    fellows={"a cache of inputs": layers.KeepsInputs},
    returns="This layer returns a pair: out, cache = layer(x).",
    adapted=(lambda layer: adapt(layer, mask=None, causal=True), "adapt(layer, mask=None, causal=True)"),
    word="With the whole text nothing is wrong. But the doctor saw an argument for a cache and one that comes back: it "
    "called the layer in pieces as well, and compared.",
)
