"""What the names of arguments say, in the words that attention layers in public code use.

A name is evidence, not proof: it says which arguments to try in which part, and nothing of the polarity of a mask.
"""

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

D_MODEL = (
    "d_model embed_dim hidden_size n_embd dim d_in embedding_dim hidden_dim model_dim dim_model num_hiddens n_feat "
    "hidden emb_dim emb embed_size embedding_size embeddim channels in_channels n_state width in_dim input_dim "
    "in_features input_size d_embed query_dim features model_size num_features dmodel size attention_size d n_units "
    "units adim idim nhid ninp d_hid attn_dim decoder_embed_dim encoder_embed_dim decoder_hidden_size d_out dim_out "
    "out_dim out_channels output_dim kdim vdim key_dim value_dim context_dim dim_in all_head_size qdim"
).split()
NUM_HEADS = (
    "num_heads n_heads n_head nhead nheads num_attention_heads heads h head num_head n_attention_heads num_query_heads "
    "attention_heads decoder_attention_heads encoder_attention_heads head_num heads_num number_of_heads n_h head_count "
    "num_attn_heads no_of_heads nb_heads num_q_heads n_q_heads attn_heads"
).split()
NUM_KV_HEADS = "num_key_value_heads num_kv_heads n_kv_heads kv_heads n_kv_head num_query_groups n_kv".split()
HEAD_DIM = (
    "head_dim dim_head head_size d_k d_v d_q d_head dim_per_head head_width qk_dim v_dim d_kv attention_head_size "
    "dim_key dim_value dim_qk dim_v hidden_per_head size_per_head key_size value_size query_size head_features d_keys "
    "d_values depth"
).split()
LONGEST = (
    "block_size max_seq_len max_len max_length max_position_embeddings context_length n_ctx n_positions seq_len "
    "max_seq_length max_seq context_size max_tokens ctx_len maxlen sequence_length max_seqlen "
    "max_context num_steps"
).split()
RATES = "dropout attn_drop proj_drop p attn_pdrop resid_pdrop attention_dropout drop dropout_rate drop_rate".split()


def size_of(name: str, sizes: dict[str, object]) -> object | None:
    """Return the size that an argument of this name stands for; by its exact name first, then by a part of it."""
    if name in sizes:
        return sizes[name]
    low = name.lower()
    for pattern, like in _PARTS_OF_NAMES:
        if re.search(pattern, low):
            return sizes[like]
    return None


_PARTS_OF_NAMES = (
    (r"head.*(dim|size|width|feat)|(dim|size).*head", "head_dim"),
    (r"(kv|key_value|group).*head|head.*kv", "num_kv_heads"),
    (r"head", "num_heads"),
    (r"drop|rate$|prob$", "dropout"),
    (r"max|len|ctx|block_|positions", "block_size"),
    (r"dim|embed|hidden|model|feat|channel|width|units|emb", "d_model"),
)

_MASK = re.compile(
    r"mask|^allowed$|^visible$|^blocked$|^keep$|valid_len|lens$|lengths?$|_lens?$|attn_bias|^adj|padding|^pad$|pad_|^bias$|^m$|^is_pad"
)
_NO_MASK = re.compile(
    r"head_mask|masks?_(value|type|fn|token|id|flag|future|mod|ratio|prob)|use_|return_|memory|encoder_(?!padding)|cross|context|"
    r"^(k|kv|key|q|query)_mask|_ids$|causal|max_|^seq_len|^rel|window"
)
_KEYS = re.compile(
    r"^(x_?|input_?s?_?)?(k|v|kv|keys?|values?|key_states|value_states|memory(_bank)?|context|ctx|cond|c|src|source|tgt|target|y|enc\w*)$",
    re.IGNORECASE,
)
_QUERY = re.compile(r"^(x_?|inputs?_?)?(q|query|queries|query_states|q_in)$", re.IGNORECASE)


def filler(text: str, make: Callable[[Tensor], object]) -> "Filler":
    return Filler(text, make)


