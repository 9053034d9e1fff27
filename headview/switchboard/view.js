// HeadSwitchboard in the browser: the switches, the score, what the model says.
// The present setting and what is known live in traits; the kernel is asked for the rest.

import { listen, node, plural, pushButton, put, setUp, tickBox } from "../core.js";
import { makeSwitches } from "./switches.js";
import {
  countOff, formatChange, formatScore, isComplete, largestChange, neighbours, stateOf, wordsOfChange,
} from "./table.js";
/** @import { State } from "./table.js" */

const WAIT_MS = 150; // after the last click, before the kernel is asked
const KERNEL = "the kernel measures others when you go there; if it was restarted, run this cell again.";

function render({ model, el }) {
  const { root, say, drawOn, atEnd, dispose } = setUp(el, "switchboard", "Head switchboard");
  const state = () => stateOf(model);
  const go = (setting) => {
    const { heads, layers } = state();
    const rows = Array.from({ length: layers }, (_, layer) => setting.slice(layer * heads, (layer + 1) * heads));
    if (setting !== state().setting) put(model, "gates", rows.map((row) => [...row].map(Number)));
  };
  const wanted = () => [state().setting, ...(controls.measuresAll() ? neighbours(state().setting) : [])];
  const asker = makeAsker(model, wanted);
  const controls = makeControls(model, state, go, () => {
    asker.ask();
    redraw();
  });
  const switches = makeSwitches(state(), state, go), summary = makeSummary(model);
  const problem = makeProblem(model);
  const board = node("div", { class: "board" }, switches.grid), answers = makeAnswers(model), notes = makeNotes(model);
  root.append(summary.box, controls.box, problem.box, board, switches.readout, ...answers.elements, ...notes.elements);

  let told = "";
  const redraw = drawOn(model, ["gates", "known", "failures"], () => {
    const w = state(), score = scoreText(model, w);
    const change = w.here ? `, ${wordsOfChange(w.here[0] - w.start[0])} against all heads on` : "";
    const news = `${w.name} ${score}${change}; ${plural(countOff(w.setting), "head")} off`;
    if (told && told !== news) say(news);
    told = news;
    for (const part of [summary, controls, problem, switches, answers, notes]) part.show(w);
  });
  atEnd(listen(model, ["gates"], asker.askSoon));
  atEnd(listen(model, ["known", "failures"], asker.heard));
  atEnd(asker.stop);
  asker.ask();
  return dispose;
}

/**
 * Ask the kernel for what is not known: one setting at a time, so that it can do other work in between and the last
 * click wins. `wanted()`: settings, the most wanted first.
 */
function makeAsker(model, wanted) {
  let asked = "", timer = 0;
  /** `again`: also for a present setting that has failed. */
  function ask(again = false) {
    if (model.isStatic || asked || timer) return;
    const failed = (setting, i) => model.get("failures")[setting] && !(again && i === 0);
    asked = wanted().find((setting, i) => !model.get("known")[setting] && !failed(setting, i)) || "";
    if (asked) model.send({ measure: asked });
  }
  function askSoon() {
    clearTimeout(timer);
    timer = setTimeout(() => {
      timer = 0;
      ask(true);
    }, WAIT_MS);
  }
  const heard = () => {
    asked = "";
    ask();
  };
  return { ask, askSoon, heard, stop: () => clearTimeout(timer) };
}

/** The score of the present setting, or why it is not there. */
function scoreText(model, { here, setting }) {
  if (here) return formatScore(here[0]);
  return model.isStatic || model.get("failures")[setting] ? "not measured" : "measuring…";
}

/** The score, and how it differs from that with all heads on. */
function makeSummary(model) {
  const box = node("div", { class: "facts summary" });
  const fact = (label, value, kind) => node("div", { class: kind }, label, node("b", {}, value));
  return {
    box,
    /** @param {State} w */
    show(w) {
      const by = w.here ? w.here[0] - w.start[0] : 0;
      box.replaceChildren(
        fact(w.name, scoreText(model, w), "now"), fact("with all heads on", formatScore(w.start[0])),
        fact("difference", w.here ? formatChange(by) : "–", by < 0 ? "lower" : by > 0 ? "higher" : undefined),
        fact("heads off", `${countOff(w.setting)} of ${w.count}`),
      );
    },
  };
}

