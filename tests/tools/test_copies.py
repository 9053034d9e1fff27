"""The learner's own copies: each lesson gets one, none is ever overwritten or lost, and its links hold in `my/`."""

import errno
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from urllib.parse import unquote, urlsplit

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from tests.helpers.small_course import change, contents, today, write_lesson
from tools.links import targets
from tools.notebooks import run
from tools.notebooks.copies import ROOT
from tools.notebooks.plain import COLAB, for_download, own_copy, read, with_links
from tools.notebooks.store import source_hash
from tools.notebooks.which import WITHOUT_NUMBER, notebook_files

NOTHING_TO_DO = (0, "my/: each lesson has its copy, and none has changed since.\n")
OURS = re.compile(rf"^notebooks/((?:\d\d_\w+|{'|'.join(WITHOUT_NUMBER)})\.ipynb#)")
TARGETS = {
    "00_one.ipynb#the-end": "00_one.ipynb#the-end",
    "../notebooks/./00_one.ipynb": "00_one.ipynb",
    "03_a%20name.ipynb": "03_a name.ipynb",
    "GLOSSARY.md#head-dim": "../notebooks/GLOSSARY.md#head-dim",
    "data/a%20b.csv?raw=1#x": "../notebooks/data/a%20b.csv?raw=1#x",
    **dict.fromkeys(["../images/hero.png", "#a-heading", "https://example.org/00_one.ipynb", "//example.org/x"]),
    **dict.fromkeys(["attachment:map.png", "data:image/png;base64,AAAA", "/lab/tree/x"]),
}
LINKS = {  # each target in a text that is led elsewhere
    "[a](X) and [b](X)": "[a](<X>) and [b](<X>)",
    '![a map](X "its title")': '![a map](<X> "its title")',
    "[`code`](X), [![picture](Y)](X_(y))": "[`code`](<X>), [![picture](<Y>)](<X_(y)>)",
    "a [link][1]\n\n[1]: X 'title'\n\n[^1]: A note.": "a [link][1]\n\n[1]: <X> 'title'\n\n[^1]: A note.",
    "<img alt='a > b' src=\"X\"><a\n  HREF = X>": "<img alt='a > b' src=\"<X>\"><a\n  HREF = <X>>",
    "`x[0](X)` and ``a ` [b](X)``": None,
    "```python\nf[0](X)\n```\n[a](X)": "```python\nf[0](X)\n```\n[a](<X>)",
    "$W[i](X)$ and $$W[i](X)$$ [a](X)": "$W[i](X)$ and $$W[i](X)$$ [a](<X>)",
    r"a \` tick [a](X) \` and \$5 [b](X) \$6": r"a \` tick [a](<X>) \` and \$5 [b](<X>) \$6",
    "one ` tick\n\n[a](X) and ` another": "one ` tick\n\n[a](<X>) and ` another",
    'weights[0] (see above), <b title="src=X">': None,
}


def places(nb, folder: str) -> list[str]:
    """Return where the links of a notebook in this folder lead, from the course's folder on."""
    prose = "\n\n".join(cell.source for cell in nb.cells if cell.cell_type == "markdown")
    files = [urlsplit(target) for target in targets(prose) if not target.startswith("#")]
    return [os.path.normpath(f"{folder}/{unquote(file.path)}") + f"#{file.fragment}" for file in files]


# ----------------------------------------------------------------------------------------- what a copy holds


def test_a_copy_is_its_lesson_without_outputs_remembers_it_and_leads_to_the_other_copies():
    for path in notebook_files(ROOT / "notebooks"):
        text = own_copy(path)
        copy, lesson = nbformat.reads(text, 4), nbformat.read(path, 4)
        kept = [cell for cell in lesson.cells if cell.id != COLAB]
        assert [(cell.id, cell.cell_type) for cell in copy.cells] == [(cell.id, cell.cell_type) for cell in kept]
        for cell, original in zip(copy.cells, kept, strict=True):
            if cell.cell_type == "code":
                assert (cell.source, cell.outputs, cell.execution_count) == (original.source, [], None)
        assert copy.metadata.mhalib == {"lesson": path.stem, "lesson_sha256": source_hash(lesson)}
        assert text == nbformat.writes(copy) + "\n"  # as Jupyter writes it
        assert places(copy, "my") == [OURS.sub(r"my/\1", place) for place in places(lesson, "notebooks")]


