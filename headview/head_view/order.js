// The order of heads in HeadView's overview, what they are called there, and what is said of one: its facts, whose keys
// it shares, how far it sees.

import { typed } from "../core.js";
import { SMALL_FONT, widestOf } from "../core_draw.js";
import { decodeCell, MASKED, withMinus } from "./codes.js";
import { percent, shortNumber } from "./draw.js";
import { allAlike, sharedBy } from "./grid.js";
import { headName, pairOf, quoted } from "./sample.js";
import { isOpen, sideOfHeads, sidesOf } from "./selection.js";
import { blockKey } from "./source.js";

const LOWEST_FIRST = ["entropy"];

/** What heads are sorted by, in words. */
export const sortedBy = (by) =>
  (by === "likeness" ? by : `${spoken(by)}, ${LOWEST_FIRST.includes(by) ? "lowest" : "highest"} first`);
const spoken = (by) => (by === "cell" ? "the chosen cell" : by);

/** The names of layers and heads as the overview writes them, and the room of the longest. @param {View} view */
function overviewNames({ w, page }) {
  const context = page.overview.getContext("2d");
  context.font = SMALL_FONT;
  const { brief_layers: layers, brief_heads: names } = w.meta;
  const [layer, head, dot] = [layers, names, ["·"]].map((texts) => Math.ceil(widestOf(context, texts)));
  return { layers, names, room: { layer, head, caption: head + 2 + (w.layers > 1 ? layer + dot : 0) } };
}

/** The key of the facts of all heads of the side that is shown. @param {View} view */
const factsKey = ({ w: { part, sample }, model }) => blockKey("facts", { part, sample, side: sidesOf(model)[0] });

/** The facts of all heads, or null while they are not there; asked only of a kernel. @param {View} view */
function factsOf(view, asks) {
  const { blocks, model } = view, key = factsKey(view);
  return blocks.has(key) || (asks && !model.isStatic) ? blocks.get(key) : null;
}

/** The key of the numbers of all heads at the cursor's cell. @param {View} view */
const cellKey = ({ w: { part, sample }, model }) =>
  `${blockKey("cell", { part, sample, side: sideOfHeads(model) })} ${model.get("query")} ${model.get("key")}`;

/** The numbers of all heads at the cursor's cell, or null while they are not there. @param {View} view */
function cellsOf(view) {
  const { w, blocks, model } = view, key = cellKey(view), side = sideOfHeads(model);
  if (w.whole) {
    const number = (_, i) => decodeCell(w, side, ...pairOf(w, i), model.get("query"), model.get("key"));
    return w.all(side) && Array.from({ length: w.layers * w.heads }, number);
  }
  const block = (blocks.has(key) || !model.isStatic) && blocks.get(key);
  return block ? [...typed(block.bytes, Float32Array)] : null;
}

/** Say what a head has at the cursor's cell, such as “it” → “animal”: 0.65; nothing while it is not known. */
export function cellOfHead(view, layer, head) {
  const { w, model } = view, number = cellsOf(view)?.[layer * w.heads + head];
  const name = (labels, i) => (labels[i] === String(i) ? labels[i] : quoted(labels[i]));
  const said = number === MASKED ? "masked" : withMinus(number, shortNumber(number ?? 0));
  const place = `${name(w.tokens, model.get("query"))} → ${name(w.keyTokens, model.get("key"))}`;
  return number === undefined ? "" : `${place}: ${said}, `;
}

/** The order of the heads; that of the model until the facts are there. @param {View} view */
export function headOrder(view) {
  const { w, model, blocks } = view, by = model.get("order"), names = overviewNames(view);
  const unsorted = (note) => ({
    by: "model", id: "model", ...names, note,
    heads: null, // in their order, layer times heads + head; null for layers by heads
    groups: null, // how many heads each has, where they are in groups of likeness
    numbers: null, // what they are sorted by, of each head; null where it has none
  });
  if (by === "model" || !w.several) return unsorted("");
  const ofCell = by === "cell", key = ofCell ? cellKey(view) : factsKey(view), id = `${by} ${key}`;
  if (view.sorted?.id === id) return view.sorted;
  const cells = ofCell && cellsOf(view)?.map((cell) => (Number.isFinite(cell) ? cell : null));
  const facts = ofCell ? cells && { measures: { cell: cells }, notes: {} } : factsOf(view, true), failed = blocks.error(key);
  if (failed) return unsorted(`The heads could not be sorted: ${failed}. `);
  if (!facts) {
    const what = spoken(by);
    const why = model.isStatic ? `: what sorts them by ${what} is not in this page` : `, until they are sorted by ${what}`;
    return unsorted(`Heads stand in the model's order${why}. `);
  }
  const sorted = sortHeads(by, facts), note = facts.notes[by];
  if (sorted) return (view.sorted = { ...sorted, ...names, by, note: note ? `${note} ` : "", id });
  const none = ofCell ? "The chosen cell is masked or NaN in every head." : "So many heads are not sorted by likeness.";
  return unsorted(`${note || none} Heads stand in the model's order. `);
}

