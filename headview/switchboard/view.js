// HeadSwitchboard in the browser: the switches, the score, what the model says, the way here.
// The present setting and the way to it live in traits, and what is known as well; the kernel is asked for the rest.

import {
  listen, node, oncePerFrame, onNewRoom, pushButton, put, roomIn, setUp, themeColours, tickBox,
} from "../core.js";
import { drawChart } from "./chart.js";
import { makeSwitches } from "./switches.js";
import {
  countOff, formatChange, formatScore, headName, isComplete, largestChange, neighbours, plural, stateOf, wordsOfChange,
} from "./table.js";
/** @import { State } from "./table.js" */

const KEPT = 200; // settings to which undo leads back, as in Python
const NARROW_BELOW = 520; // pixels: there the readout keeps the height of two lines
const CHART_LEAST = 200; // wide
const WAIT_MS = 150; // after the last click, before the kernel is asked
const KERNEL = "the kernel measures others when you go there; if it was restarted, run this cell again.";

function render({ model, el }) {
  const { root, say, onTheme, atEnd, dispose } = setUp(el, "switchboard", "Head switchboard");
  const state = () => stateOf(model);
  const go = (setting, way) => goTo(model, state(), setting, way);
  const wanted = () => [state().setting, ...(controls.measuresAll() ? neighbours(state().setting) : [])];
  const redraw = oncePerFrame(draw);
  const asker = makeAsker(model, wanted);
  const controls = makeControls(model, state, go, () => {
    asker.ask();
    redraw();
  });
  const switches = makeSwitches(state(), state, go), summary = makeSummary(model);
  const problem = makeProblem(model, asker, wanted, switches.focus);
  const canvas = node("canvas", { role: "img" }), side = node("div", { class: "side" }, canvas);
  const stage = node("div", { class: "stage" }, node("div", { class: "board" }, switches.grid), side);
  const answers = makeAnswers(model), notes = makeNotes(model);
  root.append(summary.box, controls.box, problem.box, stage, switches.readout, ...answers.elements, ...notes.elements);

  let told = "";
  function draw() {
    const w = state(), room = roomIn(root), score = scoreText(model, w);
    const change = w.here ? `, ${wordsOfChange(w.here[0] - w.start[0])} against all heads on` : "";
    const news = `${w.name} ${score}${change}; ${plural(countOff(w.setting), "head")} off`;
    if (told && told !== news) say(news);
    told = news;
    stage.classList.toggle("narrow", room < NARROW_BELOW);
    for (const part of [summary, controls, problem, switches, answers, notes]) part.show(w);
    if (room) drawChart(canvas, w, Math.max(CHART_LEAST, side.clientWidth), themeColours(root, "range"));
  }
  atEnd(listen(model, ["gates", "visited"], redraw));
  atEnd(listen(model, ["gates"], asker.askSoon));
  atEnd(listen(model, ["known", "failures"], () => {
    asker.heard();
    redraw();
  }));
  atEnd(onNewRoom(root, redraw));
  atEnd(asker.stop);
  onTheme(redraw);
  draw();
  asker.ask();
  return dispose;
}

/** Go to a setting; `way` is what leads there, with the setting at its end. @param {State} w */
function goTo(model, w, setting, way = [...w.way, setting].slice(-KEPT)) {
  if (setting === w.setting) return;
  const rows = Array.from({ length: w.layers }, (_, layer) => setting.slice(layer * w.heads, (layer + 1) * w.heads));
  model.set("visited", way);
  put(model, "gates", rows.map((row) => [...row].map(Number)));
}

/**
 * Ask the kernel for what is not known: one setting at a time, so that it can do other work in between and the last
 * click wins. `wanted()`: settings, the most wanted first.
 */
