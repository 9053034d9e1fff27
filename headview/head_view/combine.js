// What one picture of a map shows, for parts that are whole in the page: what combine.py computes, in the same order of
// work: heads -> values or rollout -> combine -> words -> hidden tokens -> renormalise -> difference. And the pyramid
// of such a map: what pyramid.py makes. Cells are Float32Array, row by row, MASKED where masked, NaN where NaN.

import { decodeHead, isLarger, largestSize, MASKED, poolCells } from "./codes.js";

export const TILE = 256; // cells along each side of a tile; the last level of a pyramid fits into one
export const LEAST_SIDE = 160; // pixels of a map, whatever its shape: an axis of no more cells need not be halved

/**
 * Return what a spec shows of a part: its cells, which tokens each row and column stands for, and the largest size.
 * @param {Weights} set @param {Spec} spec
 */
export function computeShown(set, spec) {
  const { side } = spec, rows = groupsOf(set, spec, 0), columns = groupsOf(set, spec, 1);
  const of = (one) => sideOf(set, one, spec, rows, columns);
  const cells = side === "difference" ? differenceOf(of("a"), of("b")) : of(side);
  return { cells, rows, columns, signed: set.signed || side === "difference", top: largestSize(cells) };
}

/**
 * Return which tokens each row (axis 0) or column (axis 1) stands for. A word is hidden if all of its tokens are; one
 * that is hidden in part stays whole.
 * @param {Weights} set @param {{words: boolean, hidden: string[]}} spec @returns {number[][]}
 */
export function groupsOf(set, spec, axis) {
  const length = axis ? set.keys : set.queries, labels = axis ? set.keyTokens : set.tokens;
  const words = spec.words ? set.words[axis] : [], hidden = new Set(spec.hidden), groups = [];
  for (let i = 0; i < length; i++) {
    if (words.length && i > 0 && words[i] === words[i - 1]) groups.at(-1).push(i);
    else groups.push([i]);
  }
  return hidden.size ? groups.filter((group) => group.some((i) => !hidden.has(labels[i]))) : groups;
}

/** Return one side of what is shown, before the difference. @returns {Float32Array} */
function sideOf(set, side, spec, rows, columns) {
  const combined = combineMaps(chosenMaps(set, side, spec), spec.combine, set.signed);
  const byKey = joinTokens(combined, set.keys, columns, 1, set.signed);
  const cells = joinTokens(byKey, columns.length, rows, 0, set.signed);
  const hides = () => [rows, columns].some((kept, axis) =>
    kept.length < groupsOf(set, { ...spec, hidden: [] }, axis).length);
  if (spec.renormalise && set.kind === "weights" && hides()) renormaliseRows(cells, rows.length, columns.length);
  return cells;
}

/** Return the maps of the chosen heads, weighted as asked for. @returns {Float32Array[]} */
function chosenMaps(set, side, { heads, values }) {
  if (values === "rollout") return [...new Set(heads.map(([layer]) => layer))].map((i) => rolloutOf(set, side, i));
  return heads.map(([layer, head]) => {
    const cells = decodeHead(set, side, layer, head);
    if (values === "weights") return cells;
    const lengths = set.norms.subarray((layer * set.heads + head) * set.keys);
    return cells.map((cell, i) => (cell === MASKED ? MASKED : cell * lengths[i % set.keys]));
  });
}

/** Return the maximum or the mean of maps; NaN in one is NaN, and masked is what is masked in all. */
function combineMaps(maps, how, signed) {
  if (maps.length === 1) return maps[0];
  const cells = new Float32Array(maps[0].length);
  for (let i = 0; i < cells.length; i++) {
    let sum = 0, count = 0, best = MASKED, missing = false;
    for (const map of maps) {
      const cell = map[i];
      if (cell === MASKED) continue;
      if (cell !== cell) missing = true;
      if (best === MASKED || isLarger(cell, best, signed)) best = cell;
      sum += cell;
      count++;
    }
    cells[i] = missing ? NaN : how === "mean" && count ? sum / count : best;
  }
  return cells;
}

/**
 * Return queries joined to rows (axis 0), or keys to columns: the sum of a word's keys, the mean of its queries, a
 * masked weight being 0; of signed numbers always the mean of those that are not masked. Masked where all of one is.
 * @param {number} wide columns of the cells
 */
function joinTokens(cells, wide, groups, axis, signed) {
  const size = axis ? wide : cells.length / wide, others = cells.length / size;
  if (groups.length === size) return cells;
  const joined = new Float32Array(groups.length * others);
  groups.forEach((group, i) => {
    const most = axis ? 1 : group.length;
    for (let other = 0; other < others; other++) {
      let sum = 0, count = 0;
      for (const token of group) {
        const cell = cells[axis ? other * wide + token : token * wide + other];
        if (cell === MASKED) continue;
        sum += cell;
        count++;
      }
      joined[axis ? other * groups.length + i : i * wide + other] = count ? sum / (signed ? count : most) : MASKED;
    }
  });
  return joined;
}