def test_what_goes_on_from_an_answer_is_folded_up_to_the_next_heading_or_question(course):
    lesson = course / "notebooks" / "01_two.ipynb"
    texts = {
        "It is 3, since [x](#y).\n\n- one\n- two": [True, "It is 3, since [x](#y).\n\n- one\n- two\n\n</details>"],
        "Because.\n\n## Next part\n\nMore.": [True, "Because.\n\n</details>\n\n## Next part\n\nMore."],
        "**Predict.** What next?": [False, "**Predict.** What next?"],
    }
    for text, (folded, end) in texts.items():
        asked, answered = new_code_cell("predict.x()"), new_code_cell("print(3)\npredict.x.reveal()")
        parts = [new_markdown_cell("Guess."), asked, new_markdown_cell("Run it."), answered, new_markdown_cell(text)]
        nbformat.write(new_notebook(cells=[*parts, new_markdown_cell("Further down.")]), lesson)
        guess, _, run_it, _, after, further = nbformat.reads(own_copy(lesson), 4).cells
        assert [guess.source, run_it.source] == ["Guess.", "Run it."]
        assert further.source.startswith("<details>") == ("#" not in text.replace("(#y)", "") and folded)
        assert after.source.startswith("<details><summary><i>After your guess</i></summary>\n\n") == folded
        assert after.source.endswith(end)


def test_what_answers_a_question_of_the_text_is_folded_without_the_next_question(course):
    lesson = course / "notebooks" / "01_two.ipynb"
    asks, shows, answers = "Look.\n\nIs it 3? Run the cell:", new_code_cell("print(3)"), "It is.\n\nReally."
    proves = new_code_cell("claim(True, 'x')", metadata={"tags": ["proof"]})
    cases = [
        (asks, shows, answers, "It is.\n\nReally.", ""),
        (asks, shows, "It is.\n\n**Step 2.** More.", "It is.", "**Step 2.** More."),
        (asks, shows, "It is.\n\nIs *it 4?*", "It is.", "Is *it 4?*"),
        (asks, shows, "## Next", None, "## Next"),
        (asks, proves, answers, None, answers),
        (asks, new_code_cell("predict.x()"), answers, None, answers),
        ("Is it 3?\n\nRun the cell.", shows, answers, None, answers),
        ("See [Is it 3?](#y)", shows, answers, None, answers),
    ]
    for asked, code, text, folded, in_sight in cases:
        parts = [new_markdown_cell(asked), code, new_markdown_cell(text), new_code_cell("4"), new_markdown_cell("So.")]
        nbformat.write(new_notebook(cells=parts), lesson)
        found = nbformat.reads(own_copy(lesson), 4).cells[2].source
        after = f"<details><summary><i>After you've tried it</i></summary>\n\n{folded}\n\n</details>\n\n"
        assert found == ((after if folded else "") + in_sight).rstrip()


def test_which_parts_of_a_text_are_links_and_where_they_lead_from_my(course):
    found = {text: with_links(text, lambda target: f"<{target}>") for text in LINKS}
    assert found == {text: expected or text for text, expected in LINKS.items()}
    write_lesson(course / "notebooks", "03_a name")
    lesson = write_lesson(course / "notebooks", "00_one", " ".join(f"[x]({target})" for target in TARGETS))
    led = re.findall(r"\[x\]\((.+?)\)", nbformat.reads(own_copy(lesson), 4).cells[0].source)
    assert led == [expected or target for target, expected in TARGETS.items()]


def test_a_downloaded_lesson_works_wherever_it_lies(course, tmp_path):
    path = course / "notebooks" / "01_two.ipynb"
    (course / "images").mkdir()
    shutil.copy(ROOT / "images" / "hero.png", course / "images")
    nb = nbformat.read(path, 4)
    nb.cells[0].source += "\n\n![a](../images/hero.png) <img src='../images/hero.png'> ![x](../images/gone.png)"
    nb.cells[1].source = "%run ../tools/check_machine.py\nprint('../tools/check_machine.py')"
    nbformat.write(nb, path)
    alone = tmp_path / "any place" / path.name
    alone.parent.mkdir()
    alone.write_text(for_download(path), encoding="utf-8")
    first, code, *_ = run.execute(alone).cells
    assert "**You downloaded this lesson alone.**" in first.source and "(../images/gone.png)" in first.source
    assert first.source.count("(attachment:hero.png)") == first.source.count("'attachment:hero.png'") == 1
    assert list(first.attachments) == ["hero.png"] and "image/png" in first.attachments["hero.png"]
    said = "".join(one.text for one in code.outputs)
    assert re.match(r"Python +3\.\d+\.\d+ +ok\ntorch ", said) and said.endswith("../tools/check_machine.py\n")


