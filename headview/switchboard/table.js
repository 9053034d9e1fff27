// What a HeadSwitchboard knows: the settings that were measured, the present one, and how scores are written and said.
// A setting is a text of one digit a head, layer by layer, "1" where the head is on; table.py writes the same.

import { bytesOf } from "../core.js";

/**
 * @typedef {object} Measured
 * @property {number} score
 * @property {Uint16Array} said places of the answers in the trait `phrases`
 *
 * @typedef {object} Table
 * @property {Map<string, Measured>} known by setting
 * @property {Map<number, number[]>} ranges the lowest and highest score by the number of heads that are off
 * @property {() => number} largest the largest change that one switch makes anywhere
 * @property {() => void} read take in what Python has measured since
 *
 * @typedef {object} State what is shown at the moment
 * @property {number} layers
 * @property {number} heads of each layer
 * @property {number} count of all heads
 * @property {string} name of the score
 * @property {Table} table
 * @property {string} setting the present one
 * @property {string[]} way the settings that led to it, itself at the end
 * @property {Measured | undefined} here what is known of it
 * @property {Measured} start all heads on
 */

/** Change one switch of a setting. */
export function flip(setting, at) {
  return setting.slice(0, at) + (setting[at] === "1" ? "0" : "1") + setting.slice(at + 1);
}

/** The settings that one switch leads to, in the order of the switches. */
export const neighbours = (setting) => Array.from(setting, (_, at) => flip(setting, at));

/** How many heads are off. */
export function countOff(setting) {
  return setting.split("0").length - 1;
}

/** Keep what Python has measured. Rows are only ever added, so `read()` looks at the new ones. @returns {Table} */
export function makeTable(model) {
  const [layers, heads] = model.get("sizes");
  const count = layers * heads;
  const known = new Map();
  const ranges = new Map();
  let largest = 0;
  function add(setting, score, said) {
    known.set(setting, { score, said });
    const [low, high] = ranges.get(countOff(setting)) || [score, score];
    ranges.set(countOff(setting), [Math.min(low, score), Math.max(high, score)]);
    for (const other of neighbours(setting)) {
      if (known.has(other)) largest = Math.max(largest, Math.abs(known.get(other).score - score));
    }
  }
  function read() {
    const settings = bytesOf(model, "settings", Uint8Array);
    const scores = bytesOf(model, "scores", Float64Array);
    const said = bytesOf(model, "said", Uint16Array);
    const answers = said.length / scores.length;
    for (let row = known.size; row < scores.length; row++) {
      const setting = settings.subarray(row * count, (row + 1) * count).join("");
      add(setting, scores[row], said.subarray(row * answers, (row + 1) * answers));
    }
  }
  read();
  return { known, ranges, read, largest: () => largest };
}

/** Read from the traits what is shown at the moment. @returns {State} */
export function stateOf(model, table) {
  const [layers, heads] = model.get("sizes");
  const [name, way] = [model.get("score_name"), model.get("visited")];
  const setting = model.get("gates").flat().join("");
  const [here, start] = [setting, "1".repeat(layers * heads)].map((one) => table.known.get(one));
  return { layers, heads, count: layers * heads, name, table, setting, way, here, start };
}

/** Is every setting measured? @param {State} w */
export const isComplete = (w) => w.table.known.size === 2 ** w.count;

/** What switching one head would change, or undefined where that is not known. @param {State} w */
export function effectOf(w, at) {
  const there = w.table.known.get(flip(w.setting, at));
  return w.here && there && there.score - w.here.score;
}

// ---------------------------------------------------------------- words and numbers

/** Call a head by its place. @param {State} w */
export function headName(w, at) {
  return (w.layers > 1 ? `layer ${Math.floor(at / w.heads)} ` : "") + `head ${at % w.heads}`;
}

export const plural = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;

/** Write a score, as Python's picture does. */
export function formatScore(x) {
  return x.toFixed(Math.abs(x) < 1000 ? 3 : 0);
}

/** Write a difference with its sign, and none where it shows as nothing. */
export function formatChange(x) {
  const text = formatScore(Math.abs(x));
  return Number(text) === 0 ? text : (x > 0 ? "+" : "−") + text;
}

/** Say a difference in words, for a screen reader. */
export function wordsOfChange(x) {
  const text = formatScore(Math.abs(x));
  return Number(text) === 0 ? "no change" : `${text} ${x > 0 ? "higher" : "lower"}`;
}
