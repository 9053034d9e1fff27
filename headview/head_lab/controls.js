// The controls of HeadLab. Each one sets a trait; what is computed and drawn follows the traits.

import { bytesOf, choice, focusable, node, pushButton, put, slider } from "../core.js";
import { labCode } from "./code.js";
import { labAllowed, labHeadNumbers } from "./numbers.js";
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
  const { model, queries, keys, features } = view;
  const choices = model.get("head_choices");
  const split = (at) => `${choices[at]} × ${features / choices[at]} features`;
  const power = (value) => Number((10 ** value).toPrecision(3));
  const heads = slider("Heads", { min: 0, max: choices.length - 1, step: 1 }, split, (at) => {
    if (model.get("head") >= choices[at]) model.set("head", choices[at] - 1);
    change("num_heads", choices[at]);
  });
  const warm = (value) => change("temperature", power(value));
  const masks = MASKS.filter(([kind]) => kind !== "causal" || queries <= keys);
  const mask = choice("Mask", masks, (kind) => {
    // A fresh own mask starts from what is seen.
    if (kind === "own" && ownCells(view).every(Boolean)) putOwn(model, view.state.allowed.slice());
    change("mask", kind);
  });
  const ofKeys = (n) => `${n} of ${keys}`;
  return {
    heads,
    scale: choice("Scale", SCALES, (value) => change("scale", value)),
    warmth: slider("Temperature", { min: -1, max: 1, step: 0.02 }, (value) => String(power(value)), warm),
    mask,
    length: slider("Valid keys", { min: 0, max: keys, step: 1 }, ofKeys, (n) => change("valid_len", n)),
    focus: slider("Head in focus", { min: 0, max: 0, step: 1 }, String, (head) => change("head", head)),
  };
}

/**
 * Make the controls above the canvas. Returns `{box, show, stop}`; `show(state)` sets them to the state.
 * @param {LabView} view @param {() => string} told what to say after a change
 */
export function makeControls(view, told) {
  const { model, say, queries, keys } = view;
  let telling = 0;
  const { heads, scale, warmth, mask, length, focus } = makeKnobs(view, (trait, value) => {
    put(model, trait, value);
    clearTimeout(telling);
    telling = setTimeout(() => say(told()), PAUSE_MS);
  });
  const clear = pushButton("Allow all cells", () => {
    putOwn(model, new Uint8Array(queries * keys).fill(1));
    say("All cells are allowed.");
  });
  const classes = { heads, temperature: warmth, length, "focus-head": focus };
  for (const [name, knob] of Object.entries(classes)) knob.box.classList.add("knob", name);
  const parts = [heads, scale, warmth, mask, length].map((part) => part.box);
  return {
    box: node("div", { class: "controls" }, ...parts, clear, focus.box),
    show(state) {
      heads.show(model.get("head_choices").indexOf(state.heads));
      scale.show(state.scale);
      warmth.show(Math.log10(state.temperature));
      mask.show(state.mask);
      length.show(state.validLen);
      focus.input.max = state.heads - 1;
      focus.show(state.head);
      length.box.hidden = state.mask !== "padding";
      clear.hidden = state.mask !== "own";
      focus.box.hidden = state.heads === 1;
    },
    stop: () => clearTimeout(telling),
  };
}

/** Make the button and the text of the code for what is shown. Returns `{button, box, show}`. @param {LabView} view */
export function makeCode(view) {
  const box = focusable(node("pre", { hidden: true, role: "region", "aria-label": "The code for what is shown" }));
  const show = () => {
    const { model, state } = view;
    if (!box.hidden) box.textContent = labCode(state, model.get("code_inputs"), model.get("code_note"));
  };
  const button = pushButton("Show the code", () => {
    box.hidden = !box.hidden;
    button.setAttribute("aria-expanded", String(!box.hidden));
    button.textContent = box.hidden ? "Show the code" : "Hide the code";
    show();
  });
  button.setAttribute("aria-expanded", "false");
  return { button, box, show };
}

/** Make the table of all heads, which a narrow page scrolls. Returns `{box, show}`. @param {LabView} view */
export function makeTable(view) {
  const table = node("table");
  const region = { class: "sideways", role: "region", "aria-label": "Numbers of every head" };
  const sideways = focusable(node("div", region, table));
  const box = node("details", {}, focusable(node("summary", {}, "Numbers of every head"), null), sideways);
  const show = () => {
    if (!box.open) return;
    const { state, result } = view;
    const titles = ["head", "entropy in bits", "at most", "row sum off by", "empty rows"];
    if (result.output) titles.push("output length");
    const lines = Array.from({ length: state.heads }, (_, h) => {
      const { bits, most, off, empty, norm } = labHeadNumbers(state, result, h);
      const cells = [bits.toFixed(3), most.toFixed(3), off.toExponential(0), empty];
      if (result.output) cells.push(norm.toPrecision(3));
      return node("tr", {}, node("th", { scope: "row" }, h), ...cells.map((cell) => node("td", {}, cell)));
    });
    table.replaceChildren(node("tr", {}, ...titles.map((title) => node("th", { scope: "col" }, title))), ...lines);
  };
  box.addEventListener("toggle", show);
  return { box, show };
}
