// How the picture of ReshapeView is drawn, once layout.js has said where everything stands.

import { GROUP_COLOURS } from "../colours.js";
import { SMALL_FONT, strokeOnAnything } from "../core_draw.js";
import { meaning, wrongOf } from "./cells.js";
import { CELL_HEIGHT, lineTop, MEMORY_HEIGHT } from "./layout.js";
/** @import { State } from "./cells.js" */
/** @import { Grid, Layout } from "./layout.js" */

const CELL_FONT = "system-ui, sans-serif"; // its size follows the cell
const TITLE_FONT = "bold 11px system-ui, sans-serif";
const PLACE_FONT = "bold 12px system-ui, sans-serif";
const SIGN_FONT = "bold 10px system-ui, sans-serif";
const LABEL_SIZES = [9, 14]; // px, the least and the most
const DIGIT_WIDTH = 0.6; // of the size of the font
const CELL_EDGE = 0.75; // half of what is left free between two cells
const SIGN_WIDTH = 11; // the mark of a wrong place
const SIGN_HEIGHT = 13;
const DOT_RADIUS = 1.3;
const DOTS_APART = 4.5; // at most
const SHOWS_LABELS = 18; // a cell of the tensor shows its label from this width on
const ARROW_ROOM = 30; // what the arrow below a place in memory, and its number, take
const NUMBER_ROOM = 40; // how close that may come to the first number of the line

/** The ink, black or white, that has more contrast with a colour "#rrggbb", by its relative luminance (WCAG 2). */
export function inkOn(colour) {
  const [red, green, blue] = [1, 3, 5].map((at) => (parseInt(colour.slice(at, at + 2), 16) / 255) ** 2.2);
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue < 0.18 ? "#fff" : "#000";
}

/** How wide the title of a block is. @param {CanvasRenderingContext2D} context */
export function titleWidth(context, text) {
  context.font = SMALL_FONT;
  return context.measureText(text).width;
}

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
  const { grid, memory } = where;
  const wrong = wrongOf(w.station);
  drawGridNumbers(context, grid, paint);
  writeText(context, "memory", 0, memory.top - 6, { font: TITLE_FONT, colour: paint.ink });
  for (const [label, [x, y, mx, my]] of shown) {
    const group = meaning(label, w.sizes)[w.colourBy];
    const [inGrid, inMemory] = [grid.cell >= SHOWS_LABELS, memory.labelled].map((has) => (has ? String(label) : null));
    drawCell(context, [x, y, grid.cell, CELL_HEIGHT], group, inGrid, wrong.has(label));
    drawCell(context, [mx, my, memory.place, MEMORY_HEIGHT], group, inMemory);
  }
  if (arrived) drawWrong(context, w, grid, wrong);
  const [x, y, mx, my] = shown.get(w.chosen);
  frame(context, [x, y, grid.cell, CELL_HEIGHT]);
  frame(context, [mx, my, memory.place, MEMORY_HEIGHT]);
  drawPlaceNumbers(context, w, where, arrived ? [mx, my] : null, paint);
}

/** Write a text on its base line. */
function writeText(context, text, x, y, { align = "left", font = SMALL_FONT, colour }) {
  context.font = font;
  context.textAlign = align;
  context.textBaseline = "alphabetic";
  context.fillStyle = colour;
  context.fillText(text, x, y);
}

/** Write the titles of the blocks, and the numbers of their rows and columns. @param {Grid} grid */
function drawGridNumbers(context, grid, { ink, soft }) {
  for (const { title, left, top, rows, columns } of grid.blocks) {
    writeText(context, title, left, top - 18, { font: TITLE_FONT, colour: ink });
    for (let j = 0; j < columns; j++) {
      writeText(context, j, left + (j + 0.5) * grid.cell, top - 4, { align: "center", colour: soft });
    }
    for (let i = 0; i < rows; i++) {
      writeText(context, i, left - 5, top + (i + 0.5) * CELL_HEIGHT + 4, { align: "right", colour: soft });
    }
  }
}

