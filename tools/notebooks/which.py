"""Which notebooks there are, which of them are lessons, and which one is meant by a number or a word.

A lesson has a number and its place on the road; what it must hold stands in CONTRIBUTING.md. A notebook without a
number (an appendix, a set of problems) is executed, stored, copied into `my/` and put on the site as lessons are, but
asks no question of the road, has no minutes in its table, and neither exercises nor predictions that are counted. That
a notebook is a lesson, and in which order the others follow, is decided here and nowhere else. Only the standard
library.
"""

import re
from argparse import ArgumentParser
from pathlib import Path

NUMBERED = re.compile(r"\d\d_.+")
WITHOUT_NUMBER = ("torch_in_ten_minutes", "ten_broken_layers")  # in the order in which a reader finds them


def is_lesson(name: str) -> bool:
    """Return whether a notebook of that name, with or without its ending, is a lesson."""
    return bool(NUMBERED.fullmatch(Path(name).stem))


def lesson_files(folder: Path) -> list[Path]:
    """Return the lessons of a folder in their order."""
    return [path for path in sorted(folder.glob("*.ipynb")) if is_lesson(path.name)]


def other_files(folder: Path) -> list[Path]:
    """Return the notebooks of the course that have no number, as far as the folder holds them."""
    return [path for name in WITHOUT_NUMBER if (path := folder / f"{name}.ipynb").is_file()]


def notebook_files(folder: Path) -> list[Path]:
    """Return all notebooks of the course: the lessons, then the others."""
    return [*lesson_files(folder), *other_files(folder)]


def short(path: Path) -> str:
    """Return what a list calls a notebook: its number, or where it has none, its name."""
    return path.stem[:2] if is_lesson(path.name) else path.stem


def meant(asked: str, paths: list[Path]) -> list[Path]:
    """Return the notebooks that somebody may mean: by 5, 05, the name of the file, or words of it, such as `torch`."""
    name = Path(asked).stem.lower()
    words = {name.zfill(2)} if name.isdecimal() else set(re.split(r"[\W_]+", name))
    return [path for path in paths if words <= set(path.stem.lower().split("_"))]


def chosen(asked: list[str], folder: Path) -> list[Path]:
    """Return the notebooks that a command names, by path, number or word; without a name all of the folder."""
    paths = notebook_files(folder)
    found = []
    for one in asked:
        fits = [Path(one)] if Path(one).suffix == ".ipynb" and Path(one).exists() else meant(one, paths)
        if len(fits) != 1:
            names = ", ".join(short(path) for path in fits or paths)
            raise ValueError(f"{one} {'may be each of' if fits else 'is none of'} {names}; name one of them")
        found.append(fits[0].resolve())
    return found or paths


def chosen_by(parser: ArgumentParser, asked: list[str], folder: Path) -> list[Path]:
    """Return what `chosen` returns; where a name does not fit, end as the parser does, with status 2."""
    try:
        return chosen(asked, folder)
    except ValueError as error:
        parser.error(str(error))
