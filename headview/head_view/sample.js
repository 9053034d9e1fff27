// One sample of one part of what HeadView was given: its names, and its heads small. Sizes and labels travel as text
// for all parts; the numbers are blocks.

import { typed } from "../core.js";
import { decodeHead, KINDS, LEVELS, poolCells, poolHeads } from "./codes.js";
import { computeShown } from "./combine.js";
import { blockKey } from "./source.js";
/** @import { WholePart } from "./codes.js" */
/** @import { View } from "./selection.js" */

/**
 * @typedef {object} OfSample what a part has beside its numbers
 * @property {number} part @property {number} sample @property {object} meta what Python says of the part
 * @property {string[]} axes @property {boolean} whole does the page get all weights?
 * @property {"uint8"|"uint16"|"float32"} storage of these
 * @property {boolean} rounded are there fewer digits than most people ask for?
 * @property {(side: string) => object | null} all all codes of one side, or null while they are not there
 * @property {(side: string) => WholePart | null} some all of them, or all heads shrunk, where the page has no more
 * @property {(side: string, most: number) => object | null} overview all heads shrunk to so many rows and columns
 * @property {(side: string) => string} thumbs the side that the overview shows for one that is chosen
 * @property {(axis: number, side: string, cut?: (label: string, parts: number) => string) => string[]} labels as a side
 *   has them; of both sides, and of their difference, "tired / wide" where they are not the same
 * @property {(side: string, layer: number, head: number) => Thumbnail | null} thumbnail one head, as it is in `some`
 * @property {{layers: string[], names: string[], room: {layer: number, head: number, caption: number}}} [overviewNames]
 *   as the overview writes them, once it has
 *
 * @typedef {WholePart & OfSample} Weights
 * @typedef {{rows: number, columns: number, cells: Float32Array, top: number}} Thumbnail
 */

const DIFFERENCE_CELLS = 150; // along a side of a head, at most: a thumbnail is not larger

/** The differences of all heads, shrunk: what a kernel sends of parts that are not whole. @param {Weights} set */
function differencesOf(set) {
  const { layers, heads } = set, count = layers * heads, tops = new Float32Array(count);
  const rows = Math.min(set.queries, DIFFERENCE_CELLS), columns = Math.min(set.keys, DIFFERENCE_CELLS);
  const cells = new Float32Array(count * rows * columns), whole = { rows: set.queries, columns: set.keys };
  for (let i = 0; i < count; i++) {
    const change = computeShown(set, { side: "difference", heads: [[Math.floor(i / heads), i % heads]] });
    cells.set(poolCells({ ...whole, cells: change.cells }, rows, columns, true), i * rows * columns);
    tops[i] = change.top;
  }
  return { layers, heads, queries: rows, keys: columns, levels: 0, signed: true, codes: () => cells, tops: () => tops };
}