/** Mark the cells that stand where they should not, and frame where the chosen number should stand. */
function drawWrong(context, w, grid, wrong) {
  w.station.cells.forEach((label, i) => {
    if (wrong.has(label)) drawSign(context, grid.x[i], grid.y[i], grid.cell);
  });
  const home = w.station.right.indexOf(w.chosen);
  if (w.station.cells[home] !== w.chosen) frame(context, [grid.x[home], grid.y[home], grid.cell, CELL_HEIGHT], true);
}

/** Write the first place of every line of memory and, once it has arrived there, the place of the chosen number. */
function drawPlaceNumbers(context, w, { width, memory }, arrived, { ink, soft }) {
  const below = MEMORY_HEIGHT + 14;
  const offset = w.station.line.indexOf(w.chosen);
  for (let first = 0; first < w.station.line.length; first += memory.perLine) {
    const behind = offset - first; // places between this number and that of the chosen one
    const close = behind >= 0 && behind < memory.perLine && behind * memory.place < NUMBER_ROOM;
    if (!close) writeText(context, first, 2, lineTop(memory, first) + below, { colour: soft });
  }
  if (!arrived) return;
  const [middle, y] = [arrived[0] + memory.place / 2, arrived[1] + below];
  const look = { font: PLACE_FONT, colour: ink };
  // At the edge the number goes to the left of its arrow.
  if (middle + ARROW_ROOM > width) writeText(context, `${offset} ▲`, middle + 5, y, { align: "right", ...look });
  else writeText(context, `▲ ${offset}`, middle - 5, y, look);
}

/** Draw one number: colour for its group, as many dots as the group has, so that colour is not all there is. */
function drawCell(context, [x, y, width, height], group, label, wrong = false) {
  const colour = GROUP_COLOURS[group % GROUP_COLOURS.length];
  context.fillStyle = colour;
  context.fillRect(x + CELL_EDGE, y + CELL_EDGE, width - 2 * CELL_EDGE, height - 2 * CELL_EDGE);
  context.fillStyle = inkOn(colour);
  if (label !== null) {
    const room = wrong ? width - SIGN_WIDTH : width; // beside the mark, not under it
    const [least, most] = LABEL_SIZES;
    const size = (room - 4) / (DIGIT_WIDTH * Math.max(2, label.length));
    context.font = `${Math.min(most, Math.max(least, size))}px ${CELL_FONT}`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.fillText(label, x + room / 2, y + height / 2 - 2);
  }
  drawDots(context, [x, y, width, height], group);
}

/** Draw dots in the ink of the moment: on a line below the label, upright in the middle of a narrow cell. */
function drawDots(context, [x, y, width, height], count) {
  const upright = width < height * 0.7;
  const apart = Math.min(DOTS_APART, (upright ? height - 4 : width - 6) / 8);
  for (let dot = 0; dot < count; dot++) {
    const along = (dot - (count - 1) / 2) * apart;
    const [dx, dy] = upright ? [0, height / 2 + along] : [along, height - 4.5];
    context.beginPath();
    context.arc(x + width / 2 + dx, y + dy, DOT_RADIUS, 0, 2 * Math.PI);
    context.fill();
  }
}

/** Frame a cell so that it is seen on every colour and in both themes: dark, light, dark. */
function frame(context, [x, y, width, height], dashed = false) {
  strokeOnAnything(context, 5, 2, () => {
    context.strokeRect(x, y, width, height); // on the edge, so that the number stays clear
    if (dashed) context.setLineDash([4, 4]); // from now on: the white line, which comes second
  });
  context.setLineDash([]);
}

/** Mark a cell that stands where it should not: a dark corner with "!". */
function drawSign(context, x, y, width) {
  const [left, top] = [x + width - SIGN_WIDTH - CELL_EDGE, y + CELL_EDGE];
  context.fillStyle = "#000";
  context.fillRect(left, top, SIGN_WIDTH, SIGN_HEIGHT);
  context.fillStyle = "#fff";
  context.font = SIGN_FONT;
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.fillText("!", left + SIGN_WIDTH / 2, y + 8);
}
