// How the views draw on a canvas: colours of weights, pixels, marks, labels, the cursor. Nothing here knows a widget.

import { GROUP_COLOURS, HATCH, MAPS, MASKED, NAN } from "./colours.js";
import { node } from "./core.js";

// ---------------------------------------------------------------- colours of weights

/** One pixel of an ImageData as the 32-bit number that its little-endian buffer holds. */
export const packColour = (r, g, b) => (0xff000000 | (b << 16) | (g << 8) | r) >>> 0;

/** A pixel from rrggbb. @param {string} hex */
function fromHex(hex) {
  const rgb = parseInt(hex, 16);
  return packColour(rgb >> 16, (rgb >> 8) & 255, rgb & 255);
}

/** @type {Record<string, Uint32Array>} 256 pixels of each map, so that an image is filled with one look-up a cell */
const TABLES = Object.fromEntries(Object.entries(MAPS).map(([name, shades]) => [
  name, Uint32Array.from(shades.match(/.{6}/g), fromHex),
]));
export const COLOUR_MAPS = Object.keys(MAPS).filter((name) => !/ dark$|signed/.test(name)); // the first is the default
export const NAN_PIXEL = fromHex(NAN);

/** "dark" or "light". @param {boolean} dark */
const themeOf = (dark) => (dark ? "dark" : "light");

/** The 256 pixels of weights from 0 to 1: of a map that a reader has chosen, or ink on a page of this theme. */
export const weightPixels = (dark, name = COLOUR_MAPS[0]) => (dark && TABLES[`${name} dark`]) || TABLES[name];

/** The 256 pixels of signed numbers; 0 is the page, between the two in the middle. */
export const signedPixels = (dark) => TABLES[dark ? "ink signed dark" : "ink signed"];

/** What a mask forbids, and the strokes on it. */
export const maskedPixel = (dark) => fromHex(MASKED[themeOf(dark)]);
export const hatchColour = (dark) => `#${HATCH[themeOf(dark)]}`;

/** A pixel as a colour of CSS. @param {number} pixel */
export const cssColour = (pixel) => `rgb(${pixel & 255} ${(pixel >> 8) & 255} ${(pixel >> 16) & 255})`;

