// How HeadView draws heads as lines across: the text of the queries above, that of the keys below. The lines are those
// of lines.js, turned by a quarter. No state and no listeners.

import { LABEL_FONT, placeText, placeTurned, sizeCanvas, SMALL_FONT, widestOf } from "../core_draw.js";
import { dressLabel, thinnedFrom } from "./draw.js";
import { FLAT_LABELS, LABEL_AIR, SAMPLE_HIGH, SAMPLE_WIDE, TITLE_ROOM } from "./layout.js";
import { drawLines, linesRegion, marksInFront, placesInFront } from "./lines.js";
import { joined, labelsOf } from "./map.js";
import { LONGEST_LABEL } from "./view.js";
/** @import { Scene } from "./map.js" */

const ACROSS_STEP = 14; // pixels between two labels that are turned: with less they run into each other
const ACROSS_WIDEST = 64; // between the tokens of a short text
const ACROSS_TALL = { least: 120, most: 240, share: 0.4 }; // of the lines; the share is that of their width

/**
 * The width of the widest label in sight of each axis, as far as there is room for it.
 * @param {CanvasRenderingContext2D} context @param {Scene} scene
 */
function acrossWidths(context, { names, shown: { source } }, [q0, q1, k0, k1]) {
  const widest = (labels, places) => {
    const wide = widestOf(context, places.map((tokens) => joined(labels, tokens)));
    return Math.ceil(Math.min(LONGEST_LABEL.pixels, wide));
  };
  context.font = `bold ${SMALL_FONT}`;
  return [widest(names.rows, source.rows.slice(q0, q1)), widest(names.columns, source.columns.slice(k0, k1))];
}

/** Where the lines stand, as `linesPlace` says it, and how the labels lie. @param {Scene} scene */
function acrossPlace(context, scene, { win, maps: { length: heads } }) {
  const { w, layout: { room } } = scene, widths = acrossWidths(context, scene, win);
  const seen = { queries: win[1] - win[0], keys: win[3] - win[2] };
  context.font = LABEL_FONT;
  const left = Math.ceil(widestOf(context, w.axes)) + 8;
  const across = Math.max(1, Math.floor(room / SAMPLE_WIDE));
  const legend = heads > 1 ? Math.ceil(heads / across) * SAMPLE_HIGH + 8 : 0;
  const width = Math.min(room - left - 8, ACROSS_WIDEST * Math.max(seen.queries, seen.keys));
  const steps = [width / seen.queries, width / seen.keys];
  const turned = widths.map((widest, axis) => widest > steps[axis] - LABEL_AIR);
  const [above, below] = widths.map((widest, axis) => (turned[axis] ? widest + 4 : FLAT_LABELS - 4) + 6);
  const { least, most, share } = ACROSS_TALL, height = Math.max(least, Math.min(most, share * width));
  const frame = { x: left, y: TITLE_ROOM + legend + above, width, height };
  const at = (i, step) => frame.x + (i + 0.5) * step;
  return {
    frame, across, steps, widths, labelsTurned: turned, turned: true,
    width: Math.max(260, left + width + 8),
    height: frame.y + height + below,
    ends: [frame.y, frame.y + height],
    queryAt: (i) => at(i, steps[0]),
    keyAt: (i) => at(i, steps[1]),
  };
}

/** Write the labels of one axis: of the queries above the lines, of the keys below. */
function acrossLabels(context, place, { label, first, end, found }, axis, cursor, paint) {
  const step = place.steps[axis], room = place.widths[axis] + 2, turned = place.labelsTurned[axis];
  const y = axis ? place.ends[1] + 6 : place.ends[0] - 6;
  for (const i of thinnedFrom(first, end, step, turned ? ACROSS_STEP : 0, cursor, found)) {
    const x = (axis ? place.keyAt : place.queryAt)(i - first);
    dressLabel(context, i === cursor, paint, found(i));
    if (turned) placeTurned(context, label(i), x, y, axis ? "right" : "left", "middle", room);
    else placeText(context, label(i), x, y, "center", axis ? "top" : "bottom", Math.max(step, 8));
  }
}

/** Draw labels, names of the axes, and a mark where there is no line from the token in front. @param {Scene} scene */
function acrossEnds(context, place, scene, region) {
  const { w, shown: { source }, paint, names, found } = scene, [q0, q1, k0, k1] = region.win;
  const inFront = placesInFront(scene), { frame, ends, steps } = place;
  acrossLabels(context, place, labelsOf(names.rows, source.rows, q0, q1, found[0]), 0, inFront[0], paint);
  acrossLabels(context, place, labelsOf(names.columns, source.columns, k0, k1, found[1]), 1, inFront[1], paint);
  context.font = LABEL_FONT;
  context.fillStyle = paint.soft;
  placeText(context, w.axes[0], 0, ends[0] - 6, "left", "bottom", frame.x - 4);
  placeText(context, w.axes[1], 0, ends[1] + 6, "left", "top", frame.x - 4);
  context.font = SMALL_FONT;
  context.fillStyle = paint.ink;
  for (const { axis, at, mark } of marksInFront(scene, region)) {
    if (steps[axis] < 6) continue;
    const [x, y] = axis ? [place.keyAt(at), ends[1] - 4] : [place.queryAt(at), ends[0] + 4];
    placeText(context, mark, x, y, "center", axis ? "bottom" : "top");
  }
}

/** Mark the cursor: a ring at its query, a square at its key, as far as they are in sight. */
function acrossCursor(context, place, [query, key], { win: [q0, q1, k0, k1] }, ink) {
  const [top, bottom] = place.ends;
  context.strokeStyle = ink;
  context.lineWidth = 2;
  context.beginPath();
  if (query >= q0 && query < q1) context.arc(place.queryAt(query - q0), top, 4, 0, 7);
  if (key >= k0 && key < k1) context.rect(place.keyAt(key - k0) - 3, bottom - 3, 6, 6);
  context.stroke();
}

/**
 * Draw the chosen heads as lines from a row of queries to a row of keys. What does not fit at a readable step is cut to
 * what is around the cursor. Returns what `drawPairs` returns.
 * @param {Scene} scene
 */
export function drawAcross(canvas, scene) {
  const context = canvas.getContext("2d"), { w, layout: { room } } = scene;
  context.font = LABEL_FONT;
  const fits = Math.max(2, Math.floor((room - Math.ceil(widestOf(context, w.axes)) - 16) / ACROSS_STEP));
  const region = linesRegion(scene, fits, fits), place = acrossPlace(context, scene, region);
  sizeCanvas(canvas, place.width, place.height);
  const counts = drawLines(context, scene, region, place);
  acrossEnds(context, place, scene, region);
  acrossCursor(context, place, scene.cursor, region, scene.paint.ink);
  const said = region.cut && `Of the tokens in sight, ${fits} fit side by side: those around the cursor. `;
  const cellsOf = (x) => [x / place.steps[0], x / place.steps[1]];
  return { context, frames: [place.frame], win: region.win, ...counts, said, told: [], cellsOf };
}
