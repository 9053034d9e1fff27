"""HeadLab in a real browser: what it computes, what its controls do, and that Python and page agree."""

import base64
from pathlib import Path

import numpy as np
import pytest
import torch
from axe_playwright_python.sync_playwright import Axe

from mhalib import MultiHeadAttention
from mhalib.widgets import HeadLab
from tests.helpers.browser import settle, until, with_script

# Puts what a view has computed, and where it draws it, onto its canvas.
SEEN = """
const drawUnseen = drawCanvas;
drawCanvas = (view) => {
  view.canvas.seen = { ...view.result, focus: view.plan.focus };
  drawUnseen(view);
};"""
NUMBERS = """(root, name) => {
  const bytes = new Uint8Array(root.querySelector("canvas").seen[name].buffer);
  let text = "";
  for (let at = 0; at < bytes.length; at += 8192) text += String.fromCharCode(...bytes.subarray(at, at + 8192));
  return btoa(text);
}"""
TOKENS = "The cat sat on the mat".split()


def seen(lab):
    """Return the lab, so that `numbers` can read its views."""
    return with_script(lab, SEEN)


def numbers(view, name="weights"):
    """Return what one view on the page has computed, of a lab that was `seen`."""
    return torch.from_numpy(np.frombuffer(base64.b64decode(view.evaluate(NUMBERS, name)), np.float32).copy())


def assert_same(view, lab):
    for name in ("weights", "entropy") + (("output",) if lab.v_bytes else ()):
        expected = getattr(lab, name).flatten()
        torch.testing.assert_close(numbers(view, name), expected, atol=1e-5, rtol=1e-5)


def random_lab(queries, keys, seed):
    random = torch.Generator().manual_seed(seed)
    pick = lambda values: values[int(torch.randint(len(values), (1,), generator=random))]  # noqa: E731
    d_model = pick([1, 6, 12, 64])
    q, k, v = (torch.randn(n, d_model, generator=random) * 1.5 for n in (queries, keys, keys))
    mask = pick(["none", "padding", "own"] + ["causal"] * (queries <= keys))
    lab = HeadLab(q, k, pick([v, v, None]), scale=pick(["head_dim", "none", "d_model"]), mask=mask)
    lab.num_heads = pick(lab.head_choices)
    lab.temperature = 10 ** (2 * float(torch.rand(1, generator=random)) - 1)
    lab.valid_len = pick(range(keys + 1))
    lab.own_mask = torch.rand(queries, keys, generator=random) > float(torch.rand(1, generator=random))
    return lab


@pytest.mark.parametrize("group", range(3))
def test_what_the_browser_computes_is_what_mhalib_computes(static_page, group):
    sizes = [(1, 1), (1, 9), (9, 1), (2, 2), (3, 7), (16, 16), (31, 33), (5, 64), (64, 64), (128, 128)]
    labs = [random_lab(*size, seed=100 * group + i) for i, size in enumerate(sizes)]
    views = static_page(*map(seen, labs)).locator(".mha")
    for i, lab in enumerate(labs):
        assert_same(views.nth(i), lab)


def sample(**options):
    return seen(HeadLab(*(torch.randn(6, 8) * 1.5 for _ in range(3)), tokens=TOKENS, **options))


def test_every_control_by_keyboard(static_page):
    lab = sample(num_heads=2)
    page = static_page(lab)
    view = page.locator(".mha")

    def press(label, *keys):
        page.get_by_label(label, exact=True).focus()
        for key in keys:
            page.keyboard.press(key)

    press("Heads", "ArrowRight")
    lab.num_heads = 4
    assert_same(view, lab)
    page.get_by_label("Scale").select_option("none")
    press("Temperature", "Home")
    lab.scale, lab.temperature = "none", 0.1
    assert_same(view, lab)
    press("Temperature", "End")
    lab.temperature = 10.0
    assert_same(view, lab)
    for mask in ("causal", "padding"):
        page.get_by_label("Mask", exact=True).select_option(mask)
        lab.mask = mask
        assert_same(view, lab)
    press("Valid keys", "ArrowLeft", "ArrowLeft")
    lab.valid_len = 4
    assert_same(view, lab)
    press("Valid keys", "Home")
    assert not numbers(view).any() and "6 with nothing to attend to: zeros" in view.inner_text()
    press("Head in focus", "ArrowRight")
    assert "Head 1:" in view.inner_text()


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
    lab.own_mask, lab.mask = lab.allowed, "own"
    cells = lab.own_mask
    cells[0, 1], cells[1, 0] = True, False
    lab.own_mask = cells
    assert_same(view, lab)

    box, panel = canvas.bounding_box(), page.evaluate("document.querySelector('.mha canvas').seen.focus")
    at = lambda i, j: (  # noqa: E731
        box["x"] + panel["x"] + (j + 0.5) * panel["cell"],
        box["y"] + panel["y"] + (i + 0.5) * panel["cell"],
    )
    page.mouse.move(*at(3, 3))  # drag over a row: all become what the first one becomes
    page.mouse.down()
    for j in (2, 1, 0):
        page.mouse.move(*at(3, j), steps=3)
    page.mouse.up()
    cells[3] = False
    lab.own_mask = cells
    assert_same(view, lab)
    page.get_by_text("Allow all cells").click()
    lab.own_mask = torch.ones(6, 6, dtype=torch.bool)
    assert_same(view, lab)


