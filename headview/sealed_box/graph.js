// How SealedBox draws: the output along t, a line for each feature; under it, once the box is open, what each head
// looks at along the same t; and bars for one vector.

import { node, within } from "../core.js";
import {
  cssColour, drawKept, groupColours, paintPixels, placeText, signedPixels, sizeCanvas, SMALL_FONT, strokeIn,
  weightPixels,
} from "../core_draw.js";
import { letterName, numberText } from "./box.js";
/** @import { Box, State } from "./box.js" */

const GRAPH_HEIGHT = 230;
const EDGE = { left: 52, right: 10, top: 28, bottom: 34 }; // room for numbers, names and letters
const STRIP = { high: 14, gap: 4 }; // what a head looks at, below the graph
const FALLING = 40, RISING = 215; // of the colours of signed numbers

/** Where everything stands in a graph of this width. @param {Box} box */
export function layout(box, width) {
  const [left, right, bottom] = [EDGE.left, width - EDGE.right, GRAPH_HEIGHT - EDGE.bottom];
  const middle = (EDGE.top + bottom) / 2, last = box.points - 1;
  return {
    width, left, right, bottom,
    x: (at) => left + (at / last) * (right - left),
    y: (value) => middle - (value / box.most) * (bottom - EDGE.top) * 0.48,
    at: (x) => within(Math.round(((x - left) / (right - left)) * last), box.points),
  };
}

/** Draw the output along t and, of an open box, the heads. @param {Box} box @param {State} state */
export function drawGraph(canvas, kept, box, state, where, paint) {
  const rows = state.opened ? box.heads : 0, high = GRAPH_HEIGHT + rows * (STRIP.high + STRIP.gap) + (rows && 16);
  const context = sizeCanvas(canvas, where.width, high);
  const key = JSON.stringify([paint, rows]);
  drawKept(context, kept, key, where.width, high, (fresh) => {
    drawLines(fresh, box, where, paint);
    if (rows) drawStrips(fresh, box, where, paint);
  });
  let free = 0; // from here on, there is room for a letter
  for (const { middle, letter } of state.seen) free = drawLetter(context, where.x(middle + 0.5), free, where, letter);
  const x = where.x(state.at);
  context.fillStyle = paint.accent;
  context.fillRect(x - 1, EDGE.top - 4, 2, (rows ? high : where.bottom + 4) - EDGE.top + 4);
  for (let i = 0; i < box.width; i++) {
    context.beginPath();
    context.arc(x, where.y(box.moved[state.at * box.width + i]), 2.5, 0, 2 * Math.PI);
    context.fill();
  }
  context.beginPath(); // the handle, below the lines
  context.moveTo(x, where.bottom + 1);
  context.lineTo(x - 6, where.bottom + 11);
  context.lineTo(x + 6, where.bottom + 11);
  context.fill();
}

/** What of the graph never moves: its axes, and a line a feature. @param {Box} box */
function drawLines(context, box, where, paint) {
  context.font = SMALL_FONT;
  const size = 10 ** Math.floor(Math.log10(box.most));
  const mark = size * ([5, 2, 1].find((times) => times * size <= box.most) || 1);
  for (const value of [mark, 0, -mark]) {
    context.fillStyle = paint.soft;
    const digits = Math.max(0, -Math.floor(Math.log10(mark)));
    const text = digits > 4 || mark >= 1e6 ? value.toExponential(0) : numberText(value, value && digits);
    placeText(context, text, where.left - 5, where.y(value), "right", "middle");
    context.fillStyle = paint.line;
    context.fillRect(where.left, where.y(value) - 0.5, where.right - where.left, value ? 0.3 : 1);
  }
  context.fillStyle = paint.soft;
  ["left", "center", "center", "center", "right"].forEach((align, i, { length }) => {
    const share = i / (length - 1), t = box.reach * (2 * share - 1);
    const text = t ? numberText(t, 3).replace(/\.?0+$/, "") : "t = 0";
    placeText(context, text, where.left + share * (where.right - where.left), where.bottom + 15, align, "top");
  });
  strokeIn(context, paint.soft, 1.3);
  context.lineJoin = "round";
  for (let i = 0; i < box.width; i++) {
    context.beginPath();
    for (let at = 0; at < box.points; at++) context.lineTo(where.x(at), where.y(box.moved[at * box.width + i]));
    context.stroke();
  }
}

/** A row a head, one pixel a point, in the colour of its weight of the second token. */
function drawStrips(context, { inside, heads, points }, where, paint) {
  const strips = node("canvas"), table = weightPixels(paint.dark);
  paintPixels(strips, points, heads, (pixels) => {
    for (let i = 0; i < inside.length; i++) {
      pixels[(i % heads) * points + Math.floor(i / heads)] = table[Math.round(inside[i] * 255)];
    }
  });
  context.font = SMALL_FONT;
  context.imageSmoothingEnabled = false;
  context.fillStyle = paint.soft;
  placeText(context, "each head's weight of the second token", where.left, GRAPH_HEIGHT, "left", "top");
  for (let head = 0; head < heads; head++) {
    const y = GRAPH_HEIGHT + 16 + head * (STRIP.high + STRIP.gap), wide = where.right - where.left;
    context.fillStyle = paint.ink;
    placeText(context, `head ${head}`, where.left - 5, y + STRIP.high / 2, "right", "middle", where.left - 6);
    context.drawImage(strips, 0, head, points, 1, where.left, y, wide, STRIP.high);
    strokeIn(context, paint.line, 1);
    context.strokeRect(where.left - 0.5, y - 0.5, wide + 1, STRIP.high + 1);
  }
}

/** Mark a step that was crossed with its letter, to the right of `free`. Returns where the letter ends. */
function drawLetter(context, x, free, where, letter) {
  const { fill, ink } = groupColours(letter);
  context.fillStyle = fill;
  context.fillRect(x - 1, EDGE.top - 8, 2, where.bottom - EDGE.top + 8);
  context.font = "bold 12px system-ui, sans-serif";
  const wide = Math.max(16, context.measureText(letterName(letter)).width + 6);
  const left = Math.min(where.width - wide, Math.max(free, x - wide / 2));
  context.fillRect(left, 3, wide, 17);
  context.fillStyle = ink;
  placeText(context, letterName(letter), left + wide / 2, 12, "center", "middle");
  return left + wide + 1;
}

/** Draw a vector as bars that fill a canvas, a bar a feature: up above 0, down below. `most`: the longest bar. */
export function drawBars(canvas, values, wide, high, most, paint) {
  const context = sizeCanvas(canvas, wide, high), step = wide / values.length;
  const gap = step > 4 ? 1 : 0, signs = signedPixels(paint.dark);
  for (let i = 0; i < values.length; i++) {
    context.fillStyle = cssColour(signs[values[i] < 0 ? FALLING : RISING]);
    const bar = (-values[i] / most) * (high / 2 - 1);
    context.fillRect(i * step + gap / 2, high / 2, Math.max(step - gap, 0.5), bar);
  }
  context.fillStyle = paint.line;
  context.fillRect(0, high / 2 - 0.5, wide, 1);
}
