"""The value model: how a number, or several, came to differ from the right ones.

Numbers have no source to be edited. People put right numbers in wrong places, take a size once too often, forget one,
count from 1, or use another unit; that is looked for here. It says what the given number is, not what it should be: a
value is its own solution. Where nothing fits, it is silent.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from numbers import Real

from mhacourse.compare import HUGE, as_sequence, difference

NEAR = 2e-2
CLOSE = 2e-3  # what a number is compared with may be typed with three digits


def explain(expected: object, got: object, sizes: Mapping[str, Real]) -> tuple[list[str], list[str]]:
    """Return what is right of a wrong value, and what the wrong part of it is, in sentences; of a right one, nothing.

    Args:
        expected: a number, or numbers in tuples or lists.
        got: what was given.
        sizes: the sizes that the task speaks of, by name.
    """
    if difference(expected, got) is None:
        return [], []
    if isinstance(got, float) and not math.isfinite(got):
        return [], ["That is no number that one can reckon with: something was divided by 0, or is too large."]
    if isinstance(got, int) and abs(got) >= HUGE:
        return [], ["That is far too large: more than 40 digits."]
    expected, got = _numbers(expected), _numbers(got)
    if got is None:
        return [], []
    if not isinstance(expected, list):
        return [], _one_for_many(expected, got) if isinstance(got, list) else _number(expected, got, sizes)
    got = got if isinstance(got, list) else [got]
    return _groups(expected, got, sizes) if isinstance(expected[0], list) else _row(expected, got, sizes)


def _numbers(value: object, depth: int = 0) -> list | Real | None:
    """Return nested lists of numbers; None for what is none."""
    value = as_sequence(value)
    if isinstance(value, (list, tuple)):
        parts = [_numbers(part, depth + 1) for part in value] if depth < 4 else []
        return None if None in parts or not parts else parts
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return value if abs(value) < HUGE else None  # NaN and infinity as well are no numbers to reckon with


def _one_for_many(expected: Real, got: list) -> list[str]:
    flat = list(_flattened(got))
    if len(flat) == 1 and _right(expected, flat[0]):
        return ["The number is right; give it alone, without brackets."]
    return [f"One number is asked for; you gave {len(flat)}."]


def _groups(expected: list[list], got: list, sizes: Mapping[str, Real]) -> tuple[list[str], list[str]]:
    """Say of rows, or of several shapes, which are right and what the others are."""
    flat, theirs = list(_flattened(expected)), list(_flattened(got))
    n, word = len(expected), "shape" if sizes else "row"
    if all(not isinstance(row, list) for row in got):
        if _all_same(flat, theirs):
            return [], [f"The numbers are right; put them into {n} {word}s, each in brackets of its own."]
        alone = [i for i, row in enumerate(expected) if _all_same(row, theirs)]
        if alone:
            return [], [f"That is the {_nth(alone[0])} of {n} {word}s; the others are asked for as well."]
        return [], [f"Asked are {n} {word}s, each in brackets of its own; you gave {len(theirs)} numbers in a row."]
    if _all_same(flat, theirs):
        return [], ["The numbers are right, but in other brackets than asked."]
    if not all(isinstance(row, list) and not any(isinstance(part, list) for part in row) for row in got):
        return [], [f"Asked are {n} {word}s of numbers; your brackets are nested in another way."]
    columns = [list(column) for column in zip(*expected, strict=True)] if len({*map(len, expected)}) == 1 else None
    if columns and _same_nested(columns, got):
        return [], ["The right numbers, with rows and columns exchanged."]
    right = [i for i, row in enumerate(expected) if i < len(got) and _all_same(row, got[i])]
    where = [f"{_list(word, right)} {'is' if len(right) == 1 else 'are'} right."] if right else []
    if len(got) != n:
        return where, [f"{n} {word}s are asked for; you gave {len(got)}."]
    if sorted(expected) == sorted(got):
        return where, [f"The right {word}s, in another order."]
    if not sizes:
        return where, _rows(expected, got)
    cause = []
    for i in range(n):
        if i not in right:
            inner = _row(expected[i], got[i], sizes)
            cause += [f"{word.capitalize()} {i + 1}: {_inside(words)}" for words in (inner[1] or inner[0])]
    return where, cause


def _rows(expected: list[list], got: list[list]) -> list[str]:
    """Say what a small table is: another one, or the same with every number too large by as much."""
    widths = {*map(len, got)}
    if len({*map(len, expected)}) > 1:
        return []
    if widths != {len(expected[0])}:
        return [f"Each row holds {_count(len(expected[0]))}; yours {'/'.join(map(str, sorted(widths)))}."]
    apart = {b - a for a, b in zip(_flattened(expected), _flattened(got), strict=True)}
    if len(apart) == 1:
        by = apart.pop()
        size, start = ("large", 1) if by > 0 else ("small", 0)
        ask = f": is something counted from {start}?" if abs(by) == 1 else "."
        return [f"Every number is {_told(abs(by))} too {size}{ask}"] if by else []
    return []


def _row(expected: list, got: list, sizes: Mapping[str, Real]) -> tuple[list[str], list[str]]:
    """Say of numbers in a row which are right, and whether others are exchanged, missing, or what they are."""
    n = len(expected)
    if any(isinstance(part, list) for part in got):
        right = _all_same(expected, list(_flattened(got)))
        return [], ["The numbers are right; write them in one row, without inner brackets."] if right else []
    if len(got) != n:
        return [], _another_length(expected, got)
    wrong = [i for i in range(n) if not _right(expected[i], got[i])]
    right = [i for i in range(n) if i not in wrong]
    if _all_same(sorted(expected), sorted(got)):
        if len(wrong) == 2:
            return [], [f"{_list('number', wrong)} are exchanged."]
        if _all_same(expected[::-1], got):
            return [], ["The right numbers, from the last to the first."]
        return [], ["The right numbers, in another order."]
    where = (
        [f"{_list('number', right)} {'is' if len(right) == 1 else 'are'} right, {_list('number', wrong).lower()} not."]
        if right
        else []
    )
    words = {i: _number(expected[i], got[i], sizes) for i in wrong}
    if len(wrong) > 1 and words[wrong[0]] and len({*map(tuple, words.values())}) == 1:
        return where, [f"{'Each of the wrong ones' if right else 'All of them'}: {_inside(words[wrong[0]][0])}"]
    cause = []
    for i in wrong:
        elsewhere = [j for j in range(n) if j != i and _right(expected[j], got[i])]
        if elsewhere:
            cause.append(f"Number {i + 1} is what belongs in place {elsewhere[0] + 1}.")
        elif words[i]:
            cause.append(f"Number {i + 1}: {_inside(words[i][0])}")
    return where, cause


def _another_length(expected: list, got: list) -> list[str]:
    n = len(expected)
    said = [f"{_count(n)} {'is' if n == 1 else 'are'} asked for; you gave {len(got)}."]
    for i in range(max(len(expected), len(got))):
        if _all_same(expected[:i] + expected[i + 1 :], got):
            return said + [f"Number {i + 1} is missing; the others are right."]
        if _all_same(expected, got[:i] + got[i + 1 :]):
            return said + [f"Your number {i + 1} is one too many; the others are right."]
    for i in range(len(expected) - 1):
        if _all_same([*expected[:i], expected[i] * expected[i + 1], *expected[i + 2 :]], got):
            return said + [f"Your number {i + 1} is the product of two that are asked for apart."]
        if _all_same([*expected[:i], expected[i] + expected[i + 1], *expected[i + 2 :]], got):
            return said + [f"Your number {i + 1} is the sum of two that are asked for apart."]
    for i in range(len(got) - 1):
        if _all_same(expected, [*got[:i], got[i] * got[i + 1], *got[i + 2 :]]):
            return said + [f"Your numbers {i + 1} and {i + 2} belong into one, their product."]
    if _all_same([sum(expected)], got):
        return said + ["Yours is the sum of them."]
    return said


def _number(expected: Real, got: Real, sizes: Mapping[str, Real]) -> list[str]:
    """Say what a number is, compared with the right one; the first that fits."""
    if not isinstance(expected, int) and abs(got - expected) <= NEAR * abs(expected):
        return ["Near. Is it measured, or rounded? Work it out, and give three digits."]
    return next(
        ([words] for value, words in _others(expected, sizes) if _same(value, got) and not _same(value, expected)), []
    )


def _others(x: Real, sizes: Mapping[str, Real]) -> Iterator[tuple[Real, str]]:
    """Yield what people make of a number x, each with its words, the likeliest first."""
    yield -x, "The size is right, the sign is not."
    if x == int(x):
        yield x + 1, "One too many. Is something counted from 1, or an end counted with it?"
        yield x - 1, "One too few. Is an end left out?"
    alike: dict[Real, list[str]] = {}
    for name, size in sizes.items():
        alike.setdefault(size, []).append(name)
    named = [(" or ".join(names), size) for size, names in alike.items() if size not in (0, 1)]
    # Only a size that divides it is a factor of it.
    # A factor of 2, 3 or 4 has too many reasons to name one.
    inside = [(name, size) for name, size in named if isinstance(x, int) and size > 4 and x % size == 0]
    for name, size in inside:
        yield x * size, f"{_times(size)} too large: {name} is in it once too often."
        yield x / size, f"{_times(size)} too small: {name} is missing from it."
    for name, size in named:
        yield x + size, f"Too large by {name} ({_told(size)})."
        yield x - size, f"Too small by {name} ({_told(size)})."
        yield size, f"That is {name}."
    yield x**2, "That is the square of what is asked for."
    if x > 0:
        yield math.sqrt(x), "That is the root of what is asked for."
        yield math.log(x), "That is the logarithm of what is asked for."
        if x < 50:
            yield math.exp(x), "That is e to the power of what is asked for."
            yield 2**x, "That is 2 to the power of what is asked for."
        yield (
            x / math.log(2),
            "In another unit: that is in bits (logarithm to base 2), where natural logarithms are asked for.",
        )
        yield x * math.log(2), "In another unit: a natural logarithm where bits are asked for."
        yield x / math.log(10), "In another unit: a logarithm to base 10."
        yield math.log2(x), "That is the logarithm to base 2 of what is asked for."
    for factor, unit in (
        (1000, "thousands"),
        (1e6, "millions"),
        (1e9, "thousands of millions"),
        (1024, "1024s"),
        (2**20, "1024²"),
        (2**30, "1024³"),
    ):
        if abs(x) > 1000:
            yield x / factor, f"In another unit, {unit}; asked is the number itself."
            yield x * factor, f"{_times(factor)} too large: in another unit?"
    if 0 < x <= 1:
        yield 100 * x, "In percent; asked is the share, between 0 and 1."
    for (one, a), (two, b) in _pairs(inside):
        yield x * a * b, f"Too large: {one} and {two} are in it once too often."
        yield x / a / b, f"Too small: {one} and {two} are missing from it."
    for (one, a), (two, b) in _pairs(named):
        yield a * b, f"That is {one} · {two}."
        yield a + b, f"That is {one} + {two}."
    for name, size in named:
        yield size * size, f"That is the square of {name}."
        yield math.sqrt(size) if size > 0 else x, f"That is the root of {name}."
    if abs(x) >= 100 or x != int(x):  # among small whole numbers all this is chance
        for factor, words in ((2, "two"), (3, "three"), (4, "four"), (6, "six"), (8, "eight"), (16, "sixteen")):
            yield x * factor, f"{words.capitalize()} times too large."
            yield x / factor, f"{words.capitalize()} times too small."
        yield 1 / x, "That is 1 divided by what is asked for."


def _times(factor: Real) -> str:
    return f"{_told(factor)} times"


def _told(x: Real) -> str:
    return f"{x:.0f}" if x == int(x) else f"{x:.4g}"


def _inside(sentence: str) -> str:
    """Return a sentence as it stands behind a colon; none of them begins with a name."""
    return sentence[0].lower() + sentence[1:]


def _pairs(named: Sequence) -> Iterator[tuple]:
    return ((one, two) for i, one in enumerate(named) for two in named[i + 1 :])


def _right(expected: Real, got: Real) -> bool:
    """Return whether a number passes for the right one."""
    return difference(expected, got) is None


def _same(a: Real, b: Real) -> bool:
    return a == b or (not (isinstance(a, int) and isinstance(b, int)) and abs(a - b) <= CLOSE * max(abs(a), abs(b)))


def _all_same(expected: Sequence, got: Sequence) -> bool:
    if len(expected) != len(got) or any(isinstance(part, list) for part in (*expected, *got)):
        return False
    return all(map(_right, expected, got))


def _same_nested(some: list[list], others: list[list]) -> bool:
    return len(some) == len(others) and all(_all_same(a, b) for a, b in zip(some, others, strict=True))


def _flattened(value: list) -> Iterator[Real]:
    for part in value:
        yield from _flattened(part) if isinstance(part, list) else (part,)


def _list(word: str, places: Sequence[int]) -> str:
    numbers = [str(i + 1) for i in places]
    joined = numbers[0] if len(numbers) == 1 else f"{', '.join(numbers[:-1])} and {numbers[-1]}"
    return f"{word.capitalize()}{'s' * (len(numbers) > 1)} {joined}"


def _count(n: int) -> str:
    return f"{n} number{'s' * (n != 1)}"


def _nth(i: int) -> str:
    return ("first", "second", "third", "fourth", "fifth", "sixth")[i] if i < 6 else f"{i + 1}th"
