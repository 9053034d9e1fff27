// What HeadView shows of all its heads: those that are chosen, the maps they combine to, and what is said of a cell.

import { tooltip } from "../core.js";
import { formatWeight, MASKED } from "./codes.js";
import { computeShown, TILE } from "./combine.js";
import { makeControls } from "./controls.js";
import { hiddenLabels } from "./hidden_tokens.js";
import { headName, isIn, placeName } from "./sample.js";
import { localSource, remoteSource, specKey } from "./source.js";
/** @import { Scene, Win } from "./map.js" */
/** @import { Neurons } from "./neuron.js" */
/** @import { Order } from "./order.js" */
/** @import { Weights } from "./sample.js" */
/** @import { Source } from "./source.js" */

/**
 * @typedef {object} View what the functions of HeadView share, beside the traits
 * @property {object} model @property {Weights} w @property {HTMLElement} root @property {(text: string) => void} say
 * @property {() => void} redraw draws at the next frame @property {object} blocks from `makeBlocks`
 * @property {number} key the key under the cursor, as a token
 * @property {Map<string, Source>} sources maps in use, by their specs
 * @property {boolean} several is there more than one head?
 * @property {Win | []} window from window.js; empty for all
 * @property {{rows: number, columns: number}} size of the shown map
 * @property {string} [ownWindow] the window that this view has set itself, as JSON
 * @property {ReturnType<typeof setTimeout>} [tellWindow] until Python hears of it
 * @property {Win} shownWindow what the last frame had in sight; lines may show less than the window
 * @property {[number, number]} cursorCell row and column of the cursor, its middle
 * @property {(x: number, y: number) => number[]} cellsOf rows and columns in so many pixels of a drag
 * @property {Set<number>[]} found queries and keys that were searched for
 * @property {ReturnType<typeof tooltip>} tip @property {ReturnType<typeof makeControls>} controls
 * @property {{box: HTMLElement, show: (scene: Scene) => void}[]} under panels below the picture
 * @property {{rows: string[], columns: string[], side: string}} names short labels of tokens, as a side has them
 * @property {{row: number, key: number}} labels the room that they need @property {string} form what `layout` is for
 * @property {Order} order of the heads @property {Order} [sorted] the last one by facts
 * @property {object} picture what `draw` of a mode returned
 * @property {string} [unknown] what is to be said of labels that no token has
 * @property {{axis: number, place: number} | null} isolated the token that stands alone
 * @property {object} page from `makePage` @property {object[]} frames where the maps or lines are
 * @property {object | null} layout from `layout` @property {object} kept @property {object} images as in a Scene
 * @property {Map<number, HTMLCanvasElement>} [photos] pictures under tokens, by part
 * @property {number | null} feature of the neuron view that was walked to
 * @property {Map<string, object>} [neuronHeads] what a page carries, read
 * @property {{id: string, made: Neurons}} [neuronMade] the last one
 */

const MOST_SOURCES = 80; // 32 heads of two sides, and what combines them

/** The heads that are drawn: those ticked and the chosen one; or all of a layer, or all. @returns {number[][]} */
export function shownHeads(model) {
  const which = model.get("heads"), [layers, heads] = model.get("parts")[model.get("part")].shape;
  if (which !== "chosen") {
    const first = which === "all" ? 0 : model.get("layer") * heads, count = which === "all" ? layers * heads : heads;
    return Array.from({ length: count }, (_, i) => [Math.floor((first + i) / heads), (first + i) % heads]);
  }
  const chosen = [model.get("layer"), model.get("head")], overlay = model.get("overlay");
  return isIn(overlay, ...chosen) ? overlay : [chosen, ...overlay];
}

/** Which sides of a comparison are drawn. */
function sidesOf(model) {
  const sides = model.get("sides");
  if (sides.length < 2) return ["a"];
  const side = model.get("side");
  return side === "both" ? ["a", "b", "difference"] : [side];
}

