// Where the numbers of HeadView come from. What is heavy travels as blocks of bytes, each under a key: some are carried
// in the state, the others are asked of the kernel when they come into sight. A page without a kernel has what it has.

import { typed } from "../core.js";
import { errorOf, LEVELS, MASKED, readPacked } from "./codes.js";
import { groupsOf, levelsOf, LocalPyramid, TILE } from "./combine.js";
/** @import { Win } from "./map.js" */
/** @import { Thumbnail, Weights } from "./sample.js" */
/** @import { View } from "./selection.js" */

const PATIENCE_MS = 2000; // then the reader is told that the kernel has not answered
const ASK_AGAIN_MS = 15000; // a kernel that was busy may have lost the question
const MOST_WAITING = 8; // questions on their way; what has gone out of sight meanwhile is then not asked any more
const MOST_KEPT = 300; // blocks that were asked for; a tile is up to 128 KB

/**
 * @typedef {object} Block
 * @property {DataView} bytes
 * @property {number} [of] the largest number of the whole map @property {number} [rows] @property {number} [columns]
 * @property {number[]} [keys] of the neuron view @property {number} [features] @property {number} [scale]
 * @property {boolean} [rough] @property {string} [storage] of its numbers
 * @property {number} [width] of a picture @property {number} [height]
 * @property {string} [error] why there are no bytes
 */

/**
 * Keep blocks and ask for those that are missing. `get(key)` returns a block, or null and remembers that it is wanted;
 * `ask()` sends what was wanted since the last time; `late()` tells whether the kernel owes an answer for too long.
 * @param {() => void} changed what to call when there is news
 */
export function makeBlocks(model, changed) {
  /** @type {Map<string, Block>} */
  const carried = new Map(Object.entries(model.get("blocks")));
  /** @type {Map<string, Block>} */
  const asked = new Map();
  /** @type {Map<string, number>} */
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

// ---------------------------------------------------------------- one map, wherever its numbers are

/**
 * @typedef {object} Source one map that can be drawn at any size
 * @property {string} key @property {object} spec @property {boolean} signed
 * @property {number[][]} rows the tokens of each row @property {number[][]} columns
 * @property {number} levels @property {number | null} top the largest number, by its size; null while it is not known
 * @property {Float32Array | null} cells all of them, where the page has them
 * @property {(level: number, i: number, j: number) => Tile | null} tile
 * @property {(row: number) => {cells: Float32Array, exact: boolean} | null} row
 * @property {Thumbnail | null} small what is drawn until a tile is there
 * @property {(value: number) => number} error by how much a number that is not exact may be off
 * @property {(level: number, i: number, j: number) => boolean} has is a tile here? @property {boolean} masked
 * @property {boolean} missing is any of it masked, or NaN, as far as is known?
 *
 * @typedef {{cells: Float32Array, rows: number, columns: number}} Tile
 */

/** Return a map whose numbers the page has. @param {Weights} set @returns {Source} */
export function localSource(spec, set, shown) {
  const pyramid = new LocalPyramid(shown.cells, shown.rows.length, shown.columns.length, shown.signed);
  const wide = shown.columns.length;
  let masked = false, missing = false;
  for (const value of shown.cells) value === MASKED ? (masked = true) : value !== value && (missing = true);
  const topOfHead = ([layer, head]) => set.tops(spec.side)[layer * set.heads + head];
  const tops = spec.side === "difference" ? [shown.top] : spec.heads.map(topOfHead);
  const exact = !set.rounded && !(set.signed && set.levels);
  return {
    key: specKey(spec), spec, masked, missing, has: () => true, signed: shown.signed,
    rows: shown.rows, columns: shown.columns, top: shown.top, cells: shown.cells, levels: pyramid.levels, small: null,
    tile: (level, i, j) => pyramid.tile(level, i, j),
    row: (row) => ({ cells: shown.cells.subarray(row * wide, (row + 1) * wide), exact }),
    error: (value) => errorOf(value, set.levels, Math.max(...tops), set.signed),
  };
}

/** Return a map whose tiles come from the kernel, or are carried. @param {View} view @returns {Source} */
export function remoteSource(view, spec, set) {
  const key = specKey(spec), { blocks } = view;
  const rows = groupsOf(set, spec, 0), columns = groupsOf(set, spec, 1);
  const plain = spec.heads.length === 1 && spec.values === "weights" && !spec.hidden.length && !spec.words;
  const [layer, head] = spec.heads[0];
  const small = plain ? set.thumbnail(spec.side, layer, head) : null;
  const decoded = new Map(); // from this source only; the bytes stay in `blocks`
  /** @type {Source} */
  const source = {
    key, spec, rows, columns, small, cells: null, masked: Boolean(small?.cells.includes(MASKED)), missing: false,
    error: (value) => errorOf(value, LEVELS.uint16, source.top ?? 1, source.signed),
    signed: set.signed || spec.side === "difference",
    levels: levelsOf(rows.length, columns.length),
    top: plain ? small?.top ?? null : null,
    has(level, i, j) {
      const name = `${level} ${i} ${j}`, ofTile = `tile ${name} ${key}`;
      return decoded.has(name) || (blocks.has(ofTile) && !blocks.error(ofTile));
    },
    tile(level, i, j) {
      const name = `${level} ${i} ${j}`;
      if (decoded.has(name)) return decoded.get(name);
      const block = blocks.get(`tile ${name} ${key}`);
      if (!block) return null;
      if (!plain) source.top = Math.max(source.top || 0, block.of ?? 0);
      const { rows, columns } = block, tile = { cells: readPacked(block.bytes, source.signed), rows, columns };
      for (const value of tile.cells) {
        if (value === MASKED) source.masked = true;
        else if (value !== value) source.missing = true;
      }
      decoded.set(name, tile);
      if (decoded.size > 64) decoded.delete(decoded.keys().next().value);
      return tile;
    },
    row(row) {
      const block = blocks.get(`row ${row} ${key}`);
      if (block) return { cells: typed(block.bytes, Float32Array), exact: true };
      return rowFromTiles(source, row);
    },
  };
  return source;
}

/** Put a row together from the finest tiles, if they are there; asks for none. @param {Source} source */
function rowFromTiles(source, row) {
  /** @type {Win} */
  const win = [row, row + 1, 0, source.columns.length];
  return hasAll(source, win, 0) ? { cells: regionOf(source, win), exact: false } : null;
}

/** Are all tiles of a window there? Asks for none. @param {Source} source @param {Win} win */
export const hasAll = (source, win, level) => [...tilesIn(win, level)].every(([i, j]) => source.has(level, i, j));

/** The tiles of a level that a window touches. @param {Win} win */
export function* tilesIn([q0, q1, k0, k1], level) {
  const side = TILE << level;
  for (let i = Math.floor(q0 / side); i * side < q1; i++) {
    for (let j = Math.floor(k0 / side); j * side < k1; j++) yield [i, j];
  }
}

/**
 * Return the cells of a window of a map, whole cells, or null while tiles are on their way.
 * @param {Source} source @param {Win} win
 */
export function regionOf(source, win) {
  const [q0, q1, k0, k1] = win, wide = k1 - k0, cells = new Float32Array((q1 - q0) * wide);
  let complete = true;
  for (const [i, j] of tilesIn(win, 0)) {
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
