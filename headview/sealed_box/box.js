// What SealedBox knows: its line of points, the steps on it, and how these are named and said. Nothing here draws.

import { bytesOf, plural } from "../core.js";

/**
 * @typedef {{number: number, middle: number, letter: number, sign: number}} Step crossed between `middle` and the next
 *   point; `sign` of its vector as t grows
 * @typedef {ReturnType<typeof readBox>} Box
 * @typedef {{at: number, seen: Step[], opened: boolean}} State
 */

/** Read what never changes. `stops`: a point between any two steps, and one before and behind all of them. */
export function readBox(model) {
  const [points, width, heads] = model.get("sizes"), reach = model.get("reach");
  /** @type {Float32Array} a row for each point */
  const moved = bytesOf(model, "moved", Float32Array);
  /** @type {number[][]} for each head the steps at which it turns */
  const flips = model.get("flips");
  /** @type {Step[]} */
  const steps = model.get("steps").map(([middle, letter, sign], number) => ({ number, middle, letter, sign }));
  const places = [-1, ...steps.map(({ middle }) => middle), points - 1];
  const stops = steps.length ? places.slice(1).map((place, i) => Math.ceil((places[i] + place) / 2)) : [];
  const most = moved.reduce((largest, x) => Math.max(largest, Math.abs(x)), 0) || 1;
  const digits = Math.max(0, Math.ceil(-Math.log10((2 * reach) / (points - 1))));
  const [vectors, inside] = ["vectors", "inside"].map((name) => bytesOf(model, name, Float32Array));
  return { reach, points, width, heads, moved, most, steps, stops, vectors, inside, flips, digits };
}

/** t of a point; the number that Python has, to the bit. @param {Box} box */
export const placeOf = ({ reach, points }, at) =>
  at === points - 1 ? reach : -reach + at * ((2 * reach) / (points - 1));

/** The point next to t. @param {Box} box */
export const pointAt = ({ reach, points }, t) => Math.floor(((t + reach) / (2 * reach)) * (points - 1) + 0.5);

export const numberText = (x, digits) => x.toFixed(digits).replace("-", "−").replace(/^−(0\.?0*)$/, "$1");

/** @param {Box} box */
export const tText = (box, at) => numberText(placeOf(box, at), box.digits);

/** A, B, …, Z, AA, AB, … */
export const letterName = (letter) =>
  (letter >= 26 ? letterName(Math.floor(letter / 26) - 1) : "") + String.fromCharCode(65 + (letter % 26));

/** Name the largest features of a vector. @param {Float32Array} vector @param {number} most what is large */
export function largest(vector, most) {
  if (vector.every((x) => Math.abs(x) < 1e-6 * most)) return "0 in every feature";
  const order = [...vector.keys()].sort((a, b) => Math.abs(vector[b]) - Math.abs(vector[a])).slice(0, 3);
  return order.map((i) => `feature ${i} ${Number(vector[i].toPrecision(2))}`).join(", ") + ", the largest";
}

/** What was told from the steps, beside what is there. @param {Box} box @param {State} state */
export function comparison(box, { seen }) {
  const count = new Set(seen.map(({ letter }) => letter)).size;
  const turning = box.flips.filter((steps) => steps.length).length;
  const together = seen.filter(({ number }) => box.flips.filter((steps) => steps.includes(number)).length > 1);
  const names = [...new Set(together.map(({ letter }) => letterName(letter)))].join(", ");
  const heads = `${plural(box.heads, "head")}, of which ${turning} turn${turning === 1 ? "s" : ""}`;
  const apart = names && ` Several turn at once at ${names}; more points, or another line, would tell them apart.`;
  return `You saw ${plural(count, "different vector")}. Inside: ${heads} at a step of this line.${apart}`;
}