/** @param {View} view @returns {Weights} */
export function readSet(view, part, sample) {
  const meta = view.model.get("parts")[part], [layers, heads, queries, keys] = meta.shape;
  const named = (labels, size) => (labels?.length ? labels : Array.from({ length: size }, (_, i) => String(i)));
  const nameOf = (kind, side) => blockKey(kind, { part, sample, side });
  const sides = view.model.get("sides").length > 1 ? ["a", "b"] : ["a"]; // a page may lack what did not fit
  const read = new Map(); // by key, the block they were read from and what was read
  const once = (key, make) => {
    const block = view.blocks.get(key);
    if (!block) return null;
    if (read.get(key)?.block !== block) read.set(key, { block, made: make(block) });
    return read.get(key).made;
  };
  const readAll = (bytes, storage) => { // float32 tops, then codes
    const count = layers * heads, codes = typed(bytes, KINDS[storage], 4 * count);
    return { tops: typed(bytes, Float32Array, 0, count), codes };
  };
  const readSmall = ({ bytes, rows, columns }, signed) => {
    const { tops, codes } = readAll(bytes, "uint8");
    const of = { layers, heads, queries: rows, keys: columns, levels: LEVELS.uint8, signed };
    return { ...of, codes: () => codes, tops: () => tops };
  };
  const others = meta.compared?.map((labels, axis) => named(labels[sample] || labels[0], axis ? keys : queries));
  const joint = new Map(); // labels of both sides, by axis
  let pooled = { codes: null, most: 0, made: null }, differences = null;
  /** @type {any} */
  const set = {
    part, sample, meta, layers, heads, queries, keys,
    tokens: named(meta.tokens[sample] || meta.tokens[0], queries),
    keyTokens: named(meta.key_tokens[sample] || meta.key_tokens[0], keys),
    words: meta.words[sample] || meta.words[0] || [[], []],
    axes: meta.axes, kind: meta.kind, storage: meta.storage, levels: LEVELS[meta.storage],
    whole: meta.whole && (!view.model.isStatic || sides.every((side) => view.blocks.has(nameOf("whole", side)))),
    signed: meta.kind === "signed",
    rounded: meta.storage === "uint8",
    all: (side) => once(nameOf("whole", side), ({ bytes }) => readAll(bytes, meta.storage)),
    codes: (side) => set.all(side).codes,
    tops: (side) => set.all(side).tops,
    get norms() {
      return once(nameOf("norms", "a"), ({ bytes }) => typed(bytes, Float32Array));
    },
    some(side) {
      const apart = side === "difference";
      if (set.whole && !apart) return set.all(side) && set;
      if (set.whole) return set.all("a") && set.all("b") && (differences ||= differencesOf(set));
      return once(nameOf("overview", side), (block) => readSmall(block, set.signed || apart));
    },
    thumbs(side) { // so many differences are made by a kernel, or by none
      const key = nameOf("overview", side), lost = view.model.isStatic ? !view.blocks.has(key) : view.blocks.error(key);
      return side === "difference" && !set.whole && lost ? "a" : side;
    },
    labels(axis, side, cut) {
      const one = axis ? set.keyTokens : set.tokens, two = others?.[axis];
      const plain = !two || side === "a" ? one : side === "b" ? two : null;
      if (plain) return cut ? plain.map((label) => cut(label, 1)) : plain;
      const both = (cut) => one.map((label, i) => (
        label === two[i] ? cut(label, 1) : `${cut(label, 2)} / ${cut(two[i], 2)}`));
      if (cut) return both(cut);
      if (!joint.has(axis)) joint.set(axis, both((label) => label));
      return joint.get(axis);
    },
    overview(side, most) {
      const some = set.some(side), codes = some?.codes(side);
      if (some && (pooled.codes !== codes || pooled.most !== most)) {
        const made = poolHeads(some, most, side === "b" ? "b" : "a"); // a difference came as one
        pooled = { codes, most, made: { ...made, tops: some.tops(side) } };
      }
      return some && pooled.made;
    },
    thumbnail(side, layer, head) {
      const some = set.some(side);
      if (!some) return null;
      const cells = decodeHead(some, side, layer, head), top = some.tops(side)[layer * heads + head];
      return { rows: some.queries, columns: some.keys, cells, top };
    },
  };
  return set;
}

/** Say a head: by the names of the model where it has some. @param {Weights} w */
export function headName(w, layer, head) {
  const alone = w.meta.head_names[head] || `head ${head}`;
  return w.layers > 1 || w.meta.named ? `${w.meta.layer_names[layer]} ${alone}` : alone;
}

/** Return a token with its number, or several of a word. */
export function placeName(labels, tokens) {
  const first = tokens[0], last = tokens[tokens.length - 1];
  if (first === last) return quoted(labels, first);
  return `${first}–${last} “${tokens.map((i) => labels[i]).join("")}”`;
}

const quoted = (labels, i) => (labels[i] === String(i) ? String(i) : `${i} “${labels[i]}”`);
export const isIn = (pairs, layer, head) => pairs.some(([i, j]) => i === layer && j === head);
