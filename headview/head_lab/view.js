// HeadLab in the browser: knobs above, the maps of all heads below, computed here while a knob moves.
// One canvas holds all heads small and the head in focus; a step computes and draws within a frame.

import {
  bindDrag, bindKeys, bytesOf, focusable, freshId, listen, node, oncePerFrame, put, roomIn, setUp, tellUnderPointer,
  themeColours, tooltip, walkKeys, within,
} from "../core.js";
import { LABEL_FONT, shorten, widestOf } from "../core_draw.js";
import { makeWalk } from "../reshape_view/walk.js";
import { makeControls, ownCells, putOwn } from "./controls.js";
import { drawCanvas, LONGEST_LABEL, makeImages, paintNumbers } from "./draw.js";
import { cellAt, featurePlaces, layout, WIDEST } from "./layout.js";
import { labAllowed, labAttend, labBits, labFactor, labRows, labScores } from "./numbers.js";
/** @import { LabResult } from "./numbers.js" */

const INPUTS = ["q_bytes", "k_bytes", "v_bytes", "sizes", "tokens", "key_tokens"];
const KNOBS = ["num_heads", "scale", "temperature", "mask", "valid_len", "own_bytes", "head", "show"];
const OUTSIDE = 680; // the width that is drawn for before a notebook has put the view in its place
const WALK_MS = 400; // how long features walk to their new heads
const KEYS_TOLD =
  "Arrow keys move over the cells, Page Up and Page Down change the head, " +
  "Space blocks or allows a cell of the own mask.";

/**
 * @typedef {ReturnType<typeof readState>} LabState
 *
 * @typedef {object} LabView what the functions of HeadLab share, beside the traits
 * @property {any} model @property {HTMLElement} root @property {(text: string) => void} say
 * @property {HTMLCanvasElement} canvas
 * @property {Float32Array} q @property {Float32Array} k @property {Float32Array} v (T, d_model); v may be empty
 * @property {number} queries @property {number} keys @property {number} features
 * @property {string[]} rows @property {string[]} columns labels
 * @property {{rows: string[], columns: string[]}} names the same, short
 * @property {LabState} state @property {LabResult} result @property {Float64Array} scores of the present step
 * @property {{entropy: boolean, output: boolean}} shown in the picture
 * @property {any} plan from `layout` @property {{row: number, column: number}} cursor @property {any} colours
 * @property {any} images from `makeImages` @property {{wide: number, high: number}} labels the room of the longest
 * @property {any} controls @property {any} walk the features on their way @property {() => void} redraw
 * @property {HTMLElement} readout @property {HTMLElement} summary
 */

// ---------------------------------------------------------------- a step

/** Read q, k, v and the labels; other words bring other ones. @param {LabView} view */
function readInputs(view) {
  const { model, canvas } = view;
  const [q, k, v] = ["q_bytes", "k_bytes", "v_bytes"].map((name) => bytesOf(model, name, Float32Array));
  const [queries, keys, features] = model.get("sizes");
  const visible = (text) => (text.trim() ? text : `"${text}"`);
  const labels = (name, count) =>
    model.get(name).length ? model.get(name).map(visible) : Array.from({ length: count }, (_, i) => String(i));
  const rows = labels("tokens", queries), columns = labels("key_tokens", keys);
  const [shortRows, shortColumns] = [rows, columns].map((texts) => texts.map((text) => shorten(text, 12)));
  const context = canvas.getContext("2d");
  context.font = LABEL_FONT;
  const [wide, columnsWide] = [shortRows, shortColumns].map((texts) =>
    Math.min(LONGEST_LABEL, Math.ceil(widestOf(context, texts))));
  const names = { rows: shortRows, columns: shortColumns }, labelRoom = { wide: wide + 24, high: columnsWide + 12 };
  Object.assign(view, { q, k, v, queries, keys, features, rows, columns, names, labels: labelRoom });
  view.scores = null;
}

