// How the picture of ReshapeView is drawn, once layout.js has said where everything stands.

import { groupColours, placeText, SMALL_FONT, strokeOnAnything } from "../core_draw.js";
import { CELL_HEIGHT, lineTop, MEMORY_HEIGHT } from "./layout.js";
import { meaning, wrongOf } from "./stations.js";
/** @import { State } from "./stations.js" */
/** @import { Layout } from "./layout.js" */

const TITLE_FONT = "bold 11px system-ui, sans-serif";
const LABEL_SIZES = [9, 14]; // px, the least and the most
const DIGIT_WIDTH = 0.6; // of the size of the font
const CELL_EDGE = 0.75; // half of what is left free between two cells
const SIGN = { wide: 11, high: 13 }; // the mark of a wrong place
const DOTS_APART = 4.5; // at most
const SHOWS_LABELS = 18; // a cell of the tensor shows its label from this width on
const NUMBER_ROOM = 40; // of the place of the chosen number: to the first number of the line, and to the edge

/**
 * Draw all of it.
 * @param {CanvasRenderingContext2D} context
 * @param {State} w
 * @param {Layout} where
 * @param {Map<number, number[]>} shown where each label is at the moment, `where.places` once it has arrived
 * @param {boolean} arrived
 * @param {{ink: string, soft: string}} paint
 */
export function drawPicture(context, w, where, shown, arrived, paint) {
  const { cell, memory } = where, wrong = wrongOf(w.station);
  const text = (said, x, y, align, colour, font = SMALL_FONT) => {
    Object.assign(context, { font, fillStyle: colour });
    placeText(context, said, x, y, align, "alphabetic");
  };
  for (const { title, left, top, rows, columns } of where.blocks) {
    text(title, left, top - 18, "left", paint.ink, TITLE_FONT);
    for (let j = 0; j < columns; j++) text(j, left + (j + 0.5) * cell, top - 4, "center", paint.soft);
    for (let i = 0; i < rows; i++) text(i, left - 5, top + (i + 0.5) * CELL_HEIGHT + 4, "right", paint.soft);
  }
  text("memory", 0, memory.top - 6, "left", paint.ink, TITLE_FONT);
  for (const [label, [x, y, mx, my]] of shown) {
    const group = meaning(label, w.sizes)[w.colourBy], marked = arrived && wrong.has(label);
    drawCell(context, [x, y, cell, CELL_HEIGHT], group, cell >= SHOWS_LABELS ? String(label) : "", marked);
    drawCell(context, [mx, my, memory.place, MEMORY_HEIGHT], group, memory.labelled ? String(label) : "", false);
  }
  const [x, y, mx, my] = shown.get(w.chosen), home = w.station.right.indexOf(w.chosen);
  if (arrived && w.station.cells[home] !== w.chosen) {
    const [left, top] = where.places.get(w.station.cells[home]);
    frame(context, [left, top, cell, CELL_HEIGHT], true);
  }
  frame(context, [x, y, cell, CELL_HEIGHT]);
  frame(context, [mx, my, memory.place, MEMORY_HEIGHT]);
  // Below memory: the first place of every line and, once it has arrived there, the place of the chosen number.
  const offset = w.station.line.indexOf(w.chosen), below = MEMORY_HEIGHT + 14;
  for (let first = 0; first < w.station.line.length; first += memory.perLine) {
    const behind = (offset - first) * memory.place, close = behind >= 0 && behind < NUMBER_ROOM;
    if (!close || !arrived) text(first, 2, lineTop(memory, first) + below, "left", paint.soft);
  }
  if (!arrived) return;
  const middle = mx + memory.place / 2, edge = middle + NUMBER_ROOM > where.width; // there the number is on the left
  text(edge ? `${offset} ▲` : `▲ ${offset}`, middle + (edge ? 5 : -5), my + below, edge ? "right" : "left", paint.ink);
}

/** Draw one number: colour for its group, as many dots as the group has, so that colour is not all there is. */
function drawCell(context, [x, y, width, height], group, label, marked) {
  const { fill, ink } = groupColours(group), room = marked ? width - SIGN.wide : width; // beside the mark
  context.fillStyle = fill;
  context.fillRect(x + CELL_EDGE, y + CELL_EDGE, width - 2 * CELL_EDGE, height - 2 * CELL_EDGE);
  context.fillStyle = ink;
  const [least, most] = LABEL_SIZES, size = (room - 4) / (DIGIT_WIDTH * Math.max(2, label.length));
  context.font = `${Math.min(most, Math.max(least, size))}px system-ui, sans-serif`;
  placeText(context, label, x + room / 2, y + height / 2 - 2, "center", "middle");
  // Dots stand on a line below the label, upright in the middle of a narrow cell.
  const upright = width < height * 0.7, apart = Math.min(DOTS_APART, (upright ? height - 4 : width - 6) / 8);
  for (let dot = 0; dot < group; dot++) {
    const along = (dot - (group - 1) / 2) * apart;
    const [dx, dy] = upright ? [0, height / 2 + along] : [along, height - 4.5];
    context.beginPath();
    context.arc(x + width / 2 + dx, y + dy, 1.3, 0, 2 * Math.PI);
    context.fill();
  }
  if (!marked) return;
  const [left, top] = [x + width - SIGN.wide - CELL_EDGE, y + CELL_EDGE];
  Object.assign(context, { fillStyle: "#000", font: "bold 10px system-ui, sans-serif" });
  context.fillRect(left, top, SIGN.wide, SIGN.high);
  context.fillStyle = "#fff";
  placeText(context, "!", left + SIGN.wide / 2, y + 8, "center", "middle");
}

/** Frame a cell so that it is seen on every colour and in both themes: dark, light, dark. */
function frame(context, [x, y, width, height], dashed = false) {
  strokeOnAnything(context, 5, 2, () => {
    context.strokeRect(x, y, width, height); // on the edge, so that the number stays clear
    if (dashed) context.setLineDash([4, 4]); // from now on: the white line, which comes second
  });
  context.setLineDash([]);
}
