"""HeadLab in a real browser: what it computes, what its controls do, and that Python and page agree."""

import pytest
import torch

from headview import HeadLab
from mhalib.experiments import sentence_features
from tests.helpers.browser import settle
from tests.helpers.page import no_overflow

TOKENS = "The cat sat on the mat".split()
COMPUTE = """async ([source, traits, q, k, v, own]) => {
  const address = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
  const { labAllowed, labAttend, labScores } = await import(address);
  const [queries, keys, features] = traits.sizes, heads = traits.num_heads, { scale, temperature, mask } = traits;
  const allowed = labAllowed(mask, queries, keys, traits.valid_len, Uint8Array.from(own));
  const state = { queries, keys, features, heads, headDim: features / heads, scale, temperature, allowed };
  const scores = labScores(Float32Array.from(q), Float32Array.from(k), state);
  const result = labAttend(scores, Float32Array.from(v), state);
  return Object.fromEntries(Object.entries(result).map(([name, numbers]) => [name, numbers && [...numbers]]));
}"""


def sample(**options):
    return HeadLab(*(torch.randn(6, 8) * 1.5 for _ in range(3)), tokens=TOKENS, **options)


def more(view):
    view.get_by_role("button", name="More").click()


def names(view):
    """Return what the controls in sight are called."""
    return view.locator(":is(button, input, select):visible").evaluate_all("(all) => all.map((e) => e.computedName)")


