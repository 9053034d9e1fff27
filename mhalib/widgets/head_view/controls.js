// The controls of HeadView above the picture. Each one sets a trait; what is drawn follows the traits.

const DRAWN = ["layer", "head", "query", "mode", "scale", "combine", "overlay"]; // traits that the picture follows
const TICKS = 16; // heads of a layer that get a tick box each
const MOST_TOGETHER = 32; // heads in the overlay, as in Python

/** Add a head to the overlay or take it out. @param {View} view */
function toggleOverlay(view, layer, head) {
  const { model, w, say } = view;
  const overlay = model.get("overlay");
  const others = overlay.filter(([i, j]) => i !== layer || j !== head);
  const on = others.length === overlay.length;
  if (on && others.length >= MOST_TOGETHER) return say(`At most ${MOST_TOGETHER} heads can be shown together.`);
  put(model, "overlay", on ? [...others, [layer, head]] : others);
  say(`${headName(w, layer, head)} ${on ? "added to" : "removed from"} the overlay`);
}

/**
 * Make the row of choices. Returns `{box, show}`; `show(shown)` sets them to the traits. @param {View} view
 * @param {() => void} onSave
 */
function makeChoices(view, onSave) {
  const { model } = view;
  const offer = (label, trait, choices) => choice(label, choices, (value) => put(model, trait, value));
  const mode = offer("Show as", "mode", [["map", "heat map"], ["lines", "lines"]]);
  const scale = offer("Scale", "scale", [["fixed", "fixed, 0 to 1"], ["maximum", "per-head maximum"]]);
  const combine = offer("Heads together as", "combine", [["maximum", "maximum"], ["mean", "mean"]]);
  const save = pushButton("Save PNG", onSave);
  return {
    box: node("div", { class: "controls" }, mode.box, scale.box, combine.box, save),
    show(shown) {
      mode.show(model.get("mode"));
      scale.show(model.get("scale"));
      combine.show(model.get("combine"));
      combine.box.hidden = shown.pairs.length < 2;
    },
  };
}

/** Make the tick boxes of the overlay. Returns `{box, show}`. @param {View} view */
function makeTicks(view) {
  const { model, w } = view;
  const all = w.heads <= TICKS; // in a layer of many heads there is one box, for the chosen head
  const box = node("fieldset");
  const clear = pushButton("Clear", () => {
    put(model, "overlay", []);
    box.querySelector("input")?.focus();
  });
  let boxes = [], filledFor = "";
  function fill(layer, heads) {
    boxes = heads.map((head) => {
      const tick = tickBox(all ? String(head) : headName(w, layer, head), () => toggleOverlay(view, layer, head));
      tick.input.setAttribute("aria-label", `Overlay ${headName(w, layer, head)}`);
      return { head, tick };
    });
    const legend = w.layers > 1 ? `Overlay heads of layer ${layer}` : "Overlay heads";
    box.replaceChildren(node("legend", {}, legend), ...boxes.map(({ tick }) => tick.box), clear);
  }
  return {
    box,
    show() {
      const layer = model.get("layer");
      const heads = all ? Array.from({ length: w.heads }, (_, i) => i) : [model.get("head")];
      if (filledFor !== `${layer}:${heads}`) fill(layer, heads);
      filledFor = `${layer}:${heads}`;
      boxes.forEach(({ head, tick }) => tick.show(isIn(model.get("overlay"), layer, head)));
      clear.disabled = model.get("overlay").length === 0;
    },
  };
}
