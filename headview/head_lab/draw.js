// How HeadLab draws: the images behind the maps, and what is laid over them. `view` is that of view.js.

import { node } from "../core.js";
import {
  cssColour, hatch, hatchColour, LABEL_FONT, maskedPixel, paintPixels, placeText, placeTurned, sharpness,
  signedPixels, sizeCanvas, SMALL_FONT, strokeOnAnything, thinned, weightColour, weightPixels,
} from "../core_draw.js";
import { LEGEND } from "./layout.js";
import { labHeadNumbers } from "./numbers.js";
/** @import { LabView } from "./view.js" */

const VALUES_FROM = 34; // pixels of a cell that has room for its number
const LABEL_STEP = 13; // pixels between labels that can be read
export const LONGEST_LABEL = 96;
const BAR_WIDE = 40; // the most possible entropy
const SCALE_STEPS = 90; // colours in the legend

// ---------------------------------------------------------------- images, one pixel a cell

/** The images of a view: weights and outputs of all heads, and what marks masked cells large and small. */
export function makeImages() {
  const [maps, strips, strokes, smallStrokes] = [0, 0, 0, 0].map(() => node("canvas"));
  return { maps, strips, strokes, smallStrokes, largest: 0, markedFor: "" };
}

/** Turn new numbers into images. @param {LabView} view */
export function paintNumbers({ images, state, result, colours: { dark } }) {
  const table = weightPixels(dark), masked = maskedPixel(dark);
  const { queries, keys, heads, headDim, allowed } = state;
  paintPixels(images.maps, keys, heads * queries, (pixels) => {
    for (let h = 0, at = 0; h < heads; h++) {
      for (let cell = 0; cell < allowed.length; cell++, at++) {
        pixels[at] = allowed[cell] ? table[Math.round(result.weights[at] * 255)] : masked;
      }
    }
  });
  if (!result.output) return;
  images.largest = 1e-12;
  for (const x of result.output) images.largest = Math.max(images.largest, Math.abs(x));
  paintPixels(images.strips, headDim, heads * queries, (pixels) => {
    const scale = 127.5 / images.largest, signed = signedPixels(dark);
    for (let at = 0; at < pixels.length; at++) {
      pixels[at] = signed[Math.round(127.5 + result.output[at] * scale)];
    }
  });
}

/** Strokes are the same for all heads; they change with the mask and with the size of a cell. @param {LabView} view */
function paintMarks({ images, state, plan, colours }) {
  if (state.mask === "none") return;
  const ratio = sharpness();
  const own = state.mask === "own" ? state.allowed.join("") : state.validLen;
  const wanted = [plan.focus.cell, plan.thumbs[0]?.cell, ratio, state.mask, own, colours.dark].join();
  if (images.markedFor === wanted) return;
  images.markedFor = wanted;
  paintStrokes(images.strokes, state, plan.focus.cell, ratio, colours.dark);
  if (plan.thumbs.length) paintStrokes(images.smallStrokes, state, plan.thumbs[0].cell, ratio, colours.dark);
}

/** Hatch the cells that are masked. */
function paintStrokes(image, { queries, keys, allowed }, cell, ratio, dark) {
  Object.assign(image, { width: Math.ceil(keys * cell * ratio), height: Math.ceil(queries * cell * ratio) });
  const size = cell * ratio, rectangles = [];
  for (let at = 0; at < allowed.length; at++) {
    if (!allowed[at]) rectangles.push([(at % keys) * size, Math.floor(at / keys) * size, size, size]);
  }
  hatch(image.getContext("2d"), rectangles, hatchColour(dark), 6 * ratio);
}

// ---------------------------------------------------------------- the canvas

/** Draw all of it. @param {LabView} view */
export function drawCanvas(view) {
  const { canvas, plan, colours } = view;
  paintMarks(view);
  const context = sizeCanvas(canvas, plan.width, plan.high);
  context.fillStyle = colours.paper;
  context.fillRect(0, 0, plan.width, plan.high);
  plan.thumbs.forEach((panel, h) => drawThumb(context, view, panel, h));
  drawFocus(context, view);
  drawLegend(context, view);
}

/** Write in small or normal size at a baseline. */
function write(context, text, x, y, colour, { align = "left", bold = false, small = false, room = undefined } = {}) {
  context.font = `${bold ? "bold " : ""}${small ? SMALL_FONT : LABEL_FONT}`;
  context.fillStyle = colour;
  placeText(context, text, x, y, align, "alphabetic", room);
}

/** A share of the most possible, as a bar. */
function drawBar(context, x, y, wide, high, share, { field, accent }) {
  context.fillStyle = field;
  context.fillRect(x, y, wide, high);
  context.fillStyle = accent;
  context.fillRect(x, y, wide * Math.min(1, share), high);
}

/** The map of one head and the strip of its output, without any text. */
function drawPanel(context, { images, state, colours }, panel, h, marks) {
  const { queries, keys, headDim } = state;
  const { x, y, wide, high, strip, stripWide } = panel;
  context.imageSmoothingEnabled = panel.cell < 1; // an average where there are more cells than pixels
  context.drawImage(images.maps, 0, h * queries, keys, queries, x, y, wide, high);
  if (state.mask !== "none") context.drawImage(marks, x, y, wide, high);
  context.strokeStyle = colours.line;
  context.lineWidth = 1;
  context.strokeRect(x - 0.5, y - 0.5, wide + 1, high + 1);
  if (!stripWide) return;
  context.imageSmoothingEnabled = stripWide < headDim;
  context.drawImage(images.strips, 0, h * queries, headDim, queries, strip, y, stripWide, high);
  context.strokeRect(strip - 0.5, y - 0.5, stripWide + 1, high + 1);
}

