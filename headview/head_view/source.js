// Where the numbers of HeadView come from. What is heavy travels as blocks of bytes, each under a key: some are carried
// in the state, the others are asked of the kernel when they come into sight. A page without a kernel has what it has.

import { kept, typed } from "../core.js";
import { errorOf, LEVELS, MASKED, readPacked } from "./codes.js";
import { blockOf, groupsOf, levelsOf, LocalPyramid, TILE } from "./combine.js";

const PATIENCE_MS = 2000; // then the reader is told that the kernel has not answered
const ASK_AGAIN_MS = 15000; // a kernel that was busy may have lost the question
const MOST_WAITING = 8; // questions on their way; what has gone out of sight meanwhile is then not asked any more
const MOST_KEPT = 300; // blocks that were asked for; a tile is up to 128 KB
const MOST_DECODED = 64; // tiles of one map

/**
 * Keep blocks, each bytes and what is said of them, or the `error` that kept Python from making them, and ask for those
 * that are missing. `get(key)` returns a block, or null and remembers that it is wanted; `ask()` sends what was wanted
 * since the last time; `late()` tells whether the kernel owes an answer for too long.
 * @param {() => void} changed what to call when there is news
 */
export function makeBlocks(model, changed) {
  const carried = new Map(Object.entries(model.get("blocks"))), asked = new Map();
  const waiting = new Map(); // since when
  let wanted = new Set(), late = false, timer = 0, heard = 0, stopped = false;

  function watch() {
    clearTimeout(timer);
    if (waiting.size) timer = setTimeout(() => { late = true; changed(); }, PATIENCE_MS);
  }
  function get(key) {
    const block = carried.get(key) || asked.get(key);
    if (!block) wanted.add(key);
    return block?.error ? null : block || null;
  }
  function ask() {
    const now = performance.now();
    for (const [key, since] of waiting) if (now - since > ASK_AGAIN_MS) waiting.delete(key);
    const keys = [...wanted].filter((key) => !waiting.has(key)).slice(0, MOST_WAITING - waiting.size);
    wanted = new Set();
    if (model.isStatic || keys.length === 0) return;
    keys.forEach((key) => waiting.set(key, now));
    model.send({ ask: keys }); // in one message, so that one frame draws what comes
    watch();
  }
  function hear(content, buffers) {
    if (!content?.answers) return;
    late = false;
    heard++;
    content.answers.forEach(([key, block], i) => {
      waiting.delete(key);
      const given = buffers?.[i], bytes = given instanceof ArrayBuffer ? new DataView(given) : given;
      asked.set(key, { ...block, bytes });
    });
    watch();
    for (const key of asked.keys()) {
      if (asked.size <= MOST_KEPT) break;
      asked.delete(key);
    }
    changed();
  }
  model.on("msg:custom", hear);
  return {
    get,
    ask,
    has: (key) => carried.has(key) || asked.has(key),
    error: (key) => asked.get(key)?.error,
    late: () => late,
    missing: () => model.isStatic && wanted.size > 0, // in a page without a kernel
    count: () => heard, // grows with what is known
    stopped: () => stopped,
    stop: () => {
      stopped = true;
      clearTimeout(timer);
      model.off("msg:custom", hear);
    },
  };
}

/** The key of a block of one sample of one part. */
export const blockKey = (kind, spec) => `${kind} ${spec.part} ${spec.sample} ${spec.side}`;

/** What is shown, as Python writes it as well: one text for one spec. */
export const specKey = (spec) => JSON.stringify(spec);

/** The spec of one head as it is. @param {{part: number, sample: number}} w */
export const plainSpec = ({ part, sample }, side, pair, renormalise = true) => ({
  part, sample, side, heads: [pair], combine: "maximum", values: "weights", hidden: [], renormalise, words: false,
});

// ---------------------------------------------------------------- one map, wherever its numbers are

