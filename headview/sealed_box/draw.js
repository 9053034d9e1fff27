// What SealedBox reads from its traits, and how it draws the output: the lines along t, and bars for one vector.

import { GROUP_COLOURS } from "../colours.js";
import { bytesOf } from "../core.js";
import { cssColour, drawKept, placeText, signedPixels, sizeCanvas, SMALL_FONT } from "../core_draw.js";

const STEP_SIZE = 5; // numbers of a step, as `Step` in plateaus.py names them
export const GRAPH_HEIGHT = 230;
export const BARS_HEIGHT = 120; // where they stand below the graph
export const BARS_WIDTH = 210; // where they stand beside it
const SIDE_FROM = 600; // pixels of room for that
export const EDGE = { left: 48, right: 10, top: 28, bottom: 34 }; // room for numbers, names and letters
const LINE_WIDTH = 1.3;
const FALLING = 40, RISING = 215; // of the colours of signed numbers

/**
 * @typedef {object} Step
 * @property {number} number
 * @property {number} middle it is crossed between this point and the next
 * @property {number} letter
 * @property {number} sign 1 where it adds its vector as t grows
 *
 * @typedef {object} Box what never changes; rows are typed arrays
 * @property {number} reach
 * @property {number} points
 * @property {number} width features
 * @property {number} heads 0 where nobody knows
 * @property {Float32Array} moved
 * @property {number} most the largest number in it, without sign
 * @property {number[][]} plateaus first and last point of each
 * @property {Step[]} steps
 * @property {Float32Array} vectors
 * @property {Float32Array} inside
 * @property {number[][]} flips
 * @property {string} remark
 * @property {number} digits of t that tell two points apart
 *
 * @typedef {object} State
 * @property {number} at the present point
 * @property {Step[]} seen
 * @property {boolean} opened
 */

/** @returns {Box} */
export function readBox(model) {
  const [points, width, heads] = model.get("sizes");
  const reach = model.get("reach");
  const rows = (name, size) => {
    const all = bytesOf(model, name, Int32Array);
    return Array.from({ length: all.length / size }, (_, i) => [...all.subarray(i * size, (i + 1) * size)]);
  };
  const moved = bytesOf(model, "moved", Float32Array);
  const steps = rows("steps", STEP_SIZE).map(([middle, letter, sign], number) => ({ number, middle, letter, sign }));
  return {
    reach, points, width, heads, moved, steps,
    most: moved.reduce((most, x) => Math.max(most, Math.abs(x)), 0) || 1,
    plateaus: rows("plateaus", 2),
    vectors: bytesOf(model, "vectors", Float32Array),
    inside: bytesOf(model, "inside", Float32Array),
    flips: model.get("flips"),
    remark: model.get("remark"),
    digits: Math.max(0, Math.ceil(-Math.log10((2 * reach) / (points - 1)))),
  };
}

/** t of a point; the number that Python has, to the bit. @param {Box} box */
export const placeOf = ({ reach, points }, at) => (at === points - 1 ? reach : -reach + at * ((2 * reach) / (points - 1)));

/** The point next to t. @param {Box} box */
export const pointAt = ({ reach, points }, t) => Math.floor(((t + reach) / (2 * reach)) * (points - 1) + 0.5);

export const numberText = (x, digits) => x.toFixed(digits).replace("-", "−").replace(/^−(0\.?0*)$/, "$1");

/** A, B, …, Z, AA, AB, … */
export const letterName = (letter) =>
  (letter >= 26 ? letterName(Math.floor(letter / 26) - 1) : "") + String.fromCharCode(65 + (letter % 26));

/** The colours of a letter: its patch, and black or white on it, by its relative luminance (WCAG 2). */
export function letterColours(letter) {
  const fill = GROUP_COLOURS[letter % GROUP_COLOURS.length];
  const [red, green, blue] = [1, 3, 5].map((at) => (parseInt(fill.slice(at, at + 2), 16) / 255) ** 2.2);
  return { fill, ink: 0.2126 * red + 0.7152 * green + 0.0722 * blue < 0.18 ? "#fff" : "#000" };
}

