"""What single heads do: measures of their maps, switches on them, and layers without them.

Names are handed on when they are first asked for. `measures` takes weights and knows nothing of layers, and so does
`mixing`, of what several layers do together; `gates` switches heads of a layer; `pruning`, on top of it, tells which
matter and cuts the others out. The maps of any other model are taken by `headview.capture`.
"""

import lazy_loader

_known, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "gates": ["attention_layers", "gated_heads", "head_means"],
        "measures": [
            "alignment_agreement",
            "attention_distance",
            "attention_entropy",
            "induction_score",
            "key_score",
            "offset_score",
            "previous_token_score",
            "same_token_score",
        ],
        "mixing": ["rollout"],
        "pruning": [
            "Pruning",
            "gradient_importance",
            "greedy_pruning",
            "mean_importance",
            "prune_heads",
            "prune_in_order",
            "zero_importance",
        ],
    },
)


def __getattr__(name: str) -> object:
    if name in ("capture", "Maps"):
        raise ImportError(f"{name} is in the package headview now: write `from headview import {name}`")
    return _known(name)
