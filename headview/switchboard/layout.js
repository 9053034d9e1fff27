// Where everything stands in the chart of HeadSwitchboard, in CSS pixels. The switches are laid out by style.css.
// Pure functions of the state and the width; nothing here draws.

import { countOff } from "./table.js";
/** @import { State } from "./table.js" */

const CHART_HEIGHT = 190;
export const CHART_LEAST = 200; // wide
export const MARGIN = { left: 50, right: 14, top: 22, bottom: 34 }; // room for the numbers, the names and half a ring
const INDENT = 8; // from the axis to no head off
const NUMBER_APART = 34; // pixels, at least, between two numbers of heads
const COMPACT_FROM = 1e5; // from this score on, its axis says 100K

/**
 * @typedef {[number, number]} Point x, y
 * @typedef {object} Layout
 * @property {number} width
 * @property {number} height
 * @property {number} left end of the lines across the chart
 * @property {number} right end
 * @property {number} middle of the axis of heads
 * @property {{y: number, text: string}[]} marks on the score axis
 * @property {{x: number, off: number}[]} numbers of heads off
 * @property {{x: number, low: number, high: number}[]} ranges of all that is known, upright
 * @property {Point[][]} steps of the way here, each once
 * @property {Point[]} spots the settings on the way here, each once
 * @property {Point | undefined} here the present setting, where it is known
 */

/** Say where everything stands. @param {State} w @param {number} width of the chart @returns {Layout} */
export function layout(w, width) {
  const { known, ranges } = w.table;
  const axis = scoreAxis([...ranges.values()].flat());
  const [right, bottom] = [width - MARGIN.right, CHART_HEIGHT - MARGIN.bottom];
  const [wide, high] = [right - MARGIN.left, bottom - MARGIN.top];
  const x = (off) => MARGIN.left + INDENT + (off / w.count) * (wide - INDENT);
  const y = (score) => MARGIN.top + (1 - (score - axis.low) / (axis.high - axis.low)) * high;
  /** @returns {Point} */
  const point = (setting) => [x(countOff(setting)), y(known.get(setting).score)];
  const every = [1, 2, 5, 10, 20, 50, 100, 200, 500].find((step) => w.count / step <= wide / NUMBER_APART);
  const way = w.way.filter((setting) => known.has(setting));
  return {
    width,
    height: CHART_HEIGHT,
    left: MARGIN.left,
    right,
    middle: MARGIN.left + wide / 2,
    marks: axis.marks.map((mark) => ({ y: y(mark), text: markText(mark, axis) })),
    numbers: Array.from({ length: Math.floor(w.count / every) + 1 }, (_, i) => ({ x: x(i * every), off: i * every })),
    ranges: [...ranges].map(([off, [least, most]]) => ({ x: x(off), low: y(least), high: y(most) })),
    steps: stepsOf(way).map((ends) => ends.map(point)),
    spots: [...new Set(way)].sort().map(point),
    here: w.here && point(w.setting),
  };
}

/** The steps of a way, each once, however often and in whatever direction it was gone. */
function stepsOf(way) {
  const steps = way.slice(1).map((setting, i) => [way[i], setting].sort());
  const once = new Map(steps.map((ends) => [ends.join(), ends]));
  return [...once.keys()].sort().map((key) => once.get(key));
}

/** The ends of the score axis and the places of its marks: 0 to 1 where everything known fits. */
function scoreAxis(scores) {
  let [low, high] = [Math.min(...scores), Math.max(...scores)];
  if (low >= 0 && high <= 1) return { low: 0, high: 1, marks: [0, 0.25, 0.5, 0.75, 1] };
  if (high === low) [low, high] = [low - 0.05 * Math.abs(low), high + 0.05 * Math.abs(high)];
  // Four or five steps of 1, 2 or 5 times a power of ten.
  const power = 10 ** Math.floor(Math.log10((high - low) / 4));
  const step = power * [1, 2, 5, 10].find((n) => power * n * 4.5 >= high - low);
  const [first, last] = [Math.floor(low / step), Math.ceil(high / step)];
  const marks = Array.from({ length: last - first + 1 }, (_, i) => (first + i) * step);
  return { low: first * step, high: last * step, marks };
}

function markText(mark, { low, high, marks }) {
  if (Math.abs(mark) >= COMPACT_FROM) {
    return mark.toLocaleString("en", { notation: "compact", maximumSignificantDigits: 3 });
  }
  const whole = marks.every((other) => Number.isInteger(other));
  return mark.toFixed(whole ? 0 : Math.max(2, Math.ceil(-Math.log10(high - low)) + 1));
}