def code_of(view):
    """Return the code that is shown; it is opened where it is not."""
    button = view.get_by_role("button", name="Code")
    if button.get_attribute("aria-expanded") == "false":
        button.click()
    return view.locator("pre").text_content()


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
    page = static_page(sample())
    for queries, keys, features, heads, mask, scale, temperature in kinds:
        q, k, v = (1.5 * torch.randn(n, features) for n in (queries, keys, keys))
        chosen = {"num_heads": heads, "mask": mask, "scale": scale, "temperature": temperature}
        lab = HeadLab(q, k, None if queries == 31 else v, valid_len=keys // 2, **chosen)
        lab.own_mask = torch.rand(queries, keys) > 0.4
        traits = lab.get_state(["sizes", "valid_len", *chosen])
        rows = [x.flatten().tolist() for x in (q, k, v[:0] if queries == 31 else v)]
        found = page.evaluate(COMPUTE, [str(lab._esm), traits, *rows, list(lab.own_bytes)])
        for name in ("weights", "entropy") + (("output",) if lab.v_bytes else ()):
            expected = getattr(lab, name).flatten()
            torch.testing.assert_close(torch.tensor(found[name], dtype=torch.float32), expected, atol=2e-5, rtol=2e-5)


def test_it_opens_small_and_shows_what_a_lesson_asks_for(static_page):
    quiet, asked = sample(num_heads=2), sample(num_heads=2, show=["entropy", "code"], temperature=0.5)
    words = HeadLab.of_words(sentence_features, TOKENS, num_heads=4)  # other words would need a kernel
    views = static_page(quiet, asked, words).locator(".mha").all()
    small = ["Heads", "More"]
    assert [names(view) for view in views] == [small, ["Heads", "Temperature", "Code", "More"], small]
    assert "entropy" not in views[0].inner_text() and "entropy" in views[1].inner_text()
    more(views[0])
    assert {"Scale", "Temperature", "Mask", "Entropy", "Output", "Code"} <= set(names(views[0]))
    assert views[0].get_by_role("button", name="More").get_attribute("aria-expanded") == "true"
    views[0].get_by_label("Entropy").check()
    assert "entropy" in views[0].inner_text()
    with pytest.raises(ValueError, match="out of 'scale', 'temperature'"):
        quiet.show = ["everything"]


def test_every_control_by_keyboard(static_page):
    inputs = dict(zip("qkv", torch.randn(3, 6, 8) * 1.5, strict=True))
    lab = HeadLab(**inputs, num_heads=2, show=["entropy"])
    page = static_page(lab)
    more(page)

    def becomes(**traits):
        for name, value in traits.items():
            setattr(lab, name, value)
        space = dict(inputs)
        exec(code_of(page), space)
        torch.testing.assert_close(space["weights"], lab.weights, atol=2e-5, rtol=2e-5)
        weight = page.locator(".readout").text_content()
        assert f"weight {lab.weights[0, lab.head, 0, 0]:.4f}" in weight or "masked" in weight

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
    assert f"entropy {lab.entropy[0, 0].mean():.2f} of at most 2.00 bits" in page.inner_text(".mha")
    press("Valid keys", "Home", valid_len=0)
    assert "6 with nothing to attend to: zeros" in page.inner_text(".mha")
    page.locator("canvas").press("PageDown")
    assert "Head 1: features 2 to 3 of each word" in page.inner_text(".mha")


def place_of(page, query: str, key: str) -> tuple[float, float]:
    """Return where a cell of the large map is on the screen, as the tooltip says it; there is one head."""
    box, tip = page.locator("canvas").bounding_box(), page.locator(".tip")

    def first(places, wanted):
        for place in places:
            page.mouse.move(*place)
            page.wait_for_timeout(20)
            if tip.is_visible() and wanted in tip.text_content():
                return place
        raise AssertionError(f"{wanted} is nowhere")

    x, y = box["x"] + 120, box["y"]
    _, y = first([(x, y + step) for step in range(50, int(box["height"]), 15)], f"query “\u2068{query}\u2069”")
    return first([(box["x"] + step, y + 3) for step in range(20, int(box["width"]), 15)], f"key “\u2068{key}\u2069”")


def test_own_cells_by_keyboard_and_by_pointer(static_page):
    lab = sample(mask="causal")
    page = static_page(lab)
    canvas, said = page.locator("canvas"), page.locator("[role=status]")

    def shown():
        """Return the own mask, read off the code, which is a picture of it."""
        rows = code_of(page).split('"""')[1].split()
        return torch.tensor([[cell == "1" for cell in row] for row in rows])

    canvas.focus()
    page.keyboard.press("Space")
    assert "Choose own cells" in said.inner_text()
    page.get_by_label("Mask", exact=True).select_option("own")  # starts from what is seen
    more(page)
    canvas.focus()
    for key in ("ArrowRight", "Space", "ArrowDown", "ArrowLeft", "Enter"):  # allow (0, 1), block (1, 0)
        page.keyboard.press(key)
    assert "query “\u2068cat\u2069”, key “\u2068The\u2069”: masked" in said.text_content()
    cells = torch.ones(6, 6).tril().bool()
    cells[0, 1], cells[1, 0] = True, False
    assert shown().equal(cells)
    places = [place_of(page, "on", key) for key in ("on", "The")]
    page.mouse.move(*places[0])  # drag over a row: all become what the first one becomes
    page.mouse.down()
    page.mouse.move(*places[1], steps=12)
    page.mouse.up()
    cells[3] = False
    assert shown().equal(cells)
    page.get_by_text("Allow all cells").click()
    assert shown().all()


def test_cursor_and_pointer_tell_the_value(static_page):
    lab = sample(show=["output"])
    page = static_page(lab, sample(num_heads=2)).locator(".mha").first
    said = page.locator("[role=status]")
    for key in ("ArrowDown", "ArrowRight", "ArrowRight"):
        page.locator("canvas").press(key)
    cell = "head 0, query “\u2068{}\u2069”, key “\u2068{}\u2069”: weight {:.4f}"
    assert said.text_content().startswith(cell.format("cat", "sat", lab.weights[0, 0, 1, 2]))
    page.locator("canvas").press("End")  # past the keys: the output
    assert f"output feature 7 is {lab.output[0, 0, 1, 7]:.4f}" in said.text_content()


def test_the_code_that_is_shown_reproduces_what_is_shown(static_page):
    q, k, v = torch.randn(6, 8).numpy(), torch.randn(1, 9, 8).double(), torch.randn(9, 8).bfloat16()
    x = torch.randn(6, 8)
    forms = [  # what the reader's names are, and the lab
        ({"q": q, "k": k, "v": v}, HeadLab(q, k, v, num_heads=4)),
        ({"q": x}, HeadLab(x, num_heads=4)),
        ({"batch": x[None]}, HeadLab(x, num_heads=2, code_inputs=["batch", "batch"])),
    ]
    masks = ("none", "d_model"), ("causal", "none"), ("padding", "head_dim"), ("own", "head_dim")
    for _, lab in forms:
        lab.valid_len, lab.temperature, lab.own_mask = 4, 0.63, torch.rand(lab.own_mask.shape) < 0.6
        lab.show = ["mask", "scale", "code"]
    page = static_page(*(lab for _, lab in forms))
    for number, (names_of, lab) in enumerate(forms):
        view = page.locator(".mha").nth(number)
        for lab.mask, lab.scale in masks:
            view.get_by_label("Mask", exact=True).select_option(lab.mask)
            view.get_by_label("Scale").select_option(lab.scale)
            space = dict(names_of)
            exec(code_of(view), space)
            for name in ("weights", "entropy") + (("output",) if lab.v_bytes else ()):
                torch.testing.assert_close(space[name].detach().float(), getattr(lab, name), atol=2e-5, rtol=2e-5)


def test_features_walk_to_their_heads_unless_the_reader_wants_rest(static_page):
    watch = """(canvas) => {
      globalThis.seen = new Set();
      const look = () => { seen.add(canvas.toDataURL()); requestAnimationFrame(look); };
      look();
    }"""
    page = static_page(sample(num_heads=2))
    page.locator("canvas").evaluate(watch)
    for motion, split in (("no-preference", "4 × 2 features"), ("reduce", "8 × 1 features")):
        page.emulate_media(reduced_motion=motion)
        page.evaluate("seen.clear()")
        settle(page)
        page.get_by_label("Heads", exact=True).press("ArrowRight")
        page.wait_for_timeout(600)
        pictures = page.evaluate("seen.size")  # before and after, and what lies between them
        assert pictures == 2 if motion == "reduce" else pictures > 2
        assert page.locator(".heads output").inner_text() == split


def test_words_of_ones_own_need_a_kernel(static_page):
    lab = HeadLab.of_words(sentence_features, TOKENS, num_heads=4)
    page = static_page(lab, width=390)
    assert page.get_by_label("Your words").is_hidden() and no_overflow(page) == []
