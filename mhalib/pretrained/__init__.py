"""A model that others trained, read into our own layer, and sentences to judge it by.

Names are handed on when they are first asked for: the sentences need neither weights nor tokenizer. `bert` computes,
`minilm` on top of it finds and verifies files. Nothing is downloaded unless it is asked for.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "bert": ["SentenceModel"],
        "minilm": ["WeightsMissing", "load_minilm"],
        "sentences": ["SENTENCE_PAIRS", "STORED_SURVEY", "many_sentences"],
    },
)