/** Name all heads of a layer, or all there are. @param {View} view */
function titleOfAll({ model, w }, count) {
  const ofLayer = model.get("heads") === "layer" && (w.layers > 1 || w.meta.named);
  const of = ofLayer ? ` of ${w.meta.layer_names[model.get("layer")]}` : "";
  return `${model.get("combine")} of all ${count.toLocaleString("en")} heads${of}`;
}

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
  const key = specKey(spec), { w } = view;
  let source = view.sources.get(key);
  if (!source) {
    const needs = spec.side === "difference" ? ["a", "b"] : [spec.side];
    if (!w.whole) source = remoteSource(view, spec, w);
    else if (!needs.every((side) => w.all(side)) || (spec.values === "values" && !w.norms)) return null;
    else source = localSource(spec, w, computeShown(w, spec));
  } else view.sources.delete(key);
  view.sources.set(key, source); // the last one used stands last
  if (view.sources.size > MOST_SOURCES) view.sources.delete(view.sources.keys().next().value);
  return source;
}

/** Can such numbers not be made of this part? Python says the same, and why. @param {Weights} w */
export function lacks(w, values) {
  if (values === "values") return !w.meta.has_values;
  return values === "rollout" && (w.queries !== w.keys || w.signed);
}

/** Are the numbers that are shown such as may be larger than 1? @param {Weights} w */
export const isOpen = (w, values) => w.kind === "signed" || w.kind === "positive" || values === "values";

const FIXED_FROM = 0.35, ROOT_FROM = 0.02; // the largest number that is shown; of less they show little (first_look.py)

/**
 * The scales of maps that stand side by side, as `scale_of` in Python has them: what is compared shares one end, a
 * difference has its own. @param {Source[]} sources
 */
function scalesOf(sources, model, w) {
  const asked = model.get("scale"), signed = (source) => source.signed;
  const most = (some) => Math.max(0, ...some.map(({ top }) => top ?? 1));
  const ends = [most(sources.filter((source) => !signed(source))), most(sources.filter(signed))];
  let auto = w.meta.auto === "fixed" && ends[0] < FIXED_FROM ? "root" : w.meta.auto;
  if (auto === "root" && ends[0] < ROOT_FROM) auto = "maximum";
  const kind = asked === "auto" ? auto : asked, follows = kind === "maximum" || isOpen(w, model.get("values"));
  return sources.map((source) => {
    const own = follows || (source.signed && asked === "auto");
    return { kind, top: own ? Math.max(ends[source.signed ? 1 : 0], 1e-9) : 1, signed: source.signed };
  });
}

/** The queries whose rows are shown as one: that of the cursor, and those chosen beside it. @param {View} view */
export const queriesTogether = ({ model }) => [...new Set([model.get("query"), ...model.get("rows")])];

/** The numbers of all rows that are shown as one, summed; null while some are not there. @param {View} view */
export function rowTogether(view, source) {
  const places = [...new Set(queriesTogether(view).map((query) => placeOf(source.rows, query)))];
  const found = places.map((place) => source.row(place));
  if (found.includes(null)) return null;
  if (found.length === 1) return found[0];
  const cells = Float32Array.from(found[0].cells, (_, i) => {
    const numbers = found.map((row) => row.cells[i]).filter((cell) => cell !== MASKED);
    return numbers.length ? numbers.reduce((sum, cell) => sum + cell, 0) : MASKED;
  });
  return { cells, exact: found.every(({ exact }) => exact) };
}

/**
 * The maps that are drawn, with names and scales; null while nothing is there yet.
 * @param {View} view
 */
export function shownMaps(view) {
  const { model, w } = view, pairs = shownHeads(model), sides = sidesOf(model);
  const sources = sides.map((side) => sourceOf(view, specOf(view, pairs, side)));
  if (sources.includes(null)) return null;
  const names = pairs.map(([layer, head]) => headName(w, layer, head));
  const what = { weights: "", values: "value-weighted ", rollout: "rollout up to " }[model.get("values")];
  const all = model.get("heads") !== "chosen" && names.length > 1;
  const some = names.length > 1 ? `${model.get("combine")} of ${names.join(", ")}` : names[0];
  const alone = all ? titleOfAll(view, names.length) : some;
  const [a, b] = model.get("sides"), called = { a, b, difference: `${b} − ${a}` };
  const scales = scalesOf(sources, model, w);
  const frames = sources.map((source, i) => ({
    source,
    side: sides[i],
    title: model.get("sides").length > 1 ? called[sides[i]] : "",
    scale: scales[i],
  }));
  return { pairs, names, all, title: what + alone, frames, source: sources[0], called };
}

