"""What is known of models beforehand: how they call their heads, where they look across, whose attention is no map."""

from torch import Tensor, nn

HEADS = ("num_heads", "num_attention_heads", "n_heads", "n_head", "nhead", "heads", "num_attn_heads", "nheads", "h")
CROSS = ("cross", "encdec", "enc_dec", "encoder_attn", "encoder_decoder", "multihead_attn", "src_attn", "context_attn")
SPARSE = {  # classes whose weights are bands or blocks of a map, never the map
    "LongformerSelfAttention": "a band of neighbours",
    "LEDEncoderSelfAttention": "a band of neighbours",
    "BigBirdBlockSparseAttention": "blocks",
    "BigBirdPegasusBlockSparseAttention": "blocks",
    "LocalSelfAttention": "chunks",
    "LSHSelfAttention": "hashed chunks",
    "LongT5LocalAttention": "blocks",
    "PegasusXGlobalLocalAttention": "blocks",
    "NystromformerSelfAttention": "landmarks",
    "InformerProbSparseAttention": "the queries that differ most",
    "LongT5TransientGlobalAttention": "blocks",
}


def sparse_kind(module: nn.Module) -> str | None:
    """Return what a module attends to, if that is less than all keys and so no map; None: nothing is known of it."""
    if getattr(module, "num_landmarks", None) == getattr(module, "seq_len", 0):
        return None  # with as many landmarks as tokens, Nyströmformer attends to all
    return SPARSE.get(type(module).__name__)


def crosses_by_name(name: str, module: nn.Module) -> bool:
    """Return whether the name of a module or of its class says that its keys come from another sequence."""
    return any(hint in f"{name}.{type(module).__name__}".lower() for hint in CROSS)


def number_of_heads(module: nn.Module) -> int | None:
    """Return how many heads a module says that it has."""
    for name in HEADS:
        number = getattr(module, name, None)
        if isinstance(number, int) and not isinstance(number, bool) and number > 0:
            return number
    return None


def packed(module: nn.Module, q: Tensor, k: Tensor) -> int | None:
    """Return the number of heads if a single query stands in several rows, one for each head that shares its keys.

    So do models of transformers when they generate.
    """
    groups = getattr(module, "num_key_value_groups", None)
    if not isinstance(groups, int) or groups < 2 or q.ndim != 4 or q.shape[2] != groups or q.shape[1] != k.shape[1]:
        return None
    heads = number_of_heads(module)
    if heads is None:
        projection = getattr(module, "q_proj", None)
        config = vars(getattr(module, "config", object)).get("num_attention_heads")
        heads = config if isinstance(config, int) else getattr(projection, "out_features", 0) // q.shape[3]
    return heads if heads == q.shape[1] * groups else None
