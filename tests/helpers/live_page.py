"""A page with a `LiveModel` on a disk, its model loaded from files beside it, and its worker to ask."""

import base64

import torch

PATIENCE = 300  # seconds, for all sentences together; no measure of speed

# The worker of the page stands in `window.worker` from then on; what it says of a key is kept in `heard`.
OVERHEAR = """<script>
window.heard = {};
window.Worker = class extends Worker {
  constructor(...given) {
    super(...given);
    window.worker = this;
    this.addEventListener("message", ({ data }) => data.key && (heard[data.key] = data));
  }
};
</script>"""
BASE64 = """(key) => {
  const { maps, vector, tokens, left, ms } = heard[key];
  const packed = (numbers) => {
    const bytes = new Uint8Array(numbers.buffer, numbers.byteOffset, numbers.byteLength);
    let text = "";
    for (let i = 0; i < bytes.length; i += 8192) text += String.fromCharCode(...bytes.subarray(i, i + 8192));
    return btoa(text);
  };
  return { maps: packed(maps), vector: packed(vector), tokens, left, ms };
}"""


class Overheard:
    """Stands in a page before the widgets."""

    def to_html(self) -> str:
        return OVERHEAR


def put_beside(folder, scripts) -> None:
    (folder / "live").mkdir(exist_ok=True)
    for number, script in enumerate(scripts):
        (folder / "live" / f"{number:02}.js").write_bytes(script)


def load(static_page, folder, widget, scripts, **options):
    """Open a page with this widget and load its model; `folder` is where the page will lie."""
    put_beside(folder, scripts)
    page = static_page(Overheard(), widget, **options)
    page.get_by_role("button", name="Load the model").click()
    page.wait_for_function("document.querySelector('.bring button').hidden")
    return page


def worker_of(page):
    """Return a function that asks the worker of this page about sentences, each with heads off by their numbers."""

    def ask(*asked: tuple[str, list[int]]) -> list[dict]:
        wanted = [{"key": f"{i} {text}", "text": text, "off": off} for i, (text, off) in enumerate(asked)]
        page.evaluate("(wanted) => { heard = {}; worker.postMessage({ wanted }); }", wanted)
        page.wait_for_function("(last) => heard[last]", arg=wanted[-1]["key"], timeout=1000 * PATIENCE)
        found = []
        for one in wanted:
            said = page.evaluate(BASE64, one["key"])
            for name in ("maps", "vector"):
                said[name] = torch.frombuffer(bytearray(base64.b64decode(said[name])), dtype=torch.float32)
            found.append(said)
        return found

    return ask
