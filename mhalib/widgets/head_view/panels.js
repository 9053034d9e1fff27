// The panels of HeadView: overview, heat map or lines, and the weights of one query, each drawn from a scene.

const GAP = 3; // between thumbnails
const BARS = 12; // keys in the list of one query
const LINES = 3000; // faint lines of all heads together; more are neither seen nor drawn within a frame

/**
 * @typedef {object} Scene
 * @property {Weights} w @property {number} layer @property {number} head @property {number} query
 * @property {number} key @property {number[][]} overlay pairs of layer and head @property {string} scale
 * @property {{id: string, title: string, names: string[], pairs: number[][], maps: Float32Array[],
 *   weights: Float32Array, top: number, digits: number}} shown the heads drawn in full, and the one map they combine to
 * @property {object} layout sizes, from `arrange` @property {object} paint colours of the theme
 * @property {boolean} dark @property {object} cache what is kept between frames; `cache.kept` while layout and theme last
 */

const isIn = (pairs, layer, head) => pairs.some(([i, j]) => i === layer && j === head);
const quoted = (labels, i) => (labels[i] === String(i) ? String(i) : `${i} “${labels[i]}”`);

/** Return how many digits behind the point hold, at most four: codes are steps of 1/253 or 1/65533 of a head's largest. @param {Weights} w */
function digitsOf(w, pairs) {
  if (!w.levels) return 4;
  const largest = Math.max(1e-9, ...pairs.map(([layer, head]) => w.maxima[layer * w.heads + head]));
  return Math.max(1, Math.min(4, Math.floor(-Math.log10(largest / w.levels))));
}

/** Say a weight with the digits that are stored. */
function formatWeight(weight, digits) {
  if (weight === MASKED) return "masked";
  if (Number.isNaN(weight)) return "NaN, not a number";
  return `${digits < 4 ? "about " : ""}${weight.toFixed(digits)}`;
}

/** Name the axes: `rows` beside the frame, turned; `columns` below it. */
function axisNames(context, frame, height, rows, columns, paint) {
  context.font = LABEL_FONT;
  context.fillStyle = paint.soft;
  placeText(context, columns, frame.x + frame.width / 2, height - 2, "center", "bottom");
  placeTurned(context, rows, 2, frame.y + frame.height / 2, "center", "top");
}

/** Draw entry `i` of the legend of lines, `across` of them in a row. */
function lineSample(context, name, i, across, style, paint) {
  const x = (i % across) * 130, y = 30 + Math.floor(i / across) * 18;
  context.setLineDash(style.dash);
  context.strokeStyle = style.colour;
  context.lineWidth = 3;
  context.beginPath();
  context.moveTo(x, y);
  context.lineTo(x + 34, y);
  context.stroke();
  context.setLineDash([]);
  context.font = SMALL_FONT;
  context.fillStyle = paint.ink;
  placeText(context, name, x + 40, y, "left", "middle", 88);
}

/** Where the thumbnails stand: layers by heads, or the heads of one layer folded into a block. */
function overviewGrid(w, room) {
  const folded = w.layers === 1;
  const columns = folded ? Math.min(w.heads, Math.ceil(Math.sqrt(w.heads))) : w.heads;
  const rows = folded ? Math.ceil(w.heads / columns) : w.layers;
  const left = folded ? 4 : 34, top = folded ? 20 : 38, caption = folded ? 15 : 0;
  const fit = Math.min(92, Math.floor((room - left - 2) / columns) - GAP);
  const side = Math.max(2, Math.min(fit, Math.max(14, Math.floor(560 / rows) - GAP - caption)));
  const at = (layer, head) => [
    left + (folded ? head % columns : head) * (side + GAP),
    top + caption + (folded ? Math.floor(head / columns) : layer) * (side + GAP + caption),
  ];
  return { columns, rows, side, left, top, at, folded, width: left + columns * (side + GAP) + 2, height: top + rows * (side + GAP + caption) + 2 };
}

