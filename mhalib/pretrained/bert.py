"""A BERT for sentences in our own layer, and how weights of Hugging Face are read into it.

Everything around the attention is here, and small: embeddings, norms, feed-forward layers, the mean over tokens. Where
the files of the weights lie is said in `minilm`; what the heads do is measured in `mhalib.heads`.
"""

import warnings
from collections.abc import Mapping, Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from mhalib.arguments import extra
from mhalib.attention import MultiHeadAttention
from mhalib.masks import padding_mask

with extra("pretrained", "the real model"):
    from safetensors.torch import load as read_tensors
    from tokenizers import Tokenizer

# What a BERT of Hugging Face calls its parts, and what they are called here; the first that fits counts.
NAMES = (
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


class Block(nn.Module):
    """One layer of a BERT: attention, then a feed-forward layer, each added to what came and normalised after it.

    Vaswani et al. (2017), section 3.1; Devlin et al. (2019).
    """

    def __init__(self, d_model: int, num_heads: int, hidden: int):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads, bias=True)
        self.attention_norm = nn.LayerNorm(d_model, eps=1e-12)
        self.feed_forward = nn.Sequential(nn.Linear(d_model, hidden), nn.GELU(), nn.Linear(hidden, d_model))
        self.feed_forward_norm = nn.LayerNorm(d_model, eps=1e-12)

    def forward(
        self, x: Float[Tensor, "batch tokens d_model"], mask: Bool[Tensor, "batch 1 tokens"] | None, need_weights: bool
    ) -> tuple[Float[Tensor, "batch tokens d_model"], Float[Tensor, "batch num_heads tokens tokens"] | None]:
        found = self.attention(x, mask=mask, need_weights=need_weights)
        found, weights = found if need_weights else (found, None)
        x = self.attention_norm(x + found)
        return self.feed_forward_norm(x + self.feed_forward(x)), weights


