// What HeadView shows of all its heads: those that are chosen, the maps they combine to, and what is said of a cell.

import { kept } from "../core.js";
import { formatWeight, MASKED } from "./codes.js";
import { computeShown, TILE } from "./combine.js";
import { hiddenLabels } from "./hidden_tokens.js";
import { headName, pairOf, placeName } from "./sample.js";
import { localSource, remoteSource, specKey } from "./source.js";

const MOST_SOURCES = 80; // 32 heads of two sides, and what combines them

/** The heads that are drawn: those ticked and the chosen one; or all of a layer, or all. @returns {number[][]} */
export function shownHeads(model) {
  const which = model.get("heads"), [layers, heads] = model.get("parts")[model.get("part")].shape;
  if (which !== "chosen") {
    const first = which === "all" ? 0 : model.get("layer") * heads, count = which === "all" ? layers * heads : heads;
    return Array.from({ length: count }, (_, i) => pairOf({ heads }, first + i));
  }
  const layer = model.get("layer"), head = model.get("head"), overlay = model.get("overlay");
  return overlay.some(([i, j]) => i === layer && j === head) ? overlay : [[layer, head], ...overlay];
}

/** Which sides of a comparison are drawn: of a panel that shows one side only, the first of these. */
export function sidesOf(model) {
  const side = model.get("sides").length < 2 ? "a" : model.get("side");
  return side === "both" ? ["a", "b", "difference"] : [side];
}

/** The side whose heads are told one by one: a difference has none of its own. */
export const sideOfHeads = (model) => (sidesOf(model)[0] === "b" ? "b" : "a");

/** What is asked for as one map. The order of the names is that of Python. @param {View} view */
function specOf(view, heads, side) {
  const { model, w } = view;
  return {
    part: w.part, sample: w.sample, side, heads, combine: heads.length > 1 ? model.get("combine") : "maximum",
    values: model.get("values"), hidden: hiddenLabels(view), renormalise: model.get("renormalise"),
    words: model.get("words"),
  };
}

/** Return the map of a spec, kept while it is in use; null while the weights are not there. @param {View} view */
export function sourceOf(view, spec) {
  const key = specKey(spec), source = view.sources.get(key) || newSource(view, spec);
  view.sources.delete(key); // the last one used stands last
  return source && kept(view.sources, key, () => source, MOST_SOURCES);
}

/** @param {View} view @returns {Source | null} */
function newSource(view, spec) {
  const { w } = view, needs = spec.side === "difference" ? ["a", "b"] : [spec.side];
  if (!w.whole) return remoteSource(view, spec, w);
  const there = needs.every((side) => w.all(side)) && (spec.values !== "values" || w.norms);
  return there ? localSource(spec, w, computeShown(w, spec)) : null;
}

/** Can such numbers not be made of this part? Python says the same, and why. @param {Weights} w */
export function lacks(w, values) {
  if (values === "values") return !w.meta.has_values;
  return values === "rollout" && (w.queries !== w.keys || w.signed);
}

/** Are the numbers that are shown such as may be larger than 1? @param {Weights} w */
export const isOpen = (w, values = "weights") => w.signed || w.kind === "positive" || values === "values";

// The largest number that is shown; of less they show little. And that of all heads, see first_look.py.
const FIXED_FROM = 0.35, ROOT_FROM = 0.02, ROOT_TO_ONE_FROM = 0.1;

/**
 * The scales of maps that stand side by side, as `scale_of` in Python has them: what is compared shares one end, a
 * difference has its own. Where there is no number but 0, it is 1.
 * @param {{signed: boolean, top: number | null}[]} sources @returns {Scale[]}
 */
export function scalesOf(sources, model, w) {
  const asked = model.get("scale"), signed = (source) => source.signed;
  const most = (some) => Math.max(0, ...some.map(({ top }) => top ?? 1));
  const ends = [most(sources.filter((source) => !signed(source))), most(sources.filter(signed))];
  let auto = w.meta.auto === "fixed" && ends[0] < FIXED_FROM ? "root" : w.meta.auto;
  if (auto === "root" && ends[0] < ROOT_FROM) auto = "maximum";
  const kind = asked === "auto" ? auto : asked, follows = kind === "maximum" || isOpen(w, model.get("values"));
  const all = Math.max(ends[0], w.largest), end = asked === "auto" && kind === "root" && all < ROOT_TO_ONE_FROM ? all : 1;
  return sources.map((source) => {
    const own = follows || (source.signed && asked === "auto");
    return { kind, top: own ? Math.max(ends[source.signed ? 1 : 0] || 1, 1e-9) : end, signed: source.signed };
  });
}

/** The queries whose rows are shown as one: that of the cursor, and those chosen beside it. @param {View} view */
export const queriesTogether = ({ model }) => [...new Set([model.get("query"), ...model.get("rows")])];

/** Their rows in a map; hidden ones share that of a neighbour. @param {View} view @param {Source} source */
export const rowsTogether = (view, { rows }) =>
  [...new Set(queriesTogether(view).map((query) => placeOf(rows, query)))];

/** The numbers of all rows that are shown as one, summed; null while some are not there. @param {View} view */
export function rowTogether(view, source) {
  const places = rowsTogether(view, source), found = places.map((place) => source.row(place));
  if (found.includes(null)) return null;
  if (found.length === 1) return found[0];
  const cells = Float32Array.from(found[0].cells, (_, i) => {
    const numbers = found.map((row) => row.cells[i]).filter((cell) => cell !== MASKED);
    return numbers.length ? numbers.reduce((sum, cell) => sum + cell, 0) : MASKED;
  });
  return { cells, exact: found.every(({ exact }) => exact) };
}

