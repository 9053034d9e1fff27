// How HeadView draws heads as lines from queries to keys: at the left and the right, or above and below. No state and
// no listeners.

import { LINE_COLOURS } from "../colours.js";
import { drawKept, LABEL_FONT, placeText, sizeCanvas, SMALL_FONT, strokeIn, widestOf, writeIn } from "../core_draw.js";
import { MASKED } from "./codes.js";
import { axisNames, columnLabels, lyingEnds, rowLabels, shareOn } from "./draw.js";
import { ACROSS_STEP, acrossPlace, linesPlace, SAMPLE_HIGH, SAMPLE_WIDE, TITLE_ROOM } from "./layout.js";
import { labelsOf } from "./map.js";
import { lineMaps, rowsTogether } from "./selection.js";
import { regionOf } from "./source.js";

/** Lines need more contrast than fills: readable on white, and on near black. The dash says it without colour. */
const DASHES = [[], [7, 4], [2, 3], [9, 3, 2, 3]];
const MOST_LINES = 3000; // faint lines of all heads together; more are neither seen nor drawn within a frame
const FAINT = 0.004; // of the end of the scale: a weaker line is not seen
const STRENGTHS = 8; // faint lines of about the same strength share one stroke, which keeps many of them fluent
const THIN_FROM = 64; // queries

/** Colour and dash of the shown heads: 32 pairs before one comes again. */
export function lineStyles(count, dark) {
  const palette = LINE_COLOURS[dark ? "dark" : "light"], colours = palette.length;
  return Array.from({ length: count }, (_, i) => ({
    colour: palette[i % colours],
    dash: DASHES[(i + Math.floor(i / colours)) % DASHES.length],
  }));
}

/**
 * Draw a head as faint lines, the `most` strongest of those `from` a weight on. `weights`: those in sight,
 * `seen.queries` by `seen.keys`; `share`: how strong one is, from 0 to 1.
 * @returns {{all: number, drawn: number}} how many lines there are, and how many were drawn
 */
function faintLines(context, weights, seen, place, share, style, most, from) {
  const sizes = weights.map(Math.abs), all = sizes.filter((size) => size >= from && size < Infinity).sort();
  const next = all.length > most ? all.at(-most - 1) : 0; // the first that is left out, with all that are alike
  const drawn = all.filter((size) => size > next);
  const groups = Array.from({ length: STRENGTHS }, () => []);
  sizes.forEach((size, i) => {
    const strength = Math.min(STRENGTHS - 1, Math.floor(share(size) * STRENGTHS));
    if (size >= drawn[0] && size < Infinity) groups[strength].push(i);
  });
  const [begin, to] = place.ends, [queryAt, keyAt] = place.at;
  context.setLineDash(style.dash);
  strokeIn(context, style.colour, seen.queries > THIN_FROM ? 0.75 : 1);
  groups.forEach((group, g) => {
    context.globalAlpha = 0.08 + 0.42 * ((g + 0.5) / STRENGTHS);
    context.beginPath();
    for (const i of group) {
      context.moveTo(begin, queryAt(Math.floor(i / seen.keys)));
      context.lineTo(to, keyAt(i % seen.keys));
    }
    context.stroke();
  });
  context.globalAlpha = 1;
  context.setLineDash([]);
  return { all: all.length, drawn: drawn.length };
}

/** Draw one line of a head. */
function strokeLine(context, { colour, dash }, width, from, to) {
  context.setLineDash(dash);
  strokeIn(context, colour, width);
  context.beginPath();
  context.moveTo(...from);
  context.lineTo(...to);
  context.stroke();
  context.setLineDash([]);
}

/**
 * The lines of one token: `[query, key, weight]` of each, in sight.
 * @param {Float32Array} weights @param {{queries: number, keys: number}} seen
 * @param {{axis: number, place: number}} one
 */
function linesOf(weights, seen, { axis, place }) {
  if (place < 0 || place >= (axis ? seen.keys : seen.queries)) return [];
  return axis ? Array.from({ length: seen.queries }, (_, q) => [q, place, weights[q * seen.keys + place]])
    : Array.from({ length: seen.keys }, (_, k) => [place, k, weights[place * seen.keys + k]]);
}

/** Draw lines strong: `[query, key, weight]` of each. */
function strongLines(context, lines, place, share, style) {
  const [begin, to] = place.ends, [queryAt, keyAt] = place.at;
  for (const [query, key, weight] of lines) {
    const strength = share(Math.abs(weight));
    if (!(strength >= FAINT) || weight === MASKED) continue;
    context.globalAlpha = 0.35 + 0.65 * strength;
    strokeLine(context, style, 1 + 3.5 * strength, [begin, queryAt(query)], [to, keyAt(key)]);
  }
  context.globalAlpha = 1;
}

const SAMPLE = { long: 34, gap: 6, air: 14 };

