// What HeadView draws, as functions of numbers and a canvas: no state and no listeners.
// Decoded weights are Float32Array in row-major order; MASKED marks a masked cell and NaN stays NaN.

const MASKED = -1;
/** Lines need more contrast than fills: readable on white, and on near black. The dash says it without colour. */
const LINES_ON_LIGHT = ["#0072B2", "#C04A00", "#007A5A", "#A3447E", "#7A5C00", "#4B3FA8", "#B00020", "#4F4F4F"];
const LINES_ON_DARK = ["#56B4E9", "#FF9A4D", "#2FCB9B", "#F09BC8", "#F0E442", "#B7ADFF", "#FF8A9A", "#D0D0D0"];
const DASHES = [[], [7, 4], [2, 3], [9, 3, 2, 3]];

/**
 * @typedef {object} Weights
 * @property {number} layers @property {number} heads @property {number} queries @property {number} keys
 * @property {Uint8Array|Uint16Array|Float32Array} raw codes, (layers, heads, queries, keys)
 * @property {number} levels the code of a head's maximum; one more is masked, two more NaN; 0 for float32
 * @property {Float32Array} maxima the largest weight of each head
 * @property {string[]} tokens @property {string[]} keyTokens
 */

/** @returns {Weights} */
function readWeights(model) {
  const [layers, heads, queries, keys] = model.get("shape");
  const storage = model.get("storage");
  const raw = bytesOf(model, "data", { uint8: Uint8Array, uint16: Uint16Array, float32: Float32Array }[storage]);
  const named = (labels, size) => (labels.length ? labels : Array.from({ length: size }, (_, i) => String(i)));
  return {
    layers, heads, queries, keys, raw,
    levels: { uint8: 253, uint16: 65533, float32: 0 }[storage],
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
  if (codes instanceof Float32Array) return codes; // stored as they are: no levels
  const step = w.maxima[at] / w.levels;
  const weights = new Float32Array(size);
  for (let i = 0; i < size; i++) {
    weights[i] = codes[i] <= w.levels ? codes[i] * step : codes[i] === w.levels + 1 ? MASKED : NaN;
  }
  return weights;
}

/** Return the maximum or mean of several heads; a cell is masked where it is masked in all, NaN where it is in one. */
function combineHeads(maps, how) {
  if (maps.length === 1) return maps[0];
  const out = new Float32Array(maps[0].length);
  for (let i = 0; i < out.length; i++) {
    let sum = 0, most = 0, open = 0;
    for (const map of maps) {
      if (map[i] === MASKED) continue;
      open++;
      sum += map[i];
      if (map[i] > most) most = map[i];
    }
    out[i] = !open ? MASKED : sum !== sum ? NaN : how === "mean" ? sum / open : most;
  }
  return out;
}

/** Return the largest weight, and whether there are masked cells and NaN. */
function survey(weights) {
  let most = 0, masked = false, missing = false;
  for (let i = 0; i < weights.length; i++) {
    if (weights[i] > most) most = weights[i];
    else if (weights[i] === MASKED) masked = true;
    else if (weights[i] !== weights[i]) missing = true;
  }
  return { most, masked, missing };
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
  const tops = starts(rows, w.queries), lefts = starts(columns, w.keys);
  const missing = Array.from({ length: w.layers * w.heads }, (_, at) =>
    poolHead(w.raw, at * w.queries * w.keys, w, tops, lefts, w.levels ? w.maxima[at] / w.levels : 1, cells.subarray(at * size, (at + 1) * size)));
  return { rows, columns, cells, missing };
}

/** Shrink one head, whose codes begin at `start`, into `cells`; return whether it holds NaN. */
function poolHead(raw, start, { keys, levels }, tops, lefts, step, cells) {
  const masked = levels ? levels + 1 : MASKED, most = levels || 2;
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

/** Masked and NaN pixels: as they are, and as every fourth one is where cells are too small for marks. */
const MASKED_PIXELS = [MASKED_PIXEL, packColour([150, 150, 150])];
const NAN_PIXELS = [NAN_PIXEL, packColour([255, 255, 255])];

/**
 * Colour weights, one pixel each, into an ImageData as wide as `stride`, the first one at pixel `start`. Where cells are
 * too small for marks, `hatched` says by a pattern what the colour says: masked cells are hatched one way, NaN the other.
 * @param {Uint32Array} pixels
 */
function shadeWeights(pixels, start, stride, weights, rows, columns, top, hatched) {
  const factor = 255 / Math.max(top, 1e-9);
  for (let y = 0, i = 0; y < rows; y++) {
    for (let x = 0, at = start + y * stride; x < columns; x++, i++, at++) {
      const weight = weights[i];
      if (weight >= 0) pixels[at] = WEIGHT_PIXELS[Math.min(255, (weight * factor + 0.5) | 0)];
      else if (weight === MASKED) pixels[at] = MASKED_PIXELS[+(hatched && (x + y) % 4 === 0)];
      else pixels[at] = NAN_PIXELS[+(hatched && (x - y + 4096) % 4 === 0)];
    }
  }
}

/** Draw a cross into every masked cell and a "?" into every NaN cell of the map in `frame`. */
function markCells(context, weights, queries, keys, frame) {
  const wide = frame.width / keys, high = frame.height / queries;
  const arm = Math.min(wide, high) * 0.22;
  context.beginPath();
  context.font = `bold ${Math.round(Math.min(wide, high, 20) * 0.7)}px system-ui, sans-serif`;
  context.fillStyle = "#000";
  context.textAlign = "center";
  context.textBaseline = "middle";
  for (let i = 0; i < weights.length; i++) {
    if (weights[i] >= 0) continue;
    const x = frame.x + ((i % keys) + 0.5) * wide, y = frame.y + (Math.floor(i / keys) + 0.5) * high;
    if (weights[i] === MASKED) {
      addCross(context, x, y, arm);
    } else context.fillText("?", x, y + 1);
  }
  context.strokeStyle = CROSS_INK;
  context.lineWidth = 1;
  context.stroke();
}

/** Write the weights into the cells of the map in `frame`, as far as they are numbers. */
function cellValues(context, weights, queries, keys, frame, top) {
  const wide = frame.width / keys, high = frame.height / queries;
  context.font = SMALL_FONT;
  context.textAlign = "center";
  context.textBaseline = "middle";
  for (let i = 0; i < weights.length; i++) {
    if (!(weights[i] >= 0)) continue;
    context.fillStyle = weightColour(weights[i] / top).ink;
    context.fillText(weights[i].toFixed(2), frame.x + ((i % keys) + 0.5) * wide, frame.y + (Math.floor(i / keys) + 0.5) * high);
  }
}

/** Write labels in a column whose middle heights are `y(i)`; the cursor's is bold. */
function rowLabels(context, labels, x, y, step, room, cursor, colours, align) {
  context.textAlign = align;
  context.textBaseline = "middle";
  for (const i of thinned(labels.length, step, 14, cursor)) {
    context.font = i === cursor ? `bold ${SMALL_FONT}` : SMALL_FONT;
    context.fillStyle = i === cursor ? colours.ink : colours.soft;
    context.fillText(labels[i], x, y(i), room);
  }
}

/** Write labels below a row of cells, turned where they do not fit. */
function columnLabels(context, labels, y, x, step, room, cursor, colours) {
  context.font = SMALL_FONT;
  const turned = labels.some((label) => context.measureText(label).width > step - 4);
  context.textBaseline = turned ? "middle" : "top";
  context.textAlign = turned ? "right" : "center";
  for (const i of thinned(labels.length, step, turned ? 14 : 0, cursor)) {
    context.font = i === cursor ? `bold ${SMALL_FONT}` : SMALL_FONT;
    context.fillStyle = i === cursor ? colours.ink : colours.soft;
    context.save();
    context.translate(x(i), y);
    if (turned) context.rotate(-Math.PI / 2);
    context.fillText(labels[i], 0, 0, turned ? room : undefined);
    context.restore();
  }
}

/** Draw the colour scale from 0 to `top`, the numbers beside it. */
function colourBar(context, x, y, height, top, colours) {
  for (let i = 0; i < height; i++) {
    context.fillStyle = weightColour(1 - i / height).fill;
    context.fillRect(x, y + i, 12, 1.5);
  }
  context.font = SMALL_FONT;
  context.fillStyle = colours.ink;
  context.textAlign = "left";
  context.textBaseline = "top";
  context.fillText(top === 1 ? "1" : top.toPrecision(3), x + 16, y);
  context.textBaseline = "bottom";
  context.fillText("0", x + 16, y + height);
}

const FAINT = 0.004; // of the top of the scale: a weaker line is not seen

/** Return how many weights can be seen as lines, and which of them are among the `most` strongest: those from `least` on. */
function strongest(weights, top, most) {
  const counts = new Uint32Array(1025);
  let all = 0;
  for (let i = 0; i < weights.length; i++) {
    if (!(weights[i] >= FAINT * top)) continue;
    counts[Math.min(1024, Math.floor((weights[i] / top) * 1024))]++;
    all++;
  }
  let drawn = 0, bucket = 1024;
  while (bucket >= 0 && drawn + counts[bucket] <= most) drawn += counts[bucket--];
  return { all, drawn, least: Math.max(((bucket + 1) / 1024) * top, FAINT * top) };
}

/**
 * Draw a head as faint lines from queries at `place.left` to keys at `place.right`, at most `most` of them. Lines of
 * about the same strength share one stroke, which is what keeps many of them fluent.
 * @returns {{all: number, drawn: number}} how many lines there are, and how many were drawn
 */
function faintLines(context, weights, place, top, style, most) {
  const { queries, keys } = place;
  const { all, drawn, least } = strongest(weights, top, most);
  const groups = Array.from({ length: 8 }, () => []);
  for (let i = 0; i < weights.length; i++) {
    if (weights[i] >= least) groups[Math.min(7, Math.floor((weights[i] / top) * 8))].push(i);
  }
  context.setLineDash(style.dash);
  context.strokeStyle = style.colour;
  context.lineWidth = queries > 64 ? 0.75 : 1;
  groups.forEach((group, g) => {
    context.globalAlpha = 0.08 + 0.42 * ((g + 0.5) / 8);
    context.beginPath();
    for (const i of group) {
      context.moveTo(place.left, place.queryAt(Math.floor(i / keys)));
      context.lineTo(place.right, place.keyAt(i % keys));
    }
    context.stroke();
  });
  context.globalAlpha = 1;
  context.setLineDash([]);
  return { all, drawn };
}

/** Draw all lines of the query `cursor`, strong. */
function strongLines(context, weights, place, cursor, top, style) {
  const { keys } = place;
  context.setLineDash(style.dash);
  context.strokeStyle = style.colour;
  for (let k = 0; k < keys; k++) {
    const share = Math.min(1, weights[cursor * keys + k] / top);
    if (!(share >= FAINT)) continue;
    context.globalAlpha = 0.35 + 0.65 * share;
    context.lineWidth = 1 + 3.5 * share;
    context.beginPath();
    context.moveTo(place.left, place.queryAt(cursor));
    context.lineTo(place.right, place.keyAt(k));
    context.stroke();
  }
  context.globalAlpha = 1;
  context.setLineDash([]);
}