# ----------------------------------------------------------------------------------------- laying them


def test_each_lesson_gets_a_copy_and_what_is_there_is_left_alone(course, lay):
    lessons = contents(course / "notebooks")
    assert lay() == (0, "my/: new copies of all lessons, without outputs, for you to work in.\n")
    assert sorted(contents(course / "my")) == ["00_one.ipynb", "01_two.ipynb", "02_three.ipynb"]
    mine = change(course / "my" / "01_two.ipynb")
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in (course / "my").iterdir()}
    assert lay() == NOTHING_TO_DO
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in (course / "my").iterdir()} == before
    (course / "my" / "02_three.ipynb").unlink()
    assert lay() == (0, "my/: new copies of 02, without outputs, for you to work in.\n")
    assert (course / "my" / "01_two.ipynb").read_bytes() == mine and contents(course / "notebooks") == lessons


def test_a_lesson_that_changed_says_so_with_the_command(course, lay, monkeypatch):
    (course / "my").mkdir()
    shutil.copy(course / "notebooks" / "00_one.ipynb", course / "my")  # by hand, outputs and all
    (course / "my" / "02_three.ipynb").write_text(for_download(course / "notebooks" / "02_three.ipynb"))
    assert lay()[1].startswith("my/: new copies of 01") and lay() == NOTHING_TO_DO
    mine = change(course / "my" / "01_two.ipynb")
    for name in ("00_one", "01_two", "02_three"):
        write_lesson(course / "notebooks", name, "More. ")
    code, said = lay()
    assert code == 0 and "since you got your copies: 00, 01, 02. Your copies stay as they are.\n" in said
    assert re.search(r"beside it: \S*python\S* -m tools\.notebooks\.copies --fresh 00\n", said)
    monkeypatch.setenv("MAKELEVEL", "1")
    assert "beside it: make fresh LESSON=00\n" in lay()[1]
    assert (course / "my" / "01_two.ipynb").read_bytes() == mine


def test_a_copy_that_lost_its_memory_is_judged_by_its_text(course, lay):
    lay()
    for name, cells in (("00_one", "my"), ("02_three", "notebooks")):
        path = course / "my" / f"{name}.ipynb"
        about = {"metadata": {}, "cells": read(course / cells / path.name)["cells"]}
        path.write_text(json.dumps(read(path) | about), encoding="utf-8")
    said = "my/00_one.ipynb does not say from which edition of its lesson it came; it stays as it is.\n"
    assert lay() == (0, said)


def test_a_fresh_copy_takes_the_plain_name_and_the_old_one_is_kept_with_its_date(course, lay):
    lay()
    place = course / "my" / "01_two.ipynb"
    assert lay("--fresh", "1") == (0, "my/01_two.ipynb is fresh: nothing was changed in it, nor in its lesson.\n")
    first = change(place)
    write_lesson(course / "notebooks", "01_two", "More. ")
    code, said = lay("--fresh", "01")
    assert code == 0 and f"my/01_two.ipynb is new. What was there is kept as my/01_two.{today()}.ipynb\n" in said
    assert place.read_text(encoding="utf-8") == own_copy(course / "notebooks" / "01_two.ipynb")
    assert lay() == NOTHING_TO_DO
    second = change(place)
    assert f"kept as my/01_two.{today()}-2.ipynb\n" in lay("--fresh", "01_two")[1]
    kept = contents(course / "my")
    assert (kept[f"01_two.{today()}.ipynb"], kept[f"01_two.{today()}-2.ipynb"]) == (first, second) and len(kept) == 5


def test_a_notebook_is_called_by_its_number_or_by_words_of_its_name_and_what_nobody_knows_is_said(course, lay):
    for name in ("10_heads", "11_which_heads", "torch_in_ten_minutes", "ten_broken_layers", "my_notes"):
        write_lesson(course / "notebooks", name)
    known = "00, 01, 02, 10, 11, torch_in_ten_minutes, ten_broken_layers"
    for asked, words in {
        (): "Say of which lesson you want a fresh copy: ",
        ("00", "x"): f"x is none of {known}; name one of them",
        ("12",): f"12 is none of {known}; name one of them",
        ("tor",): f"tor is none of {known}; name one of them",
        ("ten",): "ten may be each of torch_in_ten_minutes, ten_broken_layers; name one of them",
        ("heads",): "heads may be each of 10, 11; name one of them",
    }.items():
        code, said = lay("--fresh", *asked)
        assert code == 1 and said.startswith(words) and not (course / "my").exists()
    lay("--fresh", "0", "10", "Broken", "which heads", "notebooks/torch_in_ten_minutes.ipynb")
    laid = ["00_one", "10_heads", "11_which_heads", "ten_broken_layers", "torch_in_ten_minutes"]
    assert sorted(contents(course / "my")) == [f"{name}.ipynb" for name in laid]
    lay()
    assert len(contents(course / "my")) == 7 and "my_notes.ipynb" not in contents(course / "my")


