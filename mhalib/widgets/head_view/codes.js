// How a weight is coded on its way to the page, and how exactly it can be said; what codes.py writes is read here.
// Codes are linear from 0 to the largest weight of their head, which has the code LEVELS; one more means masked, two
// more NaN. Decoded weights are Float32Array in row-major order, MASKED where masked, NaN where NaN.

const MASKED = -1;
const LEVELS = { uint8: 253, uint16: 65533, float32: 0 }; // float32 is stored as it is: no levels
const KINDS = { uint8: Uint8Array, uint16: Uint16Array, float32: Float32Array };
const MOST_DIGITS = 4; // behind the point

/**
 * @typedef {object} Weights
 * @property {number} layers @property {number} heads @property {number} queries @property {number} keys
 * @property {Uint8Array|Uint16Array|Float32Array} raw codes, (layers, heads, queries, keys)
 * @property {number} levels the code of a head's largest weight; 0 for float32
 * @property {boolean} rounded are there fewer digits than most people ask for?
 * @property {Float32Array} maxima the largest weight of each head
 * @property {string[]} tokens @property {string[]} keyTokens
 */

/** @returns {Weights} */
function readWeights(model) {
  const [layers, heads, queries, keys] = model.get("shape");
  const storage = model.get("storage");
  const named = (labels, size) => (labels.length ? labels : Array.from({ length: size }, (_, i) => String(i)));
  return {
    layers,
    heads,
    queries,
    keys,
    raw: bytesOf(model, "data", KINDS[storage]),
    levels: LEVELS[storage],
    rounded: storage === "uint8",
    maxima: bytesOf(model, "maxima", Float32Array),
    tokens: named(model.get("tokens"), queries),
    keyTokens: named(model.get("key_tokens"), keys),
  };
}

/** Return the weights of one head. @param {Weights} w @returns {Float32Array} (queries, keys) */
function decodeHead(w, layer, head) {
  const at = layer * w.heads + head;
  const size = w.queries * w.keys;
  const codes = w.raw.subarray(at * size, (at + 1) * size);
  if (codes instanceof Float32Array) return codes;
  const step = w.maxima[at] / w.levels;
  const weights = new Float32Array(size);
  for (let i = 0; i < size; i++) {
    weights[i] = codes[i] <= w.levels ? codes[i] * step : codes[i] === w.levels + 1 ? MASKED : NaN;
  }
  return weights;
}

/**
 * Shrink every head to at most side x side cells. The largest weight of a block stands for it, so that a thin
 * diagonal does not vanish; NaN counts as larger than all. @param {Weights} w
 * @returns {{rows: number, columns: number, cells: Float32Array, missing: boolean[]}} cells: (layers * heads, rows,
 *   columns); missing: which heads hold NaN
 */
function poolHeads(w, side) {
  const rows = Math.min(w.queries, side), columns = Math.min(w.keys, side);
  const size = rows * columns;
  const cells = new Float32Array(w.layers * w.heads * size);
  const starts = (parts, whole) => Uint16Array.from({ length: parts + 1 }, (_, i) => Math.ceil((i * whole) / parts));
  const blocks = { tops: starts(rows, w.queries), lefts: starts(columns, w.keys) };
  const missing = Array.from({ length: w.layers * w.heads }, (_, at) =>
    poolHead(w, at, blocks, cells.subarray(at * size, (at + 1) * size)));
  return { rows, columns, cells, missing };
}

/** Shrink head number `at` of all into `cells`, straight from its codes; return whether it holds NaN. */
function poolHead({ raw, queries, keys, levels, maxima }, at, { tops, lefts }, cells) {
  const masked = levels ? levels + 1 : MASKED, most = levels || 2; // codes above the most are NaN
  const start = at * queries * keys, step = levels ? maxima[at] / levels : 1;
  const rows = tops.length - 1, columns = lefts.length - 1;
  let missing = false;
  for (let row = 0, cell = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++, cell++) {
      let best = -1;
      for (let q = tops[row]; q < tops[row + 1]; q++) {
        const from = start + q * keys, end = from + lefts[column + 1];
        for (let i = from + lefts[column]; i < end; i++) {
          const code = raw[i];
          if (code === masked) continue;
          if (code > best) best = code;
          else if (code !== code) best = Infinity;
        }
      }
      if (best > most) missing = true;
      cells[cell] = best < 0 ? MASKED : best > most ? NaN : best * step;
    }
  }
  return missing;
}

/** Return how many digits behind the point hold for these heads: codes are steps. @param {Weights} w */
function digitsOf(w, pairs) {
  if (!w.levels) return MOST_DIGITS;
  const largest = Math.max(1e-9, ...pairs.map(([layer, head]) => w.maxima[layer * w.heads + head]));
  return Math.max(1, Math.min(MOST_DIGITS, Math.floor(-Math.log10(largest / w.levels))));
}

/** Say a weight with the digits that are stored. */
function formatWeight(weight, digits) {
  if (weight === MASKED) return "masked";
  if (Number.isNaN(weight)) return "NaN, not a number";
  return `${digits < MOST_DIGITS ? "about " : ""}${weight.toFixed(digits)}`;
}