/** Divide each row by its sum, in place (where tokens are hidden the cells are a copy); a row of zeros stays. */
function renormaliseRows(cells, rows, width) {
  for (let row = 0; row < rows; row++) {
    const line = cells.subarray(row * width, (row + 1) * width);
    let sum = 0;
    for (const cell of line) if (cell !== MASKED) sum += cell;
    if (sum !== 0) line.forEach((cell, i) => (line[i] = cell / sum));
  }
}

/** Return `after - before`; what is masked in one of them counts as 0 there. @returns {Float32Array} */
function differenceOf(before, after) {
  const plain = (cell) => (cell === MASKED ? 0 : cell);
  return after.map((cell, i) =>
    (cell === MASKED && before[i] === MASKED ? MASKED : plain(cell) - plain(before[i])));
}

/**
 * Return how much of each token has flowed into each query by `layer`: half of what leaves a layer is what came in,
 * half is what its heads brought, on average. Masked where all heads of the layer are and nothing flowed on another
 * way. @param {WholePart} set @returns {Float32Array} (keys, keys)
 */
function rolloutOf(set, side, layer) {
  const size = set.keys;
  let flowed = null, blocked;
  for (let i = 0; i <= layer; i++) {
    const heads = Array.from({ length: set.heads }, (_, head) => decodeHead(set, side, i, head));
    blocked = Uint8Array.from(heads[0], (_, at) => Number(heads.every((head) => head[at] === MASKED)));
    const mixed = mixedWithItself(heads, size);
    flowed = flowed ? flowOn(mixed, flowed, size) : mixed;
  }
  return Float32Array.from(flowed, (cell, at) => (blocked[at] && cell === 0 ? MASKED : cell));
}

/** Return half the mean of the heads and half of what stays, each row with a sum of 1; a row with NaN is all NaN. */
function mixedWithItself(heads, size) {
  const mixed = new Float64Array(size * size);
  for (let q = 0; q < size; q++) {
    let sum = 0;
    for (let at = q * size; at < (q + 1) * size; at++) {
      for (const head of heads) if (head[at] !== MASKED) mixed[at] += head[at] / (2 * heads.length);
      if (at === q * size + q) mixed[at] += 0.5;
      sum += mixed[at];
    }
    for (let at = q * size; at < (q + 1) * size; at++) mixed[at] /= sum;
  }
  return mixed;
}

/** Return the product of two square maps; what weighs 0 hands on no NaN. */
function flowOn(mixed, flowed, size) {
  const product = new Float64Array(size * size);
  for (let q = 0; q < size; q++) {
    for (let k = 0; k < size; k++) {
      const weight = mixed[q * size + k];
      if (weight === 0) continue;
      for (let j = 0; j < size; j++) product[q * size + j] += weight * flowed[k * size + j];
    }
  }
  return product;
}

/** How often a size can be halved until a tile holds it, and one more. */
export const levelsOf = (rows, columns) => Math.max(0, Math.ceil(Math.log2(Math.max(rows, columns, 1) / TILE))) + 1;

/** How many rows and columns of a map a cell of a level stands for. */
export const blockOf = (rows, columns, level) => [rows, columns].map((size) =>
  2 ** Math.min(level, Math.max(0, Math.ceil(Math.log2(size / LEAST_SIDE)))));

/**
 * A map at all sizes, each level half as long as the one below; made when it is asked for, and kept. `levels` is how
 * many there are, level 0 is the map itself; the last one has at most 256 rows and columns.
 */
export class LocalPyramid {
  /** @param {Float32Array} cells (rows, columns) @param {boolean} signed */
  constructor(cells, rows, columns, signed) {
    this.signed = signed;
    this.made = [{ cells, rows, columns }];
    this.levels = levelsOf(rows, columns);
  }

  /** Return a level: the largest of each block, at the edges of what is there. @returns {Tile} */
  level(number) {
    while (this.made.length <= number) {
      const [whole] = this.made, [down, across] = blockOf(whole.rows, whole.columns, this.made.length);
      const rows = Math.ceil(whole.rows / down), columns = Math.ceil(whole.columns / across);
      this.made.push({ cells: poolCells(this.made.at(-1), rows, columns, this.signed), rows, columns });
    }
    return this.made[number];
  }

  /** Return tile (row, column) of a level, at most 256 x 256 cells. @returns {Tile} */
  tile(number, row, column) {
    const level = this.level(number);
    const rows = Math.min(TILE, level.rows - row * TILE), columns = Math.min(TILE, level.columns - column * TILE);
    const cells = new Float32Array(rows * columns);
    for (let i = 0; i < rows; i++) {
      const from = (row * TILE + i) * level.columns + column * TILE;
      cells.set(level.cells.subarray(from, from + columns), i * columns);
    }
    return { cells, rows, columns };
  }
}
