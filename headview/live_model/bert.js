// A BERT for sentences in plain JavaScript: weights in 8 bits, sums in 64. It is `mhalib.pretrained.bert` line by line.
//
// The function holds all that it needs, for a worker is made of its text. `pack.py` says how the bytes lie.

/** Return the model of these bytes: `{head, run}`. @param {ArrayBuffer} bytes */
export function bert(bytes) {
  const length = new Uint32Array(bytes, 0, 1)[0], part = (Kind, at, size) => new Kind(bytes, 4 + length + at, size);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(bytes, 4, length))), { layers, heads, tensors } = head;
  const numbers = (name) => part(Float32Array, tensors[name].at, tensors[name].shape[0]);
  const d = tensors["norm.weight"].shape[0], headDim = d / heads;

  function matrix(name) {
    const { at, scales, unit, group, shape: [rows, columns] } = tensors[name];
    const whole = part(Int8Array, at, rows * columns), scale = part(Uint16Array, scales, (rows * columns) / group);
    function read(row, into) {
      for (let c = 0, i = row * columns; c < columns;) {
        const by = scale[i / group] * unit;
        for (const end = c + group; c < end; c++, i++) into[c] = whole[i] * by;
      }
    }
    return { rows, columns, read };
  }
  const tokens = matrix("token_embedding.weight"), places = matrix("position_embedding.weight");
  const linear = (name) => ({ weight: matrix(`${name}.weight`), bias: numbers(`${name}.bias`) });
  const normOf = (name) => ({ gain: numbers(`${name}.weight`), bias: numbers(`${name}.bias`) });
  const first = normOf("norm"), blocks = Array.from({ length: layers }, (_, i) => {
    const [q, k, v, o] = [..."qkvo"].map((which) => linear(`layers.${i}.attention.W_${which}`));
    const [wide, back] = [0, 2].map((which) => linear(`layers.${i}.feed_forward.${which}`));
    const [norm1, norm2] = ["attention", "feed_forward"].map((which) => normOf(`layers.${i}.${which}_norm`));
    return { q, k, v, o, wide, back, norm1, norm2 };
  });

  /** (T, columns) -> (T, rows); two rows by four tokens at a time, so that every number is used often once it is read. */
  function apply({ weight: { rows, columns, read }, bias }, x, T) {
    const fours = Math.ceil(T / 4), by4 = new Float64Array(fours * 4 * columns); // four tokens side by side
    for (let t = 0; t < T; t++) {
      for (let c = 0; c < columns; c++) by4[(t >> 2) * 4 * columns + 4 * c + (t & 3)] = x[t * columns + c];
    }
    const upper = new Float64Array(columns), lower = new Float64Array(columns), y = new Float32Array(fours * 4 * rows);
    for (let r = 0; r < rows; r += 2) {
      read(r, upper);
      read(r + 1, lower);
      for (let four = 0; four < fours; four++) {
        let a0 = bias[r], a1 = a0, a2 = a0, a3 = a0, b0 = bias[r + 1], b1 = b0, b2 = b0, b3 = b0;
        for (let c = 0, i = four * 4 * columns; c < columns; c++, i += 4) {
          const u = upper[c], l = lower[c], x0 = by4[i], x1 = by4[i + 1], x2 = by4[i + 2], x3 = by4[i + 3];
          a0 += u * x0; a1 += u * x1; a2 += u * x2; a3 += u * x3;
          b0 += l * x0; b1 += l * x1; b2 += l * x2; b3 += l * x3;
        }
        const at = four * 4 * rows + r;
        y[at] = a0; y[at + rows] = a1; y[at + 2 * rows] = a2; y[at + 3 * rows] = a3;
        y[at + 1] = b0; y[at + rows + 1] = b1; y[at + 2 * rows + 1] = b2; y[at + 3 * rows + 1] = b3;
      }
    }
    return y.subarray(0, T * rows);
  }

  /** x + y, each token with mean 0 and variance 1, then gain and bias; into x. */
  function addAndNorm(x, y, T, { gain, bias }) {
    for (let t = 0, at = 0; t < T; t++, at += d) {
      let mean = 0, variance = 0;
      for (let i = 0; i < d; i++) mean += (x[at + i] += y[at + i]) / d;
      for (let i = 0; i < d; i++) variance += (x[at + i] - mean) ** 2 / d;
      const by = 1 / Math.sqrt(variance + 1e-12);
      for (let i = 0; i < d; i++) x[at + i] = (x[at + i] - mean) * by * gain[i] + bias[i];
    }
  }

  /** x times the share of a normal distribution below it; Abramowitz and Stegun 7.1.26, to 1.5e-7. */
  function gelu(x) {
    const z = Math.abs(x) / Math.SQRT2, t = 1 / (1 + 0.3275911 * z);
    const five = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t;
    const erf = 1 - five * Math.exp(-z * z);
    return 0.5 * x * (1 + (x < 0 ? -erf : erf));
  }

  /** One head: its weights go into `map`, (T, T), and what it takes from the values into `out`. */
  function attend(q, k, v, T, from, map, out) {
    for (let a = 0; a < T; a++) {
      const row = map.subarray(a * T, (a + 1) * T);
      for (let b = 0; b < T; b++) {
        let score = 0;
        for (let i = 0, x = a * d + from, y = b * d + from; i < headDim; i++) score += q[x + i] * k[y + i];
        row[b] = score / Math.sqrt(headDim);
      }
      const most = Math.max(...row);
      let sum = 0;
      for (let b = 0; b < T; b++) sum += row[b] = Math.exp(row[b] - most);
      for (let b = 0; b < T; b++) {
        row[b] /= sum;
        for (let i = 0, x = a * d + from, y = b * d + from; out && i < headDim; i++) out[x + i] += row[b] * v[y + i];
      }
    }
  }

  /**
   * Run the model: `{maps, vector}`, (layers, heads, T, T) and the mean over tokens, of length 1. `off`: which heads,
   * numbered through, hand on nothing. Between layers `goOn()` is awaited; where that is false there is no result.
   */
  async function run(ids, off, goOn) {
    const T = ids.length, x = new Float32Array(T * d), place = new Float32Array(T * d), vector = new Float32Array(d);
    const maps = new Float32Array(layers * heads * T * T);
    ids.forEach((id, t) => {
      tokens.read(id, x.subarray(t * d));
      places.read(t, place.subarray(t * d));
    });
    addAndNorm(x, place, T, first);
    for (const [number, block] of blocks.entries()) {
      if (!(await goOn())) return null;
      const [q, k, v] = [block.q, block.k, block.v].map((one) => apply(one, x, T)), merged = new Float32Array(T * d);
      for (let head = 0; head < heads; head++) {
        const which = number * heads + head, map = maps.subarray(which * T * T, (which + 1) * T * T);
        attend(q, k, v, T, head * headDim, map, off.has(which) ? null : merged);
      }
      addAndNorm(x, apply(block.o, merged, T), T, block.norm1);
      addAndNorm(x, apply(block.back, apply(block.wide, x, T).map(gelu), T), T, block.norm2);
    }
    x.forEach((value, i) => (vector[i % d] += value / T));
    const size = Math.hypot(...vector);
    return { maps, vector: vector.map((value) => value / size) };
  }
  return { head, run };
}
