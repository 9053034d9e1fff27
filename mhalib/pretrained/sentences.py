"""Some thousand English sentences that need no download: half drawn from templates, half out of the standard library.

Two kinds, so that no finding rests on the habits of one: told stories with words that come again, and dry descriptions
by many authors. What is measured on them is somebody else's business, `headview.survey`.
"""

import importlib
import inspect
import random
import re
from pathlib import Path

from mhalib.arguments import check_size

# What `headview.survey` found for MiniLM on a running sentence and these, written by `tools/survey_minilm.py`; the name
# holds the beginning of the hash of the weights.
STORED_SURVEY = Path(__file__).with_name("minilm_heads_53aa51172d14.npz")
TEMPLATES = (
    "The {adjective} {noun} {past} the {other} because it was too {feeling}.",
    "{name} {past} the {noun}, and then {name} {past2} the {other}.",
    "Did {name} see the {noun} before the {noun} {went} to the {place}?",
    "When the {noun} {went} to the {place}, the {other} was already there.",
    "In the {place}, {number} {adjective} {noun}s and {number2} {other}s {went} past {name}.",
    "{name} said that the {noun} which {past} the {other} was {feeling}.",
    "Nobody in the {place} knew why {name} had {past} the {adjective} {noun}.",
    "The {noun}, the {other} and the {third} are {feeling}, but the {third} is not {adjective}.",
    "My {noun} is {adjective}, my {other} is {feeling}, and my {place} is far away.",
    "While the {adjective} {noun} {past} the {other}, the {adjective} {third} {past2} the {place}.",
)
WORDS = {
    "adjective": "old young small big red black quiet clever wooden broken heavy tall empty famous",
    "noun": "dog horse painter baker girl boat train letter teacher bird farmer window soldier machine",
    "place": "garden street river house school market station harbour forest kitchen bridge city",
    "past": "followed watched painted carried stopped pushed found heard washed sold forgot repaired",
    "feeling": "tired hungry late angry wide cold slow expensive happy loud wet sad",
    "went": "came walked ran returned drove hurried",
    "name": "Anna Paul Maria Tom Julia Peter Emma David",
    "number": "two three four seven ten twenty",
}
MODULES = (
    "argparse ast asyncio bisect calendar codecs collections configparser contextlib copy csv datetime decimal difflib "
    "email enum fractions functools glob gzip heapq http inspect io itertools json logging mailbox math pathlib pickle "
    "queue random re sched shelve shutil socket statistics string subprocess tarfile tempfile textwrap threading "
    "timeit traceback types unittest uuid warnings weakref zipfile"
)
# From a capital letter to a full stop, 4 to 16 words and the marks that prose has; no code.
_SENTENCE = re.compile(r"(?<![\w.,])[A-Z][a-z]*(?:,? [A-Za-z][a-z'-]*){3,15}\.(?= |$)")


def many_sentences(count: int = 2000, seed: int = 0) -> list[str]:
    """Return so many different sentences in a random order: half made, half out of Python's own descriptions.

    Args:
        count: how many; at most 4,000.
        seed: of the draw. The descriptions differ a little from one version of Python to the next.

    Raises:
        ValueError: `count` is no such number.

    Taught in notebook 11.
    """
    check_size("count", count)
    draw, made = random.Random(seed), {}
    described = _described()
    draw.shuffle(described)
    found = described[: count // 2]
    if count > 4000:
        raise ValueError(f"count must be at most 4000, got {count}; give sentences of your own beside these")
    while len(made) < count - len(found):
        made[_made(draw)] = None
    found += made
    draw.shuffle(found)
    return found


def _made(draw: random.Random) -> str:
    words = {kind: draw.sample(text.split(), 3) for kind, text in WORDS.items()}
    nouns = dict(zip(("noun", "other", "third"), words["noun"], strict=True))
    again = {"past2": words["past"][1], "number2": words["number"][1]}
    return draw.choice(TEMPLATES).format(**{kind: some[0] for kind, some in words.items()} | nouns | again)


def _described() -> list[str]:
    """Return the sentences of the docstrings of some modules, each once, in a fixed order."""
    found: dict[str, None] = {}
    for module in map(importlib.import_module, MODULES.split()):
        own = [each for _, each in sorted(vars(module).items()) if inspect.isclass(each) or inspect.isroutine(each)]
        for each in (module, *own, *(method for part in own if inspect.isclass(part) for method in _methods(part))):
            text = getattr(each, "__doc__", None)
            found |= dict.fromkeys(_SENTENCE.findall(" ".join(text.split())) if isinstance(text, str) else ())
    return sorted(found)


def _methods(part: type) -> list:
    return [each for _, each in sorted(vars(part).items()) if inspect.isroutine(each)]
