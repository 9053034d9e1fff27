"""Torch in ten minutes and the glossary: they keep their promises, and every link of them holds."""

import ast
import re
from collections import defaultdict
from pathlib import Path

import nbformat
import pytest
import torch
from nbformat.v4 import new_markdown_cell, new_notebook

from tools.links import broken, fault, github_places, has_place, headings, lab_places
from tools.notebooks.lessons import lessons, stopwatch
from tools.notebooks.plain import COLAB
from tools.notebooks.run import NOTEBOOKS, ROOT, read
from tools.notebooks.which import lesson_files
from tools.pictures import whole_model

TORCH, GLOSSARY = NOTEBOOKS / "torch_in_ten_minutes.ipynb", NOTEBOOKS / "GLOSSARY.md"
# What a reader of the lessons has to find, at least.
TERMS = """
ablation · additive mask · arm · attention weight · b · broadcast · causal · claim · contiguous · cross-attention ·
d_model · embedding · entropy · feed-forward · flops · fused layer · gate · grouped-query attention · head ·
head_dim · importance · induction head · interval · key · kv cache · layer norm · layout · logits · mask · merge ·
multi-query attention · num_heads · output projection · padding · polarity · position · previous-token head ·
projection · pruning · query · residual · scale · score · seed · self-attention · sink · softmax · split · stride ·
t · temperature · token · valid_lens · value · w_q to w_o
"""

each_page = pytest.mark.parametrize("page", [TORCH, GLOSSARY], ids=["torch", "glossary"])


def text_of(page: Path) -> str:
    if page.suffix == ".ipynb":
        return "\n\n".join(cell.source for cell in read(page).cells if cell.cell_type == "markdown")
    return page.read_text(encoding="utf-8")


def sections(page: Path) -> dict[str, str]:
    """Return the text under each heading of the page, by the heading."""
    _, *parts = re.split(r"^## (.+)$", text_of(page), flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))


# ---------------------------------------------------------------- both


@each_page
def test_links_lead_somewhere(page):
    assert broken(text_of(page), page, ROOT) == []


@each_page
def test_a_heading_has_the_same_name_on_github_in_jupyterlab_and_on_the_site(page):
    named = headings(text_of(page))[1:]  # the title aside
    assert named == list(sections(page)) and len(named) == len(set(named))
    for heading in named:
        assert re.fullmatch(r"[a-z0-9_]+([ -][a-z0-9_]+)*", heading), f"{heading}: small letters, digits, _ and spaces"
        assert github_places(f"# {heading}") == lab_places(f"# {heading}") == [re.sub(" ", "-", heading)]


@each_page
def test_every_section_leads_to_the_place_in_a_lesson_where_it_is_taught(page):
    known = {f"{lesson.name}.ipynb" for lesson in lessons()}
    for heading, text in sections(page).items():
        led = re.findall(r"\]\(([^)#]+\.ipynb)#([^)]+)\)", text)
        assert led, f"{heading} leads to no lesson"
        assert {lesson for lesson, _ in led} <= known


@each_page
def test_the_readme_leads_to_the_page(page):
    assert f"](notebooks/{page.name})" in (ROOT / "README.md").read_text(encoding="utf-8")


# ---------------------------------------------------------------- torch in ten minutes

