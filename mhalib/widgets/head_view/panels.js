// The panels of HeadView: overview, heat map, and the weights of one query, each drawn from a scene. The picture as
// lines stands in lines.js.

const LONGEST_CANVAS = 8192; // pixels that every browser allows
const BARS = 12; // keys in the list of one query
const BAR = { top: 44, step: 21, high: 15, left: 86, right: 60 }; // in the list; names left, numbers right
const VALUES_FROM = { wide: 34, high: 16 }; // a cell that has room for its number

/**
 * @typedef {object} Scene what a frame draws
 * @property {Weights} w @property {number} layer @property {number} head @property {number} query
 * @property {number} key @property {number[][]} overlay pairs of layer and head
 * @property {string} mode @property {string} scale @property {string} combine @property {boolean} dark
 * @property {{id: string, title: string, names: string[], pairs: number[][], maps: Float32Array[],
 *   weights: Float32Array, top: number, digits: number, masked: boolean, missing: boolean}} shown
 *   the heads drawn in full, and the one map they combine to
 * @property {{rows: string[], columns: string[]}} names short labels
 * @property {object} layout from `layout` @property {object} paint colours of the theme
 * @property {object} kept drawings that many frames share, while layout and theme last
 * @property {{pooled?: object, side?: number, map: HTMLCanvasElement}} images kept for as long as the view lives
 */

const isIn = (pairs, layer, head) => pairs.some(([i, j]) => i === layer && j === head);
const quoted = (labels, i) => (labels[i] === String(i) ? String(i) : `${i} “${labels[i]}”`);

// ---------------------------------------------------------------- overview

/** Colour all thumbnails on one hidden canvas, in rows no longer than browsers allow; return what draws one. */
function paintAtlas({ rows, columns, cells }, { w, scale }) {
  const size = rows * columns, count = w.layers * w.heads;
  const across = Math.min(count, Math.max(1, Math.floor(LONGEST_CANVAS / columns)));
  const wide = across * columns;
  const atlas = node("canvas");
  paintPixels(atlas, wide, Math.ceil(count / across) * rows, (pixels) => {
    for (let i = 0; i < count; i++) {
      const start = Math.floor(i / across) * rows * wide + (i % across) * columns;
      const how = { rows, columns, top: scale === "fixed" ? 1 : w.maxima[i], hatched: true };
      shadeWeights(pixels, start, wide, cells.subarray(i * size, (i + 1) * size), how);
    }
  });
  return (context, i, x, y, side) =>
    context.drawImage(atlas, (i % across) * columns, Math.floor(i / across) * rows, columns, rows, x, y, side, side);
}

/** Return all heads shrunk to about twice the pixels of a thumbnail, kept ones if they do. @param {Scene} scene */
function pooledFor({ w, images }, side) {
  const wanted = Math.max(8, Math.min(64, side * 2));
  if (!images.pooled || images.side < wanted / 2) Object.assign(images, { pooled: poolHeads(w, wanted), side: wanted });
  return images.pooled;
}

/** Draw what stays of the overview while heads are chosen: the thumbnails and their numbers. @param {Scene} scene */
function drawThumbs(context, scene) {
  const { w, paint, layout: { grid } } = scene;
  const pooled = pooledFor(scene, grid.side);
  const thumb = paintAtlas(pooled, scene);
  context.font = `bold ${LABEL_FONT}`;
  context.fillStyle = paint.ink;
  placeText(context, w.layers > 1 ? "layers × heads" : "heads", 0, 0, "left", "top");
  context.imageSmoothingEnabled = pooled.columns > grid.side;
  for (let layer = 0; layer < w.layers; layer++) {
    for (let head = 0; head < w.heads; head++) {
      const i = layer * w.heads + head, [x, y] = grid.at(layer, head);
      thumb(context, i, x, y, grid.side);
      numberThumb(context, grid, layer, head, paint);
      if (pooled.missing[i] && grid.side >= 10) markMissing(context, x + grid.side / 2, y + grid.side / 2, grid.side);
    }
  }
}

