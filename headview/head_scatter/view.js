// HeadScatter in the browser: a point for each head over two measures, and beside it what the chosen head does.

import { bindKeys, bytesOf, choice, focusable, node, plural, put, setAll, setUp, svgNode } from "../core.js";
import { cssColour, inkStyle, weightPixels } from "../core_draw.js";

const WIDE = 400, HIGH = 330, LEFT = 42, LOW = 292, RIGHT = 380, TOP = 22; // of the plane and of its axes
const FIRST_INK = 30; // of 255, for the first layer; the last has all
const SHOWN_LAYERS = 12; // up to so many have a name beside their ink
const PARTS = 4; // mean, half an interval, .05 and .95

function render({ model, el }) {
  const { root, say, drawOn, dispose } = setUp(el, "head-scatter", "Heads over two measures");
  const names = model.get("names"), labels = model.get("labels"), [layers, heads, texts, kept] = model.get("sizes");
  const numbers = bytesOf(model, "numbers", Float32Array), cells = bytesOf(model, "cells", Float32Array);
  const tokens = JSON.parse(new TextDecoder().decode(model.get("tokens"))), count = layers * heads;
  const ends = model.get("ends"), number = (measure, part, head) => numbers[(measure * PARTS + part) * count + head];

  const options = names.map((name) => [name, name]);
  const pickers = ["x", "y"].map((axis) => choice(axis === "x" ? "Across" : "Up", options, (name) => put(model, axis, name)));
  const axes = svgNode("g"), reach = svgNode("path", { class: "reach" }), ring = svgNode("circle", { r: 8, class: "ring" });
  const circles = labels.map(() => svgNode("circle", { r: 4.5, class: "head" }));
  const box = { viewBox: `0 0 ${WIDE} ${HIGH}`, class: "plane", role: "img" };
  const plane = svgNode("svg", box, axes, reach, ...circles, ring);
  const inks = [...Array(layers).keys()].map(() => node("i"));
  const legend = node("div", { class: "layers" }, ...inks.map((ink, layer) => node("span", {}, ink, ` layer ${layer}`)));
  legend.hidden = layers > SHOWN_LAYERS;
  const right = node("div", { class: "right" });
  root.append(
    node("div", { class: "controls" }, ...pickers.map((picker) => picker.box), node("span", { class: "note" },
      `${plural(count, "head")}, means over ${texts.toLocaleString("en")} texts. Click a point.`)),
    node("div", { class: "both" }, node("div", { class: "left" }, plane, legend), right),
  );

  const which = () => ["x", "y"].map((axis) => names.indexOf(model.get(axis)));
  const chosen = () => model.get("chosen")[0] * heads + model.get("chosen")[1];
  const choose = (head) => put(model, "chosen", [Math.floor(head / heads), head % heads]);
  const [across, up] = [[LEFT, RIGHT], [LOW, TOP]].map(([from, to]) => (measure, value) => {
    const [first, , last] = ends[measure]; // what lies beyond, as texts may, stands at the end
    return from + (to - from) * Math.max(0, Math.min(1, (value - first) / (last - first)));
  });
  const reaching = (measure) => `${names[measure]}, ${short(ends[measure][0])} to ${short(ends[measure][2])}`;
  const named = (head) => `layer ${Math.floor(head / heads)}, head ${head % heads}`;
  const spot = (head) => {
    const [x, y] = which();
    return [across(x, number(x, 0, head)), up(y, number(y, 0, head))];
  };

  plane.addEventListener("click", ({ clientX, clientY }) => {
    const { x, y } = new DOMPoint(clientX, clientY).matrixTransform(plane.getScreenCTM().inverse());
    const far = labels.map((_, head) => Math.hypot(spot(head)[0] - x, spot(head)[1] - y) || 1e9); // NaN is no place
    choose(far.indexOf(Math.min(...far)));
  });
  const go = (by) => () => choose((chosen() + by + count) % count);
  bindKeys(focusable(plane), { ArrowLeft: go(-1), ArrowRight: go(1), ArrowUp: go(-heads), ArrowDown: go(heads) });

  /**
   * A text at which the chosen head is strongest: the query in a frame, the key under ink.
   * @param {number[]} cell
   * @param {boolean} dark
   */
  function example([text, value, query, key, weight], dark) {
    const words = tokens[text];
    const shown = words.map((token, i) => {
      const kind = i === query ? "token query" : "token";
      return [node("span", { class: kind, style: i === key && inkStyle(weight, dark) }, token), " "];
    });
    const told = `${value.toFixed(2)} in this text; ${weight.toFixed(2)} of “${words[query]}” goes to “${words[key]}”`;
    return node("div", { class: "example" }, ...shown.flat(), node("small", {}, told));
  }
  function tell(dark) {
    const head = chosen(), on = which();
    const rows = names.flatMap((name, i) => {
      const [mean, half, low, high] = [0, 1, 2, 3].map((part) => number(i, part, head));
      const said = Number.isFinite(mean) ? [`${mean.toFixed(2)} ± ${half.toFixed(3)}`, `${low.toFixed(2)} to ${high.toFixed(2)}`]
        : ["in no text", ""];
      return [name, ...said].map((part) => node("span", { class: on.includes(i) ? "on" : false }, part));
    });
    const heads3 = ["", "mean", "nine of ten texts"].map((part) => node("span", { class: "note" }, part));
    const blocks = [...new Set(on)].flatMap((measure) => {
      const start = (measure * count + head) * kept * 5;
      const some = [...Array(kept).keys()].map((i) => [...cells.subarray(start + 5 * i, start + 5 * i + 5)]);
      const there = some.filter(([text]) => text >= 0).map((each) => example(each, dark));
      return [node("div", { class: "note" }, `Strongest in “${names[measure]}” (query framed, key inked):`), ...there];
    });
    const title = `${named(head)}: ${labels[head]}`;
    right.replaceChildren(node("div", { class: "title" }, title), node("div", { class: "means" }, ...heads3, ...rows), ...blocks);
    return title;
  }

  function draw() {
    const dark = root.classList.contains("dark"), [x, y] = which(), here = chosen();
    pickers.forEach((picker, i) => picker.show(names[[x, y][i]]));
    const inkOf = (layer) => cssColour(weightPixels(dark)[
      Math.round(FIRST_INK + ((255 - FIRST_INK) * layer) / Math.max(1, layers - 1))]);
    inks.forEach((ink, layer) => (ink.style.background = inkOf(layer)));
    axes.replaceChildren(svgNode("path", { d: `M${LEFT} ${TOP}V${LOW}H${RIGHT}`, class: "axes" }),
    ...ends[x].map((at) => svgNode("text", { x: across(x, at), y: LOW + 14, "text-anchor": "middle" }, short(at))),
    ...ends[y].map((at) => svgNode("text", { x: LEFT - 5, y: up(y, at) + 4, "text-anchor": "end" }, short(at))),
    svgNode("text", { x: (LEFT + RIGHT) / 2, y: HIGH - 8, "text-anchor": "middle", class: "name" }, reaching(x)),
    svgNode("text", { x: 4, y: 12, class: "name" }, reaching(y)));
    /** Put what belongs to a head at its place, if it has one; returns whether. */
    const place = (element, head, more = {}) => {
      const [cx, cy] = spot(head), there = Number.isFinite(cx + cy);
      element.style.display = there ? "" : "none";
      if (there) setAll(element, { cx, cy, ...more });
      return there;
    };
    circles.forEach((circle, head) => place(circle, head, { fill: inkOf(Math.floor(head / heads)) }));
    const [a, b] = [2, 3].map((part) => across(x, number(x, part, here)));
    const [c, d] = [2, 3].map((part) => up(y, number(y, part, here))), [cx, cy] = spot(here);
    if (place(ring, here)) setAll(reach, { d: `M${a} ${cy}H${b}M${cx} ${c}V${d}` });
    reach.style.display = ring.style.display;
    const title = tell(dark);
    plane.setAttribute("aria-label", `${count} heads, ${names[x]} across, ${names[y]} up; ${title}. Arrow keys choose another`);
    say(title);
  }
  drawOn(model, ["x", "y", "chosen"], draw);
  return dispose;
}

/** A number on an axis. @param {number} value */
const short = (value) => String(Number(value.toPrecision(3)));

export default { render };