def test_the_cursor_says_the_value(static_page):
    lab = sample(num_heads=2)
    page = static_page(lab)
    page.locator("canvas").focus()
    for key in ("ArrowDown", "ArrowRight", "ArrowRight", "PageDown"):
        page.keyboard.press(key)
    expected = f"head 1, query “\u2068cat\u2069”, key “\u2068sat\u2069”: weight {lab.weights[0, 1, 1, 2]:.4f}"
    assert page.locator("[role=status]").text_content().startswith(expected)
    page.keyboard.press("End")  # past the keys: the output
    assert f"output feature 3 is {lab.output[0, 1, 1, 3]:.4f}" in page.locator("[role=status]").text_content()
    panel = page.evaluate("document.querySelector('.mha canvas').seen.focus")
    box = page.locator("canvas").bounding_box()
    page.mouse.move(box["x"] + panel["x"] + 5, box["y"] + panel["y"] + 5)
    assert (
        page.locator(".tip")
        .text_content()
        .startswith(f"head 1, query “\u2068The\u2069”, key “\u2068The\u2069”: weight {lab.weights[0, 1, 0, 0]:.4f}")
    )


@pytest.mark.parametrize("mask", ["none", "causal", "padding", "own", "own many"])
@pytest.mark.parametrize("form", ["tensor", "batch", "numpy", "double", "no values", "keys are queries"])
def test_the_code_that_is_shown_reproduces_what_is_shown(static_page, mask, form):
    q, k, v = (torch.randn(6, 8) for _ in range(3))
    change = {"batch": lambda x: x[None], "numpy": lambda x: x.numpy(), "double": lambda x: x.double()}.get(
        form, lambda x: x
    )
    given = {"q": change(q), "k": change(k), "v": change(v)}
    if form == "no values":
        del given["v"]
    if form == "keys are queries":
        del given["k"], given["v"]
    lab = HeadLab(**given, num_heads=4, scale="d_model", temperature=0.63, mask=mask.split()[0], valid_len=4)
    lab.own_mask = torch.rand(6, 6) > (0.9 if mask == "own many" else 0.1)
    page = static_page(seen(lab))
    page.get_by_text("Show the code").click()
    names = dict(given)
    exec(page.locator("pre").text_content(), names)
    torch.testing.assert_close(names["weights"].flatten(), numbers(page.locator(".mha")), atol=1e-5, rtol=0)
    torch.testing.assert_close(names["entropy"], lab.entropy, atol=1e-4, rtol=0)
    if lab.output is not None:
        torch.testing.assert_close(names["output"], lab.output, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("form", ["tensor", "numpy", "memory"])
def test_the_code_of_a_layer(static_page, form):
    layer, x = MultiHeadAttention(8, 4, num_kv_heads=2).double(), torch.randn(6, 8)
    names = {"layer": layer, "x": x.numpy() if form == "numpy" else x}
    if form == "memory":
        names["memory"] = torch.randn(1, 9, 8).double()
    lab = HeadLab.of(**names, mask="causal")
    page = static_page(lab)
    page.get_by_text("Show the code").click()
    exec(page.locator("pre").text_content(), names)
    torch.testing.assert_close(names["weights"], lab.weights, atol=1e-5, rtol=0)
    torch.testing.assert_close(names["output"], lab.output, atol=1e-5, rtol=0)


def test_a_thousand_events_in_a_second_end_in_the_right_state(static_page):
    lab = seen(HeadLab(*(torch.randn(32, 64) for _ in range(3)), num_heads=16))
    page = static_page(lab)
    page.evaluate(
        """async () => {
          const range = (label) => document.querySelector(`input[aria-label="${label}"]`);
          const [heat, heads] = [range("Temperature"), range("Heads")];
          for (let n = 0; n < 100; n++) {
            for (let m = 0; m < 5; m++) {
              heat.value = Math.sin(10 * n + m);
              heat.dispatchEvent(new Event("input"));
              heads.value = (n + m) % 7;
              heads.dispatchEvent(new Event("input"));
            }
            await new Promise((done) => setTimeout(done, 10));
          }
          heat.value = -0.5; heat.dispatchEvent(new Event("input"));
          heads.value = 3; heads.dispatchEvent(new Event("input"));
        }"""
    )
    settle(page)
    lab.num_heads, lab.temperature = 8, 0.316
    assert_same(page.locator(".mha"), lab)
    assert page.get_by_label("Temperature").get_attribute("aria-valuetext") == "0.316"


def test_tokens_are_text(static_page):
    tokens = ["<img src=x onerror=alert(1)>", "", "👩‍👩‍👧", "שלום", "é", "long" * 50]
    page = static_page(HeadLab(torch.randn(6, 8), tokens=tokens), width=700)
    assert page.locator("img").count() == 0
    page.locator("canvas").focus()
    for token in [f'"{token}"' if not token else token for token in tokens]:
        assert f"query “\u2068{token}\u2069”" in page.locator("p").first.text_content()
        page.keyboard.press("ArrowDown")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_audit_is_clean_and_nothing_overflows(static_page, theme):
    page = static_page(sample(num_heads=4, mask="own"), theme=theme, width=700)
    page.get_by_text("Show the code").click()
    page.get_by_text("Numbers of every head").click()
    page.locator("td").nth(19).wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= 700
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
    unguarded = page.locator(".mha :is(button, input, select, summary, [tabindex]):not([data-lm-suppress-shortcuts])")
    assert unguarded.count() == 0


CELL = f"""import sys; sys.path.insert(0, {str(Path(__file__).resolve().parents[3])!r})
import torch
from mhalib.widgets import HeadLab
torch.manual_seed(0)
lab = HeadLab(*torch.randn(3, 6, 8), num_heads=2, tokens={TOKENS!r})
lab._esm += {SEEN!r}
lab"""


def test_page_and_kernel_agree_both_ways(lab):
    notebook = lab(CELL, "lab")
    page, views = notebook.page, notebook.page.locator(".mha")
    until(lambda: views.count() == 2, "the widget was not displayed twice")
    cells = notebook.cells()

    def agree():
        expected = torch.tensor(eval(notebook.python("print(lab.weights.flatten().tolist())")))

        def shown(view):
            found = numbers(view)
            return found.shape == expected.shape and found.allclose(expected, atol=1e-5, rtol=0)

        for i in range(2):
            until(lambda i=i: shown(views.nth(i)), f"view {i} and Python differ")

    def say(expression, value):
        notebook.prints(f"print(({expression}))", str(value))

    agree()
    first = views.nth(0)
    first.get_by_label("Heads", exact=True).focus()
    for key in ("ArrowRight", "a", "b", "d", "d"):
        page.keyboard.press(key)
    first.get_by_label("Mask", exact=True).select_option("causal")
    say("lab.num_heads, lab.mask", (4, "causal"))
    agree()
    first.get_by_label("Mask", exact=True).select_option("own")
    first.locator("canvas").focus()
    for key in ("ArrowDown", "Space", "PageDown", "d", "d", "Enter"):  # blocked, and allowed again
        page.keyboard.press(key)
    say("lab.mask, lab.head, lab.own_mask.sum().item(), lab.own_mask[1, 0].item()", ("own", 1, 21, True))
    page.keyboard.press("Space")
    say("lab.own_mask.sum().item(), lab.own_mask[1, 0].item()", (20, False))
    agree()
    notebook.python("lab.scale = 'none'; lab.temperature = 0.5; lab.mask = 'padding'; lab.valid_len = 3")
    agree()
    until(lambda: views.nth(1).get_by_label("Valid keys").input_value() == "3", "the second view does not follow")
    refused = "try:\n    lab.num_heads = 3\nexcept Exception as error:\n    print(type(error).__name__, lab.num_heads)"
    assert notebook.python(refused) == "Refused 4"  # it was refused, and the old value stays
    notebook.python("lab.own_mask = torch.eye(6, dtype=torch.bool); lab.mask = 'own'; lab.num_heads = 8")
    agree()
    assert notebook.cells() == cells
