// The controls of HeadView. Each sets a trait; what is drawn follows the traits. In sight are how a head is shown, on
// which scale, and what a reader must choose among: parts, samples, sides; the rest stands behind "More", each control
// only where it can do something.

import { choice, foldButton, freshId, node, pushButton, put, slider, tickBox } from "../core.js";
import { COLOUR_MAPS, offerFile } from "../core_draw.js";
import { addOrRemove, showHeads } from "./choose_heads.js";
import { percent } from "./draw.js";
import { wholePicture } from "./export.js";
import { makeFind } from "./find.js";
import { makeHide } from "./hidden_tokens.js";
import { isOpen, lacks, shownHeads } from "./selection.js";
import { isZoomed, setWindow, zoom, ZOOM_STEP } from "./window.js";

export const DRAWN = [ // traits that the picture follows
  "part", "sample", "layer", "head", "query", "key", "rows", "least", "mode", "scale", "combine", "overlay", "side",
  "window", "values", "words", "hidden", "renormalise", "colours", "order", "heads", "direction", "neurons", "strength",
  "reasons",
];
const SCALE_NAMES = { fixed: "0 to 1", maximum: "up to the largest", log: "logarithmic", root: "square root" };
const KINDS = { svg: "image/svg+xml", pdf: "application/pdf", html: "text/html" };

/**
 * Controls by the traits they set: a label, choices `[value, text]` or none for a tick box, when it is `seen`, how it
 * is `set` where that takes more than the trait, and which of its options are `left` out, or greyed with what they
 * `need`.
 * @param {View} view @returns {Record<string, object>}
 */
function controlsOf(view) {
  const { model } = view, parts = model.get("parts"), sides = model.get("sides");
  const { samples, passes } = parts.reduce((one, part) => (part.samples > one.samples ? part : one));
  const each = samples / passes, ofPass = (i) => (each > 1 ? `${Math.floor(i / each)}, sample ${i % each}` : String(i));
  const measures = model.get("measures").map((name) => [name, `by ${name}`]);
  return {
    mode: { label: "Show as", choices: [["map", "heat map"], ["lines", "lines"], ["across", "lines across"],
      ["text", "text"]] },
    scale: { label: "Scale", choices: [["auto", "auto"], ...Object.entries(SCALE_NAMES)],
      left: (value) => value === "fixed" && isOpen(view.w, model.get("values")) },
    part: { label: "Part", choices: parts.map(({ name }, i) => [i, name]), of: Number, seen: () => parts.length > 1 },
    sample: { label: passes > 1 ? "Pass" : "Sample", of: Number, seen: () => samples > 1,
      choices: Array.from({ length: samples }, (_, i) => [i, passes > 1 ? ofPass(i) : String(i)]) },
    side: { label: "Compare", choices: [["both", "beside each other"], ["a", sides[0]], ["b", sides[1]],
      ["difference", "difference"]], seen: () => sides.length > 1 },
    heads: { label: "Heads", choices: [["chosen", "chosen"], ["layer", "all of the layer"], ["all", "all"]],
      set: (which) => showHeads(view, which), seen: () => view.w.several,
      left: (value) => value === "layer" && (view.w.layers < 2 || view.w.heads < 2) },
    combine: { label: "together as", choices: [["maximum", "maximum"], ["mean", "mean"]],
      seen: () => shownHeads(model).length > 1 },
    order: { label: "Order heads", choices: [["model", "as in the model"], ...measures, ["likeness", "by likeness"],
      ["cell", "by the chosen cell"]],
      seen: () => view.w.several, left: (value) => value === "entropy" && view.w.signed },
    values: { label: "Numbers", choices: [["weights", "weights"], ["values", "weights × values"],
      ["rollout", "rollout"]], seen: () => view.w.meta.has_values || view.w.queries === view.w.keys,
      needs: { values: "capture(qkv=True)" },
      left: (value) => lacks(view.w, value) || (value === "rollout" && view.w.layers < 2) },
    colours: { label: "Colours", choices: COLOUR_MAPS.map((name) => [name, name]) },
    words: { label: "Words for subwords", seen: () => view.w.words.some((axis) => axis.length) },
    neurons: { label: "Query and keys by feature", seen: () => view.w.meta.has_neurons },
    reasons: { label: "Why it looks there", seen: () => view.w.meta.why === view.w.sample },
    renormalise: { label: "rows sum to 1 again",
      seen: () => model.get("hidden").length > 0 && view.w.kind === "weights" },
  };
}

