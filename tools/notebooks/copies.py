"""Lay the learner's own copies of the lessons into `my/`, and never overwrite what is there.

    python -m tools.notebooks.copies                 a copy of each lesson that has none yet
    python -m tools.notebooks.copies --fresh 05      a new copy of lesson 05; the old one is kept, with its date
    python -m tools.notebooks.copies --fresh torch   the same for a notebook without a number, by a word of its name

The new copy has the plain name, since the links of the other lessons lead there. What a copy holds is said in
`plain.py`. The exit code is 1 if a copy that was asked for is not there. Only the standard library; messages are plain
ASCII, so that they print in any terminal.
"""

import argparse
import errno
import itertools
import os
import sys
from datetime import date
from pathlib import Path

from tools.notebooks.plain import Unreadable, edition, own_copy, read, source_hash
from tools.notebooks.which import is_lesson, meant, notebook_files, short

ROOT = Path(__file__).resolve().parents[2]
LESSONS, MY = "notebooks", "my"
FULL = {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)}
REFUSED = {errno.EACCES, errno.EPERM, errno.EROFS}


class Failed(Exception):
    """A copy that was asked for is not there, and why."""


def say(*lines: str) -> None:
    for line in lines:
        print(line, flush=True)


def why(error: OSError) -> str:
    """Return in a sentence why nothing can be written, and what to do."""
    if error.errno in FULL:
        return f"The disk is full: a copy cannot be written to {MY}/. Free some space, then run the same command again."
    if error.errno in REFUSED:
        return (
            f"{MY}/ cannot be written ({error.strerror}). Put the course into a folder of yours, then run the same "
            "command there. To read the lessons without copies: make lab READ=1"
        )
    return f"A copy cannot be written to {MY}/ ({error.strerror or error}). Mend that, then run the same command again."


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
    """Write a file in the place of the one that is there; return where that one is, with the date in its name.

    Raises:
        OSError: it cannot be written; what was there has its plain name.
    """
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


def make_folder(folder: Path) -> None:
    try:
        folder.mkdir(exist_ok=True)
    except FileExistsError:
        raise Failed(f"{MY} is no folder, and your copies need one of that name: give it another name.") from None
    except OSError as error:
        raise Failed(why(error)) from None


def unreadable(lesson: Path, error: Unreadable) -> str:
    return f"{LESSONS}/{lesson.name} {error}. Git brings back the one it has: git checkout -- {LESSONS}/{lesson.name}"


def lay_all(lessons: list[Path], folder: Path) -> bool:
    """Lay a copy of each lesson that has none, say what is to be said, and return whether each lesson has one now."""
    there = [lesson for lesson in lessons if os.path.lexists(folder / lesson.name)]
    laid, failures = [], []
    for lesson in lessons:
        if lesson in there:
            continue
        try:
            put(folder / lesson.name, own_copy(lesson))
            laid.append(short(lesson))
        except Unreadable as error:
            failures.append(unreadable(lesson, error))
        except FileExistsError:
            pass  # another run was faster
        except OSError as error:
            failures.append(why(error))
            break  # so it would be with the others
    if laid:
        which = "of all lessons" if len(laid) == len(lessons) else f"of {', '.join(laid)}"
        say(f"{MY}/: new copies {which}, without outputs, for you to work in.")
    say(*failures)
    if not (look_at(there, folder) or laid or failures):
        say(f"{MY}/: each lesson has its copy, and none has changed since.")
    return not failures


def look_at(lessons: list[Path], folder: Path) -> bool:
    """Say which of the copies that are there cannot be read, or are of an older edition; return whether any is."""
    older, remarks = [], []
    for lesson in lessons:
        place, number = f"{MY}/{lesson.name}", short(lesson)
        try:
            current = source_hash(read(lesson))
        except Unreadable as error:
            remarks.append(unreadable(lesson, error))
            continue
        try:
            copy = read(folder / lesson.name)
        except Unreadable as error:
            aside = f"For a new one in its place, with this one kept: {command(number)}"
            remarks.append(f"{place} {error}; it stays as it is. {aside}")
            continue
        # Where another tool has forgotten it, or somebody put the file there, the text itself must tell.
        laid_from = edition(copy) or source_hash(copy)
        if edition(copy) is None and laid_from != current:
            remarks.append(f"{place} does not say from which edition of its lesson it came; it stays as it is.")
        elif laid_from != current:
            older.append(number)
    say(*remarks)
    if older:
        say(f"Lessons that have changed since you got your copies: {', '.join(older)}. Your copies stay as they are.")
        say(f"For a new one, with yours kept beside it: {command(older[0])}")
    return bool(older or remarks)


def lay_fresh(lesson: Path, folder: Path) -> None:
    """Lay a new copy of a lesson; what is in its place is kept under another name.

    Raises:
        Failed: there is no new copy; what is there stays as it is.
    """
    place = folder / lesson.name
    try:
        text = own_copy(lesson)
        if not os.path.lexists(place):
            put(place, text)
            say(f"{MY}/{lesson.name} is new.")
        elif place.is_file() and place.read_bytes() == text.encode():
            say(f"{MY}/{lesson.name} is fresh: nothing was changed in it, nor in its lesson.")
        else:
            kept = put_beside(place, text)
            say(f"{MY}/{lesson.name} is new. What was there is kept as {MY}/{kept.name}")
            say("Where JupyterLab has it open, it asks when it saves: Revert takes the new one, Overwrite the old one.")
    except Unreadable as error:
        raise Failed(f"{unreadable(lesson, error)}; nothing in {MY}/ was changed.") from None
    except OSError as error:
        raise Failed(why(error)) from None


def find(asked: str, lessons: list[Path]) -> Path:
    """Return the lesson that somebody calls 5, 05, torch, or by the name of its file."""
    fits = meant(asked, lessons)
    if len(fits) == 1:
        return fits[0]
    if fits:
        raise Failed(f"{asked} may be each of {', '.join(map(short, fits))}. Type it so: {command(short(fits[0]))}")
    numbers = [short(lesson) for lesson in lessons if is_lesson(lesson.name)]
    others = [short(lesson) for lesson in lessons if not is_lesson(lesson.name)]
    known = ", ".join([f"{numbers[0]} to {numbers[-1]}", *others] if numbers else others)
    raise Failed(f"There is no lesson {asked}, only {known}. Type it so: {command('05')}")


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(description="Lay your own copies of the lessons into my/; overwrite nothing.")
    parser.add_argument(
        "--fresh", nargs="*", metavar="LESSON", help="new copies of these lessons, such as 05; the old ones are kept"
    )
    options = parser.parse_args(arguments)
    lessons, folder = notebook_files(root / LESSONS), root / MY
    try:
        if not lessons:
            raise Failed(f"There are no lessons in {root / LESSONS}. Is this copy of the course complete?")
        if options.fresh == []:
            raise Failed(f"Say of which lesson you want a fresh copy: {command('05')}")
        wanted = [find(asked, lessons) for asked in options.fresh or []]
        make_folder(folder)
        for lesson in wanted:
            lay_fresh(lesson, folder)
        return 0 if wanted or lay_all(lessons, folder) else 1
    except Failed as failure:
        say(str(failure))
        return 1
    except KeyboardInterrupt:
        say("Interrupted. What is laid is whole; the same command goes on where it stopped.")
        return 130


if __name__ == "__main__":
    sys.exit(main())
