// ReshapeView: cells that walk from one station of a reshape to the next. What each station looks like, and what is
// told about it, comes from Python, where torch made it; here it is only laid out, drawn and moved.

import { GROUP_COLOURS } from "../colours.js";
import {
  bindKeys, choice, focusable, listen, node, oncePerFrame, onNewRoom, pushButton, put, roomIn, setUp, slider,
  tellUnderPointer, themeColours, tooltip,
} from "../core.js";
import { sizeCanvas } from "../core_draw.js";
import { chosenNews, inBrackets, MEMORY_WORDS, stateOf, stepNews, tell, wrongOf } from "./cells.js";
import { drawPicture, inkOn, titleWidth } from "./draw.js";
import { labelAt, layout, neighbour } from "./layout.js";
/** @import { State } from "./cells.js" */
/** @import { Layout } from "./layout.js" */

const PATH_NAMES = [
  ["split", "split: view, transpose"],
  ["merge", "merge: transpose, contiguous…"],
  ["fold", "fold as d2l does"],
  ["wrong split", "wrong split: view only"],
  ["wrong merge", "wrong merge: reshape only"],
];
const WALK_MS = 600; // how long cells walk; a key or a click in the picture ends it at once

function render({ model, el }) {
  const { root, say, onTheme, atEnd, dispose } = setUp(el, "reshape-view", "ReshapeView: where each number goes");
  const state = () => stateOf(model);
  const go = (to) => {
    const { step, stations } = state();
    if (to >= 0 && to < stations.length && to !== step) put(model, "step", to);
  };
  const controls = makeControls(model, state, go);
  const above = makeFacts();
  const below = makeJourney();
  const canvas = node("canvas", { role: "application", "aria-roledescription": "tensor" });
  root.append(controls.box, ...above.elements, canvas, ...below.elements);
  const picture = makePicture(root, canvas, state);

  let news = ""; // what a screen reader is told at the next frame
  const show = () => [controls, above, below, picture].forEach((part) => part.show(state()));
  const update = oncePerFrame(() => {
    show();
    if (news) say(news);
    news = "";
  });
  listenToPicture(model, canvas, state, picture, go);
  tellUnderPointer(canvas, tooltip(root), (event) => {
    const label = picture.labelAt(event);
    if (label === undefined) return null; // beside all cells
    const { name, places, offset } = tell(state(), label);
    return `${name}; at ${places.at(-1)}, place ${offset} in memory`;
  });
  const moved = () => {
    picture.walk();
    news = stepNews(state());
    update();
  };
  const chosen = () => {
    news = chosenNews(state());
    update();
  };
  atEnd(listen(model, ["path", "step"], moved));
  atEnd(listen(model, ["chosen"], chosen));
  atEnd(listen(model, ["colour_by"], update));
  atEnd(onNewRoom(root, picture.redraw));
  onTheme(picture.redraw);
  show();
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
  const back = pushButton("◀ Back", by(-1));
  const forward = pushButton("Forward ▶", by(1));
  for (const button of [back, forward]) bindKeys(button, { ArrowLeft: by(-1), ArrowRight: by(1) });
  const ofAll = (step) => `${step} of ${state().stations.length - 1}`;
  const steps = slider("Step", { min: 0, max: 1, step: 1 }, ofAll, go);
  const stepping = node("div", { class: "stepping" }, back, steps.box, forward);
  return {
    box: node("div", { class: "controls" }, paths.box, colours.box, stepping),
    show({ path, colourBy, step, stations }) {
      paths.show(path);
      colours.show(colourBy);
      steps.input.max = stations.length - 1;
      steps.show(step);
      // Not `disabled`: a button that has the focus would lose it.
      back.setAttribute("aria-disabled", step === 0);
      forward.setAttribute("aria-disabled", step === stations.length - 1);
    },
  };
}

/** What stands above the picture: the code, what torch says of the tensor, the legend. Returns `{elements, show}`. */
function makeFacts() {
  const code = node("pre", { class: "code" });
  const table = node("div", { class: "facts" });
  const legend = node("div", { class: "legend note" });
  const fact = (name, value, why) => node("div", {}, name, node("b", {}, value), why);
  return {
    elements: [code, table, legend],
    show(w) {
      const { shape, axes, strides, contiguous, memory } = w.station;
      const order = contiguous ? ["yes", "read in the order of memory"] : ["no", "reading in order jumps in memory"];
      code.textContent = w.station.code;
      table.replaceChildren(
        fact("Shape", inBrackets(shape), inBrackets(axes)),
        fact("Strides", inBrackets(strides), "places in memory, per step on each axis"),
        fact("Contiguous", ...order),
        fact("View or copy", ...MEMORY_WORDS[memory]),
      );
      const [rows, columns] = w.station.counts.slice(-2);
      legend.replaceChildren(node("span", {}, `rows: ${rows}, columns: ${columns}`), ...swatches(w));
    },
  };
}