/** Name the rows and columns of a map, as many as can be read; those of the cursor in bold. */
function drawLabels(context, { names, colours, columnsWide }, { x, y, cell, high }, cursor, small) {
  const look = (bold, align) => ({ bold, align, small, room: LONGEST_LABEL });
  for (const i of thinned(names.rows.length, cell, LABEL_STEP, cursor.row)) {
    const middle = y + (i + 0.5) * cell + 4;
    write(context, names.rows[i], x - 5, middle, colours.ink, look(i === cursor.row, "right"));
  }
  const flat = columnsWide <= cell - 4;
  for (const j of thinned(names.columns.length, cell, LABEL_STEP, cursor.column)) {
    const middle = x + (j + 0.5) * cell, bold = j === cursor.column;
    if (flat) {
      write(context, names.columns[j], middle, y + high + 14, colours.ink, look(bold, "center"));
      continue;
    }
    context.font = `${bold ? "bold " : ""}${small ? SMALL_FONT : LABEL_FONT}`;
    context.fillStyle = colours.ink;
    placeTurned(context, names.columns[j], middle + 4, y + high + 5, "right", "alphabetic", LONGEST_LABEL);
  }
}

/** One head small: its map, its entropy, a frame if it is in focus. @param {LabView} view */
function drawThumb(context, view, panel, h) {
  const { state, result, colours } = view;
  const { x, y, wide, high, strip, stripWide, step } = panel;
  const { bits, most } = labHeadNumbers(state, result, h);
  const chosen = h === state.head;
  drawPanel(context, view, panel, h, view.images.smallStrokes);
  if (panel.named) drawLabels(context, view, panel, { row: -Infinity, column: -Infinity }, true);
  const caption = step > 120 ? `head ${h} · ${bits.toFixed(2)} bits` : `${h} · ${bits.toFixed(2)}`;
  write(context, caption, x, y - 12, colours.ink, { bold: chosen, small: true });
  drawBar(context, x, y - 8, Math.min(step, wide + stripWide), 3, most ? bits / most : 0, colours);
  if (!chosen) return;
  context.strokeStyle = colours.accent;
  context.lineWidth = 3;
  context.strokeRect(x - 2, y - 2, (stripWide ? strip + stripWide - x : wide) + 4, high + 4);
}

/** The head in focus, with numbers, labels, entropy and the cursor. @param {LabView} view */
function drawFocus(context, view) {
  const { state, result, colours, plan: { focus, labels } } = view;
  const { x, y, cell, high, bars, strip, stripWide } = focus;
  drawPanel(context, view, focus, state.head, view.images.strokes);
  if (cell >= VALUES_FROM) drawValues(context, view);
  drawLabels(context, view, focus, view.cursor, false);
  const thick = Math.max(1, Math.min(8, cell - 1));
  result.most.forEach((most, i) => {
    const share = most ? result.entropy[state.head * state.queries + i] / most : 0;
    drawBar(context, bars, y + (i + 0.5) * cell - thick / 2, BAR_WIDE, thick, share, colours);
  });
  const small = { small: true };
  write(context, `head ${state.head}`, x, y - 22, colours.ink, { bold: true });
  write(context, "keys →", x, y - 6, colours.soft, small);
  write(context, "entropy", bars, y - 6, colours.soft, small);
  if (stripWide) write(context, "output", strip, y - 6, colours.soft, small);
  placeTurned(context, "queries", x - labels.wide + 10, y + high / 2, "center", "alphabetic");
  drawCursor(context, view);
}

/** Write the weights of the head in focus into its cells. */
function drawValues(context, { state, result, colours, plan: { focus } }) {
  const { queries, keys, head, allowed } = state;
  for (let at = 0; at < queries * keys; at++) {
    if (!allowed[at]) continue;
    const weight = result.weights[head * queries * keys + at];
    const x = focus.x + ((at % keys) + 0.5) * focus.cell, y = focus.y + (Math.floor(at / keys) + 0.5) * focus.cell;
    write(context, weight.toFixed(2), x, y + 4, weightColour(weight, colours.dark).ink, { align: "center", small: true });
  }
}

/** Frame the cell of the cursor: a key, or a feature of the output. */
function drawCursor(context, { state, cursor, plan: { focus } }) {
  const feature = cursor.column - state.keys, step = focus.stripWide / state.headDim;
  const [left, wide] = feature < 0
    ? [focus.x + cursor.column * focus.cell, focus.cell]
    : [focus.strip + feature * step, step];
  const top = focus.y + cursor.row * focus.cell;
  strokeOnAnything(context, 4, 2, () => context.strokeRect(left, top, wide, focus.cell));
}

/** The scale of the weights, and that of the outputs beside or below it. */
function drawLegend(context, { result, images, colours, plan: { legend, width } }) {
  const scaleBar = (x, y, from, to, table) => {
    write(context, from, x, y + 15, colours.ink, { small: true });
    const start = x + context.measureText(from).width + 6;
    for (let i = 0; i < SCALE_STEPS; i++) {
      context.fillStyle = cssColour(table[Math.round((255 * i) / (SCALE_STEPS - 1))]);
      context.fillRect(start + i, y + 6, 1.5, 10);
    }
    write(context, to, start + SCALE_STEPS + 6, y + 15, colours.ink, { small: true });
  };
  scaleBar(2, legend, "weight 0", "1", weightPixels(colours.dark));
  if (!result.output) return;
  const end = images.largest.toPrecision(2);
  const [x, y] = width < LEGEND.stackedBelow ? [2, legend + LEGEND.second.below] : [LEGEND.second.x, legend];
  scaleBar(x, y, `output −${end}`, `+${end}`, signedPixels(colours.dark));
}
