"""English sentences that need no download: pairs with a grade, and thousands to measure heads on.

Of the thousands, half are drawn from templates and half come out of the standard library, so that no finding rests on
the habits of one kind: told stories with words that come again, and dry descriptions by many authors. What is measured
on them is somebody else's business, `headview.survey`.
"""

import importlib
import inspect
import random
import re
from pathlib import Path

from mhalib.arguments import check_size

# `headview.survey(load_minilm(), [x, x + ".", *many_sentences(2000)]).save(STORED_SURVEY, texts=False)` made it, where
# x = "The painter painted the old bridge while the old baker baked bread"; its name has the start of the weights' hash.
STORED_SURVEY = Path(__file__).with_name("minilm_heads_53aa51172d14.npz")
# To judge a sentence model by: our own, written before any model saw them. A few are hard on purpose: the same words
# with another meaning, or the same meaning in other words.
# 5 the same, 4 the same but for a detail, 3 the same event, something that matters differs, 2 the same subject,
# 1 the same field, 0 nothing in common.
SENTENCE_PAIRS: tuple[tuple[str, str, float], ...] = (
    ("A boy is kicking a ball.", "A young boy kicks a ball.", 5),
    ("The train was late because of the snow.", "Snow made the train late.", 5),
    ("She bought a used car last week.", "Last week she purchased a second-hand car.", 5),
    ("The doctor told him to stop smoking.", "He was advised by his physician to give up cigarettes.", 5),
    ("Nobody answered the phone.", "The phone rang, but no one picked it up.", 5),
    ("How can I learn to play the piano?", "What is the best way to learn the piano?", 5),
    ("A woman is cutting an onion.", "A woman is cutting a red onion in the kitchen.", 4),
    ("The museum is closed on Mondays.", "The museum does not open on Mondays and holidays.", 4),
    ("Two dogs run along the beach.", "Two brown dogs are running on the sand by the sea.", 4),
    ("The company hired fifty engineers this year.", "About fifty new engineers joined the company.", 4),
    ("My sister teaches mathematics at a school in Lyon.", "My sister is a maths teacher.", 4),
    ("The storm destroyed the roof of the house.", "A storm badly damaged the house.", 4),
    ("A man is playing the guitar.", "A woman is playing the guitar.", 3),
    ("The bank raised its interest rates.", "The bank lowered its interest rates.", 3),
    ("The children are swimming in the lake.", "The children are sitting beside the lake.", 3),
    ("He drove from Paris to Berlin in one day.", "He took the night train from Paris to Berlin.", 3),
    ("The team won the final by one goal.", "The team lost the final after extra time.", 3),
    ("The soup needs more salt.", "There is too much salt in the soup.", 3),
    ("A cat is sleeping on the sofa.", "A cat is chasing a mouse.", 2),
    ("Bread is made from flour, water and yeast.", "The bakery opens at six in the morning.", 2),
    ("She plays the violin in an orchestra.", "The violin was made in Italy in 1720.", 2),
    ("The plane landed safely in Madrid.", "Flights to Madrid are cheaper in winter.", 2),
    ("Our new printer does not work.", "How much ink does this printer need?", 2),
    ("The river flooded the old town.", "We went for a walk along the river.", 2),
    ("A horse is eating grass.", "A pig is lying in the mud.", 1),
    ("The patient has a fever.", "The hospital hired three nurses.", 1),
    ("He planted tomatoes in the garden.", "The farmer sold his tractor.", 1),
    ("The court found him guilty.", "She studies law at the university.", 1),
    ("The price of oil fell again.", "He keeps his savings at the bank.", 1),
    ("A girl is painting a picture.", "The concert was sold out.", 1),
    ("We sat on the bank of the river.", "The bank raised its interest rates.", 0),
    ("A man is slicing bread.", "The satellite reached its orbit.", 0),
    ("Where can I buy a bicycle?", "The novel has four hundred pages.", 0),
    ("The baby is finally asleep.", "Inflation slowed down in March.", 0),
    ("They painted the kitchen yellow.", "The lawyer asked for more time.", 0),
    ("It will rain tomorrow.", "This password is too short.", 0),
)
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

    Taught in notebook 18.
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