/** Return a map whose numbers the page has. @param {Spec} spec @param {Weights} set */
export function localSource(spec, set, { cells, rows, columns, signed, top }) {
  const pyramid = new LocalPyramid(cells, rows.length, columns.length, signed), wide = columns.length;
  const tops = spec.side === "difference" ? [top]
    : spec.heads.map(([layer, head]) => set.tops(spec.side)[layer * set.heads + head]);
  const exact = set.levels !== LEVELS.uint8 && !(set.signed && set.levels);
  return {
    key: specKey(spec), spec, signed, rows, columns, places: [rows, columns], // the tokens of each
    top, // the largest number, by its size; null while it is not known
    cells, // all of them; null where the page has none but tiles
    small: null, // what is drawn until a tile is there
    ...marksIn(cells), // is any of it masked, or NaN, as far as is known?
    levels: pyramid.levels, block: (level) => blockOf(rows.length, wide, level),
    has: (level, i, j) => true, tile: (level, i, j) => pyramid.tile(level, i, j),
    row: (row) => ({ cells: cells.subarray(row * wide, (row + 1) * wide), exact }),
    error: (value) => errorOf(value, set.levels, Math.max(...tops), set.signed), // of a number that is not exact
  };
}

/** Return a map whose tiles come from the kernel, or are carried. @param {View} view @returns {Source} */
export function remoteSource({ blocks }, spec, set) {
  const key = specKey(spec), rows = groupsOf(set, spec, 0), columns = groupsOf(set, spec, 1);
  const plain = spec.heads.length === 1 && spec.values === "weights" && !spec.hidden.length && !spec.words;
  const small = plain ? set.thumbnail(spec.side, ...spec.heads[0]) : null;
  const decoded = new Map(); // from this source only; the bytes stay in `blocks`
  const nameOf = (level, i, j) => `tile ${level} ${i} ${j} ${key}`;
  /** @type {Source} */
  const source = {
    key, spec, rows, columns, places: [rows, columns], small, cells: null, masked: Boolean(small?.cells.includes(MASKED)), missing: false,
    error: (value) => errorOf(value, LEVELS.uint16, source.top ?? 1, source.signed),
    signed: set.signed || spec.side === "difference",
    levels: levelsOf(rows.length, columns.length), block: (level) => blockOf(rows.length, columns.length, level),
    top: small?.top ?? null,
    has(...place) {
      const name = nameOf(...place);
      return decoded.has(name) || (blocks.has(name) && !blocks.error(name));
    },
    tile(...place) {
      const name = nameOf(...place), block = decoded.has(name) || blocks.get(name);
      return block && kept(decoded, name, () => {
        const { rows, columns } = block, cells = readPacked(block.bytes, source.signed);
        const { masked, missing } = marksIn(cells);
        if (!plain) source.top = Math.max(source.top || 0, block.of ?? 0);
        source.masked ||= masked;
        source.missing ||= missing;
        return { cells, rows, columns };
      }, MOST_DECODED);
    },
    row(row) {
      const block = blocks.get(`row ${row} ${key}`);
      if (block) return { cells: typed(block.bytes, Float32Array), exact: true };
      /** @type {Win} from the finest tiles, if they are there; asks for none */
      const win = [row, row + 1, 0, columns.length];
      return hasAll(source, win, 0) ? { cells: regionOf(source, win), exact: false } : null;
    },
  };
  return source;
}

/** Is any of these cells masked, or NaN? */
const marksIn = (cells) => ({ masked: cells.includes(MASKED), missing: cells.includes(NaN) });

/** Are all tiles of a window there? Asks for none. @param {Source} source @param {Win} win */
export const hasAll = (source, win, level) => [...tilesIn(source, win, level)].every(([i, j]) => source.has(level, i, j));

/** The tiles of a level that a window touches. @param {Source} source @param {Win} win */
export function* tilesIn(source, [q0, q1, k0, k1], level) {
  const [high, wide] = source.block(level).map((cells) => TILE * cells);
  for (let i = Math.floor(q0 / high); i * high < q1; i++) {
    for (let j = Math.floor(k0 / wide); j * wide < k1; j++) yield [i, j];
  }
}

/**
 * Return the cells of a window of a map, whole cells, or null while tiles are on their way.
 * @param {Source} source @param {Win} win
 */
export function regionOf(source, win) {
  const [q0, q1, k0, k1] = win, wide = k1 - k0, cells = new Float32Array((q1 - q0) * wide);
  let complete = true;
  for (const [i, j] of tilesIn(source, win, 0)) {
    const tile = source.tile(0, i, j);
    if (!tile) { complete = false; continue; }
    const left = Math.max(k0, j * TILE), right = Math.min(k1, j * TILE + tile.columns);
    for (let q = Math.max(q0, i * TILE); q < Math.min(q1, i * TILE + tile.rows); q++) {
      const from = (q - i * TILE) * tile.columns - j * TILE;
      cells.set(tile.cells.subarray(from + left, from + right), (q - q0) * wide + left - k0);
    }
  }
  return complete ? cells : null;
}
