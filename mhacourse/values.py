"""The value model: how a number, or several, came to differ from the right ones.

Numbers have no source to be edited. People put right numbers in wrong places, take a size once too often, or forget
one; that is looked for here. It says what the given number is, not what it should be: a value is its own solution. A
guess speaks only where it explains all that is wrong.
"""

from collections.abc import Iterator, Mapping, Sequence
from numbers import Real

from mhacourse.compare import HUGE, as_sequence, difference

CLOSE = 2e-3  # what a number is compared with may be typed with three digits
TIMES = {2: "Two", 3: "Three", 4: "Four", 8: "Eight"}


def explain(expected: object, got: object, sizes: Mapping[str, Real]) -> tuple[list[str], list[str]]:
    """Return what is right of a wrong value, and what the wrong part of it is, in sentences.

    Args:
        expected: a number, or numbers in tuples or lists.
        got: what was given.
        sizes: the sizes that the task speaks of, by name.
    """
    if isinstance(got, (int, float)) and not abs(got) < HUGE:
        return [], ["That is no number that one can reckon with: something was divided by 0, or is too large."]
    expected, got = _numbers(expected), _numbers(got)
    if got is None:
        return [], []
    if not isinstance(expected, list):
        if isinstance(got, list):
            return [], [f"One number is asked for, without brackets; you gave {len(_flat(got))}."]
        return [], _number(expected, got, sizes)
    got = got if isinstance(got, list) else [got]
    return _rows(expected, got, sizes) if isinstance(expected[0], list) else _row(expected, got, sizes)


def _numbers(value: object, depth: int = 0) -> list | Real | None:
    """Return nested lists of numbers; None for what is none."""
    value = as_sequence(value)
    if isinstance(value, (list, tuple)):
        parts = [_numbers(part, depth + 1) for part in value] if depth < 4 else []  # a list may hold itself
        return None if None in parts or not parts else parts
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return value if is_number and abs(value) < HUGE else None


def _rows(expected: list[list], got: list, sizes: Mapping[str, Real]) -> tuple[list[str], list[str]]:
    """Say of rows, or of several shapes, which are right and what the others are."""
    n, word = len(expected), "shape" if sizes else "row"
    if not all(isinstance(row, list) and not any(isinstance(part, list) for part in row) for row in got):
        return [], [f"Asked are {n} {word}s of numbers, each in brackets of its own."]
    if len(got) != n:
        return [], [f"{n} {word}s are asked for; you gave {len(got)}."]
    right = [i for i in range(n) if _all_right(expected[i], got[i])]
    where = [f"{_list(word, right)} {'is' if len(right) == 1 else 'are'} right."] if right else []
    told = {i: _row(expected[i], got[i], sizes) for i in range(n) if i not in right}
    if all(cause for _, cause in told.values()):
        return where, [f"{_list(word, [i])}: {words}" for i, (_, cause) in told.items() for words in cause]
    return where + [f"{_list(word, [i])}: {words}" for i, (seen, _) in told.items() for words in seen], []


def _row(expected: list, got: list, sizes: Mapping[str, Real]) -> tuple[list[str], list[str]]:
    """Say of numbers in a row which are right, and whether others are exchanged, missing, or what they are."""
    n = len(expected)
    if any(isinstance(part, list) for part in got):
        right = _all_right(expected, _flat(got))
        return [], ["The numbers are right; write them in one row, without inner brackets."] if right else []
    if len(got) != n:
        said = f"{n} number{'s are' if n > 1 else ' is'} asked for; you gave {len(got)}."
        missing = [i for i in range(n) if _all_right(expected[:i] + expected[i + 1 :], got)]
        return [], [said, *(f"{_list('number', [i])} is missing; the others are right." for i in missing[:1])]
    wrong = [i for i in range(n) if difference(expected[i], got[i])]
    right = [i for i in range(n) if i not in wrong]
    if _all_right(sorted(expected), sorted(got)):
        two = len(wrong) == 2
        return [], [f"{_list('number', wrong)} are exchanged." if two else "The right numbers, in another order."]
    is_right = "is" if len(right) == 1 else "are"
    where = [f"{_list('number', right)} {is_right} right, {_list('number', wrong).lower()} not."] if right else []
    told = [_number(expected[i], got[i], sizes) for i in wrong]
    if not all(told):
        return where, []
    if len(wrong) > 1 and len({*map(tuple, told)}) == 1:
        return where, [f"{'Each of the wrong ones' if right else 'All of them'}: {told[0][0]}"]
    return where, [f"{_list('number', [i])}: {words[0]}" for i, words in zip(wrong, told, strict=True)]


def _number(expected: Real, got: Real, sizes: Mapping[str, Real]) -> list[str]:
    """Say what a number is, compared with the right one; the first that fits."""
    fits = (words for x, words in _others(expected, sizes) if abs(x - got) <= (isinstance(x, float) and CLOSE * abs(x)))
    return [*fits][:1]


def _others(x: Real, sizes: Mapping[str, Real]) -> Iterator[tuple[Real, str]]:
    """Yield what people make of a number x, each with its words, the likeliest first."""
    alike: dict[Real, list[str]] = {}
    for name, size in sizes.items():
        alike.setdefault(size, []).append(name)
    named = {size: " or ".join(names) for size, names in alike.items() if size not in (0, 1)}
    for size, name in named.items():
        if isinstance(x, int) and size > 4 and x % size == 0:  # a factor of 2, 3 or 4 has too many reasons
            yield x * size, f"{size:g} times too large: {name} is in it once too often."
            if x != size:  # who gives 1 has missed more than that
                yield x // size, f"{size:g} times too small: as if {name} were missing, or divided off."
    for size, name in named.items():
        yield size, f"That is {name}."
    yield -x, "The size is right, the sign is not."
    for by, word in TIMES.items() if abs(x) >= 100 or x != int(x) else ():  # among small numbers it is chance
        yield x * by, f"{word} times too large."
        yield x / by, f"{word} times too small."


def _all_right(expected: Sequence, got: Sequence) -> bool:
    return len(expected) == len(got) and not any(map(difference, expected, got))


def _flat(value: list) -> list[Real]:
    return [number for part in value for number in (_flat(part) if isinstance(part, list) else [part])]


def _list(word: str, places: Sequence[int]) -> str:
    *most, last = [("first", "second", "third", "fourth", "fifth", f"{i + 1}th")[min(i, 5)] for i in places]
    return f"The {', '.join(most)} and {last} {word}s" if most else f"The {last} {word}"