@dataclass(frozen=True)
class Filler:
    """An argument that depends on x, and the expression of x that makes it, to be shown and pasted."""

    text: str
    make: Callable[[Tensor], object] = field(compare=False)

    def __call__(self, x: Tensor) -> object:
        return self.make(x)

    def __repr__(self) -> str:
        return f"lambda x: {self.text}"


_PLACES = Filler("torch.arange(x.shape[1])", lambda x: torch.arange(x.shape[1], device=x.device))
_PLACES_OF_EACH = Filler(
    "torch.arange(x.shape[1]).expand(len(x), -1)",
    lambda x: torch.arange(x.shape[1], device=x.device).expand(len(x), -1),
)
_ROWS, _COLUMNS = 2, Filler("x.shape[1] // 2", lambda x: x.shape[1] // 2)  # tokens as a picture
_TOKENS = Filler("x.shape[1]", lambda x: x.shape[1])
# What is wanted besides tokens and masks, where it has no default: what to try, the likelier first.
FURTHER = (
    (re.compile(r"^(start_pos|offset|position|pos_offset|past_len\w*|start|layer_idx|layer_id|step|index)$"), (0,)),
    (
        re.compile(r"^(input_pos|pos|positions?|position_ids|pos_ids|token_positions)$"),
        (_PLACES_OF_EACH, _PLACES, None),
    ),
    (re.compile(r"^(T|seq_len|seqlen|length|tgt_len|n|max_len|N|num_tokens)$"), (_TOKENS,)),
    (
        re.compile(
            r"^(training|train|is_training|use_cache|output_attentions|need_weights|causal|is_causal|mask_future)$"
        ),
        (False,),
    ),
    (re.compile(r"^(dropout|dropout_p|p)$"), (0.0, None)),
    (re.compile(r"^(H|h|height|Hp|nh)$"), (_ROWS,)),
    (re.compile(r"^(W|w|width|Wp|nw)$"), (_COLUMNS,)),
)

PLACES = FURTHER[1:2]


def _waves(first: str) -> Filler:
    """Return positions as waves, `(1, places, d_model)`: those of the tokens, or of all distances between them."""
    places = f"torch.arange({first}, x.shape[1])[None, :, None]"

    def make(x: Tensor) -> Tensor:
        start = 0 if first == "0" else 1 - x.shape[1]
        at = torch.arange(start, x.shape[1], device=x.device, dtype=x.dtype)[None, :, None]
        return torch.sin(at / 10 ** torch.linspace(0, 2, x.shape[-1], device=x.device, dtype=x.dtype))

    return Filler(f"torch.sin({places} / 10 ** torch.linspace(0, 2, x.shape[-1]))", make)


def rotary(head_dim: int) -> tuple[tuple[re.Pattern, tuple], ...]:
    """Return what to try where a layer wants its rotary tables from its caller."""
    angle = f"torch.outer(torch.arange(x.shape[1]), 1e4 ** (-torch.arange(0, {head_dim}, 2) / {head_dim}))"

    def angles(x: Tensor) -> Tensor:
        rates = 1e4 ** (-torch.arange(0, head_dim, 2, device=x.device, dtype=x.dtype) / head_dim)
        return torch.outer(torch.arange(x.shape[1], device=x.device, dtype=x.dtype), rates)  # (T, head_dim / 2)

    def twice(x: Tensor) -> Tensor:
        return torch.cat([angles(x), angles(x)], -1)

    turned = Filler(
        f"torch.polar(torch.ones(()), {angle})", lambda x: torch.polar(torch.ones_like(angles(x)), angles(x))
    )
    both = f"torch.cat([{angle}] * 2, -1)"
    cos, sin = Filler(f"{both}.cos()", lambda x: twice(x).cos()), Filler(f"{both}.sin()", lambda x: twice(x).sin())
    pair = Filler(f"({both}.cos()[None], {both}.sin()[None])", lambda x: (twice(x).cos()[None], twice(x).sin()[None]))
    flat = Filler(f"({both}.cos(), {both}.sin())", lambda x: (twice(x).cos(), twice(x).sin()))
    half_cos = Filler(f"{angle}.cos()", lambda x: angles(x).cos())
    half_sin = Filler(f"{angle}.sin()", lambda x: angles(x).sin())
    return (
        (re.compile(r"^freqs?_cis$|^freqs_complex$"), (turned,)),
        (re.compile(r"^(cos|rope_cos|rotary_cos|freqs_cos)$"), (cos, half_cos)),
        (re.compile(r"^(sin|rope_sin|rotary_sin|freqs_sin)$"), (sin, half_sin)),
        (
            re.compile(r"^(position_embeddings?|rotary_emb\w*|rope\w*|cos_sin|rotary_pos_emb|pos_emb)$"),
            (pair, flat, _waves("1 - x.shape[1]"), _waves("0"), None),
        ),
        (re.compile(r"^(freqs|rotary_freqs|angles)$"), (Filler(angle, angles), turned)),
    )


@dataclass
class Roles:
    """Which argument is what, as far as the names say it.

    Args:
        inputs: how many inputs come first, 1 to 3.
        masks: the arguments that may be masks.
        required: those of them without a default.
        further: required arguments, and what to try for each; an empty list where nothing is known.
    """

    inputs: int
    masks: list[str]
    required: set[str]
    further: dict[str, tuple]
    names: list[str]

    @property
    def unknown(self) -> list[str]:
        """The required arguments that nothing is known of."""
        return [name for name, values in self.further.items() if not values]


def signature_of(target: Callable) -> inspect.Signature | None:
    """Return the signature of a layer or a function; None where it has none."""
    try:
        return inspect.signature(target.forward if isinstance(target, nn.Module) else target)
    except (TypeError, ValueError):
        return None


def roles_of(target: Callable, head_dim: int, optional: bool = False) -> Roles:
    """Return what the arguments of a layer or a function are likely to be.

    Args:
        target: the layer or function.
        head_dim: features of one head, or as many of them as are turned.
        optional: whether places and angles are handed over too where they have None for a default.
    """
    signature = signature_of(target)
    if signature is None:
        return Roles(1, [], set(), {}, [])
    named = [p for p in signature.parameters.values() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    places = [p for p in named if p.kind is not p.KEYWORD_ONLY]
    second = places[1] if len(places) > 1 and places[1].default is inspect.Parameter.empty else None
    of_others = second is not None and _KEYS.search(second.name) is not None  # then the mask of the context is meant
    masks = [p for p in named[1:] if _may_be_mask(p, of_others)]
    inputs = _inputs(places, masks)
    further = {}
    for p in named[inputs:]:
        if p.default is p.empty and p not in masks:
            tables = (*FURTHER, *rotary(head_dim))
            tried = next((values for pattern, values in tables if pattern.search(p.name)), None)
            further[p.name] = tried or ((None,) if _may_be_none(p) else ())
        elif optional and p.default is None and p not in masks:
            tried = next((values for pattern, values in (*PLACES, *rotary(head_dim)) if pattern.search(p.name)), None)
            further |= {p.name: tried} if tried else {}
    required = {p.name for p in masks if p.default is p.empty}
    return Roles(inputs, [p.name for p in masks], required, further, [p.name for p in named])


def _inputs(places: list[inspect.Parameter], masks: list[inspect.Parameter]) -> int:
    """Return how many of the first arguments are tokens."""
    count = 1
    asked = bool(places) and (_QUERY.search(places[0].name) or _KEYS.search(places[0].name))
    for p in places[1:3]:
        needed = p.default is p.empty
        if p in masks or not (_KEYS.search(p.name) or _QUERY.search(p.name)) or not (needed or asked):
            break
        if not needed and p.default is not None:
            break
        count += 1
    return count


def _may_be_mask(p: inspect.Parameter, of_others: bool) -> bool:
    # A flag such as `mask=False` is none.
    if of_others and re.search(r"(memory|encoder|context|cross)\w*mask", p.name.lower()):
        return True
    return bool(_MASK.search(p.name.lower()) and not _NO_MASK.search(p.name.lower())) and not isinstance(
        p.default, (bool, str, int, float)
    )


def _may_be_none(p: inspect.Parameter) -> bool:
    cached = re.search(r"past|cache|state|prev|bias|memory|context|encoder|head_mask|kv$", p.name)
    return bool(cached) or "None" in str(p.annotation) or "Optional" in str(p.annotation)
