// HeadLab in the browser: knobs on one side, the maps of all heads on the other, computed here while a knob moves.
// One canvas holds an overview of all heads and the head in focus; a step computes and draws within a frame.

import {
  bindKeys, bytesOf, focusable, freshId, listen, node, oncePerFrame, onNewRoom, pushButton, put, roomIn, setUp,
  tellUnderPointer, themeColours, tooltip,
} from "../core.js";
import { LABEL_FONT, savePng, shorten, widestOf } from "../core_draw.js";
import { makeCode, makeControls, makeTable, ownCells, putOwn } from "./controls.js";
import { drawCanvas, LONGEST_LABEL, makeImages, paintNumbers } from "./draw.js";
import { cellAt, layout, WIDEST } from "./layout.js";
import { labAllowed, labAttend, labFactor, labHeadNumbers, labScores } from "./numbers.js";
/** @import { LabResult, LabState } from "./numbers.js" */

const COMPUTED = ["num_heads", "scale", "temperature", "mask", "valid_len", "own_bytes", "head"];
const OUTSIDE = 680; // the width that is drawn for before a notebook has put the view in its place
const KEYS_TOLD =
  "Arrow keys move over the cells, Page Up and Page Down change the head, " +
  "Space blocks or allows a cell of the own mask.";

/**
 * @typedef {object} LabView what the functions of HeadLab share, beside the traits
 * @property {object} model @property {HTMLElement} root @property {(text: string) => void} say
 * @property {HTMLCanvasElement} canvas
 * @property {Float32Array} q @property {Float32Array} k @property {Float32Array} v (T, d_model); v may be empty
 * @property {number} queries @property {number} keys @property {number} features
 * @property {string[]} rows @property {string[]} columns labels
 * @property {{rows: string[], columns: string[]}} names the same, short
 * @property {LabState} state @property {LabResult} result @property {Float64Array} scores of the present step
 * @property {object} plan from `layout` @property {{row: number, column: number}} cursor @property {object} colours
 * @property {object} images from `makeImages` @property {{wide: number, high: number}} labels the room of the longest
 * @property {number} columnsWide the widest short label of a column
 * @property {object} controls @property {object} code @property {object} table each with `show`
 * @property {{result: LabResult, dark: boolean}} [painted] what the images hold
 * @property {HTMLElement} readout @property {HTMLElement} summary @property {HTMLElement} caption
 */

// ---------------------------------------------------------------- a step

/** Read the traits. @param {LabView} view @returns {LabState} */
function readState({ model, queries, keys, features }) {
  const heads = model.get("num_heads"), mask = model.get("mask"), validLen = model.get("valid_len");
  return {
    queries,
    keys,
    features,
    heads,
    headDim: features / heads,
    scale: model.get("scale"),
    temperature: model.get("temperature"),
    mask,
    validLen,
    head: Math.min(model.get("head"), heads - 1),
    allowed: labAllowed(mask, queries, keys, validLen, bytesOf(model, "own_bytes", Uint8Array)),
  };
}

/** Compute and draw what the traits say. @param {LabView} view */
function step(view) {
  const before = view.state?.heads;
  view.state = readState(view);
  if (before !== view.state.heads) view.scores = labScores(view.q, view.k, view.state); // all else keeps them
  view.result = labAttend(view.scores, view.v, view.state);
  arrange(view);
  draw(view);
  view.controls.show(view.state);
  view.summary.textContent = summaryText(view.state, view.result);
  view.caption.textContent = captionText(view.state);
  view.code.show();
  view.table.show();
}

/** @param {LabView} view */
function arrange(view) {
  const width = Math.min(roomIn(view.root) || OUTSIDE, WIDEST);
  view.plan = layout(view.state, width, Boolean(view.result.output), view.labels);
}

