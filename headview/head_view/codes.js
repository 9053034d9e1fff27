// How a number of a map is coded on its way to the page, and how exactly it can be said; what codes.py writes is read
// here. Codes are spaced like the cube root of a number's share of its map's largest one, which has the code LEVELS;
// one more means masked, two more NaN. Signed numbers have their codes to both sides of LEVELS >> 1. Decoded numbers
// are Float32Array in row-major order, MASKED where masked, NaN where NaN.

import { kept, typed } from "../core.js";

export const MASKED = -Infinity;
export const LEVELS = { uint8: 253, uint16: 65533, float32: 0 }; // float32 is stored as it is: no levels
export const KINDS = { uint8: Uint8Array, uint16: Uint16Array, float32: Float32Array };
const POWER = 3;
const LEAST_SHARE = 1.1754943508222875e-38; // instead of a largest number of 0: 0 * -Infinity would be NaN
const DIGITS = 4; // behind the point
const TINY = 0.001; // what is below is said as 3.2e-5

const shares = new Map(); // by levels and sign: what each code stands for, as a share of the largest

const sharesOf = (levels, signed) => kept(shares, `${levels} ${signed}`, () => {
  const zero = signed ? levels >> 1 : 0, most = signed ? levels >> 1 : levels;
  const all = new Float32Array(levels + 3).map((_, code) => ((code - zero) / most) ** POWER);
  all.set([MASKED, NaN], levels + 1);
  return all;
});

/** Return the numbers that codes of one map stand for. @returns {Float32Array} */
function decodeMap(codes, levels, top, signed) {
  if (!levels) return codes instanceof Float32Array ? codes : Float32Array.from(codes);
  const table = sharesOf(levels, signed), scale = Math.max(top, LEAST_SHARE), cells = new Float32Array(codes.length);
  for (let i = 0; i < codes.length; i++) cells[i] = table[codes[i]] * scale;
  return cells;
}

/** Read a block as `codes.pack` makes it. @param {ArrayBufferView} bytes @returns {Float32Array} row by row */
export const readPacked = (bytes, signed) =>
  decodeMap(typed(bytes, Uint16Array, 4), LEVELS.uint16, typed(bytes, Float32Array, 0, 1)[0], signed);

/** Return the numbers of one head. @param {WholePart} set @returns {Float32Array} (queries, keys) */
export function decodeHead(set, side, layer, head) {
  const at = layer * set.heads + head, size = set.queries * set.keys;
  return decodeMap(set.codes(side).subarray(at * size, (at + 1) * size), set.levels, set.tops(side)[at], set.signed);
}

/** Return one number of a head. @param {WholePart} set @param {"a"|"b"} side */
export function decodeCell(set, side, layer, head, query, key) {
  const at = layer * set.heads + head, cell = (at * set.queries + query) * set.keys + key;
  return decodeMap(set.codes(side).subarray(cell, cell + 1), set.levels, set.tops(side)[at], set.signed)[0];
}

/** Return the largest finite size of some numbers, 0 where there is none. */
export function largestSize(numbers) {
  let most = 0;
  for (const number of numbers) {
    const size = Math.abs(number);
    if (size > most && size < Infinity) most = size;
  }
  return most;
}

/** Is `one` to stand for a block rather than `other`, neither of them NaN or masked? */
export function isLarger(one, other, signed) {
  if (!signed) return one > other;
  const size = Math.abs(one), least = Math.abs(other);
  return size > least || (size === least && one > other); // of two as far from 0, the positive one
}

/**
 * Shrink every head of a side to at most `most` x `most` cells.
 * @param {WholePart} set @param {"a"|"b"} side
 * @returns {Tile} cells: (layers * heads, rows, columns)
 */
export function poolHeads(set, most, side) {
  const rows = Math.min(set.queries, most), columns = Math.min(set.keys, most), size = rows * columns;
  const cells = new Float32Array(set.layers * set.heads * size);
  for (let i = 0; i < set.layers * set.heads; i++) {
    const whole = decodeHead(set, side, Math.floor(i / set.heads), i % set.heads);
    cells.set(poolCells({ cells: whole, rows: set.queries, columns: set.keys }, rows, columns, set.signed), i * size);
  }
  return { rows, columns, cells };
}

/**
 * Shrink one map to so many rows and columns. The largest number of a block stands for it, so that a thin diagonal does
 * not vanish; NaN in it makes it NaN, and it is masked where all of it is.
 * @param {{cells: Float32Array, rows: number, columns: number}} whole @returns {Float32Array}
 */
export function poolCells(whole, rows, columns, signed) {
  const starts = (parts, size) => Uint32Array.from({ length: parts + 1 }, (_, i) => Math.ceil((i * size) / parts));
  const tops = starts(rows, whole.rows), lefts = starts(columns, whole.columns);
  const pooled = new Float32Array(rows * columns);
  for (let row = 0, at = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++, at++) {
      let best = MASKED;
      block: for (let q = tops[row]; q < tops[row + 1]; q++) {
        for (let i = q * whole.columns + lefts[column]; i < q * whole.columns + lefts[column + 1]; i++) {
          const cell = whole.cells[i];
          if (cell !== cell) {
            best = NaN;
            break block;
          }
          if (cell !== MASKED && (best === MASKED || isLarger(cell, best, signed))) best = cell;
        }
      }
      pooled[at] = best;
    }
  }
  return pooled;
}

/** Return by how much a decoded number may be off. @param {number} levels one of LEVELS @param {number} top */
export function errorOf(value, levels, top, signed) {
  if (!levels || !Number.isFinite(value)) return 0;
  const most = signed ? levels >> 1 : levels;
  const code = most * Math.cbrt(Math.abs(value) / Math.max(top, LEAST_SHARE));
  // One byte of weights may be rounded the other way to keep the sum of its row: a whole step.
  const step = levels === LEVELS.uint8 && !signed ? 1 : 0.5;
  return top * (((code + step) / most) ** POWER - (code / most) ** POWER);
}

/**
 * Say a number with the digits that hold: 0.1234, 3.2e-5, about 0.934 ± 0.006.
 * @param {number} value @param {number} error by how much it may be off, 0 if it is exact @returns {string}
 */
export const formatWeight = (value, error = 0) => withMinus(value, digitsOf(value, error));

/** A number as text, with a true minus sign. @param {number} value @param {string} text */
export const withMinus = (value, text) => (value < 0 ? text.replace("-", "−") : text);

function digitsOf(value, error) {
  if (value === MASKED) return "masked";
  if (Number.isNaN(value)) return "NaN, not a number";
  const size = Math.abs(value), tiny = size > 0 && size < TINY;
  const last = tiny ? 10 ** (Math.floor(Math.log10(size)) - 1) : 10 ** -DIGITS; // what the last digit stands for
  if (error <= last / 2) {
    if (value === 0) return "0";
    return tiny ? value.toExponential(1) : size >= 1e6 ? value.toExponential(DIGITS) : value.toFixed(DIGITS);
  }
  const unit = 10 ** Math.floor(Math.log10(error));
  const most = Number((Math.ceil(error / unit - 1e-9) * unit).toPrecision(1)); // one digit, rounded up
  const digits = Math.max(0, Math.min(DIGITS, Math.ceil(-Math.log10(most) - 1e-9)));
  const said = tiny ? value.toExponential(1) : value.toFixed(digits);
  return `about ${said} ± ${most < 1e-4 ? most.toExponential(0) : most}`;
}