/** Make the element of one control, and what brings it to its trait. @param {View} view */
function makeControl({ model }, trait, { label, choices, of, set, seen, left, needs = {} }) {
  const change = set || ((value) => put(model, trait, of ? of(value) : value));
  const made = choices ? choice(label, choices, change) : tickBox(label, change);
  return {
    box: made.box,
    show() {
      made.show(choices ? String(model.get(trait)) : model.get(trait));
      made.box.hidden = Boolean(seen) && !seen();
      if (!left) return;
      for (const [i, option] of [...made.input.options].entries()) {
        const need = needs[option.value];
        option.disabled = left(option.value); // a browser may let a hidden one be chosen
        option.hidden = option.disabled && !need;
        option.text = choices[i][1] + (option.disabled && need ? ` (needs ${need})` : "");
      }
    },
  };
}

/**
 * Make the bar, what folds below it and the keys behind "?". Returns `{box, fold, find, show}`; `show()` sets all to
 * the traits. @param {View} view @param {HTMLElement} help
 */
export function makeControls(view, help) {
  const { model } = view;
  const made = Object.fromEntries(Object.entries(controlsOf(view)).map(([trait, control]) => (
    [trait, makeControl(view, trait, control)])));
  const boxes = (...names) => names.map((name) => made[name].box);
  const least = slider("Lines from", { min: 0, max: 1, step: 0.02 }, percent, (value) => put(model, "least", value));
  const looks = [["−", "Zoom out", () => zoom(view, 1 / ZOOM_STEP)], ["+", "Zoom in", () => zoom(view, ZOOM_STEP)],
    ["All", "Show all", () => setWindow(view, [])]].map(([sign, name, call]) => {
    const button = pushButton(sign, call);
    button.setAttribute("aria-label", name);
    return button;
  });
  const zooms = node("span", { class: "zoom", role: "group", "aria-label": "Zoom" }, "Zoom ", ...looks);
  const add = pushButton("Add this head", () => addOrRemove(view, model.get("layer"), model.get("head")));
  const clear = pushButton("Only this head", () => put(model, "overlay", []));
  const files = Object.keys(KINDS).map((kind) => pushButton(kind.toUpperCase(), () => saveByKernel(view, kind)));
  files.forEach((file) => (file.hidden = Boolean(model.isStatic))); // these are made by the kernel
  const png = pushButton("PNG", async () => (
    (await wholePicture(view)).toBlob((blob) => offerFile(blob, "attention.png"))));
  const save = node("span", { role: "group", "aria-label": "Save as" }, "Save as ", png, ...files);
  const find = makeFind(view), hiding = makeHide(view);
  const fold = node("div", { class: "controls fold", hidden: true }, ...boxes("heads", "combine"), add, clear,
    ...boxes("order", "values", "colours", "words", "neurons", "reasons"), find.box, hiding.box,
    ...boxes("renormalise"), zooms, save);
  help.hidden = true;
  const more = foldButton("More", "More", fold, view.redraw), keys = foldButton("?", "Keys", help, view.redraw);
  const inSight = boxes("mode", "scale", "part", "sample", "side");
  return {
    box: node("div", { class: "controls" }, ...inSight, least.box, more.button, keys.button),
    fold,
    find() {
      if (fold.hidden) more.open(true);
      find.open();
    },
    show() {
      [...Object.values(made), find, hiding].forEach((control) => control.show());
      least.box.hidden = !/lines|across/.test(model.get("mode"));
      least.show(model.get("least"));
      clear.hidden = !model.get("overlay").length;
      add.hidden = !view.w.several || model.get("heads") !== "chosen";
      zooms.hidden = Math.max(view.size.queries, view.size.keys) <= 64 && !isZoomed(view);
      looks[2].disabled = !isZoomed(view);
    },
  };
}

/** Ask the kernel for a file of what is on screen, and offer it. @param {View} view */
function saveByKernel(view, kind) {
  const key = `save ${kind} ${freshId("file")}`;
  view.say("The file is being made");
  const wait = () => {
    if (view.blocks.stopped()) return undefined; // the view was closed
    if (view.blocks.error(key)) return view.say(`No file: ${view.blocks.error(key)}`);
    const block = view.blocks.get(key);
    if (!block) return view.blocks.ask(), setTimeout(wait, 50);
    offerFile(new Blob([block.bytes], { type: KINDS[kind] }), `attention.${kind}`);
    return undefined;
  };
  wait();
}