/** The room of an entry of the legend, its name in full. */
function sampleWide(canvas, names) {
  const context = canvas.getContext("2d"), { long, gap, air } = SAMPLE;
  context.font = SMALL_FONT;
  return Math.max(SAMPLE_WIDE, Math.ceil(widestOf(context, names)) + long + gap + air);
}

/** Draw entry `i` of the legend. */
function lineSample(context, name, i, { samples, wide }, style, paint) {
  const x = (i % samples) * wide, y = TITLE_ROOM + 6 + Math.floor(i / samples) * SAMPLE_HIGH;
  const { long, gap, air } = SAMPLE;
  strokeLine(context, style, 3, [x, y], [x + long, y]);
  writeIn(context, SMALL_FONT, paint.ink);
  placeText(context, name, x + long + gap, y, "left", "middle", wide - long - gap - air);
}

/** The tokens whose lines are strong: the one under the pointer, else the queries that are shown together. */
function tokensInFront({ isolated, view, shown: { source } }) {
  return isolated ? [isolated] : rowsTogether(view, source).map((place) => ({ axis: 0, place }));
}

/**
 * Draw the labels at both ends, and beside those what the token in front may not see or what is no number.
 * @param {Scene} scene
 */
function drawEnds(context, place, scene, region) {
  const { shown: { source }, paint, isolated, cursor } = scene;
  const { turned, steps, at, beside, marks } = place;
  source.places.forEach((places, axis) => {
    const span = region.win.slice(2 * axis, 2 * axis + 2), labels = labelsOf(scene, axis, places, span);
    const inFront = isolated?.axis === axis ? isolated.place : cursor[axis];
    const write = turned ? columnLabels : rowLabels, along = { [turned ? "x" : "y"]: (i) => at[axis](i - span[0]) };
    write(context, labels, inFront, paint, { ...beside[axis], step: steps[axis], ...along });
  });
  writeIn(context, SMALL_FONT, paint.ink);
  for (const { axis, place: token, mark } of marksInFront(scene, region)) {
    const { from, end, align, baseline } = marks[axis], spot = at[axis](token);
    if (steps[axis] >= from) placeText(context, mark, turned ? spot : end, turned ? end : spot, align, baseline);
  }
}

/** What stands at the other ends where there is no line from the token in front. @param {Scene} scene */
function marksInFront(scene, { win, seen, maps }) {
  const [{ axis, place }] = tokensInFront(scene), one = { axis, place: place - win[2 * axis] };
  const all = maps.filter(Boolean).map((weights) => linesOf(weights, seen, one));
  return (all[0] || []).flatMap(([q, k], i) => {
    const missing = all.some((lines) => Number.isNaN(lines[i][2]));
    const masked = all.every((lines) => lines[i][2] === MASKED);
    return missing || masked ? [{ axis: 1 - axis, place: axis ? q : k, mark: missing ? "?" : "×" }] : [];
  });
}

/** Mark the cursor, as far as it is in sight: a ring at its query, a square at its key. */
function lineCursor(context, { turned, ends, at }, { cursor, paint }, { win }) {
  strokeIn(context, paint.ink, 2);
  context.beginPath();
  cursor.forEach((token, axis) => {
    if (token < win[2 * axis] || token >= win[2 * axis + 1]) return;
    const spot = [ends[axis], at[axis](token - win[2 * axis])], [x, y] = turned ? spot.reverse() : spot;
    if (axis) context.rect(x - 3, y - 3, 6, 6);
    else {
      context.moveTo(x + 4, y);
      context.arc(x, y, 4, 0, 7);
    }
  });
  context.stroke();
}

const LINES_UP_TO = 1024; // queries and keys in sight: more lines are one grey

/**
 * The cells in sight of each head, whole ones. Where more than `upTo` are in sight, `around` of them at the cursor.
 * @param {Scene} scene @returns {{win: Win, seen: {queries: number, keys: number}, names: string[],
 *   maps: (Float32Array | null)[], cut: boolean}}
 */
function linesRegion({ view, shown, win, cursor }, upTo = LINES_UP_TO, around = 256) {
  const size = shown.source.places.map((places) => places.length);
  const spans = size.map((most, axis) => {
    const first = Math.max(0, Math.floor(win[2 * axis])), end = Math.min(most, Math.ceil(win[2 * axis + 1]));
    if (end - first <= upTo) return [first, end];
    const start = Math.max(first, Math.min(end - around, cursor[axis] - (around >> 1)));
    return [start, start + around];
  });
  /** @type {any} */
  const region = spans.flat(), [queries, keys] = spans.map(([first, end]) => end - first);
  const lines = lineMaps(view, shown);
  const whole = spans.every(([first, end], axis) => first === 0 && end === size[axis]);
  return {
    win: region, seen: { queries, keys }, names: lines.map(({ name }) => name),
    cut: spans.some(([first, end], axis) => end - first < Math.floor(win[2 * axis + 1] - win[2 * axis])),
    maps: lines.map(({ source }) => source && (whole && source.cells || regionOf(source, region))),
  };
}