/** For each token or head a patch of colour, with the dots that it has in the picture. @param {State} w */
function swatches({ sizes, colourBy }) {
  const count = colourBy === "token" ? sizes.tokens : sizes.num_heads;
  return GROUP_COLOURS.slice(0, count).map((colour, group) => {
    const style = `background:${colour};color:${inkOn(colour)}`;
    const patch = node("i", { "aria-hidden": "true", style }, "·".repeat(group));
    const first = group * sizes.head_dim;
    const features = sizes.head_dim === 1 ? `feature ${first}` : `features ${first}–${first + sizes.head_dim - 1}`;
    return node("span", {}, patch, colourBy === "token" ? `token ${group}` : `head ${group}: ${features}`);
  });
}

/** What stands below the picture: the mistake, and the way of the chosen number. Returns `{elements, show}`. */
function makeJourney() {
  const mistake = node("p", { class: "mistake" });
  const journey = node("p");
  const place = node("p", { class: "note" });
  const help =
    "Click a number to follow it, or use the arrow keys in the picture; Page Up and Page Down go back and forward.";
  return {
    elements: [mistake, journey, place, node("p", { class: "note" }, help)],
    show(w) {
      const { name, places, offset, sum, astray } = tell(w);
      mistake.hidden = !w.station.mistake;
      mistake.replaceChildren(...(wrongOf(w.station).size ? [node("b", {}, "!"), " "] : []), w.station.mistake);
      const way = places.slice(0, -1).map((index) => `${index} → `).join("");
      journey.replaceChildren(`${name}: ${way}`, node("strong", {}, places.at(-1)), ` ${astray}`);
      place.textContent = `Place ${offset} in memory = ${sum}, its index times the strides.`;
    },
  };
}

/**
 * The canvas, and the cells on their way. Returns `{show, redraw, walk, arrive, labelAt, grid}`: `walk()` lets the
 * cells set out from where they are, `arrive()` puts them where they go; `labelAt(event)` is the label under a pointer.
 */
function makePicture(root, canvas, state) {
  const walk = makeWalk();
  /** @type {Layout | undefined} */
  let where; // as last drawn
  const paint = (w) => {
    const width = roomIn(root);
    if (!width) return;
    if (width !== where?.width) walk.stop(); // a new width is no journey
    const context = canvas.getContext("2d");
    where = layout(w, width, (title) => titleWidth(context, title));
    sizeCanvas(canvas, width, where.height);
    const { places, arrived } = walk.now(where.places);
    drawPicture(context, w, where, places, arrived, themeColours(root));
    if (!arrived) redraw();
  };
  const redraw = oncePerFrame(() => paint(state()));
  return {
    show(w) {
      const { name, places, astray } = tell(w);
      const shape = `Tensor of shape ${inBrackets(w.station.shape)}`;
      const keys = "Arrow keys choose a number, Page Up and Page Down go back and forward.";
      canvas.setAttribute("aria-label", `${shape}. ${name}, at ${places.at(-1)}. ${astray} ${keys}`);
      paint(w);
    },
    redraw,
    walk: () => where && walk.start(walk.now(where.places).places),
    arrive() {
      walk.stop();
      redraw();
    },
    labelAt: ({ offsetX, offsetY }) => where && labelAt(where, walk.now(where.places).places, offsetX, offsetY),
    grid: () => where?.grid,
  };
}

/** Cells on their way from one station to the next. Returns `{start, stop, now}`. */
function makeWalk() {
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  let from = null;
  let started = 0;
  return {
    start(places) {
      if (still.matches) return;
      from = places;
      started = performance.now();
    },
    stop: () => (from = null),
    /** Where the cells are that go to `goal`, and whether they have arrived there. */
    now(goal) {
      const share = from ? Math.min(1, (performance.now() - started) / WALK_MS) : 1;
      if (share === 1) return { places: goal, arrived: true };
      const eased = share < 0.5 ? 2 * share * share : 1 - 2 * (1 - share) * (1 - share);
      const between = (label, to) => to.map((end, i) => from.get(label)[i] * (1 - eased) + end * eased);
      return { places: new Map([...goal].map(([label, to]) => [label, between(label, to)])), arrived: false };
    },
  };
}

/** Let the reader choose a number and step, by pointer and by keys. */
function listenToPicture(model, canvas, state, picture, go) {
  canvas.addEventListener("pointerdown", (event) => {
    picture.arrive();
    const label = picture.labelAt(event);
    if (label !== undefined) put(model, "chosen", label);
  });
  const choose = (dx, dy) => () => {
    const label = picture.grid() && neighbour(state(), picture.grid(), dx, dy);
    if (label !== undefined) put(model, "chosen", label);
  };
  canvas.addEventListener("keydown", picture.arrive); // any key
  focusable(canvas);
  bindKeys(canvas, {
    ArrowLeft: choose(-1, 0),
    ArrowRight: choose(1, 0),
    ArrowUp: choose(0, -1),
    ArrowDown: choose(0, 1),
    PageUp: () => go(state().step - 1),
    PageDown: () => go(state().step + 1),
  });
}

export default { render };
