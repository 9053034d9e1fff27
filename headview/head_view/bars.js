// The weights of one query in HeadView, or of several summed, as bars: their strongest keys. Of a comparison both sides.

import { cssColour, LABEL_FONT, placeText, sizeCanvas, SMALL_FONT, strokeIn, writeIn } from "../core_draw.js";
import { formatWeight, MASKED } from "./codes.js";
import { dressLabel, pixelsOf, shareOn } from "./draw.js";
import { lineStyles } from "./lines.js";
import { joined } from "./map.js";
import { placeName } from "./sample.js";
import { notHere, rowsTogether, rowTogether } from "./selection.js";

const BAR = { top: 44, step: 21, high: 15, left: 86, right: 60 }; // in the list; names left, numbers right
const PAIR = { ...BAR, top: 62, step: 31, high: 25, legend: 36 }; // of two sides: a legend, and two bars a key

/** Draw the strongest keys of the cursor's query, strongest first, and say them. @param {Scene} scene */
export function drawBars(canvas, scene) {
  const { w, shown, paint, view, layout, names, look } = scene;
  const compared = shown.frames.filter(({ side }) => side !== "difference");
  const pair = compared.length > 1, frames = pair ? compared : shown.frames.slice(0, 1), [{ source }] = frames;
  const columns = source.columns.length, width = layout.bars, bar = pair ? PAIR : BAR;
  const context = sizeCanvas(canvas, width, bar.top + Math.min(layout.most, columns) * bar.step + 4);
  context.direction = "ltr";
  writeIn(context, `bold ${LABEL_FONT}`, paint.ink);
  const queries = rowsTogether(view, source).map((place) => placeName(names.rows, source.rows[place]));
  const title = `${w.axes[0]} ${queries.join(" + ")}`;
  placeText(context, title, 0, 0, "left", "top", width);
  writeIn(context, SMALL_FONT, paint.soft);
  const rows = frames.map((frame) => rowTogether(view, frame.source));
  if (rows.includes(null)) {
    const why = notHere(view, "The numbers of this row are");
    placeText(context, why, 0, 18, "left", "top", width);
    return canvas.setAttribute("aria-label", why);
  }
  const sizes = Float32Array.from(rows[0].cells, (_, i) =>
    rows.reduce((most, { cells }) => (cells[i] > MASKED ? Math.max(most, Math.abs(cells[i])) : most), -1));
  const least = Math.max(0, sizes.slice().sort().at(-layout.most) ?? 0); // thousands are sorted fast as numbers only
  const numbers = [...sizes.keys()].filter((i) => sizes[i] >= least);
  const order = numbers.sort((a, b) => sizes[b] - sizes[a]).slice(0, layout.most);
  const count = (is) => rows[0].cells.filter(is).length, masked = count((x) => x === MASKED), missing = count((x) => x !== x);
  const heads = `${shown.all ? "all " : ""}${shown.names.length} heads`;
  const together = shown.names.length > 1 && shown.title.replace(/ of .*/, ` of ${heads}`);
  const facts = [`${columns} ${w.axes[1]}s`, together, masked && `${masked} masked`, missing && `${missing} NaN`];
  const rest = facts.filter(Boolean).join(", "), fills = pair ? lineStyles(2, look.dark) : [];
  const which = !pair && frames[0].title ? `${frames[0].title}: ` : "";
  placeText(context, `${which}strongest of ${rest}`, 0, 18, "left", "top", width);
  if (pair) frames.forEach(({ title }, n) => nameSide(context, title, fills[n].colour, (n * width) / 2, width / 2, paint));
  const text = (i, n) => formatWeight(rows[n].cells[i], rows[n].exact ? 0 : frames[n].source.error(rows[n].cells[i]));
  const end = Math.max(frames[0].scale.top, ...order.slice(0, 1).map((i) => sizes[i]), 1e-9); // a sum goes further than the scale
  order.forEach((key, i) => {
    nameBar(context, scene, source, key, bar.top + i * bar.step + bar.high / 2 + 0.5);
    frames.forEach((frame, n) => {
      const high = (bar.high + 1) / frames.length - 1, y = bar.top + i * bar.step + n * (high + 1);
      drawBar(context, scene, frame, rows[n].cells[key], text(key, n), { y, high, end, fill: fills[n]?.colour });
    });
  });
  if (!order.length) {
    placeText(context, masked ? "nothing to attend to" : "no number in this row", 0, bar.top + 2, "left", "top");
  }
  const said = (key) => frames.map(({ title }, n) => (pair ? `${title} ${text(key, n)}` : text(key, n))).join(", ");
  const labels = w.labels(1, view.model.get("side"));
  const heard = order.slice(0, 5).map((key) => `${placeName(labels, source.columns[key])} ${said(key)}`);
  canvas.setAttribute("aria-label", `Weights of ${title}: ${heard.join("; ") || "none"}. ${rest}.`);
}

/** Name a side beside its colour, that of its lines. */
function nameSide(context, name, colour, x, room, paint) {
  context.fillStyle = colour;
  context.fillRect(x, PAIR.legend + 3, 18, 8);
  writeIn(context, SMALL_FONT, paint.ink);
  placeText(context, name, x + 24, PAIR.legend, "left", "top", room - 32);
}

/** Write the name of a key before its bars. */
function nameBar(context, { paint, names, cursor, found }, source, key, middle) {
  const sought = source.columns[key].some((token) => found[1].has(token));
  dressLabel(context, key === cursor[1], { ...paint, soft: paint.ink }, sought);
  placeText(context, joined(names.columns, source.columns[key]), BAR.left - 6, middle, "right", "middle", BAR.left - 8);
}

/** Draw one bar and its number. */
function drawBar(context, { paint, layout, look }, { scale }, weight, text, { y, high, end, fill }) {
  const none = !(weight > MASKED), share = none ? 0 : Math.min(1, Math.abs(weight) / end);
  const long = Math.max(1, (layout.bars - BAR.left - BAR.right) * share);
  const table = pixelsOf(scale, look), shade = none ? 0 : shareOn({ ...scale, kind: "fixed", top: end })(weight);
  context.fillStyle = fill || cssColour(table[Math.round(shade * 255)]);
  context.fillRect(BAR.left, y, long, high);
  strokeIn(context, paint.line, 1);
  context.strokeRect(BAR.left + 0.5, y + 0.5, Math.max(1, long - 1), high - 1);
  writeIn(context, SMALL_FONT, paint.ink);
  placeText(context, text.replace(/^about | ±.*$/g, ""), BAR.left + long + 6, y + high / 2, "left", "middle", BAR.right - 8);
}
