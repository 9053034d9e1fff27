// How HeadView draws a map: its pixels, marks, numbers, labels and scale. No state and no listeners.

const HATCH = 4; // every fourth pixel
const HATCH_MASKED = packColour([150, 150, 150]), HATCH_NAN = packColour([255, 255, 255]);

/**
 * @typedef {object} Scale how numbers become colours
 * @property {string} kind "fixed", "maximum", "log" or "root" @property {number} top the number of the last colour
 * @property {boolean} signed from -top to top, with its own colours
 */

/** Where the logarithmic scale begins, as in mhalib.plots.scales; what is smaller has the first colour. */
const logFrom = (top) => (top < 1e-3 ? 10 ** (Math.floor(Math.log10(top)) - 4) : 1e-4);

/** Return what tells the place of a number on a scale, 0 to 1; signed, 0 lies at a half. @param {Scale} scale */
function shareOn({ kind, top, signed }) {
  const most = Math.max(top, 1e-9), from = logFrom(most), span = Math.log(most / from);
  const size = {
    log: (weight) => (weight <= from ? 0 : Math.log(weight / from) / span),
    root: (weight) => Math.sqrt(weight / most),
  }[kind] || ((weight) => weight / most);
  if (!signed) return (weight) => Math.min(1, Math.max(0, size(weight)));
  return (value) => 0.5 + 0.5 * Math.sign(value) * Math.min(1, size(Math.abs(value)));
}

/** The 256 pixels of a scale: of the chosen colour map, or those of signed numbers. */
function pixelsOf(scale, colours) {
  return scale.signed ? DIVERGING_PIXELS : (MAP_PIXELS[colours] || WEIGHT_PIXELS);
}

/**
 * Colour numbers, one pixel each, into an ImageData as wide as `stride`, the first one at pixel `start`. Where cells
 * are too small for marks, `hatched` says by a pattern what the colour says: masked one way, NaN the other.
 * `pixels` is a Uint32Array.
 */
function shadeWeights(pixels, start, stride, weights, { rows, columns, scale, colours, hatched }) {
  const share = shareOn(scale), table = pixelsOf(scale, colours);
  const masked = scale.signed || colours === "Greys" ? MASKED_ON_WHITE_PIXEL : MASKED_PIXEL; // grey may be a number
  const turns = HATCH * Math.max(rows, columns); // keeps x - y from being negative
  const plain = scale.kind !== "log" && scale.kind !== "root" && !scale.signed;
  const factor = 255 / Math.max(scale.top, 1e-9);
  for (let y = 0, i = 0; y < rows; y++) {
    for (let x = 0, at = start + y * stride; x < columns; x++, i++, at++) {
      const weight = weights[i];
      if (plain && weight >= 0) pixels[at] = table[Math.min(255, (weight * factor + 0.5) | 0)];
      else if (weight === MASKED) pixels[at] = hatched && (x + y) % HATCH === 0 ? HATCH_MASKED : masked;
      else if (weight === weight) pixels[at] = table[(share(weight) * 255 + 0.5) | 0];
      else pixels[at] = hatched && (x - y + turns) % HATCH === 0 ? HATCH_NAN : NAN_PIXEL;
    }
  }
}

/** The middle of cell `i` of a region that is `wide` cells wide and begins at `origin`. */
function middleOf(i, wide, origin, { frame, cell }) {
  return [
    frame.x + ((i % wide) + origin[1] + 0.5) * cell.wide,
    frame.y + (Math.floor(i / wide) + origin[0] + 0.5) * cell.high,
  ];
}

/** Draw a cross into every masked cell and a "?" into every NaN cell of a region. `origin`: where it begins. */
function markCells(context, weights, wide, origin, place) {
  const side = Math.min(place.cell.wide, place.cell.high);
  context.beginPath();
  context.font = `bold ${Math.round(Math.min(side, 20) * 0.7)}px system-ui, sans-serif`;
  context.fillStyle = "#000";
  for (let i = 0; i < weights.length; i++) {
    if (weights[i] > MASKED && weights[i] === weights[i]) continue;
    const [x, y] = middleOf(i, wide, origin, place);
    if (weights[i] === MASKED) addCross(context, x, y, side * 0.22);
    else placeText(context, "?", x, y + 1, "center", "middle");
  }
  context.strokeStyle = CROSS_INK;
  context.lineWidth = 1;
  context.stroke();
}

