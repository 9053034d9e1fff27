// SealedBox: the reader turns t, sees the output move in steps, collects them, and then opens the box.

import {
  bindDrag, listen, node, plural, pushButton, put, roomIn, setUp, slider, themeColours, within,
} from "../core.js";
import { groupColours } from "../core_draw.js";
import { comparison, largest, letterName, placeOf, pointAt, readBox, tText } from "./box.js";
import { drawBars, drawGraph, layout } from "./graph.js";
/** @import { Box, State, Step } from "./box.js" */

const TOLD_PLACES = 3; // places of a letter in the list; of more it says how many
const WHAT_TO_DO =
  "Turn t. The output moves in steps: cross them, count the different vectors, say how many heads there are";
const HIDDEN = "The lid is on: how many heads are inside, and where they look, is not shown.";
const NOBODY = "Nobody knows what is inside of this box: it came without a key. Its steps are all there is.";

function render({ model, el }) {
  const { root, say, drawOn, atEnd, dispose } = setUp(el, "sealed-box", "Sealed box");
  const box = readBox(model);
  /** @returns {State} */
  const state = () => ({
    at: pointAt(box, model.get("t")),
    seen: model.get("steps_seen").map((number) => box.steps[number]),
    opened: model.get("opened") && box.heads > 0,
  });
  const go = (to) => {
    const news = goTo(model, box, state().at, within(to, box.points));
    if (!news.length) return;
    const names = news.map(({ letter, middle }) => `${letterName(letter)} near t = ${tText(box, middle)}`);
    say(`Crossed ${names.join(", ")}. ${countText(state().seen)} so far.`);
  };
  const leap = (way) => {
    const to = stopBeside(box, state().at, way);
    if (to !== undefined) go(to);
  };
  const parts = [
    makeControls(box, go, leap), makeGraph(root, box, go), makeWritten(root, box),
    makeInside(box, (opened) => put(model, "opened", opened)),
  ];
  const task = node("p", {}, WHAT_TO_DO + (box.heads ? ", then open the box." : "."));
  const remark = node("p", { class: "remark", hidden: !model.get("remark") }, model.get("remark"));
  root.append(task, remark, ...parts.flatMap(({ elements }) => elements));
  drawOn(model, ["t", "steps_seen", "opened"], () => parts.forEach((part) => part.show(state())));
  atEnd(listen(model, ["opened"], () => say(state().opened ? comparison(box, state()) : HIDDEN)));
  return dispose;
}

/** Go to a point and remember the steps on the way; returns those that are new. @param {Box} box */
function goTo(model, box, from, to) {
  if (from === to) return [];
  const [low, high] = [Math.min(from, to), Math.max(from, to)], before = model.get("steps_seen");
  const news = box.steps.filter(({ number, middle }) => low <= middle && middle < high && !before.includes(number));
  if (news.length) model.set("steps_seen", [...before, ...news.map(({ number }) => number)].sort((a, b) => a - b));
  put(model, "t", placeOf(box, to)); // one message with both, so that Python has nothing to add
  return news;
}

/** A point behind the next step to the right (`way` 1) or to the left (-1), undefined at the end. @param {Box} box */
function stopBeside({ steps, stops }, at, way) {
  return stops[steps.filter(({ middle }) => middle < at).length + way];
}

/** @param {Step[]} seen */
const countText = (seen) => plural(new Set(seen.map(({ letter }) => letter)).size, "different vector");

/** The steps to the left and right, and t. @param {Box} box */
function makeControls(box, go, leap) {
  const ways = [["◀ Previous step", -1], ["Next step ▶", 1]];
  const buttons = ways.map(([label, way]) => pushButton(label, () => leap(way)));
  const t = slider("t", { min: 0, max: box.points - 1, step: 1 }, (at) => tText(box, at), go);
  return {
    elements: [node("div", { class: "controls" }, ...buttons, t.box)],
    /** @param {State} state */
    show({ at }) {
      t.show(at);
      // Not `disabled`: a button that has the focus would lose it.
      ways.forEach(([, way], i) => buttons[i].setAttribute("aria-disabled", stopBeside(box, at, way) === undefined));
    },
  };
}

