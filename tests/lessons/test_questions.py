"""What are you looking for? Each question leads to a cell that answers it, and README and site say the same."""

from tools.notebooks.run import NOTEBOOKS, ROOT, read
from tools.site.questions import box, heading_above, in_readme, questions


def test_each_question_leads_to_a_cell_of_its_own_that_still_says_the_answer():
    wrong, asked = [], questions()
    for one in asked:
        nb = read(NOTEBOOKS / one.notebook)
        said = next((cell.source for cell in nb.cells if cell.id == one.cell), "")
        if one.words not in said or heading_above(nb, one) in ("Try it", "What you now know"):
            wrong.append(f"{one.notebook}, {one.cell}: {one.asked}")
    assert wrong == [] and len({(one.notebook, one.cell) for one in asked}) == len(asked) == 46


def test_readme_and_site_list_them_all():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert in_readme(readme) == readme, "run python -m tools.site.questions"
    lessons = {path.stem: read(path) for path in NOTEBOOKS.glob("*.ipynb")}
    assert [row["asked"] for row in box(lessons)] == [one.asked for one in questions()]