/** @param {LabView} view */
function draw(view) {
  view.colours = themeColours(view.root);
  const { dark } = view.colours;
  if (view.painted?.result !== view.result || view.painted.dark !== dark) paintNumbers(view);
  view.painted = { result: view.result, dark };
  view.cursor = cursorOf(view);
  drawCanvas(view);
  view.readout.textContent = cellText(view, view.state.head, view.cursor.row, view.cursor.column);
}

// ---------------------------------------------------------------- the cursor, and words

/** The last column of the cursor: behind the keys stand output features, if there are values. @param {LabView} view */
function lastColumn({ model, v, keys, features, state }) {
  return keys - 1 + (v.length ? Math.min(state.headDim, features / model.get("num_heads")) : 0);
}

/**
 * Where the cursor is; two views of one lab share it. A feature of the output may be gone with a new number of heads.
 * @param {LabView} view
 */
function cursorOf(view) {
  const [row, column] = view.model.get("cursor");
  return { row, column: Math.min(column, lastColumn(view)) };
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

/** Say the head in focus in one line. */
function summaryText(state, result) {
  const { bits, most, off, empty, norm } = labHeadNumbers(state, result, state.head);
  const sums = off < 1e-5 ? "rows sum to 1" : `row sums are off by ${off.toPrecision(2)}`;
  const nothing = `${empty} with nothing to attend to: zeros`;
  const rows = empty === state.queries ? nothing : empty ? `${sums}, but ${nothing}` : sums;
  return [
    `Head ${state.head}: entropy ${bits.toFixed(2)} of at most ${most.toFixed(2)} bits, ` +
      `the mean of ${state.queries} queries`,
    `scores × ${Number(labFactor(state).toPrecision(3))}`,
    rows,
    ...(result.output ? [`mean length of its output ${norm.toPrecision(3)}`] : []),
  ].join(" · ");
}

/** Say what the marks of the picture mean. */
function captionText({ heads, mask }) {
  const maps = heads > 1 ? "Above each map: head · entropy in bits. " : "";
  const marks = mask === "none" ? "" : " Crossed or hatched: masked.";
  return `${maps}Bars: entropy as a share of the most possible.${marks}`;
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

/** What lies under the pointer, as `cellAt` says; a narrow page may have shrunk the canvas. @param {LabView} view */
function underPointer({ canvas, plan, state }, event) {
  const box = canvas.getBoundingClientRect();
  const x = (event.clientX - box.left) * (plan.width / box.width);
  return cellAt(plan, state, x, (event.clientY - box.top) * (plan.high / box.height));
}

/** @param {LabView} view */
function bindPointer(view) {
  const { model, canvas, keys } = view;
  let painting = null; // what a drag over the own mask writes
  canvas.addEventListener("pointerdown", (event) => {
    const at = underPointer(view, event);
    if (!at) return;
    put(model, "cursor", [at.row, at.column]);
    if (at.head !== view.state.head) put(model, "head", at.head);
    if (!at.large || view.state.mask !== "own" || at.column >= keys) return;
    painting = 1 - view.state.allowed[at.row * keys + at.column];
    canvas.setPointerCapture(event.pointerId);
    allow(view, at.row, at.column, painting);
  });
  canvas.addEventListener("pointermove", (event) => {
    const at = painting !== null && underPointer(view, event);
    if (at && at.large && at.column < keys) allow(view, at.row, at.column, painting);
  });
  for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => (painting = null));
  tellUnderPointer(canvas, tooltip(view.root), (event) => {
    const at = underPointer(view, event);
    return at && cellText(view, at.head, at.row, at.column);
  });
}

/** @param {LabView} view */
function bindKeyboard(view) {
  const { model, canvas, queries, keys, say } = view;
  const move = (rows, columns) => () => {
    const { row, column } = cursorOf(view);
    const within = (place, last) => Math.max(0, Math.min(last, place));
    put(model, "cursor", [within(row + rows, queries - 1), within(column + columns, lastColumn(view))]);
    const { row: to, column: at } = cursorOf(view);
    say(cellText(view, view.state.head, to, at));
  };
  const turn = (by) => () => {
    const { row, column } = cursorOf(view);
    const head = Math.max(0, Math.min(model.get("num_heads") - 1, model.get("head") + by));
    put(model, "head", head);
    say(cellText(view, head, row, column));
  };
  const flip = () => {
    const { row, column } = cursorOf(view);
    if (model.get("mask") !== "own") say("Choose own cells as the mask to block or allow single cells.");
    else if (column < keys) allow(view, row, column, 1 - ownCells(view)[row * keys + column]);
  };
  bindKeys(canvas, {
    ArrowUp: move(-1, 0),
    ArrowDown: move(1, 0),
    ArrowLeft: move(0, -1),
    ArrowRight: move(0, 1),
    Home: move(0, -Infinity),
    End: move(0, Infinity),
    PageUp: turn(-1),
    PageDown: turn(1),
    " ": flip,
    Enter: flip,
  });
}

// ---------------------------------------------------------------- life

/** Read what stays while the view lives. */
function readInputs(model) {
  const [q, k, v] = ["q_bytes", "k_bytes", "v_bytes"].map((name) => bytesOf(model, name, Float32Array));
  const [queries, keys, features] = ["num_queries", "num_keys", "d_model"].map((name) => model.get(name));
  const visible = (text) => (text.trim() ? text : `"${text}"`);
  const labels = (name, count) =>
    model.get(name).length ? model.get(name).map(visible) : Array.from({ length: count }, (_, i) => String(i));
  const rows = labels("tokens", queries), columns = labels("key_tokens", keys);
  const [shortRows, shortColumns] = [rows, columns].map((texts) => texts.map((text) => shorten(text, 12)));
  return { q, k, v, queries, keys, features, rows, columns, names: { rows: shortRows, columns: shortColumns } };
}

/** Return the room that the longest labels need. */
function roomOfLabels(canvas, { rows, columns }) {
  const context = canvas.getContext("2d");
  context.font = LABEL_FONT;
  const room = (texts) => Math.min(LONGEST_LABEL, Math.ceil(widestOf(context, texts)));
  return { labels: { wide: room(rows) + 24, high: room(columns) + 12 }, columnsWide: room(columns) };
}

/** Make what stands around the canvas, put all of it into the page, and into `view`. @param {LabView} view */
function makePage(view) {
  const [readout, summary, caption] = ["note readout", "note", "note"].map((name) => node("p", { class: name }));
  const hint = node("p", { class: "hidden", id: freshId("keys") }, KEYS_TOLD);
  const told = { role: "application", "aria-label": "Maps of all heads", "aria-describedby": hint.id };
  const canvas = focusable(node("canvas", told));
  const controls = makeControls(view, () => summary.textContent);
  const code = makeCode(view), table = makeTable(view);
  const save = pushButton("Save as PNG", () => savePng(canvas, "heads.png"));
  const buttons = node("div", { class: "controls" }, code.button, save);
  view.root.append(controls.box, canvas, readout, summary, caption, hint, buttons, code.box, table.box);
  Object.assign(view, { canvas, controls, code, table, readout, summary, caption });
}

function render({ model, el }) {
  const { root, say, onTheme, atEnd, dispose } = setUp(el, "head-lab", "Attention lab");
  /** @type {any} a LabView once all parts are in */
  const view = { model, root, say, ...readInputs(model), images: makeImages() };
  makePage(view);
  Object.assign(view, roomOfLabels(view.canvas, view.names));
  bindPointer(view);
  bindKeyboard(view);
  const redraw = oncePerFrame(() => draw(view));
  atEnd(view.controls.stop);
  atEnd(listen(model, COMPUTED, oncePerFrame(() => step(view))));
  atEnd(listen(model, ["cursor"], redraw));
  atEnd(onNewRoom(root, oncePerFrame(() => {
    arrange(view);
    draw(view);
  })));
  onTheme(redraw);
  step(view);
  return dispose;
}

export default { render };
