// How HeadLab draws: the images behind the maps, and what is laid over them. `view` is that of view.js.

import { node } from "../core.js";
import {
  hatch, hatchColour, LABEL_FONT, lyingScale, placeText, placeTurned, signedPixels, sizeCanvas, SMALL_FONT,
  strokeIn, strokeOnAnything, weightPixels, writeIn,
} from "../core_draw.js";
import { MASKED } from "../head_view/codes.js";
import { cellValues, columnLabels, paintCells, rowLabels } from "../head_view/draw.js";
import { BAND, LEGEND_LINE } from "./layout.js";
import { labBits } from "./numbers.js";
/** @import { LabView } from "./view.js" */

const WEIGHTS = { kind: "fixed", top: 1, signed: false }; // how they become colours
const VALUES_FROM = 34; // pixels of a cell that has room for its number
const LEAST_VALUE = 0.05; // below, the readout says it
export const LONGEST_LABEL = 96;
const BAR_WIDE = 42; // the most possible entropy

// ---------------------------------------------------------------- images, one pixel a number

/** The images of a view: the weights and outputs of all heads, and the features of the queries. */
export function makeImages() {
  const [maps, outputs, features] = [0, 0, 0].map(() => node("canvas"));
  return { maps, outputs, features, largest: 0, hatchings: [{}, {}] };
}

/** Paint numbers row by row, on a scale as HeadView has them. */
function paintRows(image, numbers, columns, scale, dark) {
  paintCells({ cells: numbers, rows: numbers.length / columns, columns }, { scale, look: { dark } }, image);
}

/** The scale of signed numbers up to their largest. */
function signedScale(numbers) {
  const top = numbers.reduce((most, x) => Math.max(most, Math.abs(x)), 1e-12);
  return { kind: "fixed", top, signed: true };
}

/** Turn new numbers into images. @param {LabView} view */
export function paintNumbers({ images, q, state, result, colours: { dark } }) {
  const { keys, features, headDim, allowed } = state;
  const cells = result.weights.map((weight, at) => (allowed[at % allowed.length] ? weight : MASKED));
  paintRows(images.maps, cells, keys, WEIGHTS, dark);
  paintRows(images.features, q, features, signedScale(q), dark);
  if (!result.output) return;
  const scale = signedScale(result.output);
  images.largest = scale.top;
  paintRows(images.outputs, result.output, headDim, scale, dark);
}

// ---------------------------------------------------------------- the canvas

/** Draw all of it; `places`: where each feature is at the moment. @param {LabView} view */
export function drawCanvas(view, places) {
  const { canvas, plan, colours } = view;
  const context = sizeCanvas(canvas, plan.width, plan.high);
  context.fillStyle = colours.paper;
  context.fillRect(0, 0, plan.width, plan.high);
  plan.thumbs.forEach((panel, h) => drawThumb(context, view, panel, h));
  drawFocus(context, view);
  drawFeatures(context, view, places);
  drawLegend(context, view);
}

/** Write in small or normal size at a baseline. */
function write(context, text, x, y, colour, { align = "left", bold = false, small = false, room = undefined } = {}) {
  writeIn(context, `${bold ? "bold " : ""}${small ? SMALL_FONT : LABEL_FONT}`, colour);
  placeText(context, text, x, y, align, "alphabetic", room);
}

/** Lay an image's rows of one head into a frame. */
function drawRows(context, image, { queries }, head, [x, y, wide, high], colours) {
  context.imageSmoothingEnabled = wide < image.width || high < queries; // an average of more numbers than pixels
  context.drawImage(image, 0, head * queries, image.width, queries, x, y, wide, high);
  strokeIn(context, colours.line, 1);
  context.strokeRect(x - 0.5, y - 0.5, wide + 1, high + 1);
}

/** The map of a head, masked cells hatched. */
function drawMap(context, { images, state, colours }, panel, head, large = false) {
  const { x, y, cell, wide, high } = panel;
  drawRows(context, images.maps, state, head, [x, y, wide, high], colours);
  const kept = images.hatchings[large ? 0 : 1];
  if (state.mask !== "none") context.drawImage(hatching(kept, state, cell, colours.dark), x, y, wide, high);
}

/** The strokes on masked cells as an image, which all heads of one size share. */
function hatching(kept, { queries, keys, allowed }, cell, dark) {
  if (kept.allowed === allowed && kept.cell === cell && kept.dark === dark) return kept.canvas;
  Object.assign(kept, { allowed, cell, dark, canvas: node("canvas") });
  const masked = [];
  for (let row = 0, at = 0; row < queries; row++) {
    for (let column = 0; column < keys; column++, at++) {
      const last = masked.at(-1); // cells side by side are one rectangle
      if (allowed[at]) continue;
      if (column && !allowed[at - 1]) last[2] += cell;
      else masked.push([column * cell, row * cell, cell, cell]);
    }
  }
  hatch(sizeCanvas(kept.canvas, keys * cell, queries * cell), masked, hatchColour(dark));
  return kept.canvas;
}