/** Colour all thumbnails on one hidden canvas, in rows no longer than browsers allow; return what draws one of them. @param {Scene} scene */
function paintAtlas(scene) {
  const { w, cache: state } = scene;
  const { rows, columns, cells } = state.pooled;
  const size = rows * columns, count = w.layers * w.heads;
  const across = Math.min(count, Math.max(1, Math.floor(8192 / columns)));
  const wide = across * columns;
  const atlas = node("canvas");
  paintPixels(atlas, wide, Math.ceil(count / across) * rows, (pixels) => {
    for (let i = 0; i < count; i++) {
      const start = Math.floor(i / across) * rows * wide + (i % across) * columns;
      const top = scene.scale === "fixed" ? 1 : w.maxima[i];
      shadeWeights(pixels, start, wide, cells.subarray(i * size, (i + 1) * size), rows, columns, top, true);
    }
  });
  return (context, i, x, y, side) =>
    context.drawImage(atlas, (i % across) * columns, Math.floor(i / across) * rows, columns, rows, x, y, side, side);
}

/** Draw what stays of the overview while heads are chosen: the thumbnails and their numbers. @param {Scene} scene */
function drawThumbs(context, scene) {
  const { w, cache: state, paint } = scene;
  const { grid } = scene.layout;
  const { side, at } = grid;
  const wanted = Math.max(8, Math.min(64, side * 2));
  if (state.poolSide < wanted / 2 || !state.pooled) state.pooled = poolHeads(w, (state.poolSide = wanted));
  const thumb = paintAtlas(scene);
  context.font = `bold ${LABEL_FONT}`;
  context.fillStyle = paint.ink;
  context.textBaseline = "top";
  context.fillText(w.layers > 1 ? "layers × heads" : "heads", 0, 0);
  context.font = SMALL_FONT;
  context.imageSmoothingEnabled = state.pooled.columns > side;
  const every = Math.max(1, Math.ceil(20 / (side + GAP)));
  for (let layer = 0; layer < w.layers; layer++) {
    for (let head = 0; head < w.heads; head++) {
      const i = layer * w.heads + head, [x, y] = at(layer, head);
      thumb(context, i, x, y, side);
      context.fillStyle = paint.ink;
      if (grid.folded && head % every === 0) placeText(context, String(head), x + side / 2, y - 13, "center", "top");
      if (!grid.folded && layer === 0 && head % every === 0) placeText(context, String(head), x + side / 2, grid.top - 15, "center", "top");
      if (!grid.folded && head === 0 && layer % every === 0) placeText(context, String(layer), grid.left - 6, y + side / 2, "right", "middle");
      if (state.pooled.missing[i] && side >= 10) {
        context.font = `bold ${Math.min(16, side)}px system-ui, sans-serif`;
        context.lineWidth = 3;
        context.strokeStyle = "#000";
        context.textAlign = "center";
        context.strokeText("?", x + side / 2, y + side / 2 - 5);
        context.fillStyle = "#fff";
        placeText(context, "?", x + side / 2, y + side / 2 - 5, "center", "top");
        context.font = SMALL_FONT;
      }
    }
  }
}

/** Draw all heads small, the chosen one framed, those of the overlay dashed. @param {HTMLCanvasElement} canvas @param {Scene} scene */
function drawOverview(canvas, scene) {
  const { cache: state, paint } = scene;
  const { grid } = scene.layout;
  const key = JSON.stringify([scene.layer, scene.head, scene.overlay, scene.scale, devicePixelRatio]);
  if (state.kept.overviewKey === key) return; // the cursor moved, no head was chosen
  state.kept.overviewKey = key;
  const width = Math.max(grid.width, 90);
  const context = sizeCanvas(canvas, width, grid.height);
  drawKept(context, (state.kept.thumbs ||= {}), scene.scale, width, grid.height, (sheet) => drawThumbs(sheet, scene));
  const frame = (layer, head, out) => context.strokeRect(...grid.at(layer, head).map((place) => place - out), grid.side + 2 * out, grid.side + 2 * out);
  context.strokeStyle = paint.ink;
  context.lineWidth = 1.5;
  context.setLineDash([3, 2]);
  scene.overlay.forEach(([layer, head]) => frame(layer, head, 1));
  context.setLineDash([]);
  context.lineWidth = 3;
  frame(scene.layer, scene.head, 1.5);
}

