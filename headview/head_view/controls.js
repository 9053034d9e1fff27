// The controls of HeadView above the picture. Each one sets a trait; what is drawn follows the traits. The bar holds
// what a person does first; the rest folds.

const DRAWN = [ // traits that the picture follows
  "part", "sample", "layer", "head", "query", "mode", "scale", "combine", "overlay", "side", "window", "values",
  "words", "hidden", "renormalise", "colours", "order", "heads", "direction", "neurons", "strength",
];
const TICKS = 16; // heads of a layer that get a tick box each
const MOST_TOGETHER = 32; // heads in the overlay, as in Python

/** Add a head to the overlay or take it out. @param {View} view */
function toggleOverlay(view, layer, head) {
  const { model, w, say } = view;
  const overlay = model.get("overlay");
  showHeads(view, "chosen");
  const others = overlay.filter(([i, j]) => i !== layer || j !== head);
  const on = others.length === overlay.length;
  if (on && others.length >= MOST_TOGETHER) return say(`At most ${MOST_TOGETHER} heads can be shown together.`);
  put(model, "overlay", on ? [...others, [layer, head]] : others);
  say(`${headName(w, layer, head)} ${on ? "added to" : "removed from"} the overlay`);
}

/**
 * Make the row of choices and what folds. Returns `{box, fold, show}`; `show()` sets them to the traits.
 * @param {View} view
 */
function makeChoices(view) {
  const { model } = view, parts = model.get("parts"), sides = model.get("sides");
  const offer = (label, trait, choices, of = (value) => value) => {
    const made = choice(label, choices, (value) => put(model, trait, of(value)));
    return { ...made, follow: () => made.show(String(model.get(trait))) };
  };
  const mode = offer("Show as", "mode", Object.entries(MODES).map(([name, { label }]) => [name, label]));
  const scale = offer("Scale", "scale", [
    ["fixed", "fixed, 0 to 1"], ["maximum", "per-head maximum"], ["log", "logarithmic"], ["root", "square root"],
  ]);
  const combine = offer("Heads together as", "combine", [["maximum", "maximum"], ["mean", "mean"]]);
  const part = offer("Part", "part", parts.map(({ name }, i) => [i, name]), Number);
  const samples = Math.max(...parts.map(({ samples }) => samples));
  const sample = offer("Sample", "sample", Array.from({ length: samples }, (_, i) => [i, String(i)]), Number);
  const ways = [["both", "beside each other"], ["a", sides[0]], ["b", sides[1]], ["difference", "difference"]];
  const side = offer("Compare", "side", ways);
  const looks = [
    pushButton("−", () => zoom(view, 1 / ZOOM_STEP)), pushButton("+", () => zoom(view, ZOOM_STEP)),
    pushButton("All", () => setWindow(view, [], view.size.rows, view.size.columns)),
  ];
  ["Zoom out", "Zoom in", "Show all"].forEach((name, i) => looks[i].setAttribute("aria-label", name));
  const look = node("span", { class: "zoom", role: "group", "aria-label": "Zoom" }, ...looks);
  const save = pushButton("Save PNG", () => savePng(wholePicture(view), "attention.png"));
  const fold = makeFold(view);
  const more = pushButton("More", () => fold.open(fold.box.hidden));
  more.setAttribute("aria-expanded", "false");
  fold.onOpen = (open) => more.setAttribute("aria-expanded", String(open));
  const all = [mode, scale, combine, part, sample, side];
  part.box.hidden = parts.length < 2;
  sample.box.hidden = samples < 2;
  side.box.hidden = sides.length < 2;
  return {
    box: node("div", { class: "controls" }, ...all.map(({ box }) => box), look, save, more),
    fold: fold.box,
    find: fold.find,
    show() {
      all.forEach(({ follow }) => follow());
      combine.box.hidden = shownHeads(model).length < 2;
      const [fixed, maximum] = scale.input.options, open = isOpen(view.w, model.get("values"));
      fixed.textContent = open ? "up to the largest" : "fixed, 0 to 1";
      maximum.hidden = open; // the same
      const { rows, columns } = view.size;
      look.hidden = Math.max(rows, columns) <= 64 && !view.window.length;
      looks[2].disabled = !view.window.length;
      fold.show();
    },
  };
}

/** Make the tick boxes of the overlay. Returns `{box, show}`. @param {View} view */
function makeTicks(view) {
  const { model } = view;
  const box = node("fieldset");
  const clear = pushButton("Clear", () => {
    put(model, "overlay", []);
    box.querySelector("input")?.focus();
  });
  let boxes = [], filledFor = "";
  function fill(layer, heads, all) {
    const { w } = view;
    boxes = heads.map((head) => {
      const tick = tickBox(all ? String(head) : headName(w, layer, head), () => toggleOverlay(view, layer, head));
      tick.input.setAttribute("aria-label", `Overlay ${headName(w, layer, head)}`);
      return { head, tick };
    });
    const legend = w.layers > 1 ? `Overlay heads of ${w.meta.layer_names[layer]}` : "Overlay heads";
    box.replaceChildren(node("legend", {}, legend), ...boxes.map(({ tick }) => tick.box), clear);
  }
  return {
    box,
    show() {
      const { w } = view, all = w.heads <= TICKS; // of more there is one box, for the chosen head
      box.hidden = w.layers * w.heads < 2 || model.get("heads") !== "chosen";
      const layer = model.get("layer");
      const heads = all ? Array.from({ length: w.heads }, (_, i) => i) : [model.get("head")];
      const id = `${w.part}:${layer}:${heads}`;
      if (filledFor !== id) fill(layer, heads, all);
      filledFor = id;
      boxes.forEach(({ head, tick }) => tick.show(isIn(model.get("overlay"), layer, head)));
      clear.disabled = model.get("overlay").length === 0;
    },
  };
}
