// How LiveModel draws: all heads small, one of them large. The page is 0; all weights are on one scale, of square roots.

import { node } from "../core.js";
import {
  lyingScale, paintPixels, placeText, placeTurned, sharpness, shorten, sizeCanvas, SMALL_FONT, strokeIn, thinned,
  weightPixels, widestOf, writeIn,
} from "../core_draw.js";

/**
 * @typedef {{layers: number, heads: number, maps: Float32Array | null, tokens: string[], off: Set<number>,
 *   chosen: number, query: number, paint: any}} Scene maps: (layers, heads, T, T); chosen, off: heads numbered through
 */

const shadeOf = (weight) => Math.min(255, Math.round(255 * Math.sqrt(weight)));
const LEFT = 18, TOP = 18, LARGEST = 34; // of the small maps: room for their numbers, and their side

/** Paint maps that lie one behind the other, `across` of them side by side, a pixel for each weight. */
function paintMaps(canvas, maps, T, across, dark) {
  const count = maps.length / (T * T), wide = across * T, table = weightPixels(dark);
  paintPixels(canvas, wide, (count / across) * T, (pixels) => {
    for (let i = 0, n = 0; n < count; n++) {
      const start = Math.floor(n / across) * T * wide + (n % across) * T;
      for (let a = 0; a < T; a++) for (let b = 0; b < T; b++) pixels[start + a * wide + b] = table[shadeOf(maps[i++])];
    }
  });
}

/** Where the small maps are in so much room: `{step, side, width, height, at(i), under(x, y)}`. */
export function gridIn(room, layers, heads) {
  const step = Math.min(LARGEST + 4, Math.floor((room - LEFT) / heads)), side = step - (step > 20 ? 4 : 2);
  return {
    step, side, width: LEFT + heads * step, height: TOP + layers * step,
    at: (i) => [LEFT + (i % heads) * step, TOP + Math.floor(i / heads) * step],
    under(x, y) {
      const column = Math.floor((x - LEFT) / step), row = Math.floor((y - TOP) / step);
      return column >= 0 && column < heads && row >= 0 && row < layers ? row * heads + column : -1;
    },
  };
}

/**
 * Draw all heads small: the chosen one framed, those that are off struck through.
 * @param {HTMLCanvasElement} canvas
 * @param {any} grid
 * @param {Scene} scene
 */
export function drawHeads(canvas, grid, { layers, heads, maps, tokens, off, chosen, paint }) {
  const context = sizeCanvas(canvas, grid.width, grid.height), T = tokens.length, { side } = grid;
  const atlas = node("canvas");
  if (maps) paintMaps(atlas, maps, T, heads, paint.dark);
  writeIn(context, SMALL_FONT, paint.soft);
  for (let head = 0; head < heads; head++) placeText(context, String(head), grid.at(head)[0] + side / 2, 6, "center", "middle");
  for (let layer = 0; layer < layers; layer++) {
    placeText(context, String(layer), 5, grid.at(layer * heads)[1] + side / 2, "center", "middle");
  }
  context.imageSmoothingEnabled = T > side * sharpness(); // else every weight is a square with sharp edges
  for (let i = 0; i < layers * heads; i++) {
    const [x, y] = grid.at(i);
    context.globalAlpha = off.has(i) ? 0.2 : 1;
    if (maps) context.drawImage(atlas, (i % heads) * T, Math.floor(i / heads) * T, T, T, x, y, side, side);
    context.globalAlpha = 1;
    strokeIn(context, off.has(i) ? paint.soft : paint.hair, 1);
    context.beginPath();
    context.rect(x - 0.5, y - 0.5, side + 1, side + 1);
    if (off.has(i)) context.moveTo(x, y + side), context.lineTo(x + side, y);
    context.stroke();
  }
  const [x, y] = grid.at(chosen);
  strokeIn(context, paint.cursor, 2);
  context.strokeRect(x - 2, y - 2, side + 4, side + 4);
}

/**
 * Draw one head large, its query framed; returns `under(x, y)`, the query and the key there, or null.
 * @param {HTMLCanvasElement} canvas
 * @param {number} room
 * @param {Scene} scene
 */
export function drawMap(canvas, room, { maps, tokens, chosen, query, paint }) {
  const T = tokens.length, names = tokens.map((token) => shorten(token, 12)), foot = 26;
  writeIn(canvas.getContext("2d"), SMALL_FONT, paint.soft);
  const label = Math.ceil(widestOf(canvas.getContext("2d"), names)) + 10;
  const size = Math.max(40, Math.min(30 * T, room - label - 2)), cell = size / T;
  const context = sizeCanvas(canvas, label + size + 2, label + size + foot);
  if (!maps) return () => null;
  const image = node("canvas");
  paintMaps(image, maps.subarray(chosen * T * T, (chosen + 1) * T * T), T, 1, paint.dark);
  context.imageSmoothingEnabled = T > size * sharpness();
  context.drawImage(image, label, label, size, size);
  strokeIn(context, paint.hair, 1);
  context.strokeRect(label - 0.5, label - 0.5, size + 1, size + 1);
  for (const i of thinned(0, T, cell, 13, query)) {
    const middle = label + (i + 0.5) * cell;
    writeIn(context, i === query ? `bold ${SMALL_FONT}` : SMALL_FONT, i === query ? paint.ink : paint.soft);
    placeText(context, names[i], label - 5, middle, "right", "middle", label - 6);
    placeTurned(context, names[i], middle, label - 5, "left", "middle", label - 6);
  }
  strokeIn(context, paint.cursor, 1.5);
  context.strokeRect(label - 1, label + query * cell - 1, size + 2, cell + 2);
  lyingScale(context, weightPixels(paint.dark), ["0", "1"], label, label + size + 15, paint.soft);
  writeIn(context, SMALL_FONT, paint.soft);
  placeText(context, "square root", label + 124, label + size + 15, "left", "middle", size - 124);
  return (x, y) => {
    const [a, b] = [y, x].map((at) => Math.floor((at - label) / cell)); // a label counts as its row
    return a >= 0 && a < T && b < T ? [a, Math.max(0, b)] : null;
  };
}
