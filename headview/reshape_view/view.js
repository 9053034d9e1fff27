// ReshapeView: cells that walk from one station of a reshape to the next. What each station looks like, and what is
// told about it, comes from Python, where torch made it; here it is only laid out, drawn and moved.

import {
  bindKeys, choice, focusable, listen, node, oncePerFrame, pushButton, put, roomIn, setUp, slider, tellUnderPointer,
  themeColours, tooltip,
} from "../core.js";
import { groupColours, sizeCanvas } from "../core_draw.js";
import { drawPicture } from "./draw.js";
import { labelAt, layout, neighbour } from "./layout.js";
import { inBrackets, MEMORY_WORDS, stateOf, tell, wrongOf } from "./stations.js";
import { makeWalk } from "./walk.js";
/** @import { State } from "./stations.js" */
/** @import { Layout } from "./layout.js" */

const PATH_NAMES = [
  ["split", "split: view, transpose"],
  ["merge", "merge: transpose, contiguous…"],
  ["fold", "fold as d2l does"],
  ["wrong split", "wrong split: view only"],
  ["wrong merge", "wrong merge: reshape only"],
];
const WALK_MS = 600; // how long cells walk; a key or a click in the picture ends it at once
const HELP =
  "Click a number to follow it, or use the arrow keys in the picture; Page Up and Page Down go back and forward.";

function render({ model, el }) {
  const { root, say, drawOn, atEnd, dispose } = setUp(el, "reshape-view", "ReshapeView: where each number goes");
  const state = () => stateOf(model);
  const go = (to) => {
    const { step, stations } = state();
    if (to >= 0 && to < stations.length && to !== step) put(model, "step", to);
  };
  const controls = makeControls(model, state, go), words = makeWords();
  const canvas = node("canvas", { role: "application", "aria-roledescription": "tensor" });
  root.append(controls.box, ...words.above, canvas, ...words.below);
  const picture = makePicture(root, canvas, state);

  const show = () => [controls, words, picture].forEach((part) => part.show(state()));
  const tellNews = oncePerFrame(() => {
    const { step, stations } = state();
    show();
    say(`Step ${step} of ${stations.length - 1}: ${words.told()}`);
  });
  listenToPicture(model, canvas, state, picture, go);
  tellUnderPointer(canvas, tooltip(root), (event) => {
    const label = picture.labelAt(event);
    if (label === undefined) return null; // beside all cells
    const { name, places, offset } = tell(state(), label);
    return `${name}; at ${places.at(-1)}, place ${offset} in memory`;
  });
  atEnd(listen(model, ["path", "step"], () => {
    picture.walk();
    tellNews();
  }));
  atEnd(listen(model, ["chosen"], tellNews));
  drawOn(model, ["colour_by"], show);
  return dispose;
}

/** Path, colours, and the ways to step. Returns `{box, show}`. */
function makeControls(model, state, go) {
  const paths = choice("Path", PATH_NAMES, (path) => {
    model.set("path", path);
    put(model, "step", 0); // one message with both, so that Python has nothing to correct
  });
  const colourings = [["token", "token"], ["head", "head (features)"]];
  const colours = choice("Colour by", colourings, (colourBy) => put(model, "colour_by", colourBy));
  const by = (steps) => () => go(state().step + steps);
  const back = pushButton("◀ Back", by(-1)), forward = pushButton("Forward ▶", by(1));
  for (const button of [back, forward]) bindKeys(button, { ArrowLeft: by(-1), ArrowRight: by(1) });
  const steps = slider("Step", { min: 0, max: 1, step: 1 }, (step) => `${step} of ${state().stations.length - 1}`, go);
  const stepping = node("div", { class: "stepping" }, back, steps.box, forward);
  return {
    box: node("div", { class: "controls" }, paths.box, colours.box, stepping),
    /** @param {State} w */
    show({ path, colourBy, step, stations }) {
      paths.show(path);
      colours.show(colourBy);
      steps.input.max = String(stations.length - 1);
      steps.show(step);
      // Not `disabled`: a button that has the focus would lose it.
      back.setAttribute("aria-disabled", String(step === 0));
      forward.setAttribute("aria-disabled", String(step === stations.length - 1));
    },
  };
}

