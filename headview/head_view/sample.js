// One sample of one part of what HeadView was given: its names, and its heads small. Sizes and labels travel as text
// for all parts; the numbers are blocks.

import { typed } from "../core.js";
import { KINDS, LEVELS, poolHeads, readMaps } from "./codes.js";
import { blockKey } from "./source.js";
/** @import { View } from "./selection.js" */

/**
 * @typedef {object} Weights
 * @property {number} part @property {number} sample @property {object} meta what Python says of the part
 * @property {number} layers @property {number} heads @property {number} queries @property {number} keys
 * @property {string[]} tokens @property {string[]} keyTokens @property {string[]} axes
 * @property {[number[], number[]]} words number of the word of each query, and of each key; empty where not known
 * @property {"weights"|"part"|"positive"|"signed"} kind @property {boolean} signed
 * @property {boolean} whole does the page get all weights? @property {"uint8"|"uint16"|"float32"} storage of these
 * @property {number} levels one of LEVELS
 * @property {boolean} rounded are there fewer digits than most people ask for?
 * @property {(side: string) => object | null} all all codes of one side, or null while they are not there
 * @property {(side: string) => Uint8Array|Uint16Array|Float32Array} codes of one side, where they are there
 * @property {(side: string) => Float32Array} tops the largest number of each head, where they are there
 * @property {Float32Array | null} norms lengths of the value vectors; null where not known, or not there
 * @property {(side: string, wanted: number) => object | null} overview all heads shrunk
 * @property {(side: string, layer: number, head: number) => Thumbnail | null} thumbnail one of these
 * @property {{layers: string[], names: string[], room: {layer: number, head: number, caption: number}}} [overviewNames]
 *   as the overview writes them, once it has
 *
 * @typedef {{rows: number, columns: number, cells: Float32Array, top: number}} Thumbnail
 */

/** @param {View} view @returns {Weights} */
export function readSet(view, part, sample) {
  const meta = view.model.get("parts")[part], [layers, heads, queries, keys] = meta.shape;
  const named = (labels, size) => (labels?.length ? labels : Array.from({ length: size }, (_, i) => String(i)));
  const spec = (side) => ({ part, sample, side });
  const sides = view.model.get("sides").length > 1 ? ["a", "b"] : ["a"]; // a page may lack what did not fit
  const carries = (side) => view.blocks.has(blockKey("whole", spec(side)));
  const read = new Map(); // by key, the block they were read from and what was read
  const once = (key, make) => {
    const block = view.blocks.get(key);
    if (!block) return null;
    if (read.get(key)?.block !== block) read.set(key, { block, made: make(block) });
    return read.get(key).made;
  };
  /** @type {any} */
  const set = {
    part, sample, meta, layers, heads, queries, keys,
    tokens: named(meta.tokens[sample] || meta.tokens[0], queries),
    keyTokens: named(meta.key_tokens[sample] || meta.key_tokens[0], keys),
    words: meta.words[sample] || meta.words[0] || [[], []],
    axes: meta.axes, kind: meta.kind, storage: meta.storage,
    whole: meta.whole && (!view.model.isStatic || sides.every(carries)),
    signed: meta.kind === "signed",
    rounded: meta.storage === "uint8",
  };
  set.all = (side) => once(blockKey("whole", spec(side)), (block) => readAll(set, block.bytes));
  set.codes = (side) => set.all(side).codes;
  set.tops = (side) => set.all(side).tops;
  set.levels = LEVELS[meta.storage];
  Object.defineProperty(set, "norms", {
    get: () => once(blockKey("norms", spec("a")), (block) => typed(block.bytes, Float32Array)),
  });
  let pooled = { side: "", wanted: 0, made: null };
  set.overview = (side, wanted) => {
    if (!set.whole || side === "difference") {
      return once(blockKey("overview", spec(side)), (block) => readOverview(set, block, side === "difference"));
    }
    const all = set.all(side);
    if (all && (pooled.side !== side || pooled.wanted < wanted)) {
      pooled = { side, wanted, made: { ...poolHeads(set, wanted, side), tops: all.tops } };
    }
    return all && pooled.made;
  };
  set.thumbnail = (side, layer, head) => {
    const { rows, columns, cells, tops } = set.overview(side, 64) || {};
    if (!cells) return null;
    const at = layer * heads + head, size = rows * columns;
    return { rows, columns, cells: cells.subarray(at * size, (at + 1) * size), top: tops[at] };
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

// ---------------------------------------------------------------- blocks

/** Read all weights of one side: float32 tops, then codes. @param {Weights} set */
function readAll(set, bytes) {
  const count = set.layers * set.heads;
  return { tops: typed(bytes, Float32Array, 0, count), codes: typed(bytes, KINDS[set.storage], 4 * count) };
}

/** Read all heads shrunk: float32 tops, then codes of one byte. @param {Weights} set */
function readOverview(set, { bytes, rows, columns }, difference) {
  const count = set.layers * set.heads, size = rows * columns, tops = typed(bytes, Float32Array, 0, count);
  const codes = new DataView(bytes.buffer, bytes.byteOffset + 4 * count, bytes.byteLength - 4 * count);
  const cells = readMaps(codes, "uint8", tops, size, set.signed || difference);
  const missing = Array.from(tops, (_, at) => cells.subarray(at * size, (at + 1) * size).some(Number.isNaN));
  return { rows, columns, cells, tops, missing };
}
