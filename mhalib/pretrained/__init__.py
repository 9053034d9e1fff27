"""A model that others trained, read into our own layer, and sentences to judge it by.

Names are handed on when they are first asked for: the sentences need neither weights nor tokenizer. Nothing is
downloaded unless it is asked for. `weights` finds and verifies files, `bert` on top of it computes; a model is one
record, such as the one in `minilm`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "bert": ["SentenceModel"],
        "minilm": ["load_minilm"],
        "pairs": ["SENTENCE_PAIRS"],
        "sentences": ["STORED_SURVEY", "many_sentences"],
        "weights": ["WeightsMissing"],
    },
)
