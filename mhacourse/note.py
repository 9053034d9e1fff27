"""What a check says, as text in a terminal and as HTML in a notebook.

All words arrive as plain text and are escaped here; the colours come from the reader's theme, and no
meaning depends on a colour alone.
"""

import difflib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from html import escape

_COLOURS = {
    "right": "var(--jp-success-color1, #388e3c)",
    "wrong": "var(--jp-error-color1, #d32f2f)",
    "open": "var(--jp-info-color1, #1976d2)",
}
_CODE = (
    "margin: 2px 0 2px 1em; color: inherit; background: none; font-family: var(--jp-code-font-family, monospace); "
    "white-space: pre-wrap; word-break: normal; overflow-wrap: anywhere"
)


@dataclass(frozen=True)
class Note:
    """A title and some paragraphs; what `check.…`, `.hint()` and `.solution()` return.

    Args:
        title: the first line.
        parts: pairs of a label and a text; a label that ends in ":" puts the text beside it, "" stands alone,
            and a label "code" sets the text as code.
        footer: the last line, the progress.
        mood: "right", "wrong" or "open".
        code: what was found, for tests: "right", "stub", "wrong: …", "shape", "raised", ….
    """

    title: str
    parts: list[tuple[str, str]] = field(default_factory=list)
    footer: str = ""
    mood: str = "open"
    code: str = ""

    @property
    def passed(self) -> bool:
        return self.mood == "right"

    def __repr__(self) -> str:
        lines = [self.title]
        for label, text in self.parts:
            if label == "code":
                lines += ["    " + line for line in text.splitlines()]
            else:
                lines.append(f"  {label} {text}" if label else f"  {text}")
        return "\n".join([*lines, *([self.footer] if self.footer else [])])

    def _repr_html_(self) -> str:
        rows = [f"<div><b>{escape(self.title)}</b></div>"]
        for label, text in self.parts:
            if label == "code":
                rows.append(f'<pre style="{_CODE}">{escape(text)}</pre>')
            else:
                rows.append(f"<div>{f'<b>{escape(label)}</b> ' if label else ''}{escape(text)}</div>")
        if self.footer:
            rows.append(f"<div>{escape(self.footer)}</div>")
        style = (
            f"border-left: 4px solid {_COLOURS[self.mood]}; padding: 2px 0 2px 10px; line-height: 1.5; color: inherit"
        )
        return f'<div style="{style}">{"".join(rows)}</div>'


@dataclass(frozen=True, repr=False)
class LiveNote(Note):
    """A note that a notebook rewrites in place whenever its subjects change.

    Args:
        again: makes the current note.
        of: its subjects; each one's `follow` calls back after every change.
    """

    again: Callable[[], Note] | None = field(default=None, compare=False)
    of: tuple = field(default=(), compare=False)

    def _ipython_display_(self) -> None:
        from IPython.display import display

        shown = display(_in_a_notebook(self), raw=True, display_id=True)
        for thing in self.of:
            thing.follow(lambda: shown.update(_in_a_notebook(self.again()), raw=True))


def _in_a_notebook(note: Note) -> dict[str, str]:
    return {"text/plain": repr(note), "text/html": note._repr_html_()}


def not_yet(code: str, *parts: tuple[str, str], title: str = "not yet.") -> Note:
    """Return a note on an answer that is not right yet."""
    return Note(title, list(parts), mood="wrong", code=code)


def hints_so_far(called: str, hints: Sequence[str], shown: int) -> Note:
    """Return the first hints and, after the last one, the way to the solution."""
    parts = [(f"{number}.", text) for number, text in enumerate(hints[:shown], 1)]
    if shown == len(hints):
        parts.append(("", f"That was the last hint. The solution: {called}.solution()"))
    return Note(f"{called} · hint {shown} of {len(hints)}", parts)


def bar(done: int, of: int) -> str:
    """Return a small bar such as `■■□□ 2 of 4`."""
    return f"{'■' * done}{'□' * (of - done)} {done} of {of}"


class ByName:
    """Things by name, completed with Tab.

    Args:
        kind: what one of them is called.
        called: what they are called together in the notebook, such as "check".
        things: by name.
    """

    def __init__(self, kind: str, called: str, things: dict[str, object]):
        self._kind, self._called, self._things = kind, called, things

    def __getattr__(self, name: str):
        if not name.startswith("_") and name in self._things:
            return self._things[name]
        close = difflib.get_close_matches(name, dir(self), 1)
        meant = f"did you mean {self._called}.{close[0]}?" if close else f"choose from {', '.join(dir(self))}"
        raise AttributeError(f"there is no {self._kind} {name!r}; {meant}")

    def __dir__(self) -> list[str]:
        return list(self._things)

    def __iter__(self) -> Iterator:
        return iter(self._things.values())

    def by_lesson(self, is_done: Callable[[object], bool]) -> str:
        """Return a line for each lesson: how much of it is done, and the names."""
        lines = []
        for lesson in sorted({thing.lesson for thing in self}):
            ours = [thing for thing in self if thing.lesson == lesson]
            done = bar(sum(map(is_done, ours)), len(ours))
            lines.append(f"{lesson}  {done}  {', '.join(thing.name for thing in ours)}")
        return "\n".join(lines)