/** Read the traits, once a step. @param {LabView} view */
function readState({ model, queries, keys, features }) {
  /** @type {number} */
  const heads = model.get("num_heads");
  const mask = model.get("mask"), validLen = Math.min(model.get("valid_len"), keys);
  return {
    queries, keys, features, heads, mask, validLen,
    headDim: features / heads,
    scale: model.get("scale"),
    temperature: model.get("temperature"),
    head: within(model.get("head"), heads),
    allowed: labAllowed(mask, queries, keys, validLen, bytesOf(model, "own_bytes", Uint8Array)),
  };
}

/** Compute and draw what the traits say. @param {LabView} view */
function step(view) {
  const { model, walk } = view, before = view.state?.heads;
  const places = before && walk.now(featurePlaces(view.plan, view.state)).places;
  view.state = readState(view);
  const { heads, features } = view.state;
  if (before !== heads || !view.scores) view.scores = labScores(view.q, view.k, view.state); // all else keeps them
  if (before !== heads && places?.size === features) walk.start(places);
  const show = model.get("show");
  view.shown = { entropy: show.includes("entropy"), output: show.includes("output") && view.v.length > 0 };
  view.result = labAttend(view.scores, view.shown.output ? view.v : new Float32Array(0), view.state);
  view.colours = themeColours(view.root);
  paintNumbers(view);
  draw(view);
  view.controls.show(view.state);
  view.summary.textContent = summaryText(view);
}

/** @param {LabView} view */
function draw(view) {
  const { walk, state } = view;
  view.plan = layout(state, Math.min(roomIn(view.root) || OUTSIDE, WIDEST), view.labels, view.shown);
  const row = within(view.cursor.row, state.queries), column = within(view.cursor.column, columnsOf(view));
  view.cursor = { row, column }; // what it stood on may be gone
  const { places, arrived } = walk.now(featurePlaces(view.plan, state));
  drawCanvas(view, places);
  view.readout.textContent = cellText(view, state.head, row, column);
  if (!arrived) view.redraw();
}

// ---------------------------------------------------------------- the cursor, and words

/** The columns of the cursor: behind the keys stand output features, if they are shown. @param {LabView} view */
const columnsOf = ({ shown, keys, state }) => keys + (shown.output ? state.headDim : 0);

/** Put the cursor somewhere, within what is there, and show it. @param {LabView} view */
function setCursor(view, row, column) {
  view.cursor = { row: within(row, view.queries), column: within(column, columnsOf(view)) };
  view.redraw();
}

/** Direction isolates, so that a right-to-left token does not turn the sentence around it. */
const isolated = (text) => `“\u2068${text}\u2069”`;

/** Say a cell of a map, or a feature of an output. @param {LabView} view */
function cellText({ state, result, scores, rows, columns }, head, row, column) {
  const { queries, keys, headDim, allowed } = state;
  const query = `head ${head}, query ${isolated(rows[row])}`;
  if (column >= keys) {
    const value = result.output[(head * queries + row) * headDim + column - keys];
    return `${query}: output feature ${column - keys} is ${value.toFixed(4)}`;
  }
  const cell = `${query}, key ${isolated(columns[column])}`;
  if (!allowed[row * keys + column]) return `${cell}: masked`;
  const at = (head * queries + row) * keys + column;
  return `${cell}: weight ${result.weights[at].toFixed(4)}, q·k\u00a0${scores[at].toPrecision(4)}`;
}

/** Say the head in focus in one line, and what the marks of the picture mean. @param {LabView} view */
function summaryText({ state, result, shown }) {
  const { most, empty } = labRows(state, result);
  const first = state.head * state.headDim, last = first + state.headDim - 1;
  const bits = labBits(state, result, state.head).toFixed(2);
  return [
    `Head ${state.head}: ${last > first ? `features ${first} to ${last}` : `feature ${first}`} of each word`,
    ...(shown.entropy ? [`entropy ${bits} of at most ${most.toFixed(2)} bits, a mean over queries`] : []),
    `scores × ${Number(labFactor(state).toPrecision(3))}`,
    ...(empty < state.queries ? ["each row sums to 1"] : []),
    ...(empty ? [`${empty} with nothing to attend to: zeros`] : []),
    ...(state.mask === "none" ? [] : ["hatched: masked"]),
  ].join(" · ");
}

