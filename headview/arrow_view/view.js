// ArrowView in the browser: arrows to drag in a plane, and beside it what follows from them.

import { LINE_COLOURS } from "../colours.js";
import {
  bindDrag, bindKeys, focusable, node, oncePerFrame, pushButton, put, setAll, setUp, softmax, svgNode, tickBox,
} from "../core.js";
import { shorten } from "../core_draw.js";

const REACH = 3, EDGE = 0.35; // the plane goes as far on each side, with room for a handle
const STEP = 0.1; // of an arrow key
const LONGEST = 12; // letters of a name in the plane
const SHARP = 20; // a dragged end goes in steps of 1 / SHARP
const keep = (x) => Math.max(-REACH, Math.min(REACH, Math.round(x * SHARP) / SHARP));

function render({ model, el }) {
  const { root, say, drawOn, dispose } = setUp(el, "arrow-view", "A query among keys, as arrows");
  const names = model.get("names"), first = { query: model.get("query"), places: model.get("places") };
  const scale = tickBox("divide scores by √2 (head_dim is 2)", (on) => put(model, "scaled", on));
  const reset = pushButton("Reset", () => Object.entries(first).forEach(([name, value]) => put(model, name, value)));
  const size = REACH + EDGE;
  const axes = svgNode("path", { d: `M${-REACH} 0H${REACH}M0 ${-REACH}V${REACH}`, class: "axes" });
  const plane = svgNode("svg", { viewBox: `${-size} ${-size} ${2 * size} ${2 * size}`, class: "plane" }, axes);
  const place = (which) => (which < 0 ? model.get("query") : model.get("places")[which]);
  const move = (which, x, y) => {
    const end = [keep(x), keep(y)];
    if (which < 0) put(model, "query", end);
    else put(model, "places", model.get("places").map((old, i) => (i === which ? end : old)));
  };
  const arrows = [...names.keys(), -1].map((which) => makeArrow(plane, which < 0 ? "query" : names[which], {
    at: () => place(which), move: (x, y) => move(which, x, y),
  }));
  const rows = names.map(makeRow), line = makeLine(model.get("values"));
  const table = node("div", { class: "rows" }, ...["", "q · k", "weight"].map((text) => node("b", {}, text)));
  rows.forEach((row) => table.append(...row.cells));
  const right = node("div", { class: "right" }, table, line.box);
  root.append(node("div", { class: "controls" }, scale.box, reset), node("div", { class: "both" }, plane, right));

  function draw() {
    const [x, y] = model.get("query"), dark = root.classList.contains("dark");
    const colours = [...LINE_COLOURS[dark ? "dark" : "light"].slice(0, names.length), "var(--ink)"];
    const root2 = model.get("scaled") ? Math.SQRT2 : 1;
    const scores = model.get("places").map(([a, b]) => (a * x + b * y) / root2);
    const weights = softmax(scores);
    arrows.forEach((arrow, i) => arrow.show(colours[i], weights[i]));
    rows.forEach((row, i) => row.show(scores[i], weights[i], colours[i]));
    scale.input.checked = model.get("scaled");
    say(line.show(weights, colours));
  }
  drawOn(model, ["query", "places", "scaled"], draw);
  return dispose;
}

/** An arrow from the middle, whose end can be dragged, or moved by the arrow keys. */
function makeArrow(plane, name, { at, move }) {
  const shaft = svgNode("line", { x1: 0, y1: 0, class: "shaft" }), label = svgNode("text", {}, shorten(name, LONGEST));
  const handle = svgNode("circle", { r: 0.17, role: "img", tabindex: 0 });
  plane.append(shaft, label, handle);
  const drag = oncePerFrame(() => move(...wanted));
  let wanted = at();
  bindDrag(handle, ({ clientX, clientY }) => {
    const { x, y } = new DOMPoint(clientX, clientY).matrixTransform(plane.getScreenCTM().inverse());
    wanted = [x, -y]; // up is up
    drag();
  }, () => null); // taken hold of, it stays where it is
  const go = (dx, dy) => () => move(at()[0] + dx, at()[1] + dy);
  bindKeys(focusable(handle), {
    ArrowLeft: go(-STEP, 0), ArrowRight: go(STEP, 0), ArrowUp: go(0, STEP), ArrowDown: go(0, -STEP),
  });
  return {
    show(colour, weight = 1) {
      const [x, y] = at(), left = x < 0;
      const told = `${name}, at ${x.toFixed(2)} and ${y.toFixed(2)}; arrow keys move it`;
      setAll(shaft, { x2: x, y2: -y, stroke: colour, "stroke-width": 0.04 + 0.1 * weight });
      setAll(handle, { transform: `translate(${x} ${-y})`, fill: colour, "aria-label": told });
      setAll(label, { x: x + (left ? -0.25 : 0.25), y: -y + 0.1, fill: colour, "text-anchor": left ? "end" : "start" });
      // A name that would leave the plane is written over its end.
      if (Math.abs(x) > 1.6) setAll(label, { x, y: -y - 0.28, "text-anchor": left ? "start" : "end" });
    },
  };
}

/** Name, score and weight of a key. */
function makeRow(name) {
  const score = node("span", { class: "number" }), bar = node("i"), weight = node("span", { class: "number" });
  const label = node("span", {}, name);
  return {
    cells: [label, score, node("span", { class: "bar" }, bar, weight)],
    show(s, w, colour) {
      label.style.color = colour;
      score.textContent = s.toFixed(2);
      weight.textContent = w.toFixed(2);
      bar.style.cssText = `width: calc(${100 * w}% - ${36 * w}px); background: ${colour}`;
    },
  };
}

/** The values on a line, each as large as its weight, and the mixture, where they balance. */
function makeLine(values) {
  const low = Math.min(...values), span = Math.max(...values) - low || 1;
  const spot = (value) => 10 + (180 * (value - low)) / span;
  const axis = svgNode("path", { d: "M4 20H196", class: "axes" });
  const dots = values.map((value) => svgNode("circle", { cx: spot(value), cy: 20 }));
  const numbers = values.map((value) => svgNode("text", { x: spot(value), y: 7, "text-anchor": "middle" }, value));
  const mark = svgNode("path", { d: "M0 23L5 32H-5Z", class: "mark" });
  const said = svgNode("text", { y: 42, class: "mixture" });
  const svg = svgNode("svg", { viewBox: "0 0 200 46", class: "values" }, axis, ...dots, ...numbers, mark, said);
  return {
    box: node("div", {}, node("b", {}, "mixture of the values"), svg),
    show(weights, colours) {
      const mixture = weights.reduce((sum, weight, i) => sum + weight * values[i], 0), x = spot(mixture);
      dots.forEach((dot, i) => setAll(dot, { r: 1 + 7 * Math.sqrt(weights[i]), fill: colours[i] }));
      setAll(mark, { transform: `translate(${x})` });
      setAll(said, { x, "text-anchor": x < 40 ? "start" : x > 160 ? "end" : "middle" });
      return (said.textContent = mixture.toFixed(2));
    },
  };
}

export default { render };