/** Buttons for many switches at once, and the wish to have every switch measured. */
function makeControls(model, state, go, wished) {
  const allOn = pushButton("All on", () => go("1".repeat(state().count)));
  const allOff = pushButton("All off", () => go("0".repeat(state().count)));
  const each = tickBox("Measure every switch", wished), progress = node("output");
  return {
    box: node("div", { class: "controls" }, allOn, allOff, each.box, progress),
    measuresAll: () => each.input.checked,
    /** @param {State} w */
    show(w) {
      const off = countOff(w.setting);
      // Not `disabled`: a button that has the focus would lose it, and the next key would go to the notebook.
      allOn.setAttribute("aria-disabled", String(off === 0));
      allOff.setAttribute("aria-disabled", String(off === w.count));
      each.box.hidden = isComplete(w) || Boolean(model.isStatic);
      const there = neighbours(w.setting).filter((other) => w.known[other]).length;
      progress.textContent = each.box.hidden || !each.input.checked ? "" : `${there} of ${w.count}`;
    },
  };
}

/** Why the present setting could not be measured; the kernel is asked once more when the reader comes here again. */
function makeProblem(model) {
  const box = node("p", { class: "problem", role: "alert", hidden: true });
  return {
    box,
    /** @param {State} w */
    show({ setting, here }) {
      const [why] = (!here && model.get("failures")[setting]) || [""];
      box.hidden = !why;
      const text = `This setting could not be measured. ${why}`;
      if (box.textContent !== text) box.textContent = text; // told again, it would be read out again
    },
  };
}

/** What the model says of one example now, and what it said with all heads on. */
function makeAnswers(model) {
  const labels = model.get("labels");
  const heading = node("p", { class: "heading", hidden: !labels.length });
  const list = node("ul", { class: "answers", hidden: !labels.length });
  return {
    elements: [heading, list],
    /** @param {State} w */
    show({ here, start }) {
      const phrases = model.get("phrases");
      const answers = labels.map((label, i) => {
        const [was] = phrases[start[1][i]], [said, right] = here ? phrases[here[1][i]] : ["…", null];
        return { label, said, right, before: here && was !== said ? `was ${was}` : "" };
      });
      list.replaceChildren(...answers.map(answerItem));
      const judged = answers.filter(({ right }) => right !== null);
      const verdict = `: ${judged.filter(({ right }) => right).length} of ${judged.length} right`;
      heading.textContent = `One example, and what the model says now${judged.length ? verdict : ""}`;
    },
  };
}

function answerItem({ label, said, right, before }) {
  const verdict = right ? "right" : "wrong";
  const marks = right === null ? [] : [right ? " ✓" : " ✗", node("span", { class: "hidden" }, verdict)];
  const parts = [node("small", {}, label), node("b", {}, said), ...marks, node("small", {}, before)];
  return node("li", { class: right === null ? undefined : verdict }, ...parts);
}

/** What is not measured yet, and how to read the switches. */
function makeNotes(model) {
  const limits = node("p", { class: "keys" }), longest = node("span");
  const key = (colour) => node("span", { class: "key", style: `background: var(--${colour})`, "aria-hidden": "true" });
  const help = node("p", { class: "keys" },
    "Under a switch: what switching just this one would do now. ", key("down"), " to the left: lower, ",
    key("up"), " to the right: higher", longest,
    ". Without a bar, a switch is not measured yet. Arrow keys move among the switches, Space switches.");
  return {
    elements: [limits, help],
    /** @param {State} w */
    show(w) {
      const kernel = model.isStatic ? "others need a notebook with a kernel." : KERNEL;
      limits.hidden = isComplete(w);
      limits.textContent = `${plural(Object.keys(w.known).length, "setting")} measured so far; ${kernel}`;
      const most = largestChange(w);
      longest.textContent = most ? ` (the longest bar: ${formatScore(most)})` : "";
    },
  };
}

export default { render };