/** Sort heads by their facts; null where these say nothing. */
function sortHeads(by, facts) {
  if (by === "likeness") {
    if (!facts.likeness.length) return null;
    const groups = [];
    facts.likeness.forEach((i) => (groups[facts.groups[i]] = (groups[facts.groups[i]] || 0) + 1));
    return { heads: facts.likeness, groups, numbers: null };
  }
  const numbers = facts.measures[by], sign = LOWEST_FIRST.includes(by) ? 1 : -1;
  if (!numbers || numbers.every((number) => number === null)) return null;
  const last = (number) => (number === null ? Infinity : sign * number); // heads without a number stand last
  const apart = (a, b) => last(numbers[a]) - last(numbers[b]) || 0; // two of them are NaN apart
  const heads = numbers.map((_, i) => i).sort(apart); // which keeps the model's order where they are alike
  return { heads, groups: null, numbers };
}

/** The caption of a head in a block. @param {Weights} w @param {Order} order */
export function headCaption(w, { layers, names }, i) {
  const [layer, head] = pairOf(w, i);
  return w.layers > 1 ? `${layers[layer]}·${names[head]}` : names[head];
}

/** A fact as it stands below a thumbnail. */
export function factText(by, number) {
  if (number === null) return "–";
  return by === "sparsity" ? percent(number) : shortNumber(number);
}

// ---------------------------------------------------------------- what is said of a head

/** Say with which heads a head shares its keys, or nothing. @param {Weights} w */
function sharedText(w, layer, head) {
  const size = sharedBy(w)[layer];
  if (size < 2) return "";
  const first = Math.floor(head / size) * size, last = Math.min(w.heads, first + size) - 1;
  return `shares its keys with ${size === 2 ? `head ${head === first ? last : first}` : `heads ${first}–${last}`}`;
}

/** Say how many keys a layer sees, or nothing. @param {Weights} w */
function windowOfLayer(w, layer) {
  const most = w.meta.windows?.[layer];
  return most ? `sees at most ${most.toLocaleString("en")} keys (sliding window)` : "";
}

/** Say a head and what is known of it, beside its numbers. @param {View} view */
export function headText(view, layer, head) {
  const { w, order } = view, at = layer * w.heads + head, facts = factsOf(view, w.whole);
  const little = isOpen(w) ? "of the numbers below 0.01 of its largest" : "of the weights below 0.01";
  const more = { entropy: " of what is possible", sparsity: ` ${little}` };
  const said = (name, number) => [
    name !== "sparsity" && name, facts.notes[name] && "about", factText(name, number) + (more[name] || ""),
  ].filter(Boolean).join(" ");
  const group = order?.groups && facts?.groups[at], full = w.meta.full_names[layer];
  return [
    headName(w, layer, head) + (full === w.meta.layer_names[layer] ? "" : ` (${full})`),
    ...Object.entries(facts?.measures || {}).map(([name, of]) => typeof of[at] === "number" && said(name, of[at])),
    typeof group === "number" && `group ${group + 1} of ${order.groups.length}`,
    sharedText(w, layer, head),
    windowOfLayer(w, layer),
  ].filter(Boolean).join(", ");
}

/** Say what the limits are of the layers that are shown, and of the order. @param {View} view */
export function overviewLimits({ w, order }, pairs) {
  const layers = [...new Set(pairs.map(([layer]) => layer))], windows = w.meta.windows || [];
  const limited = layers.filter((layer) => windows[layer]);
  const alike = limited.length && layers.length > 1 && allAlike(windows);
  if (alike) return `Each layer ${windowOfLayer(w, 0)}. ${order.note}`;
  const few = limited.slice(0, 4).map((layer) => `${w.meta.layer_names[layer]} ${windowOfLayer(w, layer)}. `);
  return few.join("") + order.note;
}