/** What stands above the picture, the code and what torch says of the tensor; and below, the way of the number. */
function makeWords() {
  const [code, facts, legend] = [["pre", "code"], ["div", "facts"], ["div", "legend note"]].map(([tag, kind]) =>
    node(tag, { class: kind }));
  const [mistake, journey, place, help] = ["mistake", "", "note", "note"].map((kind) => node("p", { class: kind }));
  help.textContent = HELP;
  const fact = (name, value, why) => node("div", {}, name, node("b", {}, value), why);
  return {
    above: [code, facts, legend],
    below: [mistake, journey, place, help],
    told: () => [journey, place, code, facts, mistake].map((part) => part.innerText).join(" "),
    /** @param {State} w */
    show(w) {
      const { shape, axes, strides, contiguous, memory, counts } = w.station;
      const order = contiguous ? ["yes", "read in the order of memory"] : ["no", "reading in order jumps in memory"];
      const { name, places, offset, sum, astray } = tell(w);
      code.textContent = w.station.code;
      facts.replaceChildren(
        fact("Shape", inBrackets(shape), inBrackets(axes)),
        fact("Strides", inBrackets(strides), "places in memory, per step on each axis"),
        fact("Contiguous", ...order),
        fact("View or copy", ...MEMORY_WORDS[memory]),
      );
      const [rows, columns] = counts.slice(-2);
      legend.replaceChildren(node("span", {}, `rows: ${rows}, columns: ${columns}`), ...swatches(w));
      mistake.hidden = !w.station.mistake;
      mistake.replaceChildren(...(wrongOf(w.station).size ? [node("b", {}, "!"), " "] : []), w.station.mistake);
      const way = places.slice(0, -1).map((index) => `${index} → `).join("");
      journey.replaceChildren(`${name}: ${way}`, node("strong", {}, places.at(-1)), ` ${astray}`);
      place.textContent = `Place ${offset} in memory = ${sum}, its index times the strides.`;
    },
  };
}

/** For each token or head a patch of colour, with the dots that it has in the picture. @param {State} w */
function swatches({ sizes, colourBy }) {
  return Array.from({ length: colourBy === "token" ? sizes.tokens : sizes.num_heads }, (_, group) => {
    const { fill, ink } = groupColours(group);
    const patch = node("i", { "aria-hidden": "true", style: `background:${fill};color:${ink}` }, "·".repeat(group));
    const first = group * sizes.head_dim, last = first + sizes.head_dim - 1;
    const features = first === last ? `feature ${first}` : `features ${first}–${last}`;
    return node("span", {}, patch, colourBy === "token" ? `token ${group}` : `head ${group}: ${features}`);
  });
}

/**
 * The canvas, and the cells on their way: `walk()` lets them set out from where they are, `arrive()` puts them where
 * they go; `labelAt(event)` is the label under a pointer, `where()` the layout as last drawn.
 */
function makePicture(root, canvas, state) {
  const walk = makeWalk(WALK_MS);
  /** @type {Layout | undefined} */
  let where;
  const paint = (w) => {
    const width = roomIn(root);
    if (!width) return;
    if (width !== where?.width) walk.stop(); // a new width is no journey
    where = layout(w, width);
    const { places, arrived } = walk.now(where.places);
    drawPicture(sizeCanvas(canvas, width, where.height), w, where, places, arrived, themeColours(root));
    if (!arrived) redraw();
  };
  const redraw = oncePerFrame(() => paint(state()));
  return {
    /** @param {State} w */
    show(w) {
      const { name, places, astray } = tell(w), shape = `Tensor of shape ${inBrackets(w.station.shape)}`;
      const keys = "Arrow keys choose a number, Page Up and Page Down go back and forward.";
      canvas.setAttribute("aria-label", `${shape}. ${name}, at ${places.at(-1)}. ${astray} ${keys}`);
      paint(w);
    },
    walk: () => where && walk.start(walk.now(where.places).places),
    arrive() {
      walk.stop();
      redraw();
    },
    labelAt: ({ offsetX, offsetY }) => where && labelAt(where, walk.now(where.places).places, offsetX, offsetY),
    where: () => where,
  };
}

/** Let the reader choose a number and step, by pointer and by keys. */
function listenToPicture(model, canvas, state, picture, go) {
  const choose = (label) => label !== undefined && put(model, "chosen", label);
  canvas.addEventListener("pointerdown", (event) => {
    picture.arrive();
    choose(picture.labelAt(event));
  });
  canvas.addEventListener("keydown", picture.arrive); // any key
  focusable(canvas);
  const beside = (dx, dy) => () => picture.where() && choose(neighbour(state(), picture.where(), dx, dy));
  bindKeys(canvas, {
    ArrowLeft: beside(-1, 0),
    ArrowRight: beside(1, 0),
    ArrowUp: beside(0, -1),
    ArrowDown: beside(0, 1),
    PageUp: () => go(state().step - 1),
    PageDown: () => go(state().step + 1),
  });
}

export { layout, stateOf }; // for who wants the places without the page
export default { render };