/** Draw the chosen head (or heads, combined) as a heat map. Returns the context and where the cells are. @param {Scene} scene */
function drawMap(canvas, scene) {
  const { w, shown, paint, cache: state, query: q, key: k } = scene;
  const { frame, width, height, left, below } = scene.layout;
  const context = sizeCanvas(canvas, width, height);
  const wide = frame.width / w.keys, high = frame.height / w.queries;
  drawKept(context, (state.kept.map ||= {}), `${shown.id} ${shown.top}`, width, height, (sheet) => {
    const marked = Math.min(wide, high) >= 8;
    paintPixels(state.map, w.keys, w.queries, (pixels) => shadeWeights(pixels, 0, w.keys, shown.weights, w.queries, w.keys, shown.top, !marked));
    sheet.imageSmoothingEnabled = wide < 1 || high < 1; // smaller than a pixel: average rather than drop
    sheet.drawImage(state.map, frame.x, frame.y, frame.width, frame.height);
    if (marked) markCells(sheet, shown.weights, w.queries, w.keys, frame);
    if (wide >= 34 && high >= 16) cellValues(sheet, shown.weights, w.queries, w.keys, frame, shown.top);
    axisNames(sheet, frame, height, "query", "key", paint);
    colourBar(sheet, frame.x + frame.width + 12, frame.y, Math.min(frame.height, 160), shown.top, paint);
  });
  const middle = (i) => frame.y + (i + 0.5) * high;
  rowLabels(context, state.rowNames, left - 6, middle, high, left - 20, q, paint, "right");
  columnLabels(context, state.columnNames, frame.y + frame.height + 5, (i) => frame.x + (i + 0.5) * wide, wide, below - 6, k, paint);
  // The cursor: a line of black and white, seen on every colour, around its row and its cell, or clear of small ones.
  const clear = high < 6 ? 2.5 : 0;
  context.globalAlpha = 0.9;
  strokeOnAnything(context, 3.5, 1.5, () => {
    context.strokeRect(frame.x, frame.y + q * high - clear, frame.width, high + 2 * clear);
    context.strokeRect(frame.x + k * wide - clear, frame.y + q * high - clear, wide + 2 * clear, high + 2 * clear);
  });
  context.globalAlpha = 1;
  return { context, frame };
}

/** Draw the chosen heads as lines between tokens. Returns the context, where they are, and how many. @param {Scene} scene */
function drawPairs(canvas, scene) {
  const { w, shown, paint, cache: state, query: q, key: k } = scene;
  const { left, lines } = scene.layout;
  const right = Math.max(60, scene.layout.keyRoom);
  const palette = scene.dark ? LINES_ON_DARK : LINES_ON_LIGHT;
  const styles = shown.pairs.map((_, i) => ({
    colour: palette[i % 8],
    dash: DASHES[(i + Math.floor(i / 8)) % 4], // 32 pairs of colour and dash before one comes again
  }));
  const legend = shown.names.length > 1 ? Math.ceil(shown.names.length / Math.max(1, Math.floor(lines.width / 130))) * 18 + 4 : 0;
  const frame = { x: left, y: 24 + legend, width: lines.width - left - right, height: lines.height };
  const height = frame.y + frame.height + 24;
  const context = sizeCanvas(canvas, lines.width, height);
  const queryAt = (i) => frame.y + ((i + 0.5) * frame.height) / w.queries;
  const keyAt = (i) => frame.y + ((i + 0.5) * frame.height) / w.keys;
  const place = { queries: w.queries, keys: w.keys, left: frame.x, right: frame.x + frame.width, queryAt, keyAt };
  const kept = (state.kept.lines ||= {});
  drawKept(context, kept, `${shown.id} ${shown.top}`, lines.width, height, (sheet) => {
    const most = Math.floor(LINES / shown.maps.length);
    kept.counts = shown.maps.map((weights, i) => faintLines(sheet, weights, place, shown.top, styles[i], most));
    shown.names.forEach((name, i) => legend && lineSample(sheet, name, i, Math.floor(lines.width / 130), styles[i], paint));
    axisNames(sheet, frame, height, "query", "", paint);
    placeText(sheet, "key", frame.x + frame.width + 6, frame.y + frame.height + 20, "left", "bottom");
  });
  shown.maps.forEach((weights, i) => strongLines(context, weights, place, q, shown.top, styles[i]));
  const rowStep = frame.height / w.queries, keyStep = frame.height / w.keys;
  rowLabels(context, state.rowNames, frame.x - 6, queryAt, rowStep, left - 20, q, paint, "right");
  rowLabels(context, state.columnNames, frame.x + frame.width + 6, keyAt, keyStep, right - 22, k, paint, "left");
  // What the cursor's query may not see, and what is not a number, is said beside the key.
  context.fillStyle = paint.ink;
  if (keyStep >= 9) {
    for (let i = 0; i < w.keys; i++) {
      const weight = shown.weights[q * w.keys + i];
      if (!(weight >= 0)) placeText(context, weight === MASKED ? "×" : "?", lines.width - 6, keyAt(i), "right", "middle");
    }
  }
  context.strokeStyle = paint.ink;
  context.lineWidth = 2;
  context.beginPath();
  context.arc(frame.x, queryAt(q), 4, 0, 7);
  context.rect(frame.x + frame.width - 3, keyAt(k) - 3, 6, 6);
  context.stroke();
  const sum = (what) => kept.counts.reduce((total, count) => total + count[what], 0);
  return { context, frame, drawn: sum("drawn"), all: sum("all") };
}