# ----------------------------------------------------------------------------------------- where something is wrong

BROKEN = (b"\n", b"<<<<<<< HEAD\n{}", b'{"cells": [{"source": 3}]}', b"[]", b"\xff\xfe\x00")


def test_a_broken_copy_is_named_and_left_alone_and_kept_beside_a_fresh_one(course, lay):
    lay()
    for number, spoilt in enumerate(BROKEN, 1):
        (course / "my" / "01_two.ipynb").write_bytes(spoilt)
        code, said = lay()
        assert code == 0 and said.startswith("my/01_two.ipynb cannot be read as a notebook (") and said.count("\n") == 1
        assert "it stays as it is. For a new one in its place, with this one kept: " in said
        assert lay("--fresh", "01")[0] == 0 and lay() == NOTHING_TO_DO
        kept = f"01_two.{today()}{f'-{number}' if number > 1 else ''}.ipynb"
        assert contents(course / "my")[kept] == spoilt


@pytest.mark.skipif(os.name == "nt", reason="links are those of Linux and macOS")
def test_a_link_in_the_place_of_a_copy_is_moved_as_it_is(course, lay, tmp_path):
    lay()
    place, elsewhere = course / "my" / "01_two.ipynb", tmp_path / "elsewhere.ipynb"
    place.rename(elsewhere)
    place.symlink_to(elsewhere)
    mine = change(elsewhere)
    assert lay() == NOTHING_TO_DO and lay("--fresh", "01")[0] == 0
    assert not place.is_symlink() and elsewhere.read_bytes() == mine
    place.unlink()
    place.symlink_to("nowhere")
    assert "my/01_two.ipynb cannot be read" in lay()[1] and lay("--fresh", "01")[0] == 0
    assert place.is_file() and not place.is_symlink()


def test_a_lesson_that_cannot_be_read_stops_no_other(course, lay):
    (course / "notebooks" / "01_two.ipynb").write_bytes(BROKEN[1])
    code, said = lay()
    assert code == 1 and "git checkout -- notebooks/01_two.ipynb\n" in said
    assert sorted(contents(course / "my")) == ["00_one.ipynb", "02_three.ipynb"]
    code, said = lay("--fresh", "01")
    assert code == 1 and said.startswith("notebooks/01_two.ipynb cannot") and "nothing in my/ was changed" in said


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_a_full_disk_or_an_interruption_leaves_whole_copies_only_and_loses_nothing(course, lay, monkeypatch, error):
    lay("--fresh", "00")
    mine, opened = change(course / "my" / "00_one.ipynb"), Path.open

    def broken(path, mode="r", *arguments, **options):
        file = opened(path, mode, *arguments, **options)
        if mode == "x":

            def write(text, written=file.write):
                written(text[:100])
                raise error

            file.write = write
        return file

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", broken)
        for asked in ((), ("--fresh", "0")):
            code, said = lay(*asked)
            if isinstance(error, OSError):
                assert code == 1 and "cannot be written to my/ (No space left on device)." in said
                assert said.endswith("make lab READ=1\n")
            else:
                assert code == 130 and said.startswith("Interrupted.")
            assert contents(course / "my") == {"00_one.ipynb": mine}
    assert lay()[0] == 0 and len(contents(course / "my")) == 3


def test_git_and_the_tools_for_lessons_leave_the_copies_alone(course, lay, monkeypatch):
    shutil.copy(ROOT / ".gitignore", course)
    lay()
    before = {name: change(course / "my" / name) for name in contents(course / "my")}
    subprocess.run(["git", "init", "--quiet"], cwd=course, check=True)
    status = subprocess.run(["git", "status", "--porcelain"], cwd=course, capture_output=True, text=True).stdout
    assert "notebooks/" in status and "my" not in status
    monkeypatch.setattr(run, "NOTEBOOKS", course / "notebooks")
    assert run.main(["--check"]) == 1 and run.main(["--clear"]) == 0
    assert contents(course / "my") == before
