"""What the names of arguments say, in the words that attention layers in public code use.

A name is evidence, not proof: it says what to try first, and nothing of what a mask means.
"""

import re
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import cache

import torch
from torch import Tensor, nn

SIZES = {  # by their names in public code, the likelier first
    "d_model": "d_model embed_dim hidden_size n_embd dim d_in embedding_dim hidden_dim model_dim dim_model num_hiddens "
    "n_feat hidden emb_dim emb embed_size embedding_size embeddim channels in_channels n_state width in_dim input_dim "
    "in_features input_size d_embed query_dim features model_size num_features dmodel size attention_size d n_units "
    "units adim idim nhid ninp d_hid attn_dim decoder_embed_dim encoder_embed_dim decoder_hidden_size d_out dim_out "
    "out_dim out_channels output_dim kdim vdim key_dim value_dim context_dim dim_in all_head_size qdim",
    "num_heads": "num_heads n_heads n_head nhead nheads num_attention_heads heads h head num_head n_attention_heads "
    "num_query_heads attention_heads decoder_attention_heads encoder_attention_heads head_num heads_num "
    "number_of_heads n_h head_count num_attn_heads no_of_heads nb_heads num_q_heads n_q_heads attn_heads",
    "num_kv_heads": "num_key_value_heads num_kv_heads n_kv_heads kv_heads n_kv_head num_query_groups n_kv",
    "head_dim": "head_dim dim_head head_size d_k d_v d_q d_head dim_per_head head_width qk_dim v_dim d_kv dim_key "
    "attention_head_size dim_value dim_qk dim_v hidden_per_head size_per_head key_size value_size query_size "
    "head_features d_keys d_values depth",
    "longest": "block_size max_seq_len max_len max_length max_position_embeddings context_length n_ctx n_positions "
    "seq_len max_seq_length max_seq context_size max_tokens ctx_len maxlen sequence_length max_seqlen max_context "
    "num_steps",
    "dropout": "dropout attn_drop proj_drop p attn_pdrop resid_pdrop attention_dropout drop dropout_rate drop_rate",
}
SIZES = {kind: words.split() for kind, words in SIZES.items()}
LIKE = {  # parts of names that are none of these
    r"head.*(dim|size|width|feat)|(dim|size).*head": "head_dim",
    r"(kv|key_value|group).*head|head.*kv": "num_kv_heads",
    r"head": "num_heads",
    r"drop|rate$|prob$": "dropout",
    r"max|len|ctx|block_|positions": "longest",
    r"dim|embed|hidden|model|feat|channel|width|units|emb": "d_model",
}


def size_of(name: str) -> str | None:
    """Return which of `SIZES` an argument of this name is; by its exact name first, then by a part of it."""
    exact = next((kind for kind, words in SIZES.items() if name in words), None)
    return exact or next((kind for pattern, kind in LIKE.items() if re.search(pattern, name.lower())), None)


def widths(module: nn.Module) -> list[int]:
    """Return the numbers of features that a layer may take, the likelier first."""
    said = [value for value in _said(module, "d_model") if isinstance(value, int)]
    linear = fed(module)
    shapes = [size for p in module.parameters() for size in p.shape]
    order = [*linear[:1], *said, *(size for size, _ in Counter(linear).most_common()), *shapes]
    order = [size for size in dict.fromkeys(order) if 1 < size <= 8192][:8]
    return [*dict.fromkeys(order + shares(linear[:1]))]


