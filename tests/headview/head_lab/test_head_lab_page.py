"""HeadLab in a real browser: what it computes, what its controls do, and that Python and page agree."""

import torch

from headview import HeadLab
from mhalib import MultiHeadAttention
from mhalib.reference import import_d2l
from tests.helpers.browser import until, with_script

# Puts what a view has computed, and where it draws it, onto its canvas.
SEEN = """
const drawUnseen = drawCanvas;
drawCanvas = (view) => {
  view.canvas.seen = { ...view.result, focus: view.plan.focus };
  drawUnseen(view);
};"""
TOKENS = "The cat sat on the mat".split()


def seen(lab):
    """Return the lab, so that `numbers` can read its views."""
    return with_script(lab, SEEN)


def numbers(view, name="weights"):
    """Return what one view on the page has computed, of a lab that was `seen`."""
    read = "(view, name) => Array.from(view.querySelector('canvas').seen[name])"
    return torch.tensor(view.evaluate(read, name), dtype=torch.float32)


def assert_same(view, lab, space=None, **message):
    """Compare what the view computes with what Python, or the code that is shown, computes."""
    for name in ("weights", "entropy") + (("output",) if lab.v_bytes else ()):
        expected = (space[name] if space else getattr(lab, name)).flatten().detach().float()
        torch.testing.assert_close(numbers(view, name), expected, atol=2e-5, rtol=2e-5, **message)


def sample(**options):
    return seen(HeadLab(*(torch.randn(6, 8) * 1.5 for _ in range(3)), tokens=TOKENS, **options))


