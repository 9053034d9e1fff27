// The weights of one query in HeadView, as bars: its strongest keys.

const BARS = 12; // keys in the list of one query
const BAR = { top: 44, step: 21, high: 15, left: 86, right: 60 }; // in the list; names left, numbers right

/** Draw the strongest keys of the cursor's query, strongest first, and say them. @param {Scene} scene */
function drawBars(canvas, scene) {
  const { w, shown, paint, names, cursor: [query], side } = scene;
  const frame = shown.frames.find((one) => one.side === side) || shown.frames[0], { source } = frame;
  const columns = source.columns.length, width = scene.layout.bars;
  const context = sizeCanvas(canvas, width, BAR.top + Math.min(BARS, columns) * BAR.step + 4);
  context.direction = "ltr";
  context.font = `bold ${LABEL_FONT}`;
  context.fillStyle = paint.ink;
  const title = placeName(names.rows, source.rows[query]);
  placeText(context, `${w.axes[0]} ${title}`, 0, 0, "left", "top", width);
  context.font = SMALL_FONT;
  context.fillStyle = paint.soft;
  const found = source.row(query);
  if (!found) {
    placeText(context, "the numbers of this row are not here yet", 0, 18, "left", "top", width);
    return canvas.setAttribute("aria-label", "The numbers of this row are not here yet");
  }
  const row = found.cells, size = source.signed ? Math.abs : (x) => x;
  const numbers = [...row.keys()].filter((i) => row[i] > MASKED);
  const order = numbers.sort((a, b) => size(row[b]) - size(row[a])).slice(0, BARS);
  const masked = row.filter((x) => x === MASKED).length, missing = row.filter((x) => x !== x).length;
  const count = `${shown.all ? "all " : ""}${shown.names.length} heads`;
  const together = shown.names.length > 1 && shown.title.replace(/ of .*/, ` of ${count}`);
  const facts = [`${columns} ${w.axes[1]}s`, together, masked && `${masked} masked`, missing && `${missing} NaN`];
  const rest = facts.filter(Boolean).join(", ");
  placeText(context, `${frame.title && `${frame.title}: `}strongest of ${rest}`, 0, 18, "left", "top", width);
  const text = (key) => formatWeight(row[key], found.exact ? 0 : source.error(row[key]));
  order.forEach((key, i) => drawBar(context, scene, frame, key, row[key], text(key), BAR.top + i * BAR.step));
  if (!order.length) {
    placeText(context, masked ? "nothing to attend to" : "no number in this row", 0, BAR.top + 2, "left", "top");
  }
  const heard = order.slice(0, 5).map((key) => `${placeName(w.keyTokens, source.columns[key])} ${text(key)}`);
  canvas.setAttribute("aria-label", `Weights of ${w.axes[0]} ${title}: ${heard.join("; ") || "none"}. ${rest}.`);
}

/** Draw one key of the list: its name, a bar, its weight. */
function drawBar(context, { paint, names, layout, cursor, colours, found }, { source, scale }, key, weight, text, y) {
  const share = Math.min(1, Math.abs(weight) / Math.max(scale.top, 1e-9)), middle = y + BAR.high / 2 + 0.5;
  const long = Math.max(1, (layout.bars - BAR.left - BAR.right) * share);
  const sought = source.columns[key].some((token) => found[1].has(token));
  dressLabel(context, key === cursor[1], { ...paint, soft: paint.ink }, sought);
  placeText(context, joined(names.columns, source.columns[key]), BAR.left - 6, middle, "right", "middle", BAR.left - 8);
  const pixel = pixelsOf(scale, colours)[Math.round(shareOn(scale)(weight) * 255)];
  context.fillStyle = `rgb(${pixel & 255} ${(pixel >> 8) & 255} ${(pixel >> 16) & 255})`;
  context.fillRect(BAR.left, y, long, BAR.high);
  context.strokeStyle = paint.line;
  context.lineWidth = 1;
  context.strokeRect(BAR.left + 0.5, y + 0.5, Math.max(1, long - 1), BAR.high - 1);
  context.fillStyle = paint.ink;
  placeText(context, text.replace(/^about | ±.*$/g, ""), BAR.left + long + 6, middle, "left", "middle", BAR.right - 8);
}
