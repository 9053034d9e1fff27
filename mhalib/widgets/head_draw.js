// What HeadView draws, as functions of numbers and a canvas: no state and no listeners.
// Decoded weights are Float32Array in row-major order; MASKED marks a masked cell and NaN stays NaN.

const MASKED = -1;
/** Lines need more contrast than fills: readable on white, and on near black. The dash says it without colour. */
const LINES_ON_LIGHT = ["#0072B2", "#C04A00", "#007A5A", "#A3447E", "#7A5C00", "#4B3FA8", "#B00020", "#4F4F4F"];
const LINES_ON_DARK = ["#56B4E9", "#FF9A4D", "#2FCB9B", "#F09BC8", "#F0E442", "#B7ADFF", "#FF8A9A", "#D0D0D0"];
const DASHES = [[], [7, 4], [2, 3], [9, 3, 2, 3]];
const FONT = "12px system-ui, sans-serif";
const SMALL = "11px system-ui, sans-serif";

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
  if (!w.levels) return codes;
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

/** Return the largest weight. */
function largest(weights) {
  let most = 0;
  for (let i = 0; i < weights.length; i++) if (weights[i] > most) most = weights[i];
  return most;
}

/**
 * Shrink every head to at most side x side cells. The largest weight of a block stands for it, so that a thin
 * diagonal does not vanish. @param {Weights} w
 * @returns {{rows: number, columns: number, cells: Float32Array}} cells: (layers * heads, rows, columns)
 */
function poolHeads(w, side) {
  const rows = Math.min(w.queries, side), columns = Math.min(w.keys, side);
  const cells = new Float32Array(w.layers * w.heads * rows * columns).fill(MASKED);
  const column = Uint16Array.from({ length: w.keys }, (_, k) => Math.floor((k * columns) / w.keys));
  for (let at = 0, i = 0; at < w.layers * w.heads; at++) {
    const step = w.levels ? w.maxima[at] / w.levels : 1;
    for (let q = 0; q < w.queries; q++) {
      const first = (at * rows + Math.floor((q * rows) / w.queries)) * columns;
      for (let k = 0; k < w.keys; k++, i++) {
        const code = w.raw[i];
        let weight = code * step;
        if (w.levels ? code > w.levels : !(code >= 0)) weight = code === w.levels + 1 || code === MASKED ? MASKED : NaN;
        const cell = first + column[k];
        if (weight > cells[cell] || weight !== weight) cells[cell] = weight; // nothing is larger than NaN: it stays
      }
    }
  }
  return { rows, columns, cells };
}

// Colours as the 32-bit numbers that a little-endian ImageData holds.
const packColour = ([r, g, b]) => (0xff000000 | (b << 16) | (g << 8) | r) >>> 0;
const SHADES = Uint32Array.from({ length: 256 }, (_, i) => packColour(VIRIDIS.subarray(3 * i, 3 * i + 3)));
const MASKED_SHADES = [packColour(MASKED_COLOUR), packColour([190, 190, 190])];
const NAN_SHADES = [packColour(NAN_COLOUR), packColour([255, 255, 255])];

/**
 * Paint weights, one pixel each, onto `canvas`. Where cells are too small for marks, `hatched` says by a pattern
 * what the colour says: masked cells are hatched one way, NaN the other.
 */
function paintWeights(canvas, weights, rows, columns, top, hatched) {
  canvas.width = columns;
  canvas.height = rows;
  const context = canvas.getContext("2d");
  const image = context.createImageData(columns, rows);
  const pixels = new Uint32Array(image.data.buffer);
  const factor = 255 / Math.max(top, 1e-9);
  for (let y = 0, i = 0; y < rows; y++) {
    for (let x = 0; x < columns; x++, i++) {
      const weight = weights[i];
      if (weight >= 0) pixels[i] = SHADES[Math.min(255, (weight * factor + 0.5) | 0)];
      else if (weight === MASKED) pixels[i] = MASKED_SHADES[+(hatched && (x + y) % 4 === 0)];
      else pixels[i] = NAN_SHADES[+(hatched && (x - y + 4096) % 4 === 0)];
    }
  }
  context.putImageData(image, 0, 0);
}