/** The lines of line mode: one map for each head and side; one a side of all heads. @param {View} view */
export function lineMaps(view, shown) {
  const all = shown.frames.map(({ side }) => side), alone = shown.names.length === 1; // its name is the title
  const sides = all.length > 1 ? all.filter((side) => side !== "difference") : all;
  if (shown.all) {
    const source = (side) => shown.frames.find((one) => one.side === side).source;
    const name = (side) => (sides.length > 1 ? `${shown.called[side]}: ${shown.title}` : shown.title);
    return sides.map((side) => ({ name: name(side), source: source(side) }));
  }
  return sides.flatMap((side) => shown.pairs.map((pair, i) => ({
    name: sides.length < 2 ? shown.names[i] : `${shown.called[side]}${alone ? "" : `: ${shown.names[i]}`}`,
    source: sourceOf(view, specOf(view, [pair], side)),
  })));
}

/** The row or column that holds a token; the nearest one where it is hidden. @param {number[][]} places */
export function placeOf(places, token) {
  let low = 0, high = places.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (places[middle][0] <= token) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** The row and column of the cursor in a map. @param {View} view @param {Source} source @returns {[number, number]} */
export const cursorIn = ({ model, key }, { rows, columns }) =>
  [placeOf(rows, model.get("query")), placeOf(columns, key)];

/** Say that numbers are not there: on their way from a kernel, or not in a page that has none. @param {View} view */
export const notHere = ({ model }, what) =>
  (model.isStatic ? `${what} not in this page. ` : `${what} not here yet. `);

/**
 * The number of the smallest block around a cell that is there, and how many cells long it is; null where it says
 * nothing of that cell. @param {Source} source
 */
function largestAt(source, row, column) {
  for (let level = 1; level < source.levels && !source.signed; level++) {
    const [i, j] = [row, column].map((place) => Math.floor(place / (TILE << level)));
    const tile = source.has(level, i, j) && source.tile(level, i, j);
    if (!tile) continue;
    const value = tile.cells[((row >> level) - i * TILE) * tile.columns + (column >> level) - j * TILE];
    return Number.isNaN(value) ? null : { value, side: 2 ** level };
  }
  return null;
}

/** Say a number of a map: exactly, or about, with what it may be off by. @param {Source} source */
function numberText(view, source, row, column) {
  const found = source.row(row);
  const most = found ? null : largestAt(source, row, column);
  if (most?.value === MASKED) return formatWeight(MASKED);
  if (most) return `at most ${formatWeight(most.value, source.error(most.value))} (${most.side} × ${most.side})`;
  if (!found) return notHere(view, "").trim();
  const value = found.cells[column];
  return formatWeight(value, found.exact ? 0 : source.error(value));
}

/** Say a cell: the numbers shown there. @param {View} view */
export function cellText(view, row, column) {
  const { w, model } = view, shown = shownMaps(view);
  if (!shown) return "";
  const source = shown.source;
  const labels = [0, 1].map((axis) => w.labels(axis, model.get("side")));
  const names = [placeName(labels[0], source.rows[row]), placeName(labels[1], source.columns[column])];
  const place = `${w.axes[0]} ${names[0]}, ${w.axes[1]} ${names[1]}`;
  const lines = model.get("mode") !== "map" && model.get("mode") !== "text" ? lineMaps(view, shown) : [];
  if (lines.length > 1) {
    const each = lines.map(({ name, source }) => `${name} ${source ? numberText(view, source, row, column) : ""}`);
    return `${place}: ${each.join(", ")}`;
  }
  const said = shown.frames.map(({ source, title, side }) => `${title && `${title}${side === "difference" ? " = " : " "}`}${numberText(view, source, row, column)}`);
  return `${place}: ${said.join(", ")}`;
}
