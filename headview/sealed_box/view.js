// SealedBox: the reader turns t, sees the output move in steps, collects them, and then opens the box.

import {
  bindKeys, focusable, listen, node, oncePerFrame, onNewRoom, pushButton, put, roomIn, setUp, slider, themeColours,
} from "../core.js";
import { sizeCanvas } from "../core_draw.js";
import {
  BARS_HEIGHT, BARS_WIDTH, drawBars, drawGraph, EDGE, GRAPH_HEIGHT, layout, letterColours, letterName, numberText,
  placeOf, pointAt, readBox,
} from "./draw.js";
import { comparison, insideText, makeInside, plain } from "./inside.js";
/** @import { Box, State, Step } from "./draw.js" */

const ARROW_SHARE = 100; // an arrow key in the graph goes this part of the line
const TOLD_PLACES = 3; // places of a letter in the list; of more it says how many
const TOP_FEATURES = 3; // that a screen reader is told of a vector
const THUMB = [96, 34];

const WHAT_TO_DO =
  "Turn t. The output moves in steps: cross them, count the different vectors, say how many heads there are";

const GRAPH_KEYS = "Arrow keys turn t; Page Up and Page Down go to the step before and after.";

function render({ model, el }) {
  const { root, say, onTheme, atEnd, dispose } = setUp(el, "sealed-box", "Sealed box");
  const box = readBox(model);
  /** @returns {State} */
  const state = () => ({
    at: pointAt(box, model.get("t")),
    seen: model.get("steps_seen").map((number) => box.steps[number]),
    opened: model.get("opened"),
  });
  const go = (to) => {
    const news = goTo(model, box, state().at, Math.max(0, Math.min(box.points - 1, to)));
    if (news.length) say(crossedText(box, news, state()));
  };
  const leap = (way) => {
    const to = plateauBeside(box, state().at, way);
    if (to !== undefined) go(to);
  };

  const controls = makeControls(box, go, leap);
  const remark = node("p", { class: "remark" }, box.remark);
  remark.hidden = !box.remark;
  const graph = makeGraph(root, box, state, go, leap);
  const written = makeWritten(root, box);
  const inside = makeInside(root, box, (opened) => put(model, "opened", opened));
  const task = node("p", {}, WHAT_TO_DO + (box.heads ? ", then open the box." : "."));
  root.append(task, controls.box, remark, graph.box, ...written.elements, ...inside.elements);

  const draw = () => {
    const now = state(), room = roomIn(root);
    const where = room ? layout(box, room) : null;
    controls.show(now);
    graph.show(now, where);
    written.show(now);
    inside.show(now, where);
  };
  const redraw = oncePerFrame(draw);
  atEnd(listen(model, ["t", "steps_seen", "opened"], redraw));
  const found = () => `${comparison(box, state())} ${insideText(box, state())}`;
  atEnd(listen(model, ["opened"], () => say(state().opened ? found() : "The lid is on.")));
  atEnd(onNewRoom(root, redraw));
  onTheme(redraw);
  draw();
  return dispose;
}

/** Go to a point and remember the steps on the way; returns those that are new. @param {Box} box */
function goTo(model, box, from, to) {
  if (from === to) return [];
  const [low, high] = [Math.min(from, to), Math.max(from, to)];
  const before = model.get("steps_seen");
  const news = box.steps.filter(({ number, middle }) => low <= middle && middle < high && !before.includes(number));
  if (news.length) model.set("steps_seen", [...before, ...news.map(({ number }) => number)].sort((a, b) => a - b));
  put(model, "t", placeOf(box, to)); // one message with both, so that Python has nothing to add
  return news;
}

/** The middle of the next plateau to the right (`way` 1) or to the left (-1), undefined at the end. @param {Box} box */
function plateauBeside({ plateaus }, at, way) {
  const ahead = plateaus.filter(([first, last]) => (way > 0 ? first > at : last < at));
  const next = way > 0 ? ahead[0] : ahead.at(-1);
  return next && (next[0] + next[1]) >> 1;
}

/** @param {Box} box @param {Step[]} news @param {State} state */
function crossedText(box, news, { seen }) {
  const names = news.map(({ letter, middle }) => `${letterName(letter)} near t = ${tText(box, middle)}`);
  const count = new Set(seen.map(({ letter }) => letter)).size;
  return `Crossed ${names.join(", ")}. ${plain(count, "different vector")} so far.`;
}

const tText = (box, at) => numberText(placeOf(box, at), box.digits);

/** The steps to the left and right, and t. @param {Box} box */
function makeControls(box, go, leap) {
  const back = pushButton("◀ Previous step", () => leap(-1));
  const on = pushButton("Next step ▶", () => leap(1));
  const t = slider("t", { min: 0, max: box.points - 1, step: 1 }, (at) => tText(box, at), go);
  return {
    box: node("div", { class: "controls" }, back, on, t.box),
    /** @param {State} state */
    show({ at }) {
      t.show(at);
      // Not `disabled`: a button that has the focus would lose it.
      back.setAttribute("aria-disabled", plateauBeside(box, at, -1) === undefined);
      on.setAttribute("aria-disabled", plateauBeside(box, at, 1) === undefined);
    },
  };
}