/** Draw a cross into every masked cell and a "?" into every NaN cell of the map in `frame`. */
function markCells(context, weights, queries, keys, frame) {
  const wide = frame.width / keys, high = frame.height / queries;
  const arm = Math.min(wide, high) * 0.22;
  context.beginPath();
  context.font = `bold ${Math.round(Math.min(wide, high, 20) * 0.7)}px system-ui, sans-serif`;
  context.fillStyle = "#fff";
  context.textAlign = "center";
  context.textBaseline = "middle";
  for (let i = 0; i < weights.length; i++) {
    if (weights[i] >= 0) continue;
    const x = frame.x + ((i % keys) + 0.5) * wide, y = frame.y + (Math.floor(i / keys) + 0.5) * high;
    if (weights[i] === MASKED) {
      context.moveTo(x - arm, y - arm);
      context.lineTo(x + arm, y + arm);
      context.moveTo(x + arm, y - arm);
      context.lineTo(x - arm, y + arm);
    } else context.fillText("?", x, y + 1);
  }
  context.strokeStyle = "#6b6b6b";
  context.lineWidth = 1;
  context.stroke();
}

/** Return which of `size` labels to show when they are `step` pixels apart and a label needs `room`; `kept` always. */
function thinned(size, step, room, kept) {
  const stride = Math.max(1, Math.ceil(room / step));
  const near = (i) => Math.abs(i - kept) * step < room && i !== kept;
  return Array.from({ length: size }, (_, i) => i).filter((i) => i === kept || (i % stride === 0 && !near(i)));
}

/** Write labels in a column whose middle heights are `y(i)`; the cursor's is bold. */
function rowLabels(context, labels, x, y, step, room, cursor, colours, align) {
  context.textAlign = align;
  context.textBaseline = "middle";
  for (const i of thinned(labels.length, step, 14, cursor)) {
    context.font = i === cursor ? `bold ${SMALL}` : SMALL;
    context.fillStyle = i === cursor ? colours.ink : colours.soft;
    context.fillText(labels[i], x, y(i), room);
  }
}

/** Write labels below a row of cells, turned where they do not fit. */
function columnLabels(context, labels, y, x, step, room, cursor, colours) {
  context.font = SMALL;
  const turned = labels.some((label) => context.measureText(label).width > step - 4);
  context.textBaseline = turned ? "middle" : "top";
  context.textAlign = turned ? "right" : "center";
  for (const i of thinned(labels.length, step, turned ? 14 : 0, cursor)) {
    context.font = i === cursor ? `bold ${SMALL}` : SMALL;
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
  context.font = SMALL;
  context.fillStyle = colours.ink;
  context.textAlign = "left";
  context.textBaseline = "top";
  context.fillText(top === 1 ? "1" : top.toPrecision(3), x + 16, y);
  context.textBaseline = "bottom";
  context.fillText("0", x + 16, y + height);
}

/** Return the smallest weight that is among the `most` largest; weights above it make that many lines. */
function faintest(weights, top, most) {
  const counts = new Uint32Array(1025);
  for (let i = 0; i < weights.length; i++) {
    if (weights[i] > 0) counts[Math.min(1024, Math.floor((weights[i] / top) * 1024))]++;
  }
  let seen = 0, bucket = 1024;
  while (bucket > 0 && seen + counts[bucket] <= most) seen += counts[bucket--];
  return ((bucket + 1) / 1024) * top;
}

/**
 * Draw a head as lines from queries at `left` to keys at `right`. All are faint; those of the row `cursor` are
 * strong. Lines of about the same strength share one stroke, which is what keeps many of them fluent.
 */
function drawLines(context, weights, place, cursor, top, style, most) {
  const { queries, keys } = place;
  const least = Math.max(faintest(weights, top, most), 0.004 * top);
  const groups = Array.from({ length: 8 }, () => []);
  for (let i = 0; i < weights.length; i++) {
    if (weights[i] >= least) groups[Math.min(7, Math.floor((weights[i] / top) * 8))].push(i);
  }
  context.setLineDash(style.dash);
  context.strokeStyle = style.colour;
  const line = (i) => {
    context.moveTo(place.left, place.queryAt(Math.floor(i / keys)));
    context.lineTo(place.right, place.keyAt(i % keys));
  };
  groups.forEach((group, g) => {
    context.globalAlpha = 0.08 + 0.42 * ((g + 0.5) / 8);
    context.lineWidth = queries > 64 ? 0.75 : 1;
    context.beginPath();
    group.forEach((i) => Math.floor(i / keys) !== cursor && line(i));
    context.stroke();
  });
  for (let k = 0; k < keys; k++) {
    const share = Math.min(1, weights[cursor * keys + k] / top);
    if (!(share >= 0.004)) continue;
    context.globalAlpha = 0.35 + 0.65 * share;
    context.lineWidth = 1 + 3.5 * share;
    context.beginPath();
    line(cursor * keys + k);
    context.stroke();
  }
  context.globalAlpha = 1;
  context.setLineDash([]);
}
