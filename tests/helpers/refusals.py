"""Many calls that must be refused at once: which of them are not, or not in words that help."""

from collections.abc import Callable


def accepted(calls: dict[str, Callable]) -> list[str]:
    """Return what is wrong: each call must raise a ValueError or a TypeError in which these words stand.

    Words may begin with the error's name, "TypeError: ", where the kind is meant as well.
    """
    wrong = []
    for words, call in calls.items():
        try:
            call()
        except (ValueError, TypeError) as error:
            told = f"{type(error).__name__}: {error}"
            if words not in told:
                wrong.append(f"{words!r} is missing in {told!r}")
        else:
            wrong.append(f"{words!r}: nothing was refused")
    return wrong
