"""A sentence model as small as a test needs: its words are made up, and so are its numbers."""

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from mhalib.pretrained import SentenceModel

WORDS = "[PAD] [UNK] [CLS] [SEP] [MASK] the cat sat on mat . , a ##s ##ting dog a ca ##t it not".split()


def small_sentences(longest: int = 20) -> SentenceModel:
    """Return a model of 2 layers with 3 heads; the same each time."""
    words = list(dict.fromkeys(WORDS))
    tokenizer = Tokenizer(models.WordPiece(dict(zip(words, range(len(words)), strict=True)), unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    marks = [("[CLS]", 2), ("[SEP]", 3)]
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=marks)
    tokenizer.add_special_tokens(words[:5])
    sizes = {"vocab": len(words), "tokens": 24, "d_model": 96, "num_heads": 3, "num_layers": 2, "longest": longest}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return SentenceModel(tokenizer, **sizes).requires_grad_(False).eval()