/**
 * Where everything stands for this room: graph and bars beside each other, or one below the other.
 * @param {Box} box
 */
export function layout(box, room) {
  const beside = room >= SIDE_FROM;
  const width = beside ? room - BARS_WIDTH : room;
  const [left, right, bottom] = [EDGE.left, width - EDGE.right, GRAPH_HEIGHT - EDGE.bottom];
  const middle = (EDGE.top + bottom) / 2;
  return {
    room, beside, width, left, right, bottom, middle,
    x: (at) => left + (at / (box.points - 1)) * (right - left),
    y: (value) => middle - (value / box.most) * (bottom - EDGE.top) * 0.48,
    at: (x) => Math.max(0, Math.min(box.points - 1, Math.round(((x - left) / (right - left)) * (box.points - 1)))),
  };
}

/** Draw the output along t. @param {Box} box @param {State} state */
export function drawGraph(canvas, kept, box, state, where, paint) {
  const context = sizeCanvas(canvas, where.width, GRAPH_HEIGHT);
  const key = JSON.stringify(paint);
  drawKept(context, kept, key, where.width, GRAPH_HEIGHT, (fresh) => drawLines(fresh, box, where, paint));
  let free = 0; // from here on, there is room for a letter
  for (const { middle, letter } of state.seen) free = drawLetter(context, where.x(middle + 0.5), free, where, letter);
  const x = where.x(state.at);
  context.fillStyle = paint.accent;
  context.fillRect(x - 1, EDGE.top - 4, 2, where.bottom - EDGE.top + 8);
  for (let i = 0; i < box.width; i++) {
    circle(context, x, where.y(box.moved[state.at * box.width + i]), 2.5);
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
  context.clearRect(0, 0, where.width, GRAPH_HEIGHT);
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
  [0, 0.25, 0.5, 0.75, 1].forEach((share) => {
    const t = -box.reach + 2 * box.reach * share;
    const align = share === 0 ? "left" : share === 1 ? "right" : "center";
    const text = Number(t.toPrecision(3)).toString().replace("-", "−");
    const x = where.left + share * (where.right - where.left);
    placeText(context, share === 0.5 ? "t = 0" : text, x, where.bottom + 15, align, "top");
  });
  const turning = bends(box);
  context.strokeStyle = paint.soft;
  context.lineWidth = LINE_WIDTH;
  context.lineJoin = "round";
  for (let i = 0; i < box.width; i++) {
    context.beginPath();
    for (const at of turning) context.lineTo(where.x(at), where.y(box.moved[at * box.width + i]));
    context.stroke();
  }
}

/** The points that a line has to pass: on a plateau its ends are enough. @param {Box} box */
function bends({ points, plateaus }) {
  const inner = new Set();
  for (const [first, last] of plateaus) for (let at = first + 1; at < last; at++) inner.add(at);
  return Array.from({ length: points }, (_, at) => at).filter((at) => !inner.has(at));
}

/** Mark a step that was crossed with its letter, to the right of `free`. Returns where the letter ends. */
function drawLetter(context, x, free, where, letter) {
  const { fill, ink } = letterColours(letter);
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

function circle(context, x, y, radius) {
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
}

/**
 * Draw a vector as bars, a bar a feature: up and green above 0, down and purple below.
 * @param {CanvasRenderingContext2D} context
 * @param {ArrayLike<number>} values
 * @param {{left: number, right: number, middle: number, high: number}} place `high`: pixels of a bar of length 1
 */
export function drawBars(context, values, { left, right, middle, high }, paint) {
  const step = (right - left) / values.length;
  const gap = step > 4 ? 1 : 0, signs = signedPixels(paint.dark);
  for (let i = 0; i < values.length; i++) {
    context.fillStyle = cssColour(signs[values[i] < 0 ? FALLING : RISING]);
    context.fillRect(left + i * step + gap / 2, middle, Math.max(step - gap, 0.5), -values[i] * high);
  }
  context.fillStyle = paint.line;
  context.fillRect(left, middle - 0.5, right - left, 1);
}