/** The maps that are drawn, with names and scales; null while nothing is there yet. @param {View} view */
export function shownMaps(view) {
  const { model, w } = view, pairs = shownHeads(model), sides = sidesOf(model);
  const sources = sides.map((side) => sourceOf(view, specOf(view, pairs, side)));
  if (sources.includes(null)) return null;
  const names = pairs.map(([layer, head]) => headName(w, layer, head)), several = names.length > 1;
  const all = model.get("heads") !== "chosen" && several;
  const ofLayer = model.get("heads") === "layer" && (w.layers > 1 || w.meta.named);
  const of = ofLayer ? ` of ${w.meta.layer_names[model.get("layer")]}` : "";
  const heads = all ? `all ${names.length.toLocaleString("en")} heads${of}` : names.join(", ");
  const what = { weights: "", values: "value-weighted ", rollout: "rollout up to " }[model.get("values")];
  const [a, b] = model.get("sides"), called = { a, b, difference: `${b} − ${a}` }, scales = scalesOf(sources, model, w);
  const frames = sources.map((source, i) => (
    { source, side: sides[i], title: b === undefined ? "" : called[sides[i]], scale: scales[i] }));
  const title = what + (several ? `${model.get("combine")} of ${heads}` : heads);
  return { pairs, names, all, title, frames, source: sources[0], called };
}

/** The lines of line mode: one map for each head and side; one a side of all heads. @param {View} view */
export function lineMaps(view, shown) {
  const { names, called, pairs, frames: all } = shown;
  const frames = all.length > 1 ? all.filter(({ side }) => side !== "difference") : all;
  const named = (side, name) => { // one head is named by the title of the picture
    if (frames.length < 2) return name;
    return names.length < 2 ? called[side] : `${called[side]}: ${name}`;
  };
  return frames.flatMap(({ side, source }) => (shown.all ? [{ name: named(side, shown.title), source }]
    : pairs.map((pair, i) => ({ name: named(side, names[i]), source: sourceOf(view, specOf(view, [pair], side)) }))));
}

/** The row or column that holds a token; the nearest one where it is hidden. @param {number[][]} places */
export const placeOf = (places, token) => Math.max(0, places.findLastIndex((group) => group[0] <= token));

/** The row and column of the cursor in a map. @param {View} view @param {Source} source @returns {[number, number]} */
export const cursorIn = ({ model }, { rows, columns }) =>
  [placeOf(rows, model.get("query")), placeOf(columns, model.get("key"))];

/** The map that is shown, or the first of several, with the cursor in it; null while it is not there. @param {View} view */
export function here(view) {
  const source = shownMaps(view)?.source;
  return source ? { source, cursor: cursorIn(view, source) } : null;
}

/** The middle of the cursor's cell. @param {View} view */
export const cursorMiddle = (view) => (here(view)?.cursor || [0, 0]).map((at) => at + 0.5);

/** Say that numbers are not there: on their way from a kernel, or not in a page that has none. @param {View} view */
export const notHere = ({ model }, what) =>
  (model.isStatic ? `${what} not in this page. ` : `${what} not here yet. `);

/**
 * The number of the smallest block around a cell that is there, and its rows and columns; null where it says nothing
 * of that cell. @param {Source} source
 */
function largestAt(source, row, column) {
  for (let level = 1; level < source.levels && !source.signed; level++) {
    const block = source.block(level), [q, k] = [row, column].map((at, axis) => Math.floor(at / block[axis]));
    const [i, j] = [q, k].map((at) => Math.floor(at / TILE)), tile = source.has(level, i, j) && source.tile(level, i, j);
    if (!tile) continue;
    const value = tile.cells[(q - i * TILE) * tile.columns + k - j * TILE];
    return Number.isNaN(value) ? null : { value, block };
  }
  return null;
}

/** Say a number of a map: exactly, or about, with what it may be off by. @param {Source} source */
function numberText(view, source, row, column) {
  const found = source.row(row), most = found ? null : largestAt(source, row, column);
  if (most?.value === MASKED) return formatWeight(MASKED);
  if (most) return `at most ${formatWeight(most.value, source.error(most.value))} (${most.block.join(" × ")})`;
  if (!found) return notHere(view, "").trim();
  const value = found.cells[column];
  return formatWeight(value, found.exact ? 0 : source.error(value));
}

/** Say a cell: the numbers shown there. @param {View} view */
export function cellText(view, row, column) {
  const { w, model } = view, shown = shownMaps(view);
  if (!shown) return "";
  const { rows, columns } = shown.source, mode = model.get("mode");
  const name = (axis, tokens) => `${w.axes[axis]} ${placeName(w.labels(axis, model.get("side")), tokens)}`;
  const lines = mode === "lines" || mode === "across" ? lineMaps(view, shown) : [];
  const of = ({ title, side }) => title && title + (side === "difference" ? " = " : " ");
  const all = lines.length > 1 ? lines.map(({ name, source }) => ({ said: `${name} `, source }))
    : shown.frames.map((frame) => ({ said: of(frame), source: frame.source }));
  const each = all.map(({ said, source }) => said + (source ? numberText(view, source, row, column) : ""));
  return `${name(0, rows[row])}, ${name(1, columns[column])}: ${each.join(", ")}`;
}