def shares(sizes: list[int]) -> list[int]:
    """Return the features of each of several tokens that are laid side by side to give these, as of DIN."""
    return [size // n for size in sizes for n in (4, 3, 2) if size % n == 0]


def fed(module: nn.Module) -> list[int]:
    """Return the numbers of features that its projections, convolutions and recurrent networks take."""
    sizes = ("in_features", "input_size", "in_channels")
    found = [vars(m).get(size) for m in module.modules() for size in sizes]
    return [size for size in found if isinstance(size, int)]


def heads_stated(module: nn.Module) -> int | None:
    """Return how many heads the layer itself says that it has; None where it does not say."""
    said = (v for v in _said(module, "num_heads") if isinstance(v, int) and not isinstance(v, bool))
    return next((v for v in said if 0 < v <= 1024), None)


def attention_inside(model: nn.Module) -> list[tuple[str, nn.Module]]:
    """Return the parts of a model that are named for attention, by their paths: the first of each class."""
    found: dict[type, tuple[str, nn.Module]] = {}
    for path, part in model.named_modules():
        if path and re.search(r"att(entio)?n|mha", type(part).__name__, re.IGNORECASE):
            found.setdefault(type(part), (path, part))
    return [*found.values()][:4]


def _said(module: nn.Module, kind: str) -> list[object]:
    """Return what a module, its config, or its only child says under the names of a size."""
    inner = list(module.children())
    owners = [module, *(getattr(module, config, None) for config in ("config", "cfg", "args"))]
    owners += inner if len(inner) == 1 else []

    def told(owner: object, name: str) -> object:
        with suppress(Exception):  # whatever a property of another's code raises
            return owner.get(name) if isinstance(owner, dict) else getattr(owner, name, None)

    return [told(owner, name) for name in SIZES[kind] for owner in owners]


# ---------------------------------------------------------------------------------------------------------- inputs

INPUTS = {  # roles by name
    "queries": r"(x_?|inputs?_?|hidden_?)?(q|query|queries|tgt|target)s?(_(states|in|input|src|seq))?",
    "keys": r"(x_?|inputs?_?)?(k|keys?)(_(states|in|input|src|seq))?",
    "values": r"(x_?|inputs?_?)?(v|values?)(_(states|in|input|src|seq))?",
    "context": r"(x_?|inputs?_?)?(kv|key_value(_states)?|kv_(input|states|in)|memory(_bank)?|mem|context|ctx|cond|c|"
    r"src|source|y|enc\w*|encoder_\w+|other|latents?_kv|x2|xa|xb|b|z|hist(ory)?(_\w+)?|facts?|passages?|support)",
}
CONTEXT = re.compile(
    r"^(context|encoder_hidden_states|encoder_outputs?|key_value_states|memory|x_kv|kv_input|kv_states|cond|mem|xa)$"
)
MASK = re.compile(
    r"mask|^allowed$|^attend$|^visible$|^blocked$|^keep$|valid|lens$|lengths?$|_lens?$|^lens?_|attn_bias|attention_bias|^adj|padding|"
    r"^segments?$|^(segment|seg|doc|document|seq|sample)_?ids?$|^pads?$|^exists?$|pad_|_pad$|^bias$|^m$|^is_(pad|token|word)|^present$|^real$|^observed$|^cu_|^ptr$"
)
NO_MASK = re.compile(
    r"head_mask|masks?_(value|type|fn|token|id|flag|future|mod|ratio|prob)|use_|return_|memory|encoder_(?!padding)|"
    r"cross|context|logit|_ids$|causal|max_|^seq_len|^rel|window"
)
OF_OTHERS = re.compile(r"(memory|encoder|context|cross|kv|key|src)\w*(mask|len|pad|valid)")  # keys of another input
CACHE = re.compile(r"past|cache|incremental|^prev(ious)?_(kv|state|key)s?|^kv($|_(store|state))", re.IGNORECASE)
ABOUT_PLACES = re.compile(r"pos|offset|rope|rotary|freq|^cos|^sin|angle|start|^step|shift|length|len$", re.IGNORECASE)
FLAG = re.compile(r"^(use|return|output|need|with|store|keep)_.*(cache|past|kv|present|intermediate|state)")
START = re.compile(
    r"^(start_pos\w*|start|offset|pos\w*_offset|past_len\w*|past_\w*length|cache_len\w*|cur_pos|cache_pos|step|position)$"
)
PLACES = re.compile(
    r"^(input_pos|[qkx]?_?pos|positions?|position_ids|pos_ids|\w+_positions|cache_position|t|ts|times(tamps?)?|idx)$"
)
PACKED = re.compile(r"^cu_?(seq|len)|^ptr$")  # where each of the documents in one sequence begins
POINTS = re.compile(r"coord|xyz|^centers?$")
DOCUMENTS = re.compile(
    r"^(segments?|segment_ids?|seg_ids?|doc(ument)?_?ids?|seq_?ids?|sample_ids?)$"
)  # whose each token is


def role_of(name: str) -> str | None:
    """Return which input an argument of this name is."""
    return next((role for role, names in INPUTS.items() if re.fullmatch(names, name, re.IGNORECASE)), None)


# ---------------------------------------------------------------------------------------------------- further arguments


@cache
def compiled(text: str) -> Callable:
    """Return the function of inputs x, y, z and a mask that an expression says; ours alone come here."""
    return eval(compile(f"lambda x, y=None, z=None, mask=None: {text}", "<call>", "eval"), {"torch": torch})


class Filler:
    """An argument that depends on the inputs, x `(B, T, d)` alone or more: the expression that makes it, to paste."""

    def __init__(self, text: str, axes: str = "B T d"):
        self.text, self.axes = text, axes  # of the tokens, where it stands first and they behind it

    def __call__(self, *inputs: Tensor, mask: Tensor | None = None) -> object:
        return compiled(self.text)(*inputs, mask=mask)

    def __repr__(self) -> str:
        return f"lambda x: {self.text}"


BROADCAST = ("[None]", "[None, :, None]", "[None, None]")  # over samples and heads
ROWS = "max(n for n in range(1, int(x.shape[1] ** 0.5) + 1) if x.shape[1] % n == 0)"  # of a picture
TOKENS = "torch.arange(x.shape[1], device=x.device)"
EDGES = f"torch.cartesian_prod({TOKENS}, {TOKENS}).T"  # between all nodes of a graph
WAVES = "torch.sin({}[None, :, None] / 10 ** torch.linspace(0, 2, x.shape[-1]))"
BETWEEN = "torch.linspace(0, 1, x.shape[1])[:, None].expand(len(x), -1, {}).to(x)"
ALIKE = "(x.shape[:2], dtype=torch.long)"  # a number for each token, the same for all
IDS = f"torch.zeros{ALIKE}"
ROWS_BEHIND = ROWS.replace("x.", "x[:, 1:].")  # of one that stands behind a class token
COLUMNS = f"x.shape[1] // {ROWS}"
NUMBERS = tuple(map(Filler, ("1", "len(x)", "x.shape[1]", ROWS, COLUMNS)))
MAPS = (f".transpose(1, 2).unflatten(2, ({ROWS}, -1))", f".unflatten(1, ({ROWS}, -1))")  # channels first, and last


def tokens(widths: list[int], vectors: bool = False) -> list[Filler]:
    """Return tokens of each width, of which the first is that of x; perhaps also one vector for each sample."""
    texts = ["x", *(f"x.repeat(1, 1, {-(-w // widths[0])})[..., :{w}]" for w in widths[1:])]
    return [*map(Filler, texts + [f"x.new_ones(len(x), {width})" for width in widths] * vectors)]


def turns(name: str) -> bool:
    """Whether an argument of this name is made of angles, as many as features of a head are turned."""
    return any("outer" in getattr(value, "text", "") for value in further(name, 8))


def anything(widths: list[int]) -> list:
    """Return what an argument may be whose name says nothing: tokens, maps, numbers, tables of tokens or of pairs."""
    one, other = BETWEEN.format(1), [x.text for x in tokens(widths)[1:]]
    pairs, ids = f"({one} - {one}.mT)", f"{IDS}[:, None].repeat(1, x.shape[1], 1)"
    texts = ["x", *other, *(f"x.new_ones(len(x), {width})" for width in widths)]
    texts += [f"{x}{of}" for x in ("x", *other) for of in MAPS]
    texts += ["torch.full((len(x),), x.shape[1], device=x.device)", IDS, ids, f"{IDS}[:, 0]"]
    texts += [TOKENS, f"{TOKENS}.expand(len(x), -1)", f"{one}[..., 0]"]
    texts += [BETWEEN.format(axes) for axes in (3, 2, 4, 1)]
    texts += [pairs, f"{pairs}[:, None]", f"{pairs}[0]"]
    texts += [f"{pairs}[..., None].expand(-1, -1, -1, {width})" for width in (1, *widths)]
    texts += [EDGES, "[[x.shape[1]]] * len(x)", "[x.shape[1]] * len(x)"]
    seen = ("torch.ones(x.shape[:2], dtype=torch.bool)", "torch.ones(len(x), *[x.shape[1]] * 2, dtype=torch.bool)")
    texts += [*seen, *(f"{table}.unflatten(1, ({ROWS}, -1))" for table in (seen[0], IDS, f"{one}[..., 0]"))]
    texts += [f"[{x}{MAPS[0]}]" for x in ("x", *other)]
    texts += [f"({ROWS}, {COLUMNS})", f"(1, {ROWS}, {COLUMNS})", f"[({ROWS}, {COLUMNS})] * len(x)"]
    return [*map(Filler, texts), *NUMBERS, 1.0, None]


def before_picture(also: dict[str, object]) -> int | None:
    """Return how many tokens stand before a picture whose rows and columns are handed over; None where none are."""
    texts = "".join(getattr(value, "text", "") for value in also.values())
    return 0 if ROWS in texts else 1 if ROWS_BEHIND in texts else None


def placeless(also: dict[str, object], *others: str) -> bool:
    """Whether what we made up for an argument is one number for all tokens, or holds one of some other texts."""
    texts = [getattr(value, "text", "") for value in also.values()]
    return any(known in text for text in texts for known in (ALIKE, *others))


@cache
def further(name: str, head_dim: int) -> tuple:
    """Return what to try for an argument of this name, the likelier first; () where nothing is known of it."""
    angle = f"torch.outer({TOKENS}.to(x.dtype), 1e4 ** (-torch.arange(0, {head_dim}, 2, dtype=x.dtype) / {head_dim}))"
    both, polar = f"torch.cat([{angle}] * 2, -1)", f"torch.polar(torch.ones_like({angle}), {angle})"
    waves = [WAVES.format(at) for at in ("torch.arange(1 - x.shape[1], x.shape[1])", TOKENS)]
    embedded = [f"{text}{whole}" for text in waves for whole in ("", ".expand(len(x), -1, -1)")]
    cos, sin = ([f"{x}.{wave}(){i}" for x, i in ((both, ""), (angle, ""), *((both, i) for i in BROADCAST))]
                for wave in ("cos", "sin"))  # fmt: skip
    turn = f"torch.stack([{angle}.cos(), -{angle}.sin(), {angle}.sin(), {angle}.cos()], -1).unflatten(-1, (2, 2))"
    pairs, grid = [f"({c}, {s})" for c, s in zip(cos, sin, strict=True)], f"({ROWS}, {COLUMNS})"
    line = BETWEEN.format(3)  # of points
    cells = f"torch.cartesian_prod(*map(torch.arange, {grid})).expand(len(x), -1, 2)"  # row and column of each token
    table = {  # a text is an expression of x, in brackets a value
        START.pattern + r"|^(layer_idx|layer_id|index)$": [(0,)],
        PLACES.pattern: [f"{TOKENS}.expand(len(x), -1)", TOKENS, *embedded, line, f"{line}[0]", cells],
        r"^(T|seq_len|seqlen|length|tgt_len|n|max_len|N|num_tokens)$|^max_seqlen": ["x.shape[1]"],
        PACKED.pattern: ["torch.tensor([0, x.shape[1]], device=x.device)"],
        r"^(training|train|is_training|need_weights|is_causal|causal|mask_future)$|^(use|output|return)_": [(False,)],
        r"^(dropout|dropout_p|p)$": [(0.0,)],
        r"^(temperature|temp|tau|scale|scaling|softmax_scale|alpha)$": [(1.0,)],
        r"^(H|h|height|Hp|nh)$": [ROWS],
        r"^(W|w|width|Wp|nw)$": [COLUMNS],
        r"cis$|^freqs_complex$": [polar, f"torch.stack([{angle}.cos(), {angle}.sin()], -1)", turn],
        r"cos$": cos,
        r"sin$": sin,
        r"^(position_embeddings?|rotary_emb\w*|rope\w*|cos_sin|rotary_pos_emb|pos_emb\w*|pos_embed\w*|query_pos|pe|"
        r"rel_pos\w*)$": [pairs[2], pairs[0], pairs[1], *embedded],
        r"size$|hw$|grid|resolution$|^spatial_shape$|^shape$": [grid, f"[{grid}]"],
        r"_ids?$|^ids$": [IDS.replace("zeros", "ones"), IDS, f"{IDS}[..., None].repeat(1, 1, 3)"],  # 0 often is padding
        r"segment|_idx$": [IDS, f"{IDS}[..., None].repeat(1, 1, 3)"],
        POINTS.pattern: [line, BETWEEN.format(2)],
        r"freq|angle|^theta$": [angle, both, polar],
        r"past|cache|state|prev|bias|head_mask|kv$|^extra|^layer_past": [(None,)],
    }
    found = next((values for pattern, values in table.items() if re.search(pattern, name)), [])
    return tuple(Filler(value) if isinstance(value, str) else value[0] for value in found)
