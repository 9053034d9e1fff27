"""The story of a lesson stands in front of its proof, a question before its answer, the quick route by itself."""

import ast
import builtins
import re
from itertools import pairwise
from statistics import median

import nbformat
import pytest
from nbformat.v4 import new_code_cell

from mhacourse import predict
from mhacourse.prediction import Choose
from tests.lessons.test_notebooks import BRIEFLY, LESSONS, PATHS, run
from tools.notebooks.kinds import FOLDED, PROOF, folded, kind, lacks_title, lines_of, title, visible_lines, words_in
from tools.notebooks.lessons import QUICK_ROUTE, describe, quick_cells
from tools.notebooks.plain import COLAB, own_copy
from tools.notebooks.run import clear, read

MOST_LINES, MEDIAN_LINES, QUICK_MINUTES, ROUNDING = 200, 5, 120, 5
MOST_FOLDED = 30  # lines of a helper or a proof: VS Code, Colab and GitHub show them in full
CLAIM = re.compile(r"^\s*claim\(", re.MULTILINE)
ASKS, REVEALS = re.compile(r"predict\.(\w+)\(\)"), re.compile(r"predict\.(\w+)\.reveal\(\)")
GOES_ON = re.compile(r"^#{2,6} |^\*\*Predict\b", re.MULTILINE)
QUICK = [path for path in LESSONS if path.stem[:2] in QUICK_ROUTE]


def test_helpers_and_proofs_are_folded_under_a_title_and_a_claim_is_a_proof():
    wrong = []
    for path in PATHS:
        for number, cell in enumerate(read(path).cells):
            tags, hidden = cell.metadata.get("tags", []), cell.metadata.get("jupyter", {})
            if not set(tags) <= set(FOLDED) or bool(hidden) != folded(cell):
                wrong.append(f"{path.name}, cell {number}: tags {tags}, {hidden}")
            elif folded(cell) and (reason := lacks_title(cell)):
                wrong.append(f"{path.name}, cell {number}: {reason}")
            elif cell.cell_type == "code" and CLAIM.search(cell.source) and kind(cell) != PROOF:
                wrong.append(f"{path.name}, cell {number}: a claim that is not in a proof: {cell.source[:60]!r}")
            elif folded(cell) and REVEALS.search(cell.source):
                wrong.append(f"{path.name}, cell {number}: an answer is revealed by a cell that is folded")
    assert wrong == []


def test_the_code_in_sight_is_short_and_so_is_what_some_front_ends_cannot_fold():
    found = {path.name: visible_lines(read(path)) for path in LESSONS}
    long = {name: (sum(lines), median(lines)) for name, lines in found.items()}
    wrong = {name: both for name, both in long.items() if both[0] > MOST_LINES or both[1] > MEDIAN_LINES}
    for path in LESSONS:
        own = [cell for cell in read(path).cells if folded(cell) and " imports" not in title(cell)]
        wrong |= {title(cell): path.name for cell in own if lines_of(cell.source) > MOST_FOLDED}
    assert wrong == {}


# ------------------------------------------------------------------------------------------ guess first


def seen(cell):
    """Return the words of a cell that a reader sees before running it."""
    if cell.cell_type == "markdown":
        return cell.source
    if cell.id == COLAB:
        return ""
    return title(cell) if folded(cell) else words_in(re.sub(r"(?m)^\s*[%!].*$", "", cell.source))


def gives_away(question, text):
    """Return what of the answer stands in a text: the right choice, or a number that is right; or None."""
    if isinstance(question, Choose):
        right = " ".join(question.right.casefold().split())
        plain = " ".join(re.sub(r"[*_`]", "", text).casefold().split())
        pattern = rf"(?<!\w){re.escape(right)}(?!\w)"
        if len(right) <= 4:  # "no", "yes", "1 %": as the beginning of a sentence
            pattern = rf"(?:^|[.:?!] ){re.escape(right)}(?!\w)"
        return (found := re.search(pattern, plain)) and found[0]
    low, high = question.right
    plain = re.sub(r"\$[^$]*\$|`[^`]*`|\]\([^)]*\)|about \d+ seconds", "", text)
    for written in re.findall(r"(?<![\w.])\d*\.?\d+(?![\w]|\.\d)", plain):
        if low <= float(written) <= high:
            return written
    return None


