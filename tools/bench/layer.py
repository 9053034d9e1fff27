"""Measure the layer beside torch's and d2l's, what pruning saves, and what it costs to take the maps out of a model.

Part of `make bench`; `page.py` puts the tables into BENCHMARKS.md. Contestants take turns, so that a busy
machine is busy for all, and what is compared is the median over the turns. One thread of the processor: what several
win depends on how many there are and on what else runs.
"""

import statistics
import time
from collections.abc import Callable

import torch
from torch import nn

from headview import capture
from mhalib import MultiHeadAttention
from mhalib.experiments import count_flops
from mhalib.experiments.training import torch_threads
from mhalib.heads import gated_heads, prune_heads
from mhalib.reference import import_d2l

D_MODEL, HEADS, BATCH, TOKENS = 512, 8, 8, 128
PRUNED_HEADS, KEPT = 16, (12, 8, 4)
CAPTURED = (128, 512)  # tokens
PLAIN, OURS, THEIRS = "without maps", "inside of `capture`", "`output_attentions=True`, eager"
TURNS, SPELL = 7, 0.25  # turns for each contestant, seconds that one turn fills
CAPTURED_TURNS = 15  # it is compared with a plain pass by a few hundredths


def take_turns(contestants: dict[object, Callable[[], object]], turns: int = TURNS) -> dict[object, float]:
    """Return the median milliseconds of a call of each contestant, measured in turns."""
    spent: dict[object, list[float]] = {name: [] for name in contestants}
    for turn in range(turns + 1):
        for name, call in contestants.items():
            start, calls = time.perf_counter(), 0
            while not calls or time.perf_counter() - start < SPELL:
                call()
                calls += 1
            if turn:  # the first one warms up
                spent[name].append(1000 * (time.perf_counter() - start) / calls)
    return {name: statistics.median(values) for name, values in spent.items()}


# ---------------------------------------------------------------- the layer beside others


def layers() -> dict[str, dict[str, float]]:
    """Return, for each way to use a layer, the milliseconds of ours, torch's and d2l's."""
    x = torch.randn(BATCH, TOKENS, D_MODEL)
    ours = MultiHeadAttention(D_MODEL, HEADS)
    theirs = nn.MultiheadAttention(D_MODEL, HEADS, bias=False, batch_first=True)
    book = import_d2l().MultiHeadAttention(D_MODEL, D_MODEL, D_MODEL, D_MODEL, HEADS, 0.0)

    found = {}
    for learn, what in ((False, "forward"), (True, "forward and backward")):
        for module in (ours, theirs, book):
            module.train(learn)
        for weights, how in ((False, "without weights"), (True, "with weights")):
            contestants = {
                "mhalib": step(lambda weights=weights: ours(x, need_weights=weights), ours, learn),
                "nn.MultiheadAttention": step(
                    lambda weights=weights: theirs(x, x, x, need_weights=weights, average_attn_weights=False),
                    theirs,
                    learn,
                ),
                "d2l": step(lambda: book(x, x, x, None), book, learn),  # keeps its weights in any case
            }
            with torch_threads(1):
                found[f"{what}, {how}"] = take_turns(contestants)
    return found


def step(call: Callable, module: nn.Module, learn: bool) -> Callable[[], None]:
    """Return a call of the module without gradients, or, to learn, with them and cleared of them again."""

    def with_gradients():
        out = call()
        (out[0] if isinstance(out, tuple) else out).sum().backward()
        module.zero_grad()

    return with_gradients if learn else torch.no_grad()(call)


# ---------------------------------------------------------------- pruning


def pruning() -> list[dict[str, float]]:
    """Return for each number of heads kept the share of operations and time that is left, cut and masked."""
    x = torch.randn(BATCH, TOKENS, D_MODEL)
    whole = MultiHeadAttention(D_MODEL, PRUNED_HEADS).eval()
    small = {kept: prune_heads(whole, (torch.arange(PRUNED_HEADS) < kept)[None]) for kept in KEPT}

    def masked(kept):
        with gated_heads(whole, (torch.arange(PRUNED_HEADS) < kept).float()[None]):
            return whole(x)

    calls: dict[object, Callable[[], object]] = {"whole": lambda: whole(x)}
    for kept in KEPT:
        calls[kept] = lambda layer=small[kept]: layer(x)
        calls[f"masked {kept}"] = lambda kept=kept: masked(kept)
    with torch.no_grad(), torch_threads(1):
        spent = take_turns(calls)
    operations = count_flops(whole, x)
    return [
        {
            "kept": kept,
            "operations": count_flops(layer, x) / operations,
            "time": spent[kept] / spent["whole"],
            "masked": spent[f"masked {kept}"] / spent["whole"],
        }
        for kept, layer in small.items()
    ]


# ---------------------------------------------------------------- the maps of any model


def forwards(tokens: int) -> dict[str, float]:
    """Return the milliseconds of a pass of BERT base over one text: plain, captured, with its own maps."""
    from transformers import BertConfig, BertModel

    fused, eager = (BertModel(BertConfig(attn_implementation=how)).eval() for how in ("sdpa", "eager"))
    eager.load_state_dict(fused.state_dict())
    words = torch.randint(1000, fused.config.vocab_size, (1, tokens))

    def captured():
        with capture(fused, progress=False) as maps:
            fused(words)
        return maps

    passes = {
        PLAIN: lambda: fused(words),
        OURS: captured,
        THEIRS: lambda: eager(words, output_attentions=True).attentions,
    }
    with torch.no_grad(), torch_threads(1):
        return take_turns(passes, CAPTURED_TURNS)