/** The ink, black or white, that reads on a pixel. */
function inkOn(pixel) {
  const part = (shift) => ((pixel >> shift) & 255) / 255;
  const linear = (c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  const light = 0.2126 * linear(part(0)) + 0.7152 * linear(part(8)) + 0.0722 * linear(part(16));
  return light > 0.179 ? "#000" : "#fff"; // where both have the same contrast, by WCAG
}

/** Write the numbers into the cells of a region, as far as they are numbers. */
function cellValues(context, weights, wide, origin, place, scale, colours) {
  const share = shareOn(scale), table = pixelsOf(scale, colours);
  context.font = SMALL_FONT;
  for (let i = 0; i < weights.length; i++) {
    if (!(weights[i] > MASKED)) continue;
    context.fillStyle = inkOn(table[(share(weights[i]) * 255 + 0.5) | 0]);
    placeText(context, shortNumber(weights[i]), ...middleOf(i, wide, origin, place), "center", "middle");
  }
}

/** A number for a cell. */
function shortNumber(value) {
  return Math.abs(value) < 10 ? value.toFixed(2) : value.toPrecision(3);
}

/** Set font and colour of a label: the one of the cursor stands out, and what was searched for. */
function dressLabel(context, isCursor, paint, isFound = false) {
  context.font = isCursor || isFound ? `bold ${SMALL_FONT}` : SMALL_FONT;
  context.fillStyle = isFound ? paint.accent : isCursor ? paint.ink : paint.soft;
}

/**
 * Write labels in a column: `label(i)` for those from `first` to before `end`. The last parameter says where they end
 * or begin (x), their middle heights (y, a function), the distance between two and the room of one.
 */
function rowLabels(context, { label, first, end, found }, cursor, paint, { x, y, step, room, align }) {
  for (const i of thinnedFrom(first, end, step, 14, cursor, found)) {
    dressLabel(context, i === cursor, paint, found?.(i));
    placeText(context, label(i), x, y(i), align, "middle", room);
  }
}

/** Write labels below a row of cells, turned where they do not fit; places as for `rowLabels`, turned as well. */
function columnLabels(context, { label, first, end, found }, cursor, paint, { x, y, step, room }) {
  context.font = SMALL_FONT;
  const wider = (i) => context.measureText(label(i)).width > step - LABEL_AIR;
  let turned = step < 14;
  for (let i = first; i < end && !turned; i++) turned = wider(i); // often the first
  for (const i of thinnedFrom(first, end, step, turned ? 14 : 0, cursor, found)) {
    dressLabel(context, i === cursor, paint, found?.(i));
    if (turned) placeTurned(context, label(i), x(i), y, "right", "middle", room);
    else placeText(context, label(i), x(i), y, "center", "top");
  }
}

/** `thinned` for the labels from `first` on; where some were searched for, these come before the others. */
function thinnedFrom(first, end, step, room, kept, found) {
  const all = thinned(end - first, step, room, kept - first).map((i) => i + first);
  const plain = all.filter((i) => i >= first && i < end);
  if (!found || step >= room) return plain;
  const shown = kept >= first && kept < end ? [kept] : [];
  const isFree = (i) => shown.every((other) => Math.abs(other - i) * step >= room);
  let last = -Infinity;
  for (let i = first; i < end; i++) {
    if ((i - last) * step < room || !found(i) || !isFree(i)) continue;
    shown.push(i);
    last = i;
  }
  return last === -Infinity ? plain : [...shown, ...plain.filter(isFree)];
}

/** Name the axes: `rows` beside the frame, turned; `columns` below it, at the foot of a canvas of this height. */
function axisNames(context, frame, height, rows, columns, paint) {
  context.font = LABEL_FONT;
  context.fillStyle = paint.soft;
  placeText(context, columns, frame.x + frame.width / 2, height - 2, "center", "bottom");
  placeTurned(context, rows, 2, frame.y + frame.height / 2, "center", "top");
}

/** Draw a colour scale, the numbers beside it. @param {Scale} scale */
function colourBar(context, x, y, height, scale, colours, paint) {
  const wide = 12, table = pixelsOf(scale, colours);
  for (let i = 0; i < height; i++) {
    const pixel = table[Math.round(255 * (1 - i / height))];
    context.fillStyle = `rgb(${pixel & 255} ${(pixel >> 8) & 255} ${(pixel >> 16) & 255})`;
    context.fillRect(x, y + i, wide, 1.5);
  }
  context.font = SMALL_FONT;
  context.fillStyle = paint.ink;
  const at = x + wide + 4, [least, most] = scaleEnds(scale);
  placeText(context, most, at, y, "left", "top");
  placeText(context, least, at, y + height, "left", "bottom");
  const middle = scale.signed ? "0" : { log: scale.top === 1 && "0.01", root: scale.top === 1 && "0.25" }[scale.kind];
  if (middle && height > 50) placeText(context, middle, at, y + height / 2, "left", "middle");
}

/** What stands at the two ends of a scale; SCALE_ROOM of layout.js holds it. @param {Scale} scale */
function scaleEnds({ kind, top, signed }) {
  const short = top < 0.01 || top >= 1000 ? top.toExponential(1).replace("+", "") : top.toPrecision(3);
  const most = top === 1 ? "1" : short;
  if (signed) return [`−${most}`, most];
  return [kind === "log" ? `≤ 10${superscript(Math.round(Math.log10(logFrom(top))))}` : "0", most];
}

/** A whole number as an exponent. */
function superscript(number) {
  return [...String(number)].map((sign) => (sign === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[sign])).join("");
}
