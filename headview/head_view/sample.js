// One sample of one part of what HeadView was given: its names, and its heads small. Sizes and labels travel as text
// for all parts; the numbers are blocks.

import { kept, typed } from "../core.js";
import { decodeHead, KINDS, largestSize, LEVELS } from "./codes.js";
import { blockKey } from "./source.js";

/** The layer and head that a number stands for. @returns {[number, number]} */
export const pairOf = ({ heads }, i) => [Math.floor(i / heads), i % heads];

/** Read one sample of one part: a WholePart where the page has all of it, and all of it small. @param {View} view */
export function readSet({ blocks, model }, part, sample) {
  const meta = model.get("parts")[part], [layers, heads, queries, keys] = meta.shape, count = layers * heads;
  const named = (all, size) => {
    const labels = all[sample] || all[0];
    return labels?.length ? labels : Array.from({ length: size }, (_, i) => String(i));
  };
  const nameOf = (kind, side) => blockKey(kind, { part, sample, side });
  const sides = model.get("sides").length > 1 ? ["a", "b"] : ["a"]; // a page may lack what did not fit
  const read = new WeakMap(), joint = new Map(); // by blocks; by sides
  const once = (key, make) => {
    const block = blocks.get(key);
    return block && kept(read, block, () => make(block));
  };
  const readAll = (bytes, storage) => ({ // float32 tops, then codes
    tops: typed(bytes, Float32Array, 0, count), codes: typed(bytes, KINDS[storage], 4 * count),
  });
  const readSmall = ({ bytes, rows, columns }, signed) => {
    const { tops, codes } = readAll(bytes, "uint8");
    const of = { layers, heads, queries: rows, keys: columns, levels: LEVELS.uint8, signed };
    return { ...of, codes: () => codes, tops: () => tops };
  };
  const set = {
    part, sample, meta, layers, heads, queries, keys, several: layers * heads > 1,
    tokens: named(meta.tokens, queries),
    keyTokens: named(meta.key_tokens, keys),
    words: meta.words[sample] || meta.words[0] || [[], []], // of each query and key the number of its word
    axes: meta.axes, kind: meta.kind,
    // Does the page get all weights?
    whole: meta.whole && (!model.isStatic || sides.every((side) => blocks.has(nameOf("whole", side)))),
    signed: meta.kind === "signed",
    /** Of all codes: how many there are, 0 where numbers are as they are. */
    get levels() { return LEVELS[set.all("a").storage]; },
    /** All codes of one side, or null while they are not there. @returns {any} */
    all: (side) => once(nameOf("whole", side), ({ bytes, storage }) => ({ storage, ...readAll(bytes, storage) })),
    codes: (side) => set.all(side).codes,
    tops: (side) => set.all(side).tops,
    /** Lengths of the value vectors, (layers, heads, keys). */
    get norms() {
      return once(nameOf("norms", "a"), ({ bytes }) => typed(bytes, Float32Array));
    },
    /** All of one side, or all heads shrunk where the page has no more, as of differences. @returns {any} */
    some(side) {
      const apart = side === "difference";
      if (set.whole && !apart) return set.all(side) && set;
      return once(nameOf("overview", side), (block) => readSmall(block, set.signed || apart));
    },
    /** The largest size of a number of all heads, of both sides; 0 while none is there. */
    get largest() { return Math.max(...sides.map((side) => largestSize(set.some(side)?.tops(side) || []))); },
    /** The side that the overview shows for one that is chosen: there may be no room for differences. */
    thumbs(side) {
      const key = nameOf("overview", side), lost = model.isStatic ? !blocks.has(key) : blocks.error(key);
      return side === "difference" && lost ? "a" : side;
    },
    /**
     * The labels of an axis as a side has them; of both sides, and of their difference, "tired / wide" where they are
     * not the same. @param {(label: string, parts: number) => string} [cut] @returns {string[]}
     */
    labels(axis, side, cut = null) {
      const one = axis ? set.keyTokens : set.tokens, two = meta.compared ? named(meta.compared[axis], one.length) : one;
      const plain = cut || ((label) => label);
      const joined = (label, i) => (label === two[i] ? plain(label, 1) : `${plain(label, 2)} / ${plain(two[i], 2)}`);
      return kept(joint, `${axis} ${side} ${Boolean(cut)}`, () => (
        side === "a" || side === "b" ? { a: one, b: two }[side].map((label) => plain(label, 1)) : one.map(joined)));
    },
    /** One head as it is in `some`. @returns {any} */
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

export const STEERING = /[\u200e\u200f\u202a-\u202e\u2066-\u2069]/g; // signs that turn the text around them
export const RIGHT_TO_LEFT = /\p{sc=Hebrew}|\p{sc=Arabic}|\p{sc=Syriac}|\p{sc=Thaana}/gu;

/** A label as it is seen: of one without any ink, a sign for each of its own (labels.py). `line`: the end of a line. */
export function visible(label, line = "↵") {
  const hex = (sign) => `U+${sign.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`, inked = /[^\s\p{C}]/u;
  const text = inked.test(label) ? label : label.replace(/[^\S\n\r\t]/g, "␣").replace(/[^\s␣]/gu, hex);
  return text.replace(/\t/g, "⇥").replace(/\r?\n|\r/g, line) || "∅";
}

/** A label among other words: one that runs to the left is kept from turning them round. */
export const inText = (label) =>
  ([RIGHT_TO_LEFT, STEERING].some((signs) => label.search(signs) >= 0) ? `\u2068${label}\u2069` : label);

/** A label in quotes. */
export const quoted = (label) => `“${inText(visible(label))}”`;

/** Say a token with its number, or several of a word. */
export function placeName(labels, tokens) {
  const first = tokens[0], last = tokens[tokens.length - 1];
  if (first !== last) return `${first}–${last} ${quoted(tokens.map((i) => labels[i]).join(""))}`;
  return labels[first] === String(first) ? String(first) : `${first} ${quoted(labels[first])}`;
}