class SentenceModel(nn.Module):
    """A BERT that says one vector per sentence: the mean of what its last layer says about the tokens.

    Args:
        tokenizer: cuts sentences into tokens, `[CLS]` before them and `[SEP]` behind.
        vocab, tokens: how many different tokens, and how many positions have an embedding.
        d_model, num_heads, num_layers: sizes of the attention; the feed-forward layers are 4 times as wide.
        longest: tokens of a sentence, `[CLS]` and `[SEP]` included, as it was trained; the rest is cut off.

    The defaults are the sizes of all-MiniLM-L6-v2; `load_minilm` fills in its weights.

    Attributes:
        layers: one `Block` each; `model.layers[0].attention` is our `MultiHeadAttention`.

    Devlin et al. (2019), Reimers and Gurevych (2019). Taught in notebook 10.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        vocab: int = 30522,
        tokens: int = 512,
        d_model: int = 384,
        num_heads: int = 12,
        num_layers: int = 6,
        longest: int = 256,
    ):
        super().__init__()
        self.tokenizer = tokenizer
        self.tokenizer.enable_truncation(min(longest, tokens))  # whatever the file of the tokenizer says
        self.tokenizer.enable_padding()
        self.token_embedding = nn.Embedding(vocab, d_model)
        self.position_embedding = nn.Embedding(tokens, d_model)
        self.type_embedding = nn.Embedding(2, d_model)  # for tasks with two texts; here all tokens are of the first
        self.norm = nn.LayerNorm(d_model, eps=1e-12)
        self.layers = nn.ModuleList(Block(d_model, num_heads, 4 * d_model) for _ in range(num_layers))

    def forward(
        self,
        tokens: Int[Tensor, "batch tokens"],
        lengths: Int[Tensor, "batch"] | None = None,
        need_weights: bool = False,
    ) -> tuple[Float[Tensor, "batch tokens d_model"], list[Float[Tensor, "batch num_heads tokens tokens"]]]:
        """Return what the last layer says about every token, `(B, T, d_model)`, and the attention of every layer.

        Args:
            tokens, lengths: from `tokenize`; all tokens count where the lengths are left out.
            need_weights: without it, the list of maps, `(B, num_heads, T, T)` per layer, is empty.
        """
        num_tokens = tokens.shape[1]
        x = self.token_embedding(tokens) + self.position_embedding.weight[:num_tokens] + self.type_embedding.weight[0]
        x = self.norm(x)  # (B, T, d_model)
        mask = None if lengths is None else padding_mask(lengths, num_tokens)  # (B, 1, T)
        maps = []
        for layer in self.layers:
            x, weights = layer(x, mask, need_weights)
            if need_weights:
                maps.append(weights)
        return x, maps

    def tokenize(self, sentences: Sequence[str]) -> tuple[Int[Tensor, "batch tokens"], Int[Tensor, "batch"]]:
        """Return the ids of the tokens, `(B, T)`, padded to the longest sentence, and how many of them count, `(B,)`.

        A sentence of more tokens than the model was made for is cut, with a warning.

        Raises:
            TypeError, ValueError: `sentences` is no list of strings, or an empty one.
        """
        if isinstance(sentences, str) or not all(isinstance(sentence, str) for sentence in sentences):
            raise TypeError(f"sentences must be a list of strings, got {sentences!r:.60}; a single one is [sentence]")
        if not sentences:
            raise ValueError("sentences must hold at least one sentence, got none; leave empty lists out")
        encodings = self.tokenizer.encode_batch(list(sentences))
        cut = sum(bool(encoding.overflowing) for encoding in encodings)
        if cut:
            longest = self.tokenizer.truncation["max_length"]
            warnings.warn(
                f"{cut} of {len(sentences)} sentences have more than {longest} tokens, [CLS] and [SEP] included; the "
                "rest of them is left out. Give shorter texts, for example one sentence at a time",
                stacklevel=3,
            )
        device = self.token_embedding.weight.device
        ids = torch.tensor([encoding.ids for encoding in encodings], device=device)
        return ids, torch.tensor([sum(encoding.attention_mask) for encoding in encodings], device=device)

    def encode(self, sentences: Sequence[str]) -> Float[Tensor, "sentences d_model"]:
        """Return one vector of length 1 per sentence; the dot product of two is their similarity, from -1 to 1.

        Raises:
            TypeError, ValueError: `sentences` is no list of strings, or an empty one.

        Taught in notebook 10.
        """
        ids, lengths = self.tokenize(sentences)
        vectors = []
        for few, counts in zip(ids.split(64), lengths.split(64), strict=True):
            few = few[:, : int(counts.max())]  # no more padding than these need
            x, _ = self(few, counts)
            kept = padding_mask(counts, few.shape[1]).to(x.dtype)  # (B, 1, T)
            mean = (kept @ x).squeeze(1) / counts[:, None]  # (B, 1, T) @ (B, T, d_model) -> (B, d_model)
            vectors.append(F.normalize(mean, dim=-1))
        return torch.cat(vectors)

    def attend(self, sentence: str) -> tuple[list[str], Float[Tensor, "layers num_heads tokens tokens"]]:
        """Return the tokens of one sentence, from `[CLS]` to `[SEP]`, and the attention, `(layers, num_heads, T, T)`.

        Raises:
            TypeError: `sentence` is no string.

        Taught in notebook 10.
        """
        if not isinstance(sentence, str):
            raise TypeError(f"sentence must be a string, got {type(sentence).__name__}; take them one at a time")
        ids, lengths = self.tokenize([sentence])
        _, maps = self(ids, lengths, need_weights=True)
        return [self.tokenizer.id_to_token(int(i)) for i in ids[0]], torch.cat(maps)  # B is 1: layers take its place


def from_files(files: Mapping[str, bytes]) -> SentenceModel:
    """Return the model whose `tokenizer.json` and `model.safetensors` these are: no dropout, no gradients."""
    weights = {}
    for name, tensor in read_tensors(files["model.safetensors"]).items():
        if not name.startswith(("embeddings.position_ids", "pooler.")):  # 0, 1, 2, …, and a head for another task
            new = name.replace("encoder.layer.", "layers.")
            old, ours = next(((old, ours) for old, ours in NAMES if old in new), ("", ""))
            weights[new.replace(old, ours)] = tensor
    with torch.device("meta"):  # without numbers of its own: nothing is drawn that these would replace
        model = SentenceModel(Tokenizer.from_str(files["tokenizer.json"].decode()))
    model.load_state_dict(weights, assign=True)
    return model.requires_grad_(False).eval()