/** Every feature of the queries where it is now: above the map of its head. */
function drawFeatures(context, { images, state, colours }, places) {
  context.imageSmoothingEnabled = state.queries > BAND;
  for (const [f, [x, y, wide]] of places) {
    context.drawImage(images.features, f, 0, 1, state.queries, x, y, Math.max(wide, 0.5), BAND);
    if (f % state.headDim) continue;
    strokeIn(context, colours.line, 1);
    context.strokeRect(x - 0.5, y - 0.5, wide * state.headDim + 1, BAND + 1);
  }
}

/** One head small: its name, its map, a frame if it is in focus. @param {LabView} view */
function drawThumb(context, view, panel, h) {
  const { state, result, colours, shown } = view, { x, y, wide, high } = panel;
  const chosen = h === state.head, roomy = wide > (shown.entropy ? 110 : 44);
  const bits = shown.entropy ? ` · ${labBits(state, result, h).toFixed(2)}${roomy ? " bits" : ""}` : "";
  drawMap(context, view, panel, h);
  write(context, (roomy ? `head ${h}` : h) + bits, x, y - BAND - 9, colours.ink, { bold: chosen, small: true });
  if (!chosen) return;
  strokeIn(context, colours.accent, 3);
  context.strokeRect(x - 2, y - 2, wide + 4, high + 4);
}

/** The head in focus, with numbers, labels, entropy, output and the cursor. @param {LabView} view */
function drawFocus(context, view) {
  const { state, result, images, colours, shown, cursor, plan: { focus, labels, thumbs } } = view;
  const { x, y, cell, high, bars, strip, stripWide } = focus, small = { small: true };
  drawMap(context, view, focus, state.head, true);
  if (cell >= VALUES_FROM) drawValues(context, view);
  drawLabels(context, view, focus);
  if (shown.entropy) {
    const thick = Math.max(1, Math.min(8, cell - 1));
    result.most.forEach((most, i) => {
      const share = most ? result.entropy[state.head * state.queries + i] / most : 0;
      const from = y + (i + 0.5) * cell - thick / 2;
      context.fillStyle = colours.field;
      context.fillRect(bars, from, BAR_WIDE, thick);
      context.fillStyle = colours.accent;
      context.fillRect(bars, from, BAR_WIDE * Math.min(1, share), thick);
    });
    write(context, "entropy", bars, y - 6, colours.soft, small);
  }
  if (stripWide) {
    drawRows(context, images.outputs, state, state.head, [strip, y, stripWide, high], colours);
    write(context, "output", strip, y - 6, colours.soft, small);
  }
  const above = thumbs.length ? 6 : BAND + 9;
  write(context, `head ${state.head}`, x, y - above - 14, colours.ink, { bold: true });
  write(context, "keys →", x, y - above, colours.soft, small);
  placeTurned(context, "queries", x - labels.wide + 10, y + high / 2, "center", "alphabetic");
  const feature = cursor.column - state.keys, step = stripWide / state.headDim;
  const [left, wide] = feature < 0 ? [x + cursor.column * cell, cell] : [strip + feature * step, step];
  strokeOnAnything(context, 4, 2, () => context.strokeRect(left, y + cursor.row * cell, wide, cell));
}

/** Name the rows and columns, as many as can be read. */
function drawLabels(context, { names, colours, cursor }, { x, y, cell, high }) {
  const all = (texts) => ({ label: (i) => texts[i], first: 0, end: texts.length, found: undefined });
  const [down, across] = [y, x].map((start) => (i) => start + (i + 0.5) * cell);
  const place = { step: cell, room: LONGEST_LABEL };
  rowLabels(context, all(names.rows), cursor.row, colours, { ...place, x: x - 5, y: down, align: "right" });
  columnLabels(context, all(names.columns), cursor.column, colours, { ...place, x: across, y: y + high + 5 });
}

/** Write the weights of the head in focus into its cells. */
function drawValues(context, { state, result, colours: { dark }, plan: { focus } }) {
  const { queries, keys, head } = state, size = queries * keys, cell = { wide: focus.cell, high: focus.cell };
  const weights = result.weights.subarray(head * size, (head + 1) * size);
  const large = weights.map((weight) => (weight < LEAST_VALUE ? MASKED : weight));
  const middle = (i) => [focus.x + ((i % keys) + 0.5) * cell.wide, focus.y + (Math.floor(i / keys) + 0.5) * cell.high];
  cellValues(context, large, middle, cell, focus, WEIGHTS, { dark });
}

/** The scale of the weights and, below it, that of the outputs. */
function drawLegend(context, { images, shown, colours: { ink, dark }, plan: { legend } }) {
  lyingScale(context, weightPixels(dark), ["weight 0", "1"], 2, legend + 7, ink);
  const end = images.largest.toPrecision(2), ends = [`output −${end}`, `+${end}`];
  if (shown.output) lyingScale(context, signedPixels(dark), ends, 2, legend + 7 + LEGEND_LINE, ink);
}