/** The lines along t, in which t can be dragged, and the bars of the present vector. @param {Box} box */
function makeGraph(root, box, state, go, leap) {
  const limits = { "aria-valuemin": -box.reach, "aria-valuemax": box.reach };
  const named = { class: "lines", role: "slider", "aria-label": "t in the graph", "aria-description": GRAPH_KEYS };
  const lines = focusable(node("canvas", { ...named, ...limits }));
  const bars = node("canvas", { role: "img" });
  const heading = node("div", { class: "heading" }, "What the second token adds: a line for each feature");
  const beside = node("div", { class: "heading" }, "At t: a bar for each feature");
  const kept = {};
  let last = null; // the layout as last drawn
  const far = Math.max(1, Math.round(box.points / ARROW_SHARE));
  const by = (points) => () => go(state().at + points);
  bindKeys(lines, {
    ArrowLeft: by(-far),
    ArrowDown: by(-far),
    ArrowRight: by(far),
    ArrowUp: by(far),
    Home: () => go(0),
    End: () => go(box.points - 1),
    PageUp: () => leap(-1),
    PageDown: () => leap(1),
  });
  const drag = ({ offsetX }) => last && go(last.at(offsetX));
  lines.addEventListener("pointerdown", (event) => {
    if (event.isTrusted) lines.setPointerCapture(event.pointerId);
    drag(event);
  });
  lines.addEventListener("pointermove", (event) => event.buttons && drag(event));
  const parts = [node("div", {}, heading, lines), node("div", {}, beside, bars)];
  return {
    box: node("div", { class: "stage" }, ...parts),
    /** @param {State} now */
    show(now, where) {
      const vector = box.moved.subarray(now.at * box.width, (now.at + 1) * box.width);
      lines.setAttribute("aria-valuenow", placeOf(box, now.at));
      lines.setAttribute("aria-valuetext", `${tText(box, now.at)}, ${plain(now.seen.length, "step")} crossed so far`);
      bars.setAttribute("aria-label", `The vector at t = ${tText(box, now.at)}: ${largest(vector, box.most)}`);
      last = where;
      if (!where) return;
      const paint = themeColours(root);
      drawGraph(lines, kept, box, now, where, paint);
      const [wide, tall] = where.beside ? [BARS_WIDTH, GRAPH_HEIGHT] : [where.room, BARS_HEIGHT];
      const middle = where.beside ? where.middle : tall / 2;
      const high = (where.beside ? where.middle - where.y(box.most) : tall * 0.46) / box.most;
      const place = { left: where.beside ? 8 : EDGE.left, right: wide - EDGE.right, middle, high };
      drawBars(sizeCanvas(bars, wide, tall), vector, place, paint);
    },
  };
}

/** Name the largest features of a vector. @param {Float32Array} vector @param {number} most what is large */
function largest(vector, most) {
  if (vector.every((x) => Math.abs(x) < 1e-6 * most)) return "0 in every feature";
  const order = [...vector.keys()].sort((a, b) => Math.abs(vector[b]) - Math.abs(vector[a])).slice(0, TOP_FEATURES);
  return order.map((i) => `feature ${i} ${Number(vector[i].toPrecision(2))}`).join(", ") + ", the largest";
}

/** What was written: each vector that was seen, with its letter, once. @param {Box} box */
function makeWritten(root, box) {
  const count = node("span", { class: "note" });
  const list = node("ul", { class: "written" });
  const none = node("p", { class: "note" }, "Nothing yet: go over a step.");
  let shown = "";
  const item = (letter, steps) => {
    const { fill, ink } = letterColours(letter);
    const vector = box.vectors.subarray(letter * box.width, (letter + 1) * box.width);
    const most = vector.reduce((longest, x) => Math.max(longest, Math.abs(x)), 0);
    const label = `Vector ${letterName(letter)}: ${largest(vector, most)}`;
    const picture = node("canvas", { role: "img", "aria-label": label });
    const place = { left: 0, right: THUMB[0], middle: THUMB[1] / 2, high: THUMB[1] / 2 / most };
    drawBars(sizeCanvas(picture, ...THUMB), vector, place, themeColours(root));
    const at = ({ sign, middle }) => `${sign > 0 ? "added" : "taken away"} at t\u00a0≈\u00a0${tText(box, middle)}`;
    const more = steps.length > TOLD_PLACES ? ` and ${steps.length - TOLD_PLACES} more` : "";
    const text = steps.slice(0, TOLD_PLACES).map(at).join(", ") + more;
    const style = `background:${fill};color:${ink}`;
    return node("li", {}, node("i", { style }, letterName(letter)), picture, node("span", {}, text));
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
      const steps = plain(seen.length, "step");
      count.textContent = letters.length ? `: ${plain(letters.length, "different vector")} in ${steps}` : "";
      list.replaceChildren(...letters.map((one) => item(one, seen.filter(({ letter }) => letter === one))));
    },
  };
}

export default { render };
