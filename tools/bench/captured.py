"""Measure what it costs to take the maps out of a model while it runs, beside the model without and with its own maps.

Part of `make bench`; `report_large.py` puts the table into BENCHMARKS.md.
"""

from collections.abc import Callable

import torch

from mhalib.experiments.training import torch_threads
from tools.bench.layer import take_turns

TOKENS = 128
PLAIN, OURS, THEIRS = "without maps", "inside of `capture`", "`output_attentions=True`, eager"


def forwards(tokens: int = TOKENS, **config) -> dict[str, float]:
    """Return the milliseconds of a forward pass of BERT with random weights: plain, captured, with its own maps.

    Args:
        tokens: the length of the one text.
        config: what is other than in BERT base, such as `num_hidden_layers`.
    """
    calls = contestants(tokens, **config)
    with torch.no_grad(), torch_threads(1):
        return take_turns(calls)


def contestants(tokens: int, **config) -> dict[str, Callable[[], object]]:
    """Return the three passes, by their names; both of the last ones return their maps."""
    from transformers import BertConfig, BertModel

    from mhalib.heads import capture

    fused, eager = (BertModel(BertConfig(attn_implementation=how, **config)).eval() for how in ("sdpa", "eager"))
    eager.load_state_dict(fused.state_dict())
    words = torch.randint(1000, fused.config.vocab_size, (1, tokens))

    def captured():
        with capture(fused, progress=False) as maps:
            fused(words)
        return maps

    return {
        PLAIN: lambda: fused(words),
        OURS: captured,
        THEIRS: lambda: eager(words, output_attentions=True).attentions,
    }