def tells(question, asked, label):
    """Return a word of a title or a name by which the right choice differs from the others, and which was not asked."""
    if not isinstance(question, Choose):
        return gives_away(question, label)
    others = " ".join(option for option in question.options if option != question.right)
    right, known, said = (re.findall(r"[^\W_]{4,}", x.casefold()) for x in (question.right, f"{others} {asked}", label))
    singular = {word.rstrip("s") for word in known}
    return next((word for word in right if word in said and word.rstrip("s") not in singular), None)


def test_what_gives_a_choice_or_a_number_away_is_seen():
    choose = Choose("x", options={"the other two": "So.", "itself": "So.", "no": "So."}, right="itself")
    assert gives_away(choose, "Each looks at **itself**.") and not gives_away(choose, "Each looks somewhere.")
    choose = Choose("x", options={"yes": "So.", "no": "So."}, right="no")
    assert gives_away(choose, "Is it so? No, it is not.") and not gives_away(choose, "There is no other way.")
    choose = Choose("x", options={"they get paler": "So.", "they get sharper": "So."}, right="they get paler")
    assert tells(choose, "How?", "paler_maps") == "paler" and not tells(choose, "Paler?", "paler_maps")
    assert not tells(choose, "How?", "Proof: how sharp they get")


def above(cells):
    """Return the headings of a section, its text since the last of them, and the question at the end."""
    text = "\n\n".join(cell.source if cell.cell_type == "markdown" else seen(cell) for cell in cells)
    text, _, asked = text.rpartition("**Predict")
    section = text[text.rfind("\n## ") :]
    return re.findall(r"(?m)^#{2,6} .*", section), re.split(r"(?m)^#{2,6} .*", section)[-1], asked


def below(cells):
    """Return what is seen below an answer: its first paragraph, and the titles up to the next heading or question."""
    in_sight = [cell for cell in cells if not folded(cell)][:1]
    paragraph = in_sight[0].source.split("\n\n")[0] if in_sight and in_sight[0].cell_type == "markdown" else ""
    end = next((at for at, cell in enumerate(cells) if GOES_ON.search(seen(cell))), len(cells))
    return paragraph, [title(cell) for cell in cells[:end] if folded(cell)]


def test_nothing_in_sight_gives_an_answer_away_before_it_is_revealed():
    """From the heading above the question down to the next one: what a copy shows unfolded, and so no outputs."""
    wrong = []
    for path in LESSONS:
        cells = read(path).cells
        sources = [cell.source.strip() if cell.cell_type == "code" else "" for cell in cells]
        asked = {found[1]: place for place, source in enumerate(sources) if (found := ASKS.fullmatch(source))}
        told = {name: place for place, source in enumerate(sources) for name in REVEALS.findall(source)}
        words = [name for name in asked if name not in told] + [name for name in told if name not in asked]
        wrong += [f"{path.stem[:2]}: {name} is asked or revealed only" for name in words]
        for name in asked.keys() & told.keys():
            headings, text, question = above(cells[: asked[name]])
            between = [seen(cell) for cell in cells[asked[name] + 1 : told[name] + 1]]
            paragraph, titles = below(cells[told[name] + 1 :])
            titles += [title(cell) for cell in cells[asked[name] : told[name]] if folded(cell)]
            texts, labels = [text, *between, paragraph, *titles], [name, *headings, *titles]
            right = getattr(predict, name)
            if found := gives_away(right, "\n".join(texts)) or tells(right, question, "\n".join(labels)):
                wrong.append(f"{path.stem[:2]}: {name}, {found!r} stands in sight")
    assert wrong == []


