// HeadSwitchboard in the browser: the switches, the score, what the model says, the way here.
// The present setting and the way to it live in traits; what is known is a table, and the kernel is asked for the rest.

import {
  listen, node, oncePerFrame, onNewRoom, pushButton, put, roomIn, setUp, themeColours, tickBox,
} from "../core.js";
import { makeAsker, PATIENCE_S, WAITING } from "./ask_kernel.js";
import { drawChart } from "./draw.js";
import { CHART_LEAST, layout } from "./layout.js";
import { makeSwitches } from "./switches.js";
import {
  countOff, formatChange, formatScore, headName, isComplete, makeTable, neighbours, plural, stateOf, wordsOfChange,
} from "./table.js";
/** @import { State } from "./table.js" */

const KEPT = 200; // settings to which undo leads back, as in Python
const NARROW_BELOW = 520; // pixels: there the readout keeps the height of two lines
const CHART_TELLS = 8; // scores on the way here, for a screen reader

function render({ model, el }) {
  const { root, say, onTheme, atEnd, dispose } = setUp(el, "switchboard", "Head switchboard");
  const table = makeTable(model);
  const state = () => stateOf(model, table);
  const go = (setting, way) => goTo(model, state(), setting, way);
  const wanted = () => [state().setting, ...(controls.measuresAll() ? neighbours(state().setting) : [])];
  const redraw = oncePerFrame(draw);
  const asker = makeAsker(model, table, wanted, redraw);

  const summary = makeSummary(state(), asker);
  const controls = makeControls(model, state, go, () => {
    asker.ask();
    redraw();
  });
  const switches = makeSwitches(state(), state, go);
  const problem = makeProblem(model, asker, wanted, switches.focus);
  const board = node("div", { class: "board" }, switches.grid);
  const chart = makeChart(root);
  const stage = node("div", { class: "stage" }, board, chart.side);
  const answers = makeAnswers(model);
  const notes = makeNotes(model, asker);
  root.append(summary.box, controls.box, problem.box, stage, switches.readout, ...answers.elements, ...notes.elements);

  let told = "";
  function draw() {
    const w = state();
    const news = summaryNews(w, asker);
    if (told && told !== news) say(news);
    told = news;
    stage.classList.toggle("narrow", roomIn(root) < NARROW_BELOW);
    for (const part of [summary, controls, problem, switches, answers, notes, chart]) part.show(w);
  }
  const moved = () => {
    asker.askSoon();
    redraw();
  };
  atEnd(listen(model, ["gates"], moved));
  atEnd(listen(model, ["visited"], redraw));
  atEnd(listen(model, ["settings", "failures"], asker.learn));
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

/** The score, and how it differs from that with all heads on. @param {State} w */
function makeSummary(w, asker) {
  const fact = (label, kind) => {
    const value = node("b");
    return { box: node("div", { class: kind }, label, value), value };
  };
  const score = fact(w.name, "now");
  const [start, change, off] = ["with all heads on", "difference", "heads off"].map((label) => fact(label));
  const facts = [score, start, change, off].map(({ box }) => box);
  return {
    box: node("div", { class: "summary" }, ...facts),
    /** @param {State} now */
    show({ here, start: first, setting, count }) {
      const by = here ? here.score - first.score : 0;
      score.value.textContent = here ? formatScore(here.score) : WAITING[asker.waiting(setting)][0];
      start.value.textContent = formatScore(first.score);
      change.value.textContent = here ? formatChange(by) : "–";
      change.box.className = by < 0 ? "lower" : by > 0 ? "higher" : "";
      off.value.textContent = `${countOff(setting)} of ${count}`;
    },
  };
}

/** What a screen reader is told of the present setting. @param {State} w */
function summaryNews({ here, start, setting, name }, asker) {
  const known = here && `${formatScore(here.score)}, ${wordsOfChange(here.score - start.score)} against all heads on`;
  return `${name} ${known || WAITING[asker.waiting(setting)][1]}; ${plural(countOff(setting), "head")} off`;
}

/** Buttons for many switches at once, and the wish to have every switch measured. */
function makeControls(model, state, go, wished) {
  const allOn = pushButton("All on", () => go("1".repeat(state().count)));
  const allOff = pushButton("All off", () => go("0".repeat(state().count)));
  const undo = pushButton("Undo", () => {
    const way = state().way.slice(0, -1);
    if (way.length) go(way.at(-1), way);
  });
  const each = tickBox("Measure every switch", wished);
  const progress = node("output");
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
      const there = neighbours(w.setting).filter((other) => w.table.known.has(other)).length;
      progress.textContent = each.box.hidden || !each.input.checked ? "" : `${there} of ${w.count}`;
    },
  };
}

