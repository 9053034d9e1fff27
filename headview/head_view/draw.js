// How HeadView draws a map: its pixels, marks, numbers, labels and scale. No state and no listeners.

import { node } from "../core.js";
import {
  cssColour, inkOn, isHatched, LABEL_FONT, maskedPixel, NAN_PIXEL, paintPixels, placeText, placeTurned, signedPixels,
  SMALL_FONT, strokeIn, thinned, weightPixels, writeIn,
} from "../core_draw.js";
import { MASKED, withMinus } from "./codes.js";
import { LABEL_AIR, SCALE_ROOM } from "./layout.js";

const HATCH_NAN = 0xffffffff;
const FULL_NUMBERS_FROM = 34; // pixels of a cell that has room for 0.65

/** Where the logarithmic scale begins, as in mhalib.plots.cells; what is smaller has the first colour. */
const logFrom = (top) => (top < 1e-3 ? 10 ** (Math.floor(Math.log10(top)) - 4) : 1e-4);

/** Return what tells the place of a number on a scale, 0 to 1; signed, 0 lies at a half. @param {Scale} scale */
export function shareOn({ kind, top, signed }) {
  const most = Math.max(top, 1e-9), from = logFrom(most), span = Math.log(most / from);
  const size = {
    log: (weight) => (weight <= from ? 0 : Math.log(weight / from) / span),
    root: (weight) => Math.sqrt(weight / most),
  }[kind] || ((weight) => weight / most);
  if (!signed) return (weight) => Math.min(1, Math.max(0, size(weight)));
  return (value) => 0.5 + 0.5 * Math.sign(value) * Math.min(1, size(Math.abs(value)));
}

/** The 256 pixels of a scale, of the chosen colour map or of signed numbers. @param {Scale} scale @param {Look} look */
export const pixelsOf = ({ signed }, { colours, dark }) => (signed ? signedPixels(dark) : weightPixels(dark, colours));

/**
 * Paint numbers on a canvas, one pixel each, to be drawn at any size. Where cells are too small for marks, `hatched`
 * says by a pattern that they are NaN. `bare` leaves out what is masked: the hatch that lies below is seen.
 * @param {Tile} tile @param {{scale: Scale, look: Look, hatched?: boolean, bare?: boolean}} how
 */
export function paintCells({ cells, rows, columns }, { scale, look, hatched, bare }, image = node("canvas")) {
  const share = shareOn(scale), table = pixelsOf(scale, look), masked = bare ? 0 : maskedPixel(look.dark);
  const plain = scale.kind !== "log" && !scale.signed, root = scale.kind === "root", factor = 1 / Math.max(scale.top, 1e-9);
  paintPixels(image, columns, rows, (pixels) => {
    for (let i = 0; i < pixels.length; i++) {
      const weight = cells[i];
      const place = root ? Math.sqrt(weight * factor) : weight * factor; // a call for each would take five times as long
      if (plain && weight >= 0) pixels[i] = table[Math.min(255, (place * 255 + 0.5) | 0)];
      else if (weight === MASKED) pixels[i] = masked;
      else if (weight === weight) pixels[i] = table[(share(weight) * 255 + 0.5) | 0];
      else pixels[i] = hatched && isHatched(i % columns, rows - Math.floor(i / columns)) ? HATCH_NAN : NAN_PIXEL;
    }
  });
  return image;
}

/** Write a "?" into every NaN cell of a region; `middle(i)`: where cell i has its middle. */
export function markCells(context, weights, middle, { high, wide }) {
  writeIn(context, `bold ${Math.round(Math.min(high, wide, 20) * 0.7)}px system-ui, sans-serif`, "#000");
  for (let i = 0; i < weights.length; i++) {
    if (weights[i] === weights[i]) continue;
    const [x, y] = middle(i);
    placeText(context, "?", x, y + 1, "center", "middle");
  }
}

/**
 * Write the numbers into the cells of a region, in narrow ones .65 for 0.65; what rounds to 0 has the colour of the
 * page, which says enough. One that would be cut by the edge of the frame is left out.
 */
export function cellValues(context, weights, middle, { wide }, frame, scale, look) {
  const share = shareOn(scale), table = pixelsOf(scale, look);
  const right = frame.x + frame.width, foot = frame.y + frame.height;
  const short = (text) => (wide < FULL_NUMBERS_FROM ? text.replace(/^(-?)0\./, "$1.").replace("1.00", "1") : text);
  context.font = SMALL_FONT;
  for (let i = 0; i < weights.length; i++) {
    const text = shortNumber(weights[i]);
    if (!(weights[i] > MASKED) || Number(text) === 0) continue;
    const told = withMinus(weights[i], short(text)), half = context.measureText(told).width / 2, [x, y] = middle(i);
    if (half > wide / 2 || x - half < frame.x || x + half > right || y - 5 < frame.y || y + 5 > foot) continue;
    context.fillStyle = inkOn(table[(share(weights[i]) * 255 + 0.5) | 0]);
    placeText(context, told, x, y, "center", "middle");
  }
}

