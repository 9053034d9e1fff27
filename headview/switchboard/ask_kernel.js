// How a HeadSwitchboard asks the kernel for what is not in its table: one setting at a time, so that the kernel can do
// other work in between and the last click wins.

/** @import { Table } from "./table.js" */

const WAIT_MS = 150; // after the last click, before the kernel is asked
export const PATIENCE_S = 10; // then the reader is told that no answer has come: a kernel that died says nothing

/** Why the score of a setting is not there, as the summary shows it and as a screen reader is told. */
export const WAITING = {
  static: ["not measured", "not measured, which needs a notebook with a kernel"],
  failed: ["not measured", "not measured"],
  late: ["no answer yet", "no answer yet"],
  asked: ["measuring…", "measuring"],
};

/**
 * Ask for what is missing.
 * @param {Table} table
 * @param {() => string[]} wanted settings, the most wanted first
 * @param {() => void} changed what to call when there is news
 * @returns `ask()` and `askSoon()` for what is wanted, `send(setting)` for that one; `learn()` takes in what Python has
 *   found; `failure(setting)` says why it could not be measured, unless it is being asked for again;
 *   `waiting(setting)` is a key of WAITING; `late()`: no answer for a while; `stop()`.
 */
export function makeAsker(model, table, wanted, changed) {
  /** @type {{setting: string, times: number} | null} times: how often it had failed before */
  let asked = null;
  let timer = 0;
  let patience = 0;
  let late = false;
  const failures = (setting) => model.get("failures")[setting]?.[1] || 0;
  const failure = (setting) => (asked?.setting === setting ? undefined : model.get("failures")[setting]?.[0]);
  function send(setting) {
    asked = { setting, times: failures(setting) };
    patience = setTimeout(() => {
      late = true;
      changed();
    }, 1000 * PATIENCE_S);
    model.send({ measure: setting });
    changed();
  }
  function ask() {
    if (model.isStatic || asked || timer) return;
    const next = wanted().find((setting) => !table.known.has(setting) && !failures(setting));
    if (next) send(next);
  }
  function askSoon() {
    clearTimeout(timer);
    timer = setTimeout(() => {
      timer = 0;
      ask();
    }, WAIT_MS);
  }
  function learn() {
    table.read();
    if (asked && (table.known.has(asked.setting) || failures(asked.setting) > asked.times)) {
      asked = null;
      late = false;
      clearTimeout(patience);
    }
    ask();
    changed();
  }
  function waiting(setting) {
    if (model.isStatic) return "static";
    if (failure(setting)) return "failed";
    return late ? "late" : "asked";
  }
  const stop = () => [timer, patience].forEach(clearTimeout);
  return { ask, askSoon, send, learn, failure, waiting, late: () => late, stop };
}
