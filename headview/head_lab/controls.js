// The controls of HeadLab. Each one sets a trait; what is computed and drawn follows the traits. In sight are the
// number of heads, the words, and what the trait `show` names; the rest folds behind "More".

import { bindKeys, bytesOf, choice, focusable, foldButton, node, pushButton, put, slider, tickBox } from "../core.js";
import { labCode } from "./code.js";
import { labAllowed } from "./numbers.js";
/** @import { LabView } from "./view.js" */

const SCALES = [["head_dim", "÷ √head_dim"], ["none", "none"], ["d_model", "÷ √d_model"]];
const MASKS = [["none", "none"], ["causal", "causal"], ["padding", "padding"], ["own", "own cells"]];
const PAUSE_MS = 700; // without a change; then a screen reader is told what came of the last one

/** The own mask as it stands, or everything allowed. @param {LabView} view */
export function ownCells({ model, queries, keys }) {
  return labAllowed("own", queries, keys, keys, bytesOf(model, "own_bytes", Uint8Array));
}

export function putOwn(model, cells) {
  put(model, "own_bytes", new DataView(cells.buffer));
}

/** Make the knobs, by name. `change(trait, value)` is what they do. @param {LabView} view */
function makeKnobs(view, change) {
  const { model } = view;
  const choices = model.get("head_choices"), features = view.features;
  const split = (at) => `${choices[at]} × ${features / choices[at]} features`;
  const power = (value) => Number((10 ** value).toPrecision(3));
  const heads = slider("Heads", { min: 0, max: choices.length - 1, step: 1 }, split, (at) => {
    if (model.get("head") >= choices[at]) model.set("head", choices[at] - 1);
    change("num_heads", choices[at]);
  });
  const mask = choice("Mask", MASKS.filter(([kind]) => kind !== "causal" || view.queries <= view.keys), (kind) => {
    // A fresh own mask starts from what is seen.
    if (kind === "own" && ownCells(view).every(Boolean)) putOwn(model, view.state.allowed.slice());
    change("mask", kind);
  });
  const warm = (value) => change("temperature", power(value));
  const length = slider("Valid keys", { min: 0, max: 1, step: 1 }, (n) => `${n} of ${view.keys}`,
    (n) => change("valid_len", n));
  const clear = pushButton("Allow all cells", () => {
    putOwn(model, new Uint8Array(view.queries * view.keys).fill(1));
    view.say("All cells are allowed.");
  });
  return {
    heads, mask, length, clear,
    scale: choice("Scale", SCALES, (value) => change("scale", value)),
    temperature: slider("Temperature", { min: -1, max: 1, step: 0.02 }, (value) => String(power(value)), warm),
  };
}

const MOST_WORDS = 128; // as in inputs.py
const wordsOf = (text) => text.split(/\s+/).filter(Boolean);

/** The field for the reader's own words, which the kernel turns into numbers. @param {LabView} view */
function makeWords(view) {
  const { model } = view;
  const input = focusable(node("input", { type: "text", autocomplete: "off", spellcheck: "false" }), null);
  const take = () => {
    const count = wordsOf(input.value).length;
    if (count >= 1 && count <= MOST_WORDS) put(model, "sentence", input.value);
    else complain(`Type 1 to ${MOST_WORDS} words${count ? `; these are ${count}` : ""}.`);
  };
  input.addEventListener("change", take);
  bindKeys(input, { Enter: take });
  const box = node("label", { class: "sentence" }, "Your words", input);
  box.hidden = !model.get("sentence") || Boolean(model.isStatic); // other words have no numbers without a kernel
  const note = node("p", { class: "note problem", role: "alert" });
  const complain = (text) => {
    note.textContent = text;
    note.hidden = false;
  };
  let shown = "";
  return {
    box, note,
    show() {
      const sentence = model.get("sentence"), heard = wordsOf(sentence).join(" ");
      if (shown !== sentence) input.value = shown = sentence;
      const waiting = sentence && heard !== view.rows.join(" ");
      note.textContent = model.get("problem") || (waiting ? "The kernel turns these words into numbers…" : "");
      note.hidden = !note.textContent;
    },
  };
}

/**
 * Make the words, the bar, what folds, and the code for what is shown. Returns `{elements, show, stop}`.
 * @param {LabView} view @param {() => string} told what to say after a change
 */
export function makeControls(view, told) {
  const { model, say } = view;
  let telling = 0;
  const { heads, scale, temperature, mask, length, clear } = makeKnobs(view, (trait, value) => {
    put(model, trait, value);
    clearTimeout(telling);
    telling = setTimeout(() => say(told()), PAUSE_MS);
  });
  const words = makeWords(view);
  const code = focusable(node("pre", { hidden: true, role: "region", "aria-label": "The code for what is shown" }));
  const opens = (label, part) => foldButton(label, label, part, () => show(view.state)).button;
  const tick = (label, name) => tickBox(label, (on) => {
    const others = model.get("show").filter((other) => other !== name);
    put(model, "show", on ? [...others, name] : others);
  });
  const [entropy, output] = [tick("Entropy", "entropy"), tick("Output", "output")];
  output.box.hidden = !view.v.length;
  const bar = node("div", { class: "controls" }), fold = node("div", { class: "controls fold", hidden: true });
  const more = opens("More", fold);
  const movable = { scale: [scale.box], temperature: [temperature.box], mask: [mask.box, length.box, clear] };
  const parts = { ...movable, code: [opens("Code", code)] };
  heads.box.classList.add("heads");
  temperature.box.classList.add("temperature");
  let placed = null;
  /** Put what is in sight into the bar and the rest into the fold; what has the focus keeps it where it stays. */
  const place = () => {
    const inSight = Object.keys(parts).filter((name) => model.get("show").includes(name));
    if (placed === inSight.join()) return;
    placed = inSight.join();
    const rest = Object.keys(parts).filter((name) => !inSight.includes(name));
    bar.replaceChildren(heads.box, ...inSight.flatMap((name) => parts[name]), more);
    fold.replaceChildren(...rest.flatMap((name) => parts[name]), entropy.box, output.box);
  };
  /** @param {LabView["state"]} state */
  function show(state) {
    place();
    words.show();
    heads.show(model.get("head_choices").indexOf(state.heads));
    scale.show(state.scale);
    temperature.show(Math.log10(state.temperature));
    mask.show(state.mask);
    length.input.max = state.keys;
    length.show(state.validLen);
    length.box.hidden = state.mask !== "padding";
    clear.hidden = state.mask !== "own";
    entropy.show(view.shown.entropy);
    output.show(view.shown.output);
    if (!code.hidden) code.textContent = labCode(state, model.get("code_inputs"));
  }
  return { above: [words.box, words.note, bar, fold], code, show, stop: () => clearTimeout(telling) };
}
