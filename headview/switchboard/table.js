// What a HeadSwitchboard knows: the settings that were measured, the present one, and how scores are written and said.
// A setting is a text of one digit a head, layer by layer, "1" where the head is on.

/**
 * @typedef {[number, number[]]} Measured its score, and the places of its answers in the trait `phrases`
 * @typedef {ReturnType<typeof stateOf>} State what is shown at the moment
 */

/** Change one switch of a setting. */
export function flip(setting, at) {
  return setting.slice(0, at) + (setting[at] === "1" ? "0" : "1") + setting.slice(at + 1);
}

/** The settings that one switch leads to, in the order of the switches. */
export const neighbours = (setting) => Array.from(setting, (_, at) => flip(setting, at));

/** How many heads are off. */
export const countOff = (setting) => setting.split("0").length - 1;

/** Read from the traits what is shown at the moment; `here`: what is known of the setting, `start`: of all heads on. */
export function stateOf(model) {
  /** @type {Record<string, Measured | undefined>} */
  const known = model.get("known");
  /** @type {number[]} */
  const [layers, heads] = model.get("sizes");
  const name = model.get("score_name"), setting = model.get("gates").flat().join("");
  const [here, start] = [setting, "1".repeat(layers * heads)].map((one) => known[one]);
  return { layers, heads, count: layers * heads, name, known, setting, here, start };
}

/** Is every setting measured? @param {State} w */
export const isComplete = (w) => Object.keys(w.known).length === 2 ** w.count;

/** What switching one head would change, or undefined where that is not known. @param {State} w */
export function effectOf(w, at) {
  const there = w.known[flip(w.setting, at)];
  return w.here && there && there[0] - w.here[0];
}

/** The largest change that one switch makes anywhere. @param {State} w */
export function largestChange({ known }) {
  const changes = Object.entries(known).flatMap(([setting, [score]]) =>
    neighbours(setting).map((other) => (known[other] ? Math.abs(known[other][0] - score) : 0)));
  return changes.reduce((most, change) => Math.max(most, change), 0);
}

/** Call a head by its place. @param {State} w */
export function headName(w, at) {
  return (w.layers > 1 ? `layer ${Math.floor(at / w.heads)} ` : "") + `head ${at % w.heads}`;
}

/** Write a score, as Python's picture does. */
export const formatScore = (x) => x.toFixed(Math.abs(x) < 1000 ? 3 : 0);

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
