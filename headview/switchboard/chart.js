// The chart of HeadSwitchboard: scores against heads off. Grey, the range of all that is known; a line, the way here; a
// ring, now.

import { placeText, shorten, sizeCanvas, SMALL_FONT } from "../core_draw.js";
import { countOff, formatScore } from "./table.js";
/** @import { State } from "./table.js" */

const HIGH = 190;
const MARGIN = { left: 50, right: 14, top: 22, bottom: 34 }; // room for the numbers, the names and half a ring
const INDENT = 8; // from the axis to no head off
const NUMBER_APART = 34; // pixels, at least, between two numbers of heads
const TELLS = 8; // scores on the way here, for a screen reader

/** Draw the chart, and say it. @param {HTMLCanvasElement} canvas @param {State} w @param {any} paint */
export function drawChart(canvas, w, width, paint) {
  const { known, count } = w, context = sizeCanvas(canvas, width, HIGH);
  const marks = marksFor(Object.values(known).map(([score]) => score)), [least, most] = [marks[0], marks.at(-1)];
  const [right, bottom] = [width - MARGIN.right, HIGH - MARGIN.bottom], first = MARGIN.left + INDENT;
  const x = (setting) => first + (countOff(setting) / count) * (right - first);
  const y = (score) => MARGIN.top + (1 - (score - least) / (most - least)) * (bottom - MARGIN.top);
  const point = (setting) => [x(setting), y(known[setting][0])];
  const line = (points, colour, wide) => {
    Object.assign(context, { strokeStyle: colour, lineWidth: wide, lineCap: "round", lineJoin: "round" });
    context.beginPath();
    points.forEach(([px, py], i) => (i ? context.lineTo(px, py) : context.moveTo(px, py)));
    context.stroke();
  };
  const circle = (setting, radius) => {
    context.beginPath();
    context.arc(x(setting), y(known[setting][0]), radius, 0, 2 * Math.PI);
  };
  context.font = SMALL_FONT;
  for (const mark of marks) {
    line([[MARGIN.left, y(mark)], [right, y(mark)]], paint.field, 1);
    context.fillStyle = paint.soft;
    placeText(context, markText(mark, most - least), MARGIN.left - 5, y(mark), "right", "middle");
  }
  const every = [1, 2, 5, 10, 20, 50, 100, 200, 500].find((step) => count / step <= (right - first) / NUMBER_APART);
  for (let off = 0; off <= count; off += every) {
    placeText(context, off, first + (off / count) * (right - first), bottom + 6, "center", "top");
  }
  context.fillStyle = paint.ink;
  placeText(context, "heads off", (MARGIN.left + right) / 2, HIGH - 1, "center", "bottom");
  placeText(context, shorten(w.name, Math.floor(width / 8)), 2, 1, "left", "top", width - 4);
  for (const [setting, [low, high]] of rangesOf(known)) { // no length would not be drawn
    line([[x(setting), y(low)], [x(setting), y(high) - 0.01]], paint.range, 7);
  }
  const way = w.way.filter((setting) => known[setting]);
  const steps = new Set(way.slice(1).map((setting, i) => [way[i], setting].sort().join())); // each once
  for (const step of [...steps].sort()) line(step.split(",").map(point), paint.accent, 1.5);
  context.fillStyle = paint.accent;
  for (const setting of [...new Set(way)].sort()) {
    circle(setting, 3);
    context.fill();
  }
  if (w.here) {
    circle(w.setting, 6);
    Object.assign(context, { strokeStyle: paint.ink, lineWidth: 2 });
    context.stroke();
  }
  const told = way.slice(-TELLS).map((one) => `${formatScore(known[one][0])} with ${countOff(one)} off`);
  canvas.setAttribute("aria-label", `${w.name} against heads off, the way here: ${told.join(", ")}`);
}

/** The lowest and highest score for each number of heads off, behind one setting of so many. */
function rangesOf(known) {
  const ranges = new Map();
  for (const [setting, [score]] of Object.entries(known)) {
    const [one, [low, high]] = ranges.get(countOff(setting)) || [setting, [score, score]];
    ranges.set(countOff(setting), [one, [Math.min(low, score), Math.max(high, score)]]);
  }
  return ranges.values();
}

/** The marks of the score axis, from its end to its end: 0 to 1 where everything known fits, else round numbers. */
function marksFor(scores) {
  let [low, high] = [Math.min(...scores), Math.max(...scores)];
  if (low >= 0 && high <= 1) return [0, 0.25, 0.5, 0.75, 1];
  if (high === low) [low, high] = [low - 0.05 * Math.abs(low), high + 0.05 * Math.abs(high)];
  const power = 10 ** Math.floor(Math.log10((high - low) / 4));
  const step = power * [1, 2, 5, 10].find((n) => power * n * 4.5 >= high - low);
  const first = Math.floor(low / step), last = Math.ceil(high / step);
  return Array.from({ length: last - first + 1 }, (_, i) => (first + i) * step);
}

function markText(mark, span) {
  if (Math.abs(mark) >= 1e5) return mark.toLocaleString("en", { notation: "compact", maximumSignificantDigits: 3 });
  return mark.toFixed(Math.max(0, Math.min(8, Math.ceil(-Math.log10(span)) + 2)));
}