/** A share in per cent. */
export const percent = (share) => `${Math.round(100 * share)} %`;

/** A number in three digits. */
export const shortest = (value) => (value === 1 ? "1" : String(Number(value.toPrecision(3))));

/** A number for a cell. */
export function shortNumber(value) {
  return Math.abs(value) < 10 ? value.toFixed(2) : value.toPrecision(3);
}

/** Set font and colour of a label: the one of the cursor stands out, and what was searched for. */
export function dressLabel(context, isCursor, paint, isFound = false) {
  const font = isCursor || isFound ? `bold ${SMALL_FONT}` : SMALL_FONT;
  writeIn(context, font, isFound ? paint.accent : isCursor ? paint.ink : paint.soft);
}

/**
 * Write labels in a column: `label(i)` for those from `first` to before `end`. The last parameter says where they end
 * or begin (x), their middle heights (y, a function), the distance between two and the room of one.
 */
export function rowLabels(context, { label, first, end, found }, cursor, paint, { x, y, step, room, align }) {
  for (const i of thinned(first, end, step, 14, cursor, found)) {
    dressLabel(context, i === cursor, paint, found?.(i));
    placeText(context, label(i), x, y(i), align, "middle", room);
  }
}

/** Write labels below a row, or `above` it, turned where they do not fit; places as for `rowLabels`, turned too. */
export function columnLabels(context, { label, first, end, found }, cursor, paint, place) {
  const { x, y, step, room, above = false } = place;
  context.font = SMALL_FONT;
  const wider = (i) => context.measureText(label(i)).width > step - LABEL_AIR;
  let turned = step < 14;
  for (let i = first; i < end && !turned; i++) turned = wider(i); // often the first
  for (const i of thinned(first, end, step, turned ? 14 : 0, cursor, found)) {
    dressLabel(context, i === cursor, paint, found?.(i));
    if (turned) placeTurned(context, label(i), x(i), y, above ? "left" : "right", "middle", room);
    else placeText(context, label(i), x(i), y, "center", above ? "bottom" : "top");
  }
}

/** Name the axes: `rows` beside the frame, turned; `columns` below it, at the foot of a canvas of this height. */
export function axisNames(context, frame, height, rows, columns, paint) {
  writeIn(context, LABEL_FONT, paint.soft);
  placeText(context, columns, frame.x + frame.width / 2, height - 2, "center", "bottom");
  placeTurned(context, rows, 2, frame.y + frame.height / 2, "center", "top");
}

/** Draw a colour scale, the numbers beside it. @param {Scale} scale */
export function colourBar(context, x, y, height, scale, look, paint) {
  const wide = 12, table = pixelsOf(scale, look);
  for (let i = 0; i < height; i++) {
    context.fillStyle = cssColour(table[Math.round(255 * (1 - i / height))]);
    context.fillRect(x, y + i, wide, 1.5);
  }
  strokeIn(context, paint.line, 1); // the least of it has the colour of the page
  context.strokeRect(x - 0.5, y - 0.5, wide + 1, height + 2);
  writeIn(context, SMALL_FONT, paint.ink);
  const at = x + wide + 4, [least, most] = scaleEnds(scale);
  placeText(context, most, at, y, "left", "top");
  placeText(context, least, at, y + height, "left", "bottom");
  const middle = scale.signed ? "0" : { log: scale.top === 1 && "0.01", root: scale.top === 1 && "0.25" }[scale.kind];
  if (middle && height > 50) placeText(context, middle, at, y + height / 2, "left", "middle");
  context.fillStyle = paint.soft;
  if (SPACED[scale.kind]) placeText(context, SPACED[scale.kind], x, y + height + 6, "left", "top", SCALE_ROOM - 16);
}

const SPACED = { log: "logarithmic", root: "square root", maximum: "to the largest" };

/** What stands at the two ends of a scale; SCALE_ROOM of layout.js holds it. @param {Scale} scale */
export function scaleEnds({ kind, top, signed }) {
  const short = top < 0.01 || top >= 1000 ? top.toExponential(1).replace("+", "") : top.toPrecision(3);
  const most = top === 1 ? "1" : short;
  if (signed) return [`−${most}`, most];
  return [kind === "log" ? `≤ 10${superscript(Math.round(Math.log10(logFrom(top))))}` : "0", most];
}

/** The same for a scale in one line: beside its end stands how what lies between is spaced. @param {Scale} scale */
export function lyingEnds(scale) {
  const [least, most] = scaleEnds(scale), spaced = SPACED[scale.kind];
  return [least, spaced ? `${most} · ${spaced}` : most];
}

/** A whole number as an exponent. */
function superscript(number) {
  return [...String(number)].map((sign) => (sign === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[sign])).join("");
}