/**
 * Draw the lines of a region: faint ones of all tokens, unless one stands alone, and strong ones of those in front.
 * Returns how many faint lines there are and are drawn.
 * @param {Scene} scene
 */
function drawLines(context, scene, { win, seen, names, maps }, place) {
  const { shown, paint, kept, isolated } = scene, scale = sizesOn(shown), share = shareOn(scale);
  const styles = lineStyles(maps.length, scene.look.dark);
  const turn = (sheet) => place.turned && sheet.transform(0, 1, 1, 0, 0, 0);
  const from = Math.max(FAINT, scene.least) * scale.top;
  const id = JSON.stringify([names, shown.source.key, scale, win, place.turned, from, scene.view.blocks.count()]);
  if (!isolated) {
    drawKept(context, kept.lines, id, place.width, place.height, (sheet) => {
      const most = Math.floor(MOST_LINES / maps.length), counts = { all: 0, drawn: 0 };
      turn(sheet);
      maps.forEach((weights, i) => {
        const one = weights && faintLines(sheet, weights, seen, place, share, styles[i], most, from);
        counts.all += one?.all || 0;
        counts.drawn += one?.drawn || 0;
      });
      return counts;
    });
  }
  if (names.length > 1) names.forEach((name, i) => lineSample(context, name, i, place, styles[i], paint));
  const front = tokensInFront(scene).map(({ axis, place }) => ({ axis, place: place - win[2 * axis] }));
  context.save();
  turn(context);
  maps.forEach((weights, i) => weights && front.forEach((one) => (
    strongLines(context, linesOf(weights, seen, one), place, share, styles[i]))));
  context.restore();
  return kept.lines.made;
}

/** The scale of what is drawn as lines, which say how large a number is, not its sign. @returns {Scale} */
const sizesOn = ({ frames }) => ({ ...frames[0].scale, signed: false });

const WEDGE = { long: 50, high: 5, air: 6 };

/** Write what the strength of lines says, at the foot of a canvas: from thin to thick. */
function strengthScale(context, { frame, height }, { shown, paint }) {
  const [least, most] = lyingEnds(sizesOn(shown)), right = frame.x + frame.width, y = height - 10;
  writeIn(context, SMALL_FONT, paint.ink);
  const { long, high, air } = WEDGE, end = right - context.measureText(most).width - air;
  placeText(context, most, right, y, "right", "middle");
  placeText(context, least, end - long - air, y, "right", "middle");
  context.beginPath();
  context.moveTo(end - long, y);
  context.lineTo(end, y - high / 2);
  context.lineTo(end, y + high / 2);
  context.fill();
}

/** Draw a region as lines in a place. Returns where the lines are, and how many. @param {Scene} scene */
function drawRegion(canvas, scene, region, place) {
  const { frame, steps, turned } = place, context = sizeCanvas(canvas, place.width, place.height);
  const counts = drawLines(context, scene, region, place);
  drawEnds(context, place, scene, region);
  lineCursor(context, place, scene, region);
  strengthScale(context, place, scene);
  const cellsOf = (x, y) => steps.map((step) => (turned ? x : y) / step);
  return { frames: [frame], win: region.win, ...counts, cellsOf };
}

/** Draw the chosen heads as lines from the queries at the left to the keys at the right. @param {Scene} scene */
export function drawPairs(canvas, scene) {
  const { w: { axes }, paint, layout } = scene, region = linesRegion(scene);
  const wide = sampleWide(canvas, region.names);
  const place = linesPlace(region.seen, layout, region.maps.length, wide);
  const drawn = drawRegion(canvas, scene, region, place), context = canvas.getContext("2d");
  axisNames(context, place.frame, place.height, axes[0], "", paint);
  placeText(context, axes[1], place.ends[1] + 6, place.height - 4, "left", "bottom");
  return { ...drawn, cut: region.cut };
}

/**
 * Draw the chosen heads as lines from a row of queries to a row of keys. What does not fit at a readable step is cut to
 * what is around the cursor. Returns what `drawPairs` returns.
 * @param {Scene} scene
 */
export function drawAcross(canvas, scene) {
  const { w: { axes }, paint, layout } = scene, measure = canvas.getContext("2d");
  measure.font = LABEL_FONT;
  const left = Math.ceil(widestOf(measure, axes)) + 8;
  const fits = Math.max(2, Math.floor((layout.room - left - 8) / ACROSS_STEP)), region = linesRegion(scene, fits, fits);
  const wide = sampleWide(canvas, region.names);
  const place = acrossPlace(region.seen, layout, region.maps.length, wide, left), [above, below] = place.ends;
  const drawn = drawRegion(canvas, scene, region, place), context = canvas.getContext("2d");
  writeIn(context, LABEL_FONT, paint.soft);
  placeText(context, axes[0], 0, above - 6, "left", "bottom", left - 4);
  placeText(context, axes[1], 0, below + 6, "left", "top", left - 4);
  const said = region.cut && `Of the tokens in sight, ${fits} fit side by side: those around the cursor. `;
  return { ...drawn, said };
}