// ---------------------------------------------------------------- pointer and keyboard

/** Allow or block a cell of the own mask. @param {LabView} view */
function allow(view, row, column, may) {
  const { model, keys, rows, columns, say } = view;
  const own = ownCells(view);
  if (own[row * keys + column] === may) return;
  own[row * keys + column] = may;
  putOwn(model, own);
  say(`query ${isolated(rows[row])}, key ${isolated(columns[column])}: ${may ? "allowed" : "masked"}`);
}

/** @param {LabView} view */
function bindPointer(view) {
  const { model, canvas } = view;
  const under = ({ offsetX, offsetY }) => cellAt(view.plan, view.state, offsetX, offsetY);
  const isOwn = (at) => at?.large && view.state.mask === "own" && at.column < view.keys;
  let painting = null; // what a drag over the own mask writes
  bindDrag(canvas, (event) => {
    const at = under(event);
    if (painting !== null && isOwn(at)) allow(view, at.row, at.column, painting);
  }, (event) => {
    const at = under(event);
    painting = isOwn(at) ? 1 - view.state.allowed[at.row * view.keys + at.column] : null;
    if (!at) return;
    setCursor(view, at.row, at.column);
    if (at.head !== view.state.head) put(model, "head", at.head);
    if (painting !== null) allow(view, at.row, at.column, painting);
  });
  tellUnderPointer(canvas, tooltip(view.root), (event) => {
    const at = under(event);
    return at && cellText(view, at.head, at.row, at.column);
  });
}

/** @param {LabView} view */
function bindKeyboard(view) {
  const { model, canvas, say } = view;
  const tell = (head) => say(cellText(view, head, view.cursor.row, view.cursor.column));
  const turn = (by) => () => {
    const head = within(model.get("head") + by, model.get("num_heads"));
    put(model, "head", head);
    tell(head);
  };
  const flip = () => {
    const { keys, cursor: { row, column } } = view;
    if (model.get("mask") !== "own") say("Choose own cells as the mask, under More, to block or allow single cells.");
    else if (column < keys) allow(view, row, column, 1 - ownCells(view)[row * keys + column]);
  };
  bindKeys(canvas, {
    ...walkKeys((down, right) => {
      setCursor(view, view.cursor.row + down, view.cursor.column + right);
      tell(view.state.head);
    }),
    PageUp: turn(-1),
    PageDown: turn(1),
    " ": flip,
    Enter: flip,
  });
}

// ---------------------------------------------------------------- life

function render({ model, el }) {
  const { root, say, drawOn, atEnd, dispose } = setUp(el, "head-lab", "Attention lab");
  const [readout, summary] = ["note readout", "note"].map((name) => node("p", { class: name }));
  const hint = node("p", { class: "hidden", id: freshId("keys") }, KEYS_TOLD);
  const told = { role: "application", "aria-label": "Maps of all heads", "aria-describedby": hint.id };
  const canvas = focusable(node("canvas", told));
  /** @type {any} a LabView once all parts are in */
  const view = { model, root, say, canvas, readout, summary, images: makeImages(), walk: makeWalk(WALK_MS) };
  view.cursor = { row: 0, column: 0 };
  readInputs(view);
  view.controls = makeControls(view, () => summary.textContent);
  root.append(...view.controls.above, canvas, readout, summary, hint, view.controls.code);
  bindPointer(view);
  bindKeyboard(view);
  view.redraw = oncePerFrame(() => draw(view));
  atEnd(view.controls.stop);
  atEnd(listen(model, INPUTS, () => readInputs(view)));
  drawOn(model, [...INPUTS, ...KNOBS, "sentence", "problem"], () => step(view));
  return dispose;
}

export { labAllowed, labAttend, labScores }; // for who wants the numbers without the page
export default { render };