/** The lines along t, in which t can be dragged; the slider above is for keys and screen readers. @param {Box} box */
function makeGraph(root, box, go) {
  const lines = node("canvas", { class: "lines", role: "img" }), kept = {};
  const heading = node("div", { class: "heading" }, "How far the second token moves the output, a line a feature");
  let last = null; // the layout as last drawn
  bindDrag(lines, ({ offsetX }) => go(last.at(offsetX)));
  return {
    elements: [heading, lines],
    /** @param {State} now */
    show(now) {
      const vector = box.moved.subarray(now.at * box.width, (now.at + 1) * box.width), t = tText(box, now.at);
      const crossed = `${plural(now.seen.length, "step")} crossed so far`;
      lines.setAttribute("aria-label", `At t = ${t} the output moves by ${largest(vector, box.most)}; ${crossed}`);
      if (!roomIn(root)) return;
      last = layout(box, roomIn(root));
      drawGraph(lines, kept, box, now, last, themeColours(root));
    },
  };
}

/** What was written: each vector that was seen, with its letter, once. @param {Box} box */
function makeWritten(root, box) {
  const count = node("span", { class: "note" }), list = node("ul", { class: "written" });
  const none = node("p", { class: "note" }, "Nothing yet: go over a step.");
  let shown = "";
  const item = (letter, steps) => {
    const vector = box.vectors.subarray(letter * box.width, (letter + 1) * box.width);
    const most = vector.reduce((longest, x) => Math.max(longest, Math.abs(x)), 0), name = letterName(letter);
    const picture = node("canvas", { role: "img", "aria-label": `Vector ${name}: ${largest(vector, most)}` });
    drawBars(picture, vector, 96, 34, most, themeColours(root));
    const at = ({ sign, middle }) => `${sign > 0 ? "+" : "−"}${name} at t\u00a0≈\u00a0${tText(box, middle)}`;
    const more = steps.length > TOLD_PLACES ? ` and ${steps.length - TOLD_PLACES} more` : "";
    return node("li", {}, patch(letter), picture, steps.slice(0, TOLD_PLACES).map(at).join(", ") + more);
  };
  return {
    elements: [node("div", { class: "heading" }, "What was written", count), none, list],
    /** @param {State} state */
    show({ seen }) {
      const key = JSON.stringify([seen, themeColours(root)]);
      if (key === shown) return;
      shown = key;
      const letters = [...new Set(seen.map(({ letter }) => letter))];
      none.hidden = letters.length > 0;
      count.textContent = letters.length ? `: ${countText(seen)} in ${plural(seen.length, "step")}` : "";
      list.replaceChildren(...letters.map((one) => item(one, seen.filter(({ letter }) => letter === one))));
    },
  };
}

/** A letter on its colour; "?" for a step that was not crossed yet. */
function patch(letter) {
  const { fill, ink } = letter < 0 ? { fill: "var(--field)", ink: "var(--ink)" } : groupColours(letter);
  const said = letter < 0 ? [node("span", { class: "hidden" }, "a step not crossed yet")] : [];
  const sign = node("span", letter < 0 ? { "aria-hidden": "true" } : {}, letter < 0 ? "?" : letterName(letter));
  return node("i", { style: `background:${fill};color:${ink}` }, sign, ...said);
}

/** The lid, what is under it, and the button that lifts it. @param {Box} box */
function makeInside(box, open) {
  const lid = node("div", { class: "lid" }, node("span", {}, box.heads ? HIDDEN : NOBODY));
  const told = node("p", { class: "told" }), table = node("table");
  let opened = false;
  const button = pushButton("Open the box", () => open(!opened));
  button.hidden = !box.heads;
  /** The letters of the steps at which a head turns, -1 for what the reader has not crossed. @param {State} state */
  const lettersOf = ({ seen }, head) =>
    new Set(box.flips[head].map((number) => (seen.includes(box.steps[number]) ? box.steps[number].letter : -1)));
  const row = (state, head) => {
    const look = box.inside[state.at * box.heads + head], letters = [...lettersOf(state, head)].map(patch);
    const cells = [(1 - look).toFixed(2), look.toFixed(2)].map((weight) => node("td", {}, weight));
    return node("tr", {}, node("th", { scope: "row" }, `head ${head}`), ...cells,
      node("td", {}, ...(letters.length ? letters : ["–"])));
  };
  const titles = ["", "first token", "second token", "turns at"].map((title) => node("th", { scope: "col" }, title));
  return {
    elements: [node("div", { class: "heading" }, "Inside the box"), lid, told, table, button],
    /** @param {State} state */
    show(state) {
      opened = state.opened;
      lid.hidden = opened;
      told.hidden = table.hidden = !opened;
      button.textContent = opened ? "Put the lid back" : "Open the box";
      told.textContent = opened ? comparison(box, state) : "";
      const rows = opened ? Array.from({ length: box.heads }, (_, head) => row(state, head)) : [];
      table.replaceChildren(...(opened ? [node("tr", {}, ...titles), ...rows] : []));
    },
  };
}

export default { render };