/** Number layers at the left and heads above, as many as can be read; in a block, each head above its thumbnail. */
function numberThumb(context, { side, at, left, top, folded }, layer, head, paint) {
  const every = Math.max(1, Math.ceil(20 / (side + GAP)));
  const [x, y] = at(layer, head);
  context.font = SMALL_FONT;
  context.fillStyle = paint.ink;
  const above = folded ? y - 13 : top - 15;
  if (layer === 0 && head % every === 0) placeText(context, String(head), x + side / 2, above, "center", "top");
  if (folded || head > 0 || layer % every) return;
  placeText(context, String(layer), left - 6, y + side / 2, "right", "middle");
}

/** Write the "?" of a head that holds NaN, white in black. */
function markMissing(context, x, y, side) {
  context.font = `bold ${Math.min(16, side)}px system-ui, sans-serif`;
  context.textAlign = "center";
  context.textBaseline = "top";
  context.lineWidth = 3;
  context.strokeStyle = "#000";
  context.strokeText("?", x, y - 5);
  context.fillStyle = "#fff";
  context.fillText("?", x, y - 5);
}

/** Draw all heads small, the chosen one framed, those of the overlay dashed. @param {Scene} scene */
function drawOverview(canvas, scene) {
  const { paint, kept, layout: { grid } } = scene;
  const key = JSON.stringify([scene.layer, scene.head, scene.overlay, scene.scale, devicePixelRatio]);
  if (kept.overview === key) return; // the cursor moved, no head was chosen
  kept.overview = key;
  const width = Math.max(grid.width, 90);
  const context = sizeCanvas(canvas, width, grid.height);
  const draw = (sheet) => drawThumbs(sheet, scene);
  drawKept(context, (kept.thumbs ||= {}), scene.scale, width, grid.height, draw);
  const frame = (layer, head, out) => {
    const [x, y] = grid.at(layer, head);
    context.strokeRect(x - out, y - out, grid.side + 2 * out, grid.side + 2 * out);
  };
  context.strokeStyle = paint.ink;
  context.lineWidth = 1.5;
  context.setLineDash([3, 2]);
  scene.overlay.forEach(([layer, head]) => frame(layer, head, 1));
  context.setLineDash([]);
  context.lineWidth = 3;
  frame(scene.layer, scene.head, 1.5);
}

// ---------------------------------------------------------------- heat map

/** Draw what stays of the map while the cursor moves. */
function drawCells(sheet, { w, shown, paint, images, layout: { map } }) {
  const { frame, wide, high } = map;
  const marked = Math.min(wide, high) >= MARKED_FROM;
  const how = { rows: w.queries, columns: w.keys, top: shown.top, hatched: !marked };
  paintPixels(images.map, w.keys, w.queries, (pixels) => shadeWeights(pixels, 0, w.keys, shown.weights, how));
  sheet.imageSmoothingEnabled = wide < 1 || high < 1; // smaller than a pixel: average rather than drop
  sheet.drawImage(images.map, frame.x, frame.y, frame.width, frame.height);
  if (marked) markCells(sheet, shown.weights, w.keys, map);
  if (wide >= VALUES_FROM.wide && high >= VALUES_FROM.high) cellValues(sheet, shown.weights, w.keys, map, shown.top);
  axisNames(sheet, frame, map.height, "query", "key", paint);
  colourBar(sheet, frame.x + frame.width + 12, frame.y, Math.min(frame.height, 160), shown.top, paint);
}

/**
 * Draw the chosen head (or heads, combined) as a heat map. Returns the context, where the cells are, and no lines.
 * @param {Scene} scene
 */
