"""What single heads do: measures of their maps, switches on them, and layers without them.

Names are handed on when they are first asked for. `measures` takes weights and knows nothing of layers, and so does
`mixing`, of what several layers do together; `gates` switches heads of a layer; `pruning`, on top of it, tells which
matter and cuts the others out. `capture` takes the maps out of any PyTorch model; its parts lie in the modules
`capture_*`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "capture_maps": ["Maps"],
        "capture_model": ["capture"],
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