/** What could not be measured and why, and a button to try again. */
function makeProblem(model, asker, wanted, focusSwitch) {
  let shown = "";
  let failed;
  const again = pushButton("Measure again", () => {
    focusSwitch(); // this button is about to go
    asker.send(failed);
  });
  const box = node("p", { class: "problem", role: "alert", hidden: true });
  return {
    box,
    /** @param {State} w */
    show(w) {
      failed = wanted().find(asker.failure);
      const why = failed && asker.failure(failed);
      box.hidden = !failed;
      if (shown === [failed, why].join()) return; // told again, it would be read out again
      shown = [failed, why].join();
      const at = failed && [...failed].findIndex((digit, i) => digit !== w.setting[i]);
      const whose = failed === w.setting ? "This setting" : `Switching ${headName(w, at)}`;
      const told = failed ? [`${whose} could not be measured. ${why} `] : [];
      box.replaceChildren(...told, ...(failed && !model.isStatic ? [again] : []));
    },
  };
}

/** The chart of scores against heads off. */
function makeChart(root) {
  const canvas = node("canvas", { role: "img" });
  const side = node("div", { class: "side" }, canvas);
  return {
    side,
    /** @param {State} w */
    show(w) {
      if (!roomIn(root)) return;
      drawChart(canvas, layout(w, Math.max(CHART_LEAST, side.clientWidth)), w.name, themeColours(root, "range"));
      const known = w.way.filter((setting) => w.table.known.has(setting)).slice(-CHART_TELLS);
      const seen = known.map((one) => `${formatScore(w.table.known.get(one).score)} with ${countOff(one)} off`);
      canvas.setAttribute("aria-label", `${w.name} against heads off, the way here: ${seen.join(", ")}`);
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
      if (!labels.length) return;
      const phrases = model.get("phrases");
      const answers = labels.map((label, i) => {
        const [was] = phrases[start.said[i]];
        const [said, right] = here ? phrases[here.said[i]] : ["…", null];
        return { label, said, right, before: here && was !== said ? `was ${was}` : "" };
      });
      list.replaceChildren(...answers.map(answerItem));
      const judged = answers.filter(({ right }) => right !== null);
      const correct = judged.filter(({ right }) => right).length;
      const verdict = judged.length ? `: ${correct} of ${judged.length} right` : "";
      heading.textContent = `One example, and what the model says now${verdict}`;
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
function makeNotes(model, asker) {
  const limits = node("p", { class: "keys" });
  const longest = node("span");
  const key = (colour) => node("span", { class: "key", style: `background: var(--${colour})`, "aria-hidden": "true" });
  const help = node("p", { class: "keys" },
    "Under a switch: what switching just this one would do now. ", key("down"), " to the left: lower, ",
    key("up"), " to the right: higher", longest, "; nothing drawn: not measured. " +
    "In the chart: grey, lowest to highest of all settings measured; line, your way; ring, now. ",
    "Arrow keys move among the switches, Space switches.");
  const kernel = () => {
    if (model.isStatic) return "others need a notebook with a kernel.";
    if (!asker.late()) return "the kernel measures others when you go there.";
    const advice = "It may be busy; if it was restarted, run this cell again.";
    return `no answer from the kernel for ${PATIENCE_S} seconds. ${advice}`;
  };
  return {
    elements: [limits, help],
    /** @param {State} w */
    show(w) {
      limits.hidden = isComplete(w);
      limits.textContent = `${plural(w.table.known.size, "setting")} measured so far; ${kernel()}`;
      const most = w.table.largest();
      longest.textContent = most ? `; a full half is ${formatScore(most)}` : "";
    },
  };
}

export default { render };
