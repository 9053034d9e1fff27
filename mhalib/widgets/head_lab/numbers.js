// What HeadLab computes, and the mhalib lines that compute the same. No page, no canvas: numbers in, numbers out.
// Matrices are flat arrays, row after row. Everything is added up in double precision.

/**
 * @typedef {object} LabState what the traits say, read once a step
 * @property {number} queries
 * @property {number} keys
 * @property {number} features d_model
 * @property {number} heads
 * @property {number} headDim
 * @property {string} scale "head_dim", "none" or "d_model"
 * @property {number} temperature
 * @property {string} mask "none", "causal", "padding" or "own"
 * @property {number} validLen
 * @property {number} head the one in focus
 * @property {Uint8Array} allowed (Tq, Tk), 1 where attention is allowed
 */

/**
 * @typedef {object} LabResult one step, all heads
 * @property {Float32Array} weights (h, Tq, Tk)
 * @property {Float32Array | null} output (h, Tq, headDim), if there are values
 * @property {Float32Array} entropy (h, Tq), bits
 * @property {Float32Array} most (Tq), the bits of a query that spreads evenly over its allowed keys
 */

/** Which cells the mask of these settings allows. @returns {Uint8Array} (Tq, Tk) */
function labAllowed(mask, queries, keys, validLen, own) {
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
function labScores(q, k, { queries, keys, features, heads, headDim }) {
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
function labFactor({ scale, temperature, headDim, features }) {
  return 1 / (Math.sqrt(scale === "head_dim" ? headDim : scale === "d_model" ? features : 1) * temperature);
}

/**
 * Softmax over the allowed keys, entropy, and what each head hands on. A query with nothing to attend to gets zeros.
 * @param {Float64Array} scores @param {Float32Array} v (Tk, d_model) or empty @param {LabState} state
 * @returns {LabResult}
 */
function labAttend(scores, v, state) {
  const { queries, keys, features, heads, headDim, allowed } = state;
  const factor = labFactor(state);
  const weights = new Float32Array(heads * queries * keys);
  const output = v.length ? new Float32Array(heads * queries * headDim) : null;
  const entropy = new Float32Array(heads * queries);
  const most = new Float32Array(queries);
  const row = new Float64Array(keys);
  const mix = new Float64Array(headDim);
  for (let i = 0; i < queries; i++) {
    let count = 0;
    for (let j = 0; j < keys; j++) count += allowed[i * keys + j];
    most[i] = count ? Math.log2(count) : 0;
  }
  for (let h = 0; h < heads; h++) {
    for (let i = 0; i < queries; i++) {
      const at = (h * queries + i) * keys;
      const cells = i * keys;
      let largest = -Infinity;
      for (let j = 0; j < keys; j++) {
        if (allowed[cells + j]) largest = Math.max(largest, scores[at + j] * factor);
      }
      if (largest === -Infinity) continue; // nothing to attend to: the zeros that are there stay
      let total = 0;
      let weighted = 0;
      for (let j = 0; j < keys; j++) {
        row[j] = 0;
        if (!allowed[cells + j]) continue;
        const below = scores[at + j] * factor - largest; // 0 or less, so that exp cannot overflow
        row[j] = Math.exp(below);
        total += row[j];
        weighted += row[j] * below;
      }
      // −Σ p log p with p = exp(below) / total, without a logarithm per cell
      entropy[h * queries + i] = Math.max(0, Math.log(total) - weighted / total) / Math.LN2;
      mix.fill(0);
      for (let j = 0; j < keys; j++) {
        if (row[j] === 0) continue;
        const weight = row[j] / total;
        weights[at + j] = weight;
        if (!output) continue;
        const value = j * features + h * headDim;
        for (let f = 0; f < headDim; f++) mix[f] += weight * v[value + f];
      }
      if (output) output.set(mix, (h * queries + i) * headDim);
    }
  }
  return { weights, output, entropy, most };
}

/** What the table and the summary say about one head. @param {LabState} state @param {LabResult} result */
function labHeadNumbers(state, result, head) {
  const { queries, keys, headDim, allowed } = state;
  let [bits, most, off, norm, empty] = [0, 0, 0, 0, 0];
  for (let i = 0; i < queries; i++) {
    bits += result.entropy[head * queries + i] / queries;
    most += result.most[i] / queries;
    let [sum, count, square] = [0, 0, 0];
    for (let j = 0; j < keys; j++) {
      sum += result.weights[(head * queries + i) * keys + j];
      count += allowed[i * keys + j];
    }
    if (count) off = Math.max(off, Math.abs(sum - 1));
    else empty++;
    if (result.output) {
      for (let f = 0; f < headDim; f++) square += result.output[(head * queries + i) * headDim + f] ** 2;
      norm += Math.sqrt(square) / queries;
    }
  }
  return { bits, most, off, empty, norm };
}

/**
 * The Python lines that reproduce what is shown.
 * @param {LabState} state @param {string[]} inputs how q, k and, if given, v are written as (1, T, d_model)
 * @param {string} note a comment on the names in `inputs`, or ""
 */
function labCode(state, inputs, note) {
  const { queries, keys, features, heads, headDim } = state;
  const names = ["scaled_dot_product_attention", "split_heads"];
  if (state.mask === "causal") names.unshift("causal_mask");
  if (state.mask === "padding") names.unshift("padding_mask");
  const shape = (tokens) => `(1, ${tokens}, ${features}) -> (1, ${heads}, ${tokens}, ${headDim})`;
  const lines = ["import math", "import torch", `from mhalib import ${names.join(", ")}`, ""];
  if (note) lines.push(note);
  lines.push(`q_heads = split_heads(${inputs[0]}, ${heads})  # ${shape(queries)}`);
  lines.push(`k_heads = split_heads(${inputs[1]}, ${heads})  # ${shape(keys)}`);
  if (inputs[2]) lines.push(`v_heads = split_heads(${inputs[2]}, ${heads})  # ${shape(keys)}`);
  if (state.mask !== "none") lines.push(...labMaskCode(state));
  const root = { head_dim: `math.sqrt(${headDim})`, d_model: `math.sqrt(${features})`, none: "1" }[state.scale];
  const divisor = state.temperature === 1 ? root : `(${root} * ${state.temperature})`;
  lines.push(`scale = 1 / ${divisor}  # scale: ${state.scale}, temperature: ${state.temperature}`);
  const mask = state.mask === "none" ? "" : ", mask";
  lines.push(
    inputs[2]
      ? `output, weights = scaled_dot_product_attention(q_heads, k_heads, v_heads${mask}, scale=scale)`
      : `_, weights = scaled_dot_product_attention(q_heads, k_heads, k_heads${mask}, scale=scale)  # no values given`,
  );
  lines.push("entropy = torch.special.entr(weights).sum(-1) / math.log(2)  # bits, (1, num_heads, Tq)");
  return lines.join("\n") + "\n";
}

/** The lines that make the mask; an own one as a picture of it, or as its few blocked cells. */
function labMaskCode({ mask, queries, keys, validLen, allowed }) {
  if (mask === "causal") return [`mask = causal_mask(${queries}, ${keys})`];
  if (mask === "padding") return [`mask = padding_mask(torch.tensor([${validLen}]), ${keys})  # (1, 1, ${keys})`];
  const blocked = [];
  allowed.forEach((may, at) => may || blocked.push([Math.floor(at / keys), at % keys]));
  if (blocked.length <= 12) {
    const lines = [`mask = torch.ones(${queries}, ${keys}, dtype=torch.bool)`];
    if (blocked.length) {
      lines.push(`mask[[${blocked.map((cell) => cell[0]).join(", ")}], [${blocked.map((cell) => cell[1]).join(", ")}]] = False`);
    }
    return lines;
  }
  const rows = Array.from({ length: queries }, (_, i) => allowed.subarray(i * keys, (i + 1) * keys).join(""));
  return ['rows = """', ...rows, '"""', 'mask = torch.tensor([[cell == "1" for cell in row] for row in rows.split()])'];
}
