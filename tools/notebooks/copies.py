"""Lay the learner's own copies of the lessons into `my/`, and never overwrite what is there.

    python -m tools.notebooks.copies                 a copy of each lesson that has none yet
    python -m tools.notebooks.copies --fresh 05      a new copy of lesson 05; the old one is kept, with its date
    python -m tools.notebooks.copies --fresh torch   the same for a notebook without a number, by a word of its name

The new copy has the plain name, since the links of the other lessons lead there. What a copy holds is said in
`plain.py`. The exit code is 1 if a copy that was asked for is not there. Only the standard library; messages are plain
ASCII, so that they print in any terminal.
"""

import argparse
import itertools
import os
import sys
from datetime import date
from pathlib import Path

from tools.notebooks.plain import Unreadable, edition, own_copy, read, source_hash
from tools.notebooks.which import chosen, notebook_files, short

ROOT = Path(__file__).resolve().parents[2]
LESSONS, MY = "notebooks", "my"


def why(error: OSError) -> str:
    """Return in a sentence why nothing can be written, and what to do."""
    return (
        f"A copy cannot be written to {MY}/ ({error.strerror or error}). Free some space, or put the course into a "
        "folder of yours, then run the same command there. To read the lessons without copies: make lab READ=1"
    )


def command(number: str) -> str:
    """Return what to type for a fresh copy, in the form in which the reader called us."""
    if "MAKELEVEL" in os.environ:
        return f"make fresh LESSON={number}"
    python = Path(sys.executable)
    own = python.relative_to(ROOT) if python.is_relative_to(ROOT) else "python"
    return f"{own} -m tools.notebooks.copies --fresh {number}"


def put(path: Path, text: str) -> None:
    """Write a file where there is none, whole or not at all.

    Raises:
        FileExistsError: something is there; it stays as it is.
        OSError: it cannot be written, and is not there.
    """
    file = path.open("x", encoding="utf-8", newline="\n")
    try:
        with file:
            file.write(text)
    except BaseException:
        path.unlink()
        raise


def put_beside(path: Path, text: str) -> Path:
    """Write a file in the place of the one that is there; return where that one is, with the date in its name."""
    for number in itertools.count(1):
        again = f"-{number}" if number > 1 else ""
        kept = path.with_name(f"{path.stem}.{date.today().isoformat()}{again}{path.suffix}")
        if not os.path.lexists(kept):
            break
    path.rename(kept)
    try:
        put(path, text)
    except BaseException:
        kept.rename(path)
        raise
    return kept


def unreadable(lesson: Path, error: Unreadable) -> str:
    return f"{LESSONS}/{lesson.name} {error}. Git brings back the one it has: git checkout -- {LESSONS}/{lesson.name}"


def lay_all(lessons: list[Path], folder: Path) -> bool:
    """Lay a copy of each lesson that has none, say what is to be said, and return whether each lesson has one now."""
    laid, older, remarks, complete = [], [], [], True
    for lesson in lessons:
        try:
            if os.path.lexists(folder / lesson.name):
                older += look_at(lesson, folder / lesson.name, remarks)
            else:
                put(folder / lesson.name, own_copy(lesson))
                laid.append(short(lesson))
        except Unreadable as error:
            remarks.append(unreadable(lesson, error))
            complete &= os.path.lexists(folder / lesson.name)
        except OSError as error:
            remarks.append(why(error))
            complete = False
            break  # so it would be with the others
    if laid:
        which = "of all lessons" if len(laid) == len(lessons) else f"of {', '.join(laid)}"
        remarks.insert(0, f"{MY}/: new copies {which}, without outputs, for you to work in.")
    if older:
        remarks.append(
            f"Lessons that have changed since you got your copies: {', '.join(older)}. Your copies stay as they are.\n"
            f"For a new one, with yours kept beside it: {command(older[0])}"
        )
    print(*(remarks or [f"{MY}/: each lesson has its copy, and none has changed since."]), sep="\n")
    return complete


def look_at(lesson: Path, place: Path, remarks: list[str]) -> list[str]:
    """Return the lesson's number if its copy is of an older edition; remark on one that cannot be read, or told."""
    current, name = source_hash(read(lesson)), f"{MY}/{lesson.name}"
    try:
        copy = read(place)
    except Unreadable as error:
        aside = f"For a new one in its place, with this one kept: {command(short(lesson))}"
        remarks.append(f"{name} {error}; it stays as it is. {aside}")
        return []
    # Where another tool has forgotten it, or somebody put the file there, the text itself must tell.
    if (edition(copy) or source_hash(copy)) == current:
        return []
    if edition(copy):
        return [short(lesson)]
    remarks.append(f"{name} does not say from which edition of its lesson it came; it stays as it is.")
    return []


def lay_fresh(lesson: Path, folder: Path) -> None:
    """Lay a new copy of a lesson; what is in its place is kept under another name."""
    place = folder / lesson.name
    try:
        text = own_copy(lesson)
        if not os.path.lexists(place):
            put(place, text)
            print(f"{MY}/{lesson.name} is new.")
        elif place.is_file() and place.read_bytes() == text.encode():
            print(f"{MY}/{lesson.name} is fresh: nothing was changed in it, nor in its lesson.")
        else:
            print(f"{MY}/{lesson.name} is new. What was there is kept as {MY}/{put_beside(place, text).name}")
            print("Where JupyterLab has it open, it asks when it saves: Revert takes the new one, Overwrite yours.")
    except Unreadable as error:
        raise ValueError(f"{unreadable(lesson, error)}; nothing in {MY}/ was changed.") from None


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(description="Lay your own copies of the lessons into my/; overwrite nothing.")
    parser.add_argument("--fresh", nargs="*", metavar="LESSON", help="new copies of these; the old ones are kept")
    options = parser.parse_args(arguments)
    lessons, folder = notebook_files(root / LESSONS), root / MY
    try:
        if not lessons:
            raise ValueError(f"There are no lessons in {root / LESSONS}. Is this copy of the course complete?")
        if options.fresh == []:
            raise ValueError(f"Say of which lesson you want a fresh copy: {command('05')}")
        wanted = chosen(options.fresh, root / LESSONS) if options.fresh else []
        if folder.exists() and not folder.is_dir():
            raise ValueError(f"{MY} is no folder, and your copies need one of that name: give it another name.")
        folder.mkdir(exist_ok=True)
        for lesson in wanted:
            lay_fresh(lesson, folder)
        return 0 if wanted or lay_all(lessons, folder) else 1
    except ValueError as failure:
        print(failure)
    except OSError as error:
        print(why(error))
    except KeyboardInterrupt:
        print("Interrupted. What is laid is whole; the same command goes on where it stopped.")
        return 130
    return 1


if __name__ == "__main__":
    sys.exit(main())