# What the lessons use of torch, by the part of the notebook that shows its kind; a lesson says of the others what they
# do where it uses them. Names of methods begin with a dot.
KINDS = {
    "tensors and shapes": """
        torch.arange torch.tensor torch.zeros torch.ones torch.eye torch.randn torch.empty torch.full torch.linspace
        torch.randn_like torch.rand torch.randint torch.randperm torch.Tensor torch.from_numpy .numpy .shape .ndim
        .numel .dtype .float .double .half .bool .int .to torch.float16 torch.float32 torch.float64 torch.bfloat16
        torch.int64 torch.uint8 torch.bool torch.device torch.finfo .element_size .nbytes .is_cuda .sum .mean .std
        .var .median .max .min .amax .amin .aminmax .argmax .argmin .sort .argsort .topk .prod .norm .values .bincount
        .unique .cross .item .tolist .abs .square .sqrt .exp .log .log2 .round .tanh .cos .sin torch.tanh
        torch.minimum torch.set_num_threads torch.special.entr torch.cosine_similarity torch.cuda.is_available
        torch.ones_like torch.full_like torch.nan torch.set_default_dtype torch.polar torch.view_as_complex
        torch.view_as_real .bfloat16 .nanmean .normal_ .clamp .cumsum .diff .sign .sigmoid torch.sigmoid .relu
        .log_softmax F.normalize nn.functional.normalize F.one_hot torch.cdist .diag_embed F.cosine_similarity
    """,
    "indexing": """
        .any .all .nonzero .gather .index .diagonal .squeeze .unsqueeze .gt .eq .isinf .isnan torch.inf torch.where
        .where torch.nonzero .scatter .indices
    """,
    "broadcasting": """
        ~ .masked_fill .softmax .expand .expand_as .repeat .repeat_interleave .tile .tril .triu .nan_to_num F.softmax
    """,
    "matrix products": """
        @ .mT .T torch.linalg.matrix_rank torch.linalg.svdvals torch.linalg.solve torch.linalg.qr torch.block_diag
        torch.linalg.inv torch.linalg.pinv torch.einsum
    """,
    "views": """
        .view .transpose .permute .stride .contiguous .is_contiguous .data_ptr .untyped_storage .reshape .clone .roll
        .flip .data .movedim
    """,
    "cutting and joining": """
        .unflatten .flatten .chunk .split .unbind torch.cat torch.stack .equal torch.equal torch.allclose .allclose
        torch.isclose F.pad nn.utils.rnn.pad_sequence
    """,
    "modules and parameters": """
        nn.Module nn.Linear nn.Embedding nn.Dropout nn.Conv1d nn.LazyLinear nn.MultiheadAttention torch.nn.Parameter
        nn.Parameter F.linear F.conv1d F.scaled_dot_product_attention .parameters .named_parameters .named_modules
        .named_children .state_dict .load_state_dict .forward .name nn.init.xavier_uniform_ nn.init.constant_
        nn.init.eye_ nn.init.normal_ nn.init.zeros_ .children torch.nn.Dropout F.dropout nn.Sequential nn.LayerNorm
        nn.Transformer nn.TransformerEncoder nn.TransformerEncoderLayer
    """,
    "gradients": """
        .requires_grad_ .requires_grad .backward .grad torch.autograd.grad torch.autograd.functional.jacobian
        torch.func.jacrev torch.func.functional_call torch.autograd.graph.saved_tensors_hooks
    """,
    "no_grad and detach": ".detach torch.no_grad torch.set_grad_enabled .copy_ .zero_ .eval .train",
    "a step of training": """
        torch.optim.SGD torch.optim.Adam torch.optim.lr_scheduler.LinearLR .zero_grad .step F.cross_entropy F.mse_loss
    """,
    "hooks": ".register_forward_hook .register_forward_pre_hook",
    "seeds and generators": "torch.manual_seed torch.Generator",
}
NEITHER = {
    "torch.__version__",
    "torch.__version__.startswith",
    "torch.cuda.synchronize",
}  # of the machine
OFTEN = 7  # lessons; what so many use is shown


def used(source: str) -> set[str]:
    """Return what a cell uses of torch: functions and classes by their names, methods and signs."""
    methods = {name for of in (torch.Tensor, torch.nn.Module) for name in dir(of) if not name.startswith("_")}
    found, inner = set(), set()
    for node in ast.walk(ast.parse(re.sub(r"^\s*[%!].*$", "", source, flags=re.MULTILINE))):
        if isinstance(node, ast.Attribute) and node not in inner:
            name = ast.unparse(node)
            if re.fullmatch(r"(torch|nn|F)(\.\w+)+", name):
                found.add(name)
                inner |= set(ast.walk(node))  # torch.linalg of torch.linalg.qr
            elif node.attr in methods:
                found.add(f".{node.attr}")
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            found.add("@")
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert):
            found.add("~")
    return found


def used_by_lessons() -> dict[str, set[str]]:
    """Return which lessons use what of torch."""
    users = defaultdict(set)
    for path in lesson_files(NOTEBOOKS):
        for cell in read(path).cells:
            for name in used(cell.source) if cell.cell_type == "code" and cell.id != COLAB else ():
                users[name].add(path.stem[:2])
    return users


def test_every_kind_of_what_the_lessons_use_of_torch_has_its_part():
    kinds = {name for names in KINDS.values() for name in names.split()}
    new = {name: sorted(where) for name, where in used_by_lessons().items() if name not in kinds | NEITHER}
    assert new == {}, "put each under the part of torch_in_ten_minutes.ipynb that shows its kind, in KINDS"
    assert list(sections(TORCH)) == list(KINDS)


def test_what_many_lessons_use_is_shown():
    nb = read(TORCH)
    shown = set().union(*(used(cell.source) for cell in nb.cells if cell.cell_type == "code"))
    named = set(re.findall(r"\w+|~", " ".join(re.findall(r"`([^`]+)`", text_of(TORCH)))))
    named |= {f"{before}{name}" for before in (".", "torch.") for name in named}
    often = {name for name, where in used_by_lessons().items() if len(where) >= OFTEN}
    alike = {".max": ".amax", ".min": ".amax", ".values": ".amax", ".abs": ".square", ".all": ".any", ".T": ".mT"}
    assert len(often) > 30
    assert {name for name in often if alike.get(name, name) not in shown | named} == set()


def test_what_a_cell_uses_of_torch():
    code = "%run x\nn = nn.Linear(2, 3).weight.detach()\ntorch.linalg.qr(~x @ y.mT).values; print(torch.nn.F.x)"
    assert used(code) == {"nn.Linear", ".detach", "torch.linalg.qr", "~", "@", ".mT", ".values", "torch.nn.F.x"}