def test_the_answer_to_a_question_of_the_text_is_folded_in_a_copy():
    """What the reader runs a cell to find out; the next text may be a question itself."""
    wrong = []
    for path in LESSONS:
        cells = nbformat.reads(own_copy(path), 4).cells
        texts = [place for place, cell in enumerate(cells) if cell.cell_type == "markdown"]
        for place, after in pairwise(texts):
            last = cells[place].source.removesuffix("\n\n</details>").rpartition("\n\n")[2]
            asks = "?" in re.sub(r"\[[^]]*\]\([^)]*\)|`[^`]*`", "", last)
            code, answer = cells[place + 1 : after], cells[after].source.split("\n\n")[0]
            tried = any(kind(cell) != PROOF for cell in code) and not any("predict." in cell.source for cell in code)
            if asks and tried and not re.match(r"<details>|#|\*\*|.*\?\W*$", answer):
                wrong.append(f"{path.stem[:2]}: {last[-60:]!r} is answered by {answer[:60]!r}")
    assert wrong == []


def test_what_is_revealed_is_shown():
    """It is what the cell returns, so it stands in the last line."""
    wrong = []
    for path in LESSONS:
        for cell in read(path).cells:
            shown = [output.get("data", {}).get("text/plain", "") for output in cell.get("outputs", [])]
            told = sum(text.startswith("The answer: ") for text in shown)
            if cell.cell_type == "code" and told != len(REVEALS.findall(cell.source)):
                wrong.append(f"{path.stem[:2]}: {cell.source[-60:]!r} shows {told} answers")
    assert wrong == []


def test_every_prediction_asks_in_the_cell_below_it():
    wrong = []
    for path in LESSONS:
        cells = read(path).cells
        for cell, below in zip(cells, cells[1:], strict=False):
            asks = cell.cell_type == "markdown" and re.search(r"^\*\*Predict\b", cell.source, re.MULTILINE)
            if asks and not ASKS.fullmatch(below.source.strip()):
                wrong.append(f"{path.stem[:2]}: {cell.source[asks.start() :][:80]}")
    assert wrong == []


# ------------------------------------------------------------------------------------------ the quick route


def test_the_quick_route_takes_two_hours_and_each_of_its_lessons_leads_to_the_next():
    lessons = [describe(read(path), path.stem) for path in QUICK]
    assert [lesson.number for lesson in lessons] == list(QUICK_ROUTE)
    assert sum(lesson.quick_minutes for lesson in lessons) <= QUICK_MINUTES
    off = [lesson for lesson in lessons if not 0 <= lesson.quick_minutes - lesson.counted_quick <= ROUNDING]
    wrong = [f"{lesson.name}: {lesson.quick_minutes} minutes, counted {lesson.counted_quick:.1f}" for lesson in off]
    for path, following in zip(QUICK, QUICK[1:], strict=False):
        last = read(path).cells[-1].source
        if not re.search(rf"Next on the quick route: \[{following.stem[:2]} · [^]]+\]\({following.name}\)", last):
            wrong.append(f"{path.name} does not lead to {following.name} on the quick route")
    assert wrong == []


def names_of(source):
    """Return the names that a cell reads at its top or inside, and those that it sets at its top."""
    tree = ast.parse(re.sub(r"(?m)^\s*[%!].*$", "", source))
    reads = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    inner = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    sets = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            sets |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.ExceptHandler)) and node.name:
            sets.add(node.name)
    return reads - inner, sets


@pytest.mark.parametrize("path", QUICK, ids=lambda path: path.stem)
def test_the_quick_route_needs_no_name_of_what_it_skips(path):
    known, missing = set(dir(builtins)), {}
    for cell in quick_cells(read(path)):
        if cell.cell_type == "code":
            reads, sets = names_of(cell.source)
            missing |= {name: cell.source[:60] for name in reads - sets - known}
            known |= sets
    assert missing == {}


@pytest.mark.slow
@pytest.mark.parametrize("path", QUICK, ids=lambda path: path.stem)
def test_the_quick_route_runs_alone(path, tmp_path):
    nb = clear(read(path))
    nb.cells = quick_cells(nb)
    nb.cells.insert(1, new_code_cell(BRIEFLY))
    run(path, nb, tmp_path, MHALIB_CLAIMS="tell")