def test_what_the_browser_computes_is_what_python_computes(static_page):
    kinds = [  # queries, keys, features, heads, mask, scale, temperature
        (1, 1, 1, 1, "padding", "head_dim", 1.0),
        (1, 9, 6, 3, "causal", "none", 0.1),
        (9, 1, 12, 2, "own", "d_model", 10.0),
        (3, 7, 12, 4, "causal", "d_model", 0.5),
        (7, 3, 64, 16, "padding", "head_dim", 2.0),
        (16, 16, 6, 6, "own", "none", 0.3),
        (31, 33, 64, 8, "none", "head_dim", 1.0),
        (128, 128, 64, 16, "causal", "head_dim", 0.7),
    ]
    labs = []
    for queries, keys, features, heads, mask, scale, temperature in kinds:
        q, k, v = (1.5 * torch.randn(n, features) for n in (queries, keys, keys))
        chosen = {"num_heads": heads, "mask": mask, "scale": scale, "temperature": temperature}
        labs.append(HeadLab(q, k, None if queries == 31 else v, valid_len=keys // 2, **chosen))
        labs[-1].own_mask = torch.rand(queries, keys) > 0.4
    views = static_page(*map(seen, labs)).locator(".mha")
    for i, lab in enumerate(labs):
        assert_same(views.nth(i), lab)


def test_every_control_by_keyboard(static_page):
    lab = sample(num_heads=2)
    page = static_page(lab)
    view = page.locator(".mha")

    def becomes(**traits):
        for name, value in traits.items():
            setattr(lab, name, value)
        assert_same(view, lab)

    def press(label, *keys, **traits):
        for key in keys:
            page.get_by_label(label, exact=True).press(key)
        becomes(**traits)

    press("Heads", "ArrowRight", num_heads=4)
    page.get_by_label("Scale").select_option("none")
    press("Temperature", "Home", scale="none", temperature=0.1)
    press("Temperature", "End", temperature=10.0)
    for mask in ("causal", "padding"):
        page.get_by_label("Mask", exact=True).select_option(mask)
        becomes(mask=mask)
    press("Valid keys", "ArrowLeft", "ArrowLeft", valid_len=4)
    page.get_by_text("Numbers of every head").click()
    cells = page.locator("tr:has(td)")
    read = cells.evaluate_all("(rows) => rows.map((row) => [...row.cells].map((cell) => cell.textContent))")
    most = lab.allowed.sum(-1).log2().mean()
    for head, (name, bits, possible, apart, empty, length) in enumerate(read):
        assert (name, float(apart) < 1e-6, empty) == (str(head), True, "0")
        assert (bits, possible) == (f"{lab.entropy[0, head].mean():.3f}", f"{most:.3f}")
        assert length == f"{lab.output[0, head].norm(dim=-1).mean():.3g}"
    assert len(read) == 4
    press("Valid keys", "Home", valid_len=0)
    assert not numbers(view).any() and "6 with nothing to attend to: zeros" in view.inner_text()
    press("Head in focus", "ArrowRight")
    assert "Head 1:" in view.inner_text()


def place_of(page, i, j) -> tuple[float, float]:
    """Return where a cell of the large map is on the screen."""
    box = page.locator("canvas").bounding_box()
    panel = page.evaluate("document.querySelector('.mha canvas').seen.focus")
    return box["x"] + panel["x"] + (j + 0.5) * panel["cell"], box["y"] + panel["y"] + (i + 0.5) * panel["cell"]


def test_own_cells_by_keyboard_and_by_pointer(static_page):
    lab = sample(mask="causal")
    page = static_page(lab)
    view, canvas, said = page.locator(".mha"), page.locator("canvas"), page.locator("[role=status]")
    canvas.focus()
    page.keyboard.press("Space")
    assert "Choose own cells" in said.inner_text()
    page.get_by_label("Mask", exact=True).select_option("own")  # starts from what is seen
    canvas.focus()
    for key in ("ArrowRight", "Space", "ArrowDown", "ArrowLeft", "Enter"):  # allow (0, 1), block (1, 0)
        page.keyboard.press(key)
    assert "query “\u2068cat\u2069”, key “\u2068The\u2069”: masked" in said.text_content()
    cells = torch.ones(6, 6).tril().bool()
    cells[0, 1], cells[1, 0] = True, False
    lab.own_mask, lab.mask = cells, "own"
    assert_same(view, lab)

    page.mouse.move(*place_of(page, 3, 3))  # drag over a row: all become what the first one becomes
    page.mouse.down()
    for j in (2, 1, 0):
        page.mouse.move(*place_of(page, 3, j), steps=3)
    page.mouse.up()
    cells[3] = False
    lab.own_mask = cells
    assert_same(view, lab)
    page.get_by_text("Allow all cells").click()
    lab.own_mask = torch.ones(6, 6, dtype=torch.bool)
    assert_same(view, lab)


def test_cursor_and_pointer_tell_the_value(static_page):
    lab = sample(num_heads=2)
    page = static_page(lab)
    said = page.locator("[role=status]")
    for key in ("ArrowDown", "ArrowRight", "ArrowRight", "PageDown"):
        page.locator("canvas").press(key)
    cell = "head 1, query “\u2068{}\u2069”, key “\u2068{}\u2069”: weight {:.4f}"
    assert said.text_content().startswith(cell.format("cat", "sat", lab.weights[0, 1, 1, 2]))
    page.keyboard.press("End")  # past the keys: the output
    assert f"output feature 3 is {lab.output[0, 1, 1, 3]:.4f}" in said.text_content()
    page.mouse.move(*place_of(page, 0, 0))
    assert page.locator(".tip").text_content().startswith(cell.format("The", "The", lab.weights[0, 1, 0, 0]))


def test_the_code_that_is_shown_reproduces_what_is_shown(static_page):
    layer, x, memory = MultiHeadAttention(8, 4, num_kv_heads=2, bias=True), torch.randn(6, 8), torch.randn(2, 9, 8)
    d2l = import_d2l().MultiHeadAttention(8, 8, 8, 8, 2, 0.0).eval()
    q, k, v = torch.randn(6, 8).numpy(), torch.randn(1, 9, 8).double(), torch.randn(9, 8).bfloat16()
    forms = [  # what the reader's names are, and the lab
        ({"layer": layer, "batch": x[None]}, HeadLab.of(layer, x, names=("batch[0]",))),
        ({"layer": layer, "x": x[None].double()}, HeadLab.of(layer, x[None].double())),
        ({"layer": layer, "x": x.numpy()}, HeadLab.of(layer, x.numpy())),
        ({"layer": layer, "x": x, "memory": memory}, HeadLab.of(layer, x, memory[0], names=("x", "memory[0]"))),
        ({"layer": d2l, "x": x}, HeadLab.of(d2l, x)),
        ({"q": q, "k": k, "v": v}, HeadLab(q, k, v, num_heads=4)),
        ({"q": x}, HeadLab(x, num_heads=4)),
    ]
    masks = ("none", "d_model"), ("causal", "none"), ("padding", "head_dim"), ("own", "head_dim")
    for _, lab in forms:
        lab.valid_len, lab.temperature, lab.own_mask = 4, 0.63, torch.rand(lab.own_mask.shape) < 0.6
    page = static_page(*(seen(lab) for _, lab in forms))
    for number, (names, lab) in enumerate(forms):
        view = page.locator(".mha").nth(number)
        view.get_by_text("Show the code").click()
        for mask, scale in masks:
            view.get_by_label("Mask", exact=True).select_option(mask)
            view.get_by_label("Scale").select_option(scale)
            space = dict(names)
            exec(view.locator("pre").text_content(), space)
            assert_same(view, lab, space, msg=lambda told, at=(number, mask): f"{at} {told}")
    assert "# as HeadLab.of was given them: x (6, 8)\n" in page.locator("pre").nth(4).text_content()


def test_own_cells_reach_python_and_come_back(lab):
    make = "import torch\nfrom headview import HeadLab\nlab = HeadLab(*torch.randn(3, 6, 8), num_heads=2)\nlab"
    notebook = lab(make, "lab")
    views = notebook.page.locator(".mha")
    until(lambda: views.count() == 2, "the widget was not displayed twice")
    one, other = views.all()
    one.get_by_label("Mask", exact=True).select_option("own")
    for key in ("ArrowDown", "Space", "PageDown"):
        one.locator("canvas").press(key)
    notebook.prints("print(lab.mask, lab.head, lab.own_mask.sum().item(), lab.own_mask[1, 0].item())", "own 1 35 False")
    masked, allowed = "key “\u20680\u2069”: masked", "key “\u20680\u2069”: weight"
    until(lambda: masked in other.locator(".readout").inner_text(), "the second view does not follow")
    notebook.python("lab.own_mask = ~torch.eye(6, dtype=torch.bool)")
    for view in (one, other):
        until(lambda view=view: allowed in view.locator(".readout").inner_text(), "a view does not follow")
