// What a HeadSwitchboard knows: the table of measured settings, and the drawing of scores against heads off.
// A setting is a text of one digit a head, layer by layer, "1" where the head is on.

/** Change one switch of a setting. */
function flip(setting, at) {
  return setting.slice(0, at) + (setting[at] === "1" ? "0" : "1") + setting.slice(at + 1);
}

/** How many heads are off. */
function countOff(setting) {
  return setting.split("0").length - 1;
}

/**
 * Keep what Python has measured. Rows are only ever added, so `read()` looks at the new ones. Returns `{known, ranges, read}`:
 * `known` maps a setting to `{score, said}`, `ranges[n]` holds the lowest and highest score with n heads off, and
 * `largest()` is the largest change that one switch makes anywhere in the table.
 */
function makeTable(model, heads) {
  /** @type {Map<string, {score: number, said: Uint16Array}>} */
  const known = new Map();
  /** @type {number[][]} */
  const ranges = [];
  let largest = 0;
  function read() {
    const settings = bytesOf(model, "settings", Uint8Array);
    const scores = bytesOf(model, "scores", Float64Array);
    const said = bytesOf(model, "said", Uint16Array);
    const places = said.length / scores.length;
    for (let row = known.size; row < scores.length; row++) {
      const setting = settings.subarray(row * heads, (row + 1) * heads).join("");
      const score = scores[row], off = countOff(setting);
      known.set(setting, { score, said: said.subarray(row * places, (row + 1) * places) });
      ranges[off] ||= [score, score];
      ranges[off] = [Math.min(ranges[off][0], score), Math.max(ranges[off][1], score)];
      for (let at = 0; at < heads; at++) {
        const other = known.get(flip(setting, at));
        if (other) largest = Math.max(largest, Math.abs(other.score - score));
      }
    }
  }
  return { known, ranges, read, largest: () => largest };
}

/** Write a score, as Python's picture does. */
function formatScore(x) {
  return x.toFixed(Math.abs(x) < 1000 ? 3 : 0);
}

/** Write a difference with its sign, and none where it shows as nothing. */
function formatChange(x) {
  const text = formatScore(Math.abs(x));
  return Number(text) === 0 ? text : (x > 0 ? "+" : "−") + text;
}

/** Say a difference in words, for a screen reader. */
function wordsOfChange(x) {
  const text = formatScore(Math.abs(x));
  return Number(text) === 0 ? "no change" : `${text} ${x > 0 ? "higher" : "lower"}`;
}

/** Return the ends of the score axis and the places of its marks: 0 to 1 where everything known fits. */
function scoreAxis(ranges) {
  const all = ranges.flat();
  let low = Math.min(...all), high = Math.max(...all);
  if (low >= 0 && high <= 1) return { low: 0, high: 1, marks: [0, 0.25, 0.5, 0.75, 1] };
  if (high === low) [low, high] = [low - 0.05 * Math.abs(low), high + 0.05 * Math.abs(high)];
  const power = 10 ** Math.floor(Math.log10((high - low) / 4));
  const step = power * [1, 2, 5, 10].find((n) => power * n * 4.5 >= high - low);
  const first = Math.floor(low / step), last = Math.ceil(high / step);
  const marks = Array.from({ length: last - first + 1 }, (_, i) => (first + i) * step);
  return { low: first * step, high: last * step, marks };
}

const CHART = { left: 50, right: 14, top: 22, bottom: 34 };
const CHART_FONT = "11px system-ui, sans-serif";

/**
 * Draw scores against heads off: grey, the range of all that is known; a line, the way here; a ring, the present setting.
 * `scene`: table, heads, way (settings), setting, name, paint (colours).
 */
function drawHistory(canvas, width, height, scene) {
  const { table, heads, paint } = scene;
  const context = sizeCanvas(canvas, width, height);
  const axis = scoreAxis(table.ranges.filter(Boolean));
  const wide = width - CHART.left - CHART.right, high = height - CHART.top - CHART.bottom;
  const x = (off) => CHART.left + 8 + (off / heads) * (wide - 8);
  const y = (score) => CHART.top + (1 - (score - axis.low) / (axis.high - axis.low)) * high;
  const point = (setting) => [x(countOff(setting)), y(table.known.get(setting).score)];
  const write = (text, px, py, align, baseline) => {
    context.textAlign = align;
    context.textBaseline = baseline;
    context.fillText(text, px, py);
  };
  const stroke = (colour, line, cap, ends) => {
    context.strokeStyle = colour;
    context.lineWidth = line;
    context.lineCap = cap;
    context.beginPath();
    ends.forEach(([px, py], i) => (i ? context.lineTo(px, py) : context.moveTo(px, py)));
    context.stroke();
  };
  context.font = CHART_FONT;
  context.fillStyle = paint.soft;
  const digits = axis.marks.every((mark) => Number.isInteger(mark)) ? 0 : Math.max(2, Math.ceil(-Math.log10(axis.high - axis.low)) + 1);
  for (const mark of axis.marks) {
    stroke(paint.field, 1, "butt", [[CHART.left, y(mark)], [width - CHART.right, y(mark)]]);
    const text = Math.abs(mark) < 1e5 ? mark.toFixed(digits) : mark.toLocaleString("en", { notation: "compact", maximumSignificantDigits: 3 });
    context.fillStyle = paint.soft;
    write(text, CHART.left - 5, y(mark), "right", "middle");
  }
  const every = [1, 2, 5, 10, 20, 50, 100, 200, 500].find((step) => heads / step <= wide / 34);
  for (let off = 0; off <= heads; off += every) write(String(off), x(off), height - CHART.bottom + 6, "center", "top");
  context.fillStyle = paint.ink;
  write("heads off", CHART.left + wide / 2, height - 1, "center", "bottom");
  write(fit(context, scene.name, width - 4), 2, 1, "left", "top");
  table.ranges.forEach(([low, top], off) => stroke(paint.range, 7, "round", [[x(off), y(low)], [x(off), y(top) - 0.01]]));

  // Each step and each setting once, however often the reader went there.
  const way = scene.way.filter((setting) => table.known.has(setting));
  const steps = way.slice(1).map((setting, i) => [way[i], setting].sort());
  const once = new Map(steps.map((ends) => [ends.join(), ends]));
  for (const id of [...once.keys()].sort()) stroke(paint.accent, 1.5, "round", once.get(id).map(point));
  const spot = (setting, radius) => {
    context.beginPath();
    context.arc(...point(setting), radius, 0, 2 * Math.PI);
  };
  context.fillStyle = paint.accent;
  for (const setting of [...new Set(way)].sort()) {
    spot(setting, 3);
    context.fill();
  }
  if (table.known.has(scene.setting)) {
    spot(scene.setting, 6);
    context.strokeStyle = paint.ink;
    context.lineWidth = 2;
    context.stroke();
  }
}

/** Cut a text until it fits `room` pixels. */
function fit(context, text, room) {
  let shown = text;
  for (let length = 60; context.measureText(shown).width > room && length > 1; length -= 2) shown = shorten(text, length);
  return shown;
}
