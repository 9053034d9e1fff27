// Heads as text: the tokens as they stand, each on the colour of the weight that it gets from the chosen query, or
// gives to the chosen key. One text where queries and keys are the same, else that of the queries above the other.

import { choice, node, put } from "../core.js";
import { cssColour, hatchColour, lyingScale, maskedPixel, NAN_PIXEL, shorten, sizeCanvas } from "../core_draw.js";
import { lyingEnds, pixelsOf } from "./draw.js";
import { activeBeside } from "./hover.js";
import { placeName } from "./sample.js";
import { notHere } from "./selection.js";
import { dressRun, makeRun, numbersOf } from "./text_spans.js";

const MOST_SPANS = 2000; // of all texts together

/** Are queries and keys the same text? @param {Weights} w */
export function isOneText(w) {
  const [queries, keys] = [0, 1].map((axis) => w.labels(axis, "both"));
  return w.queries === w.keys && queries.every((label, i) => label === keys[i]);
}

// ---------------------------------------------------------------- elements

/** Make the place of the text, its runs described by `help`. Returns it, for `view.page.text`. @param {View} view */
export function makeText(view, help) {
  const { model } = view, title = node("strong", { class: "title" });
  const direction = choice("Weights", [["from", ""], ["to", ""]], (value) => put(model, "direction", value));
  const bar = node("canvas", { class: "scale", role: "img" });
  const head = node("div", { class: "controls" }, title, direction.box, bar);
  const runs = node("div", { class: "runs" });
  const box = node("div", { class: "text", hidden: true }, head, runs);
  return { help, box, title, direction, bar, runs, made: [], id: "", ranges: [null, null] };
}

/** Make the runs of text that a frame shows, one or two for each map. @param {View} view */
function fillTexts(view, { w, shown }, plan) {
  const { text } = view.page, active = activeBeside(text.runs), held = text.made.findIndex(({ run }) => run === active);
  text.made = shown.frames.flatMap((frame, n) => (
    plan.map(({ axis, range }) => makeRun(view, w, frame, n, axis, range, plan.length === 1))));
  text.runs.replaceChildren(...text.made.flatMap(({ caption, run }) => (caption ? [caption, run] : [run])));
  if (held >= 0) text.made[held]?.run.focus({ preventScroll: true }); // the hand stays where it was
}

// ---------------------------------------------------------------- a frame

/** Which part of an axis is text: what is in sight, of too much what is around a place; as before while that does. */
function rangeInSight(before, from, to, size, most, place) {
  const first = Math.max(0, Math.floor(from)), end = Math.min(size, Math.ceil(to)), long = Math.min(most, end - first);
  const holds = ([start, stop]) => place >= start && place < stop;
  if (end - first <= most && holds([first, end])) return [first, end];
  if (before && before[1] - before[0] === long && before[1] <= size && holds(before)) return before;
  const start = Math.max(0, Math.min(size - long, place - (long >> 1)));
  return [start, start + long];
}

/**
 * Show the tokens as text, coloured by what the token in front gives or gets. Returns what there is to be said of it.
 * @param {Scene} scene
 */
export function drawText(canvas, scene) {
  const { view, w, shown, win, cursor, isolated, direction, look, paint } = scene, { text } = view.page;
  const chosen = direction === "to" ? 1 : 0, front = isolated || { axis: chosen, place: cursor[chosen] };
  const oneText = isOneText(w), axes = oneText ? [chosen] : [0, 1];
  const most = Math.max(1, Math.floor(MOST_SPANS / (shown.frames.length * axes.length)));
  const sizes = shown.source.places.map((places) => places.length);
  const plan = axes.map((axis) => {
    const range = rangeInSight(text.ranges[axis], win[2 * axis], win[2 * axis + 1], sizes[axis], most, cursor[axis]);
    return { axis, range: (text.ranges[axis] = range) };
  });
  const id = JSON.stringify([shown.frames.map(({ source, title }) => [source.key, title]), plan, w.part, w.sample]);
  if (text.id !== id) fillTexts(view, scene, plan);
  text.id = id;
  text.box.style.width = `${scene.layout.room}px`;
  text.box.style.setProperty("--masked", cssColour(maskedPixel(look.dark))); // as in the map
  text.box.style.setProperty("--hatch", hatchColour(look.dark));
  text.box.style.setProperty("--missing", cssColour(NAN_PIXEL));
  let waits = false;
  for (const one of text.made) {
    const { source, scale, title, side } = shown.frames[one.n], takes = oneText || one.axis !== front.axis;
    const values = takes ? numbersOf(view, source, front, [one.first, one.first + one.spans.length]) : null;
    waits ||= takes && !values;
    dressRun(one, values, scale, scene, source.places[one.axis], one.axis === chosen);
    const what = `${one.alone ? "Text" : `Text of the ${w.axes[one.axis]}`} of ${one.spans.length} tokens`;
    one.run.setAttribute("aria-label", `${title && `${title}: `}${what}, weights ${ofToken(w, front, source, side)}`);
  }
  nameText(text, scene, front);
  const { scale } = shown.frames[0], ends = lyingEnds(scale);
  lyingScale(sizeCanvas(text.bar, 240, 16), pixelsOf(scale, look), ends, 0, 8, paint.ink);
  text.bar.setAttribute("aria-label", `Colours from ${ends.join(" to ")}`);
  const cut = plan.filter(({ axis, range }) => range[1] - range[0] < sizes[axis]);
  const counted = cut.map(({ axis, range: [first, end] }) => (
    `${w.axes[axis]} ${first}–${end - 1} of ${sizes[axis].toLocaleString("en")}`));
  const said = (counted.length ? `The text shows ${counted.join(", ")}. ` : "") +
    (waits ? notHere(view, "The numbers of this token are") : "");
  return { frames: [], win, said };
}

/** Say from or to which token the weights of a text are. @param {Weights} w */
function ofToken(w, { axis, place }, { places }, side, most = Infinity) {
  const token = `${w.axes[axis]} ${placeName(w.labels(axis, side), places[axis][place])}`;
  return `${axis ? "to" : "from"} ${shorten(token, most)}`;
}

/**
 * Write which heads the text shows, and from which token.
 * @param {ReturnType<typeof makeText>} text @param {Scene} scene
 */
function nameText({ title, direction }, { w, shown, view, direction: chosen }, front) {
  const heads = w.meta.name ? `${w.meta.name}, ${shown.title}` : shown.title;
  title.textContent = `${heads}, ${ofToken(w, front, shown.source, view.model.get("side"), 40)}`;
  const [from, to] = direction.input.options;
  from.textContent = `from the ${w.axes[0]}`;
  to.textContent = `to the ${w.axes[1]}`;
  direction.show(chosen);
}