function drawMap(canvas, scene) {
  const { shown, paint, names, kept, query, key, layout: { map, labels } } = scene;
  const { frame, wide, high } = map;
  const context = sizeCanvas(canvas, map.width, map.height);
  const id = `${shown.id} ${shown.top}`;
  drawKept(context, (kept.map ||= {}), id, map.width, map.height, (sheet) => drawCells(sheet, scene));
  const rowAt = (i) => frame.y + (i + 0.5) * high, columnAt = (i) => frame.x + (i + 0.5) * wide;
  const rows = { x: frame.x - 6, y: rowAt, step: high, room: labels.row + 4, align: "right" };
  rowLabels(context, names.rows, query, paint, rows);
  const columns = { x: columnAt, y: frame.y + frame.height + 5, step: wide, room: map.below - 6 };
  columnLabels(context, names.columns, key, paint, columns);
  // Around the cursor's row and its cell, or clear of small ones.
  const clear = high < 6 ? 2.5 : 0;
  const [x, y] = [frame.x + key * wide, frame.y + query * high];
  context.globalAlpha = 0.9;
  strokeOnAnything(context, 3.5, 1.5, () => {
    context.strokeRect(frame.x, y - clear, frame.width, high + 2 * clear);
    context.strokeRect(x - clear, y - clear, wide + 2 * clear, high + 2 * clear);
  });
  context.globalAlpha = 1;
  return { context, frame, drawn: 0, all: 0 };
}

// ---------------------------------------------------------------- the weights of one query

/** Draw the strongest keys of the cursor's query, strongest first, and say them. @param {Scene} scene */
function drawBars(canvas, scene) {
  const { w, shown, paint, names, query } = scene;
  const row = shown.weights.subarray(query * w.keys, (query + 1) * w.keys);
  const order = [...row.keys()].filter((i) => row[i] >= 0).sort((a, b) => row[b] - row[a]).slice(0, BARS);
  const masked = row.filter((x) => x === MASKED).length, missing = row.filter((x) => x !== x).length;
  const width = scene.layout.bars;
  const context = sizeCanvas(canvas, width, BAR.top + Math.min(BARS, w.keys) * BAR.step + 4);
  context.direction = "ltr";
  context.font = `bold ${LABEL_FONT}`;
  context.fillStyle = paint.ink;
  placeText(context, `query ${quoted(names.rows, query)}`, 0, 0, "left", "top", width);
  context.font = SMALL_FONT;
  context.fillStyle = paint.soft;
  const together = shown.names.length > 1 && shown.title.replace(/ of .*/, ` of ${shown.names.length} heads`);
  const facts = [`${w.keys} keys`, together, masked && `${masked} masked`, missing && `${missing} NaN`];
  const rest = facts.filter(Boolean).join(", ");
  placeText(context, `strongest of ${rest}`, 0, 18, "left", "top", width);
  order.forEach((key, i) => drawBar(context, scene, key, row[key], BAR.top + i * BAR.step));
  if (!order.length) {
    placeText(context, masked ? "nothing to attend to" : "no number in this row", 0, BAR.top + 2, "left", "top");
  }
  const say = (key) => `${quoted(w.keyTokens, key)} ${formatWeight(row[key], shown.digits)}`;
  const heard = order.slice(0, 5).map(say).join("; ") || "none";
  canvas.setAttribute("aria-label", `Weights of query ${quoted(w.tokens, query)}: ${heard}. ${rest}.`);
}

/** Draw one key of the list: its name, a bar, its weight. */
function drawBar(context, { shown, paint, names, layout, key: cursor }, key, weight, y) {
  const share = Math.min(1, weight / shown.top), middle = y + BAR.high / 2 + 0.5;
  const long = Math.max(1, (layout.bars - BAR.left - BAR.right) * share);
  dressLabel(context, key === cursor, { ink: paint.ink, soft: paint.ink });
  placeText(context, names.columns[key], BAR.left - 6, middle, "right", "middle", BAR.left - 8);
  context.fillStyle = weightColour(share).fill;
  context.fillRect(BAR.left, y, long, BAR.high);
  context.strokeStyle = paint.line;
  context.lineWidth = 1;
  context.strokeRect(BAR.left + 0.5, y + 0.5, Math.max(1, long - 1), BAR.high - 1);
  context.fillStyle = paint.ink;
  placeText(context, weight.toFixed(shown.digits), BAR.left + long + 6, middle, "left", "middle");
}