/** Draw the strongest keys of the cursor's query, strongest first. */
function drawBars(canvas, scene) {
  const { w, shown, paint, cache: state, query: q } = scene;
  const row = shown.weights.subarray(q * w.keys, (q + 1) * w.keys);
  const order = [...row.keys()].filter((i) => row[i] >= 0).sort((a, b) => row[b] - row[a]).slice(0, BARS);
  const masked = row.filter((x) => x === MASKED).length, missing = row.filter((x) => x !== x).length;
  const width = scene.layout.bars, room = 86, end = 60;
  const context = sizeCanvas(canvas, width, 44 + Math.min(BARS, w.keys) * 21 + 4);
  context.font = `bold ${LABEL_FONT}`;
  context.fillStyle = paint.ink;
  context.direction = "ltr";
  placeText(context, `query ${quoted(state.rowNames, q)}`, 0, 0, "left", "top", width);
  context.font = SMALL_FONT;
  context.fillStyle = paint.soft;
  const together = shown.names.length > 1 && shown.title.replace(/ of .*/, ` of ${shown.names.length} heads`);
  const rest = [`${w.keys} keys`, together, masked && `${masked} masked`, missing && `${missing} NaN`].filter(Boolean).join(", ");
  placeText(context, `strongest of ${rest}`, 0, 18, "left", "top", width);
  order.forEach((key, i) => {
    const y = 44 + i * 21, weight = row[key];
    context.font = key === scene.key ? `bold ${SMALL_FONT}` : SMALL_FONT;
    context.fillStyle = paint.ink;
    placeText(context, state.columnNames[key], room - 6, y + 8, "right", "middle", room - 8);
    context.fillStyle = weightColour(Math.min(1, weight / shown.top)).fill;
    const long = Math.max(1, (width - room - end) * Math.min(1, weight / shown.top));
    context.fillRect(room, y, long, 15);
    context.strokeStyle = paint.line;
    context.lineWidth = 1;
    context.strokeRect(room + 0.5, y + 0.5, Math.max(1, long - 1), 14);
    context.fillStyle = paint.ink;
    placeText(context, weight.toFixed(shown.digits), room + long + 6, y + 8, "left", "middle");
  });
  if (!order.length) placeText(context, masked ? "nothing to attend to" : "no number in this row", 0, 46, "left", "top");
  const heard = order.slice(0, 5).map((key) => `${quoted(w.keyTokens, key)} ${formatWeight(row[key], shown.digits)}`).join("; ");
  canvas.setAttribute("aria-label", `Weights of query ${quoted(w.tokens, q)}: ${heard || "none"}. ${rest}.`);
}