/** The ink, black or white, that reads on a pixel. @param {number} pixel */
export function inkOn(pixel) {
  const part = (shift) => ((pixel >> shift) & 255) / 255;
  const linear = (c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  const light = 0.2126 * linear(part(0)) + 0.7152 * linear(part(8)) + 0.0722 * linear(part(16));
  return light > 0.179 ? "#000" : "#fff"; // where both have the same contrast, by WCAG
}

/** Ground of this share of ink, 0 to 1, and the ink that reads on it, as CSS. */
export function inkStyle(share, dark) {
  const pixel = weightPixels(dark)[Math.round(255 * Math.min(1, share))];
  return `background: ${cssColour(pixel)}; color: ${inkOn(pixel)}`;
}

/** The colour of a group, such as a token or a letter, and the ink, black or white, that reads on it. */
export function groupColours(group) {
  const fill = GROUP_COLOURS[group % GROUP_COLOURS.length];
  return { fill, ink: inkOn(fromHex(fill.slice(1))) };
}

// ---------------------------------------------------------------- canvases

const MOST_SHARP = 2; // canvas pixels for one of the page; more cost time and are not seen

/** Return how many canvas pixels a view draws for one pixel of the page. */
export function sharpness() {
  return Math.min(devicePixelRatio || 1, MOST_SHARP);
}

/** Give a canvas its size in CSS pixels and a context scaled for sharp lines on this screen. */
export function sizeCanvas(canvas, width, height) {
  const ratio = sharpness();
  canvas.width = Math.max(1, Math.round(width * ratio));
  canvas.height = Math.max(1, Math.round(height * ratio));
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}

/**
 * Keep a drawing that many frames share. `draw(context)` fills a hidden canvas when `key`, the size or the screen is
 * new; every call lays that canvas onto `context`, pixel on pixel, and returns what `draw` returned.
 * @param {{key?: string, canvas?: HTMLCanvasElement, made?: any}} kept
 */
export function drawKept(context, kept, key, width, height, draw) {
  const id = `${key} ${width} ${height} ${devicePixelRatio}`;
  if (kept.key !== id) {
    kept.key = id;
    kept.canvas ||= node("canvas");
    kept.made = draw(sizeCanvas(kept.canvas, width, height));
  }
  context.save();
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.drawImage(kept.canvas, 0, 0);
  context.restore();
  return kept.made;
}

/** Give a canvas one pixel a cell, to be drawn large. `shade(pixels)` fills it, a whole pixel at a time. */
export function paintPixels(canvas, width, height, shade) {
  if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
  const context = canvas.getContext("2d");
  const image = context.createImageData(width, height);
  shade(new Uint32Array(image.data.buffer));
  context.putImageData(image, 0, 0);
}

/** Offer a file. @param {Blob} blob */
export function offerFile(blob, name) {
  const link = node("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

// ---------------------------------------------------------------- marks

export const MARKED_FROM = 8; // pixels of a cell that has room for strokes; of smaller ones, pixels of NaN are hatched
const HATCH_STEP = 4; // every fourth pixel, or a stroke at every fourth

/** Is this pixel of a hatched place a stroke? */
export const isHatched = (x, y) => (x + y) % HATCH_STEP === 0;

/**
 * Hatch rectangles, each `[x, y, width, height]`, in one stroke: lines that rise to the right and go on from one
 * rectangle to the next.
 * @param {CanvasRenderingContext2D} context @param {number[][]} rectangles
 */
export function hatch(context, rectangles, colour, step = 6) {
  if (!rectangles.length) return;
  const ends = rectangles.flatMap(([x, y, wide, high]) => [x + y, x + y + wide + high]);
  const top = Math.min(...rectangles.map(([, y]) => y)), bottom = Math.max(...rectangles.map(([, y, , h]) => y + h));
  const cells = new Path2D(), lines = new Path2D();
  for (const [x, y, wide, high] of rectangles) cells.rect(x, y, wide, high);
  for (let sum = Math.floor(Math.min(...ends) / step) * step; sum <= Math.max(...ends); sum += step) {
    lines.moveTo(sum - top, top);
    lines.lineTo(sum - bottom, bottom);
  }
  context.save();
  context.clip(cells);
  strokeIn(context, colour, 1);
  context.stroke(lines);
  context.restore();
}

/** Draw lines from now on in this colour and width. */
export function strokeIn(context, colour, width) {
  Object.assign(context, { strokeStyle: colour, lineWidth: width });
}

/** Draw inside of a rectangle and, around it, so much `air`. */
export function clipped(context, { x, y, width, height }, air, draw) {
  context.save();
  context.beginPath();
  context.rect(x - air, y - air, width + 2 * air, height + 2 * air);
  context.clip();
  draw();
  context.restore();
}

/** Draw what `stroke()` strokes twice, white on black, so that the line is seen on every colour. */
export function strokeOnAnything(context, black, white, stroke) {
  for (const [colour, width] of [["#000", black], ["#fff", white]]) {
    strokeIn(context, colour, width);
    stroke();
  }
}

/**
 * Draw the colours of a table in a line, between what they begin and end with; `y`: the middle.
 * @param {string[]} ends
 */
export function lyingScale(context, table, ends, x, y, ink) {
  const [from, to] = ends, wide = 90, high = 12, air = 5;
  writeIn(context, SMALL_FONT, ink);
  const left = x + Math.ceil(context.measureText(from).width) + air;
  placeText(context, from, x, y, "left", "middle");
  placeText(context, to, left + wide + air, y, "left", "middle");
  for (let i = 0; i < wide; i++) {
    context.fillStyle = cssColour(table[Math.round((255 * i) / (wide - 1))]);
    context.fillRect(left + i, y - high / 2, 1.5, high);
  }
}

// ---------------------------------------------------------------- text

export const LABEL_FONT = "12px system-ui, sans-serif";
export const SMALL_FONT = "11px system-ui, sans-serif";

/** Write from now on in this font and colour. */
export function writeIn(context, font, colour) {
  Object.assign(context, { font, fillStyle: colour });
}

/** Write at a place, `align` and `baseline` as canvas names them; squeezed where it is wider than `room`. */
export function placeText(context, text, x, y, align, baseline, room = undefined) {
  context.textAlign = align;
  context.textBaseline = baseline;
  context.fillText(text, x, y, room);
}

/** Write upwards, turned by a quarter. */
export function placeTurned(context, text, x, y, align, baseline, room = undefined) {
  context.save();
  context.translate(x, y);
  context.rotate(-Math.PI / 2);
  placeText(context, text, 0, 0, align, baseline, room);
  context.restore();
}

/** Return the width of the widest of these texts in the present font; no digit is wider than a 0. */
export function widestOf(context, texts) {
  const unlike = new Set(texts.map((text) => text.replace(/\d/g, "0"))); // of thousands of numbers a few
  return Math.max(...[...unlike].map((text) => context.measureText(text).width));
}

/** Shorten a label for a small place; the tooltip and the screen reader get all of it. Cuts whole characters. */
export function shorten(text, length) {
  if (text.length <= length) return text; // never more characters than code units, and asking costs time
  const characters = [...new Intl.Segmenter(undefined, { granularity: "grapheme" }).segment(text)];
  if (characters.length <= length) return text;
  return characters.slice(0, length - 1).map((c) => c.segment).join("") + "…";
}

/**
 * Return which labels to show, from `first` to before `end`, when they are `step` pixels apart and one needs `room`:
 * `kept`, then those that were `found`, then every so many: of many 10, 20, 50 and so on.
 */
export function thinned(first, end, step, room, kept, found = (_) => false) {
  const all = Array.from({ length: Math.max(0, end - first) }, (_, i) => first + i), shown = [];
  const least = Math.max(1, Math.ceil(room / step)), power = 10 ** Math.floor(Math.log10(least));
  const stride = least <= 5 ? least : [1, 2, 5, 10].find((times) => times * power >= least) * power;
  const isKept = (i) => i === kept;
  for (const isWanted of [isKept, found, (i) => i % stride === 0]) {
    for (const i of all.filter(isWanted)) {
      if (!shown.some((other) => other === i || Math.abs(other - i) * step < room)) shown.push(i);
    }
  }
  return shown;
}
