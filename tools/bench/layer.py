"""Measure the layer beside torch's and d2l's, what pruning saves, and what attention costs as texts grow longer.

Part of `make bench`; `report.py` puts the tables into BENCHMARKS.md. Contestants take turns, so that a busy
machine is busy for all, and what is compared is the median over the turns. One thread of the processor: what several
win depends on how many there are and on what else runs.
"""

import statistics
import time
from collections.abc import Callable

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from mhalib import MultiHeadAttention, causal_mask
from mhalib.experiments import count_flops
from mhalib.experiments.training import torch_threads
from mhalib.heads import gated_heads, prune_heads
from mhalib.reference import import_d2l

D_MODEL, HEADS, BATCH, TOKENS = 512, 8, 8, 128
PRUNED_HEADS, KEPT = 16, (12, 8, 4)
LENGTHS = (256, 512, 1024, 2048, 4096)
LONG = (8192, 16384, 32768)  # where there is a GPU
TURNS, SPELL = 7, 0.25  # turns for each contestant, seconds that one turn fills


def take_turns(contestants: dict[object, Callable[[], object]]) -> dict[object, float]:
    """Return the median milliseconds of a call of each contestant, measured in turns."""
    spent: dict[object, list[float]] = {name: [] for name in contestants}
    for turn in range(TURNS + 1):
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
    small = {}
    for kept in KEPT:
        keep = torch.arange(PRUNED_HEADS) < kept
        small[kept] = prune_heads(whole, keep[None])

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


# ---------------------------------------------------------------- longer texts


def lengths() -> list[dict]:
    """Return time and memory of causal attention for each number of tokens, taught and fused.

    Measured on a GPU, if there is one. Memory is the largest sum of all tensors there, and on a CPU, where torch
    keeps no such account, what the maps of the taught way need by their sizes.
    """
    gpu = torch.cuda.is_available()
    device = "cuda" if gpu else "cpu"
    layer = MultiHeadAttention(D_MODEL, HEADS).to(device).eval()
    rows = []
    for tokens in LENGTHS + (LONG if gpu else ()):  # the memory of a CPU is not tried so far
        x = torch.randn(1, tokens, D_MODEL, device=device)
        mask = causal_mask(tokens).to(device)
        row = {"tokens": tokens, "maps": 4 * HEADS * tokens**2}
        ways = {"taught": lambda x=x, mask=mask: layer(x, mask=mask, need_weights=True)}
        ways["fused"] = lambda x=x: _fused(layer, x)
        if gpu:
            ways["flash, half precision"] = lambda x=x: _flash(layer, x)
        for name, call in ways.items():
            try:
                row[name], row[f"{name}, bytes"] = _cost(call, gpu)
            except torch.OutOfMemoryError:
                row[name], row[f"{name}, bytes"] = None, None
        rows.append(row)
    return rows


def _fused(layer, x):
    q, k, v = (w(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for w in (layer.W_q, layer.W_k, layer.W_v))
    heads = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    return layer.W_o(heads.transpose(1, 2).flatten(2))  # (B, h, T, hd) -> (B, T, h * hd)


def _flash(layer, x):
    with torch.autocast("cuda", torch.float16), sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        return _fused(layer, x)


@torch.no_grad()
def _cost(call, gpu: bool) -> tuple[float, int | None]:
    """Return the median milliseconds of three calls, and on a GPU the bytes that one of them needs on top."""
    call()
    spent, need = [], None
    for _ in range(3):
        if gpu:
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
        start = time.perf_counter()
        call()
        if gpu:
            torch.cuda.synchronize()
            need = torch.cuda.max_memory_allocated() - before
        spent.append(1000 * (time.perf_counter() - start))
    return statistics.median(spent), need
