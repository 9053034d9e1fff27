// How HeadView draws heads as lines from queries at the left to keys at the right. No state and no listeners.

/** Lines need more contrast than fills: readable on white, and on near black. The dash says it without colour. */
const LINES_ON_LIGHT = ["#0072B2", "#C04A00", "#007A5A", "#A3447E", "#7A5C00", "#4B3FA8", "#B00020", "#4F4F4F"];
const LINES_ON_DARK = ["#56B4E9", "#FF9A4D", "#2FCB9B", "#F09BC8", "#F0E442", "#B7ADFF", "#FF8A9A", "#D0D0D0"];
const DASHES = [[], [7, 4], [2, 3], [9, 3, 2, 3]];
const MOST_LINES = 3000; // faint lines of all heads together; more are neither seen nor drawn within a frame
const FAINT = 0.004; // of the top of the scale: a weaker line is not seen
const STRENGTHS = 8; // faint lines of about the same strength share one stroke, which keeps many of them fluent
const THIN_FROM = 64; // queries

/** Colour and dash of the shown heads: 32 pairs before one comes again. */
function lineStyles(count, dark) {
  const palette = dark ? LINES_ON_DARK : LINES_ON_LIGHT, colours = palette.length;
  return Array.from({ length: count }, (_, i) => ({
    colour: palette[i % colours],
    dash: DASHES[(i + Math.floor(i / colours)) % DASHES.length],
  }));
}

/** Say how many weights can be seen as lines, and from which weight on they are among the `most` strongest. */
function strongest(weights, top, most) {
  const parts = 1024;
  const counts = new Uint32Array(parts + 1);
  let all = 0;
  for (let i = 0; i < weights.length; i++) {
    if (!(weights[i] >= FAINT * top)) continue;
    counts[Math.min(parts, Math.floor((weights[i] / top) * parts))]++;
    all++;
  }
  let drawn = 0, part = parts;
  while (part >= 0 && drawn + counts[part] <= most) drawn += counts[part--];
  return { all, drawn, least: Math.max(((part + 1) / parts) * top, FAINT * top) };
}

/**
 * Draw a head as faint lines, at most `most`.
 * @returns {{all: number, drawn: number}} how many lines there are, and how many were drawn
 */
function faintLines(context, weights, w, place, top, style, most) {
  const { all, drawn, least } = strongest(weights, top, most);
  const groups = Array.from({ length: STRENGTHS }, () => []);
  for (let i = 0; i < weights.length; i++) {
    if (weights[i] >= least) groups[Math.min(STRENGTHS - 1, Math.floor((weights[i] / top) * STRENGTHS))].push(i);
  }
  const [left, right] = place.ends;
  context.setLineDash(style.dash);
  context.strokeStyle = style.colour;
  context.lineWidth = w.queries > THIN_FROM ? 0.75 : 1;
  groups.forEach((group, g) => {
    context.globalAlpha = 0.08 + 0.42 * ((g + 0.5) / STRENGTHS);
    context.beginPath();
    for (const i of group) {
      context.moveTo(left, place.queryAt(Math.floor(i / w.keys)));
      context.lineTo(right, place.keyAt(i % w.keys));
    }
    context.stroke();
  });
  context.globalAlpha = 1;
  context.setLineDash([]);
  return { all, drawn };
}

/** Draw all lines of one query, strong. `row`: its weights. */
function strongLines(context, row, query, place, top, style) {
  const [left, right] = place.ends;
  context.setLineDash(style.dash);
  context.strokeStyle = style.colour;
  row.forEach((weight, k) => {
    const share = Math.min(1, weight / top);
    if (!(share >= FAINT)) return;
    context.globalAlpha = 0.35 + 0.65 * share;
    context.lineWidth = 1 + 3.5 * share;
    context.beginPath();
    context.moveTo(left, place.queryAt(query));
    context.lineTo(right, place.keyAt(k));
    context.stroke();
  });
  context.globalAlpha = 1;
  context.setLineDash([]);
}

/** Draw entry `i` of the legend, `across` of them in a row. */
function lineSample(context, name, i, across, style, paint) {
  const x = (i % across) * SAMPLE_WIDE, y = TITLE_ROOM + 6 + Math.floor(i / across) * SAMPLE_HIGH;
  const long = 34, gap = 6;
  context.setLineDash(style.dash);
  context.strokeStyle = style.colour;
  context.lineWidth = 3;
  context.beginPath();
  context.moveTo(x, y);
  context.lineTo(x + long, y);
  context.stroke();
  context.setLineDash([]);
  context.font = SMALL_FONT;
  context.fillStyle = paint.ink;
  placeText(context, name, x + long + gap, y, "left", "middle", SAMPLE_WIDE - long - 8);
}

/** Draw the labels at both ends, and beside the keys what the query may not see or what is no number. */
function lineEnds(context, place, { w, shown, paint, names, query, key, layout: { labels } }) {
  const { frame, queryAt, keyAt } = place;
  const [left, right] = place.ends, keyStep = frame.height / w.keys;
  const rows = { x: left - 6, y: queryAt, step: frame.height / w.queries, room: labels.row + 4, align: "right" };
  const columns = { x: right + 6, y: keyAt, step: keyStep, room: place.right - 22, align: "left" };
  rowLabels(context, names.rows, query, paint, rows);
  rowLabels(context, names.columns, key, paint, columns);
  context.fillStyle = paint.ink;
  if (keyStep < 9) return;
  for (let i = 0; i < w.keys; i++) {
    const weight = shown.weights[query * w.keys + i];
    if (!(weight >= 0)) placeText(context, weight === MASKED ? "×" : "?", place.width - 6, keyAt(i), "right", "middle");
  }
}

/** Mark the cursor: a ring at its query, a square at its key. */
function lineCursor(context, place, query, key, ink) {
  const [left, right] = place.ends;
  context.strokeStyle = ink;
  context.lineWidth = 2;
  context.beginPath();
  context.arc(left, place.queryAt(query), 4, 0, 7);
  context.rect(right - 3, place.keyAt(key) - 3, 6, 6);
  context.stroke();
}

/**
 * Draw the chosen heads as lines between tokens. Returns the context, where they are, and how many.
 * @param {Scene} scene
 */
function drawPairs(canvas, scene) {
  const { w, shown, paint, kept, query } = scene;
  const place = linesPlace(w, scene.layout.room, scene.layout.labels, shown.maps.length);
  const { frame, width, height } = place;
  const styles = lineStyles(shown.maps.length, scene.dark);
  const context = sizeCanvas(canvas, width, height);
  drawKept(context, (kept.lines ||= {}), `${shown.id} ${shown.top}`, width, height, (sheet) => {
    const most = Math.floor(MOST_LINES / shown.maps.length);
    kept.counts = shown.maps.map((weights, i) => faintLines(sheet, weights, w, place, shown.top, styles[i], most));
    if (shown.names.length > 1) {
      shown.names.forEach((name, i) => lineSample(sheet, name, i, place.across, styles[i], paint));
    }
    axisNames(sheet, frame, height, "query", "", paint);
    placeText(sheet, "key", place.ends[1] + 6, height - 4, "left", "bottom");
  });
  shown.maps.forEach((weights, i) => {
    const row = weights.subarray(query * w.keys, (query + 1) * w.keys);
    strongLines(context, row, query, place, shown.top, styles[i]);
  });
  lineEnds(context, place, scene);
  lineCursor(context, place, query, scene.key, paint.ink);
  const sum = (what) => kept.counts.reduce((total, count) => total + count[what], 0);
  return { context, frame, drawn: sum("drawn"), all: sum("all") };
}
