// What HeadLab computes; the mhalib lines that compute the same stand in code.js. No page: numbers in, numbers out.
// Matrices are flat arrays, row after row. Everything is added up in double precision.

/** @import { LabState } from "./view.js" */
/** @typedef {ReturnType<typeof labAttend>} LabResult one step, all heads */

/** Which cells the mask of these settings allows. @returns {Uint8Array} (Tq, Tk) */
export function labAllowed(mask, queries, keys, validLen, own) {
  const allowed = new Uint8Array(queries * keys).fill(1);
  if (mask === "own" && own.length === allowed.length) allowed.set(own);
  for (let i = 0; i < queries; i++) {
    // The queries are the last positions of the keys, as in mhalib.masks.causal_mask.
    const end = mask === "causal" ? keys - queries + i + 1 : mask === "padding" ? validLen : keys;
    if (end < keys) allowed.fill(0, i * keys + Math.max(0, end), (i + 1) * keys);
  }
  return allowed;
}

/** Dot products of every query with every key, per head: head h owns features h·headDim to (h+1)·headDim. */
export function labScores(q, k, { queries, keys, features, heads, headDim }) {
  const scores = new Float64Array(heads * queries * keys);
  let at = 0;
  for (let h = 0; h < heads; h++) {
    for (let i = 0; i < queries; i++) {
      const from = i * features + h * headDim;
      for (let j = 0; j < keys; j++) {
        const to = j * features + h * headDim;
        let sum = 0;
        for (let f = 0; f < headDim; f++) sum += q[from + f] * k[to + f];
        scores[at++] = sum;
      }
    }
  }
  return scores;
}

/** The factor on the scores: scale and temperature in one. @param {LabState} state */
export function labFactor({ scale, temperature, headDim, features }) {
  return 1 / (Math.sqrt(scale === "head_dim" ? headDim : scale === "d_model" ? features : 1) * temperature);
}

/**
 * The softmax of one query over its allowed keys, into `row`. `at` and `cells`: where its scores and its allowed cells
 * begin.
 * @returns {number} its entropy in bits; 0 where there is nothing to attend to, and then `row` is zeros
 */
function labSoftmax(row, scores, at, allowed, cells, factor) {
  let largest = -Infinity;
  for (let j = 0; j < row.length; j++) {
    if (allowed[cells + j]) largest = Math.max(largest, scores[at + j] * factor);
  }
  row.fill(0);
  if (largest === -Infinity) return 0;
  let [total, weighted] = [0, 0];
  for (let j = 0; j < row.length; j++) {
    if (!allowed[cells + j]) continue;
    const below = scores[at + j] * factor - largest; // 0 or less, so that exp cannot overflow
    row[j] = Math.exp(below);
    total += row[j];
    weighted += row[j] * below;
  }
  for (let j = 0; j < row.length; j++) row[j] /= total;
  // −Σ p log p with p = exp(below) / total, without a logarithm per cell
  return Math.max(0, Math.log(total) - weighted / total) / Math.LN2;
}

/**
 * Weights (h, Tq, Tk), output (h, Tq, headDim) if there are values, entropy in bits (h, Tq), and the most bits that
 * each query could have (Tq). A query with nothing to attend to gets zeros.
 * @param {Float64Array} scores @param {Float32Array} v (Tk, d_model) or empty @param {LabState} state
 */
export function labAttend(scores, v, state) {
  const { queries, keys, features, heads, headDim, allowed } = state;
  const factor = labFactor(state);
  const weights = new Float32Array(heads * queries * keys);
  const output = v.length ? new Float32Array(heads * queries * headDim) : null;
  const entropy = new Float32Array(heads * queries);
  const row = new Float64Array(keys), mix = new Float64Array(headDim);
  for (let h = 0, query = 0; h < heads; h++) {
    for (let i = 0; i < queries; i++, query++) {
      entropy[query] = labSoftmax(row, scores, query * keys, allowed, i * keys, factor);
      weights.set(row, query * keys);
      if (!output) continue;
      mix.fill(0);
      for (let j = 0; j < keys; j++) {
        const value = j * features + h * headDim;
        for (let f = 0; row[j] && f < headDim; f++) mix[f] += row[j] * v[value + f];
      }
      output.set(mix, query * headDim);
    }
  }
  const counts = Array.from({ length: queries }, (_, i) => sumOf(allowed.subarray(i * keys, (i + 1) * keys)));
  return { weights, output, entropy, most: Float32Array.from(counts, (count) => Math.log2(Math.max(1, count))) };
}

const sumOf = (numbers) => numbers.reduce((sum, x) => sum + x, 0);

/** The mean entropy of a head, in bits. @param {LabState} state @param {LabResult} result */
export function labBits({ queries }, { entropy }, head) {
  return sumOf(entropy.subarray(head * queries, (head + 1) * queries)) / queries;
}

/** What there is to say of a head besides: the most bits it could have, and how many queries see nothing. */
export function labRows({ queries, keys, allowed }, { most }) {
  const blind = (i) => !allowed.subarray(i * keys, (i + 1) * keys).includes(1);
  return { most: sumOf(most) / queries, empty: Array.from({ length: queries }, (_, i) => i).filter(blind).length };
}