def test_it_takes_ten_minutes_by_the_stopwatch_in_short_cells():
    nb = read(TORCH)
    assert 8 <= stopwatch(nb) <= 10, f"it takes {stopwatch(nb):.1f} minutes"
    assert "About" not in nb.cells[0].source and "ten minutes" in nb.cells[0].source.splitlines()[0]
    cells = [cell.source for cell in nb.cells if cell.cell_type == "code" and cell.id != COLAB]
    assert max(len([line for line in source.splitlines() if line.strip()]) for source in cells) <= 10
    assert text_of(TORCH).count("**Predict.**") >= 3


# ---------------------------------------------------------------- the glossary


def test_the_glossary_is_in_order_and_has_what_the_lessons_name():
    terms = list(sections(GLOSSARY))
    assert terms == sorted(terms)
    assert set(" ".join(TERMS.split()).split(" · ")) <= set(terms)


def test_the_glossary_shows_the_whole_model_and_describes_it():
    assert re.findall(r"!\[(.+?)\]\(\.\./images/(.+?)\)", text_of(GLOSSARY)) == [(whole_model.ALT, "whole_model.png")]


def test_an_entry_is_short_and_says_more_than_its_name():
    for term, text in sections(GLOSSARY).items():
        said = text.partition("*Also called:*")[0].partition("Taught in")[0]
        assert 12 <= len(said.split()) <= 75, f"{term}: {len(said.split())} words"


# ---------------------------------------------------------------- what the checker of links knows of places


def test_places_are_called_as_github_and_jupyterlab_call_them():
    # Taken from JupyterLab 4.6, and from GitHub's rule: small, no punctuation, hyphens for spaces.
    known = {
        "## head_dim": ("head_dim", "head_dim"),
        "## Layer norm": ("layer-norm", "Layer-norm"),
        "## Why divide by √head_dim?": ("why-divide-by-head_dim", "Why-divide-by-√head_dim?"),
        "## T, Tq & Tk": ("t-tq--tk", "T,-Tq-&-Tk"),
        "## `W_o` is a sum over heads": ("w_o-is-a-sum-over-heads", "W_o-is-a-sum-over-heads"),
        "### Why so often `True`?": ("why-so-often-true", "Why-so-often-True?"),
    }
    for heading, (github, lab) in known.items():
        assert (github_places(heading), lab_places(heading)) == ([github], [lab])
    assert github_places("# One\n\n## Two\n\n## Two\n\n### Two") == ["one", "two", "two-1", "two-2"]
    assert lab_places("## In place of $W_o$\n\n## Plain") == ["Plain"]  # typeset before it is named


def test_a_place_that_is_not_there_is_found(tmp_path):
    (tmp_path / "page.md").write_text("# A page\n\n## Layer norm\n\n[here](#layer-norm)", encoding="utf-8")
    (tmp_path / "picture.png").write_bytes(b"")
    lesson = tmp_path / "lesson.ipynb"
    lesson.write_bytes((NOTEBOOKS / "03_splitting_into_heads.ipynb").read_bytes())
    good = "[a](page.md#layer-norm) [b](lesson.ipynb#What-a-split-must-do) [c](#What-a-split-must-do)"
    wrong = ["page.md#Layer-norm", "lesson.ipynb#what-a-split-must-do", "#layer-norm", "picture.png#part"]
    assert broken(good, lesson, tmp_path) == []
    assert broken(" ".join(f"[x]({target})" for target in wrong), lesson, tmp_path) == wrong
    assert fault("page.md#layer", lesson, tmp_path, has_place) == "leads to no place in its page"
    (tmp_path / "page.md").write_text("# A page\n\n## Layer\n\nchanged since it was asked", encoding="utf-8")
    assert broken("[a](page.md#layer)", lesson, tmp_path) == []


def test_a_link_that_jupyterlab_does_not_follow_is_found(tmp_path):
    lesson, other = tmp_path / "lesson.ipynb", tmp_path / "other.ipynb"
    cells = [new_markdown_cell('## Why √?\n\n## Why not?\n\n## Say "no"')]
    for path in (lesson, other):
        nbformat.write(new_notebook(cells=cells), path)
    text = "[a](#Why-√?) [b](#Why-%E2%88%9A?) [c](#Why-not?) [d](#Say-%22no%22) [e](other.ipynb#Why-√?)"
    assert broken(text, lesson, tmp_path) == ["#Why-%E2%88%9A?", "#Why-%E2%88%9A?", "#Say-%22no%22"]


def test_what_a_picture_chooses_from_is_a_link_too(tmp_path):
    (tmp_path / "one.png").write_bytes(b"")
    text = '<picture><source media="print" srcset="one.png 1x, two.png 2x"><img src="three.png" alt="x"></picture>'
    assert broken(text, tmp_path / "page.md", tmp_path) == ["two.png", "three.png"]