function makeAsker(model, wanted) {
  let asked = "", timer = 0;
  const send = (setting) => model.send({ measure: (asked = setting) });
  function ask() {
    if (model.isStatic || asked || timer) return;
    const next = wanted().find((setting) => !model.get("known")[setting] && !model.get("failures")[setting]);
    if (next) send(next);
  }
  function askSoon() {
    clearTimeout(timer);
    timer = setTimeout(() => {
      timer = 0;
      ask();
    }, WAIT_MS);
  }
  const heard = () => {
    asked = "";
    ask();
  };
  return { ask, askSoon, send, heard, stop: () => clearTimeout(timer) };
}

/** The score of the present setting, or why it is not there. */
function scoreText(model, { here, setting }) {
  if (here) return formatScore(here[0]);
  return model.isStatic || model.get("failures")[setting] ? "not measured" : "measuring…";
}

/** The score, and how it differs from that with all heads on. */
function makeSummary(model) {
  const box = node("div", { class: "summary" });
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
  const undo = pushButton("Undo", () => {
    const way = state().way.slice(0, -1);
    if (way.length) go(way.at(-1), way);
  });
  const each = tickBox("Measure every switch", wished), progress = node("output");
  return {
    box: node("div", { class: "controls" }, allOn, allOff, undo, each.box, progress),
    measuresAll: () => each.input.checked,
    /** @param {State} w */
    show(w) {
      const off = countOff(w.setting);
      // Not `disabled`: a button that has the focus would lose it, and the next key would go to the notebook.
      const idle = [[allOn, off === 0], [allOff, off === w.count], [undo, w.way.length < 2]];
      for (const [button, does] of idle) button.setAttribute("aria-disabled", String(does));
      each.box.hidden = isComplete(w) || Boolean(model.isStatic);
      const there = neighbours(w.setting).filter((other) => w.known[other]).length;
      progress.textContent = each.box.hidden || !each.input.checked ? "" : `${there} of ${w.count}`;
    },
  };
}

/** What could not be measured and why, and a button to try again. */
function makeProblem(model, asker, wanted, focusSwitch) {
  let shown = "", failed = "";
  const again = pushButton("Measure again", () => {
    focusSwitch(); // this button is about to go
    asker.send(failed);
  });
  const box = node("p", { class: "problem", role: "alert", hidden: true });
  return {
    box,
    /** @param {State} w */
    show(w) {
      const failures = model.get("failures");
      failed = wanted().find((setting) => failures[setting]) || "";
      box.hidden = !failed;
      const [why] = failures[failed] || [];
      if (shown === failed + why) return; // told again, it would be read out again
      shown = failed + why;
      const at = [...failed].findIndex((digit, i) => digit !== w.setting[i]);
      const whose = at < 0 ? "This setting" : `Switching ${headName(w, at)}`;
      box.replaceChildren(...(failed ? [`${whose} could not be measured. ${why} `] : []));
      if (!model.isStatic) box.append(again);
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

/** What is not measured yet, and how to read the switches and the chart. */
function makeNotes(model) {
  const limits = node("p", { class: "keys" }), longest = node("span");
  const key = (colour) => node("span", { class: "key", style: `background: var(--${colour})`, "aria-hidden": "true" });
  const help = node("p", { class: "keys" },
    "Under a switch: what switching just this one would do now. ", key("down"), " to the left: lower, ",
    key("up"), " to the right: higher", longest, "; nothing drawn: not measured. " +
    "In the chart: grey, lowest to highest of all settings measured; line, your way; ring, now. ",
    "Arrow keys move among the switches, Space switches.");
  return {
    elements: [limits, help],
    /** @param {State} w */
    show(w) {
      const kernel = model.isStatic ? "others need a notebook with a kernel." : KERNEL;
      limits.hidden = isComplete(w);
      limits.textContent = `${plural(Object.keys(w.known).length, "setting")} measured so far; ${kernel}`;
      const most = largestChange(w);
      longest.textContent = most ? `; a full half is ${formatScore(most)}` : "";
    },
  };
}

export default { render };
