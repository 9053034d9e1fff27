"""Files that are written whole or not at all, and never over another one.

`put` writes a file where there is none; `put_beside` one in the place of another, which is kept with its date. A run
may be interrupted at any moment, and two may run at once. Only the standard library.
"""

import itertools
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import date
from pathlib import Path

LEFT_BEHIND = 3600  # seconds after which a partial file belongs to no run that still goes on


@contextmanager
def _partial(path: Path, text: str) -> Iterator[Path]:
    """Give a file that lies beside `path` and holds the whole text, on the disk; it is gone at the end."""
    partial = path.with_name(f".{path.stem}.{secrets.token_hex(4)}.partial")
    try:
        with partial.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        yield partial
    finally:
        partial.unlink(missing_ok=True)


def _give_name(path: Path, name: Path) -> None:
    """Let the file at `path` have another name as well.

    Raises:
        FileExistsError: something has that name; it stays as it is.
    """
    # Of a link, it is the link itself that gets another name. Windows has no choice in this.
    options = {"follow_symlinks": False} if os.link in os.supports_follow_symlinks else {}
    try:
        os.link(path, name, **options)  # unlike a rename, it overwrites nothing
    except FileExistsError:
        raise
    except (OSError, AttributeError, NotImplementedError):  # a system or a disk without hard links
        whole = path.read_bytes()
        with name.open("xb") as file:
            try:
                file.write(whole)
                file.flush()
                os.fsync(file.fileno())
            except BaseException:
                file.close()
                name.unlink()
                raise


def put(path: Path, text: str) -> None:
    """Write a file where there is none.

    Raises:
        FileExistsError: something is there; it stays as it is.
        OSError: it cannot be written, and is not there.
    """
    with _partial(path, text) as partial:
        _give_name(partial, path)


def put_beside(path: Path, text: str) -> Path:
    """Write a file in the place of the one that is there, and return the name under which that one is kept.

    At every moment one of the two has the plain name, and what was there is never without one.

    Raises:
        OSError: it cannot be written; what was there has its plain name.
    """
    with _partial(path, text) as partial:
        kept = _with_date(path)
        try:
            os.replace(partial, path)
        except OSError:  # not where it is interrupted: nobody knows then which of the two has the plain name
            kept.unlink()
            raise
        return kept


def _with_date(path: Path) -> Path:
    """Give what is at `path` a second name with the date of today, and return it."""
    for number in itertools.count(1):
        again = f"-{number}" if number > 1 else ""
        kept = path.with_name(f"{path.stem}.{date.today().isoformat()}{again}{path.suffix}")
        with suppress(FileExistsError):
            _give_name(path, kept)
            return kept


def sweep(folder: Path) -> None:
    """Remove the partial files of runs that were killed."""
    for partial in folder.glob(".*.partial"):
        with suppress(OSError):  # another run was faster, or the folder is for reading only
            if time.time() - partial.stat().st_mtime > LEFT_BEHIND:
                partial.unlink()
