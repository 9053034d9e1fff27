// A run of text in HeadView: tokens in spans, one each, on the colour of a weight. Text wraps, and runs to the right or
// to the left, as its language does; what is coloured changes without new elements. What a text shows is text.js's
// business.

import { bindKeys, focusable, node, walkKeys } from "../core.js";
import { cssColour, inkOn, shorten } from "../core_draw.js";
import { MASKED } from "./codes.js";
import { pixelsOf, shareOn } from "./draw.js";
import { isolate, pictureKeys } from "./hover.js";
import { joined } from "./map.js";
import { RIGHT_TO_LEFT, STEERING, visible } from "./sample.js";
import { cellText, here, rowTogether } from "./selection.js";
import { regionOf } from "./source.js";
import { moveAlong, PAGE } from "./view.js";

const LONGEST_TOKEN = 60; // characters
const CLOSING = /^[,.;:!?%)\]}’”…、。，！？]+$/u, OPENING = /^[([{“‘¿¡]+$/u;
const UNSPACED = /^[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Thai}、。，！？]+$/u;
const LEFT_TO_RIGHT = /\p{sc=Latin}|\p{sc=Greek}|\p{sc=Cyrillic}|\p{sc=Han}/gu;

/** Does a blank stand between two tokens of a text? `words`: their numbers, or two that are undefined. */
function isApart(before, after, words) {
  if (words[0] !== undefined && words[0] === words[1]) return false;
  return !(CLOSING.test(after) || OPENING.test(before) || (UNSPACED.test(before) && UNSPACED.test(after)));
}

/** Is most of a text written from the right? `special`: which of its labels stand for no text. */
function runsLeft(labels, special) {
  const text = labels.filter((_, i) => !special[i]).join(" ");
  const count = (letters) => (text.match(letters) || []).length;
  return count(RIGHT_TO_LEFT) > count(LEFT_TO_RIGHT);
}

/** Make one run: the tokens of an axis, from the first to before the end of `range`. @param {View} view */
export function makeRun(view, w, { side, source, title }, n, axis, [first, end], alone) {
  const labels = w.labels(axis, side), places = source.places[axis].slice(first, end);
  const numbers = w.words[axis] || [], texts = places.map((tokens) => joined(labels, tokens));
  const spaced = texts.some((text) => text.trim() && text.trim() !== text); // do labels carry the blanks between them?
  const shown = (text) => shorten(visible(text.replace(STEERING, ""), "↵\n"), LONGEST_TOKEN);
  const spans = texts.map((text) => node("span", {}, shown(text)));
  const children = spans.flatMap((span, i) => {
    const word = i ? [numbers[places[i - 1].at(-1)], numbers[places[i][0]]] : [];
    return i && !spaced && isApart(texts[i - 1], texts[i], word) ? [" ", span] : [span];
  });
  const special = texts.map((text) => w.meta.special.includes(text));
  const left = runsLeft(texts, special), about = { "aria-describedby": view.page.text.help, dir: left ? "rtl" : "ltr" };
  const run = focusable(node("div", { class: "run", role: "application", ...about }, ...children));
  const caption = [title, alone ? "" : `${w.axes[axis]} text`].filter(Boolean).join(", ");
  const one = {
    run, spans, axis, first, n, left, alone, special, shown: [], chosen: -1,
    caption: caption && node("div", { class: "caption" }, caption),
  };
  bindRun(view, one);
  return one;
}

// ---------------------------------------------------------------- colours

/**
 * Dress the tokens of a run: on the colours of numbers, plain where there are none; the cursor's outlined, what was
 * searched for marked. Touches only what changes.
 * @param {ReturnType<typeof makeRun>} one @param {boolean} chooses is the cursor's token of this axis in front?
 */
export function dressRun(one, values, scale, { look, cursor, found }, places, chooses) {
  const share = shareOn(scale), table = pixelsOf(scale, look), { spans, first, axis, alone } = one;
  const at = cursor[axis] - first, other = alone ? cursor[1 - axis] - first : -1;
  spans.forEach((span, i) => {
    const value = values?.[i], number = value > MASKED, special = one.special[i];
    const pixel = table[Math.round(share(value) * 255)], colour = number ? cssColour(pixel) : "";
    const marks = {
      special, masked: value === MASKED, missing: Number.isNaN(value), chosen: chooses && i === at,
      other: (i === at && !chooses) || (i === other && i !== at),
      found: places[first + i].some((token) => found[axis].has(token)),
    };
    const name = Object.keys(marks).filter((mark) => marks[mark]).join(" "), shown = `${name} ${colour}`;
    if (one.shown[i] === shown) return;
    one.shown[i] = shown;
    span.className = name;
    Object.assign(span.style, { backgroundColor: colour, color: number ? inkOn(pixel) : "" });
  });
  if (one.chosen !== at && spans[at]) keepInBox(one.run.parentElement, spans[at]);
  one.chosen = at;
}

/** The numbers of one token over a span of the other axis; null while they are not there. @param {View} view */
export function numbersOf(view, source, { axis, place }, [first, end]) {
  if (axis) return regionOf(source, [first, end, place, place + 1]);
  const row = view.isolated ? source.row(place) : rowTogether(view, source);
  return row?.cells.subarray(first, end) || null;
}

/** Scroll a box, never the page, as far as an element in it needs. */
function keepInBox(box, element) {
  const outer = box.getBoundingClientRect(), inner = element.getBoundingClientRect(), air = 8;
  if (inner.top < outer.top) box.scrollTop -= outer.top - inner.top + air;
  if (inner.bottom > outer.bottom) box.scrollTop += inner.bottom - outer.bottom + air;
}

// ---------------------------------------------------------------- pointer and keyboard

/** Let a run choose its tokens, by click and by key, and show the one under the pointer alone. @param {View} view */
function bindRun(view, { run, spans, axis, first, alone, left }) {
  const numbers = new Map(spans.map((span, i) => [span, first + i]));
  /** @param {"one" | "add"} [rows] */
  const choose = (place, rows) => moveAlong(view, axis, Math.max(0, place), rows);
  const leave = () => {
    isolate(view, null);
    view.tip.hide();
  };
  run.addEventListener("pointermove", (event) => {
    const place = numbers.get(event.target), { cursor: cell } = here(view) || {};
    if (place === undefined || !cell) return leave();
    isolate(view, { axis, place });
    cell[alone ? 1 - axis : axis] = place; // of one text, the run is both axes
    view.tip.show(cellText(view, cell[0], cell[1]), event);
  });
  run.addEventListener("pointerleave", leave);
  run.addEventListener("click", (event) => {
    const add = axis === 0 && (event.ctrlKey || event.metaKey);
    if (numbers.has(event.target)) choose(numbers.get(event.target), add ? "add" : "one");
  });
  const at = () => here(view)?.cursor[axis] ?? 0, step = (by) => choose(at() + by), forward = left ? -1 : 1;
  bindKeys(run, {
    ...walkKeys((down, right) => (down ? choose(first + nextLine(spans, at() - first, down)) : step(right * forward))),
    PageUp: () => step(-PAGE), PageDown: () => step(PAGE), Home: () => step(-Infinity), End: () => step(Infinity),
    ...pictureKeys(view),
  });
}

/** The token of the next line of text, below or above (`by` -1), that is nearest to a token; itself without one. */
function nextLine(spans, from, by) {
  const boxes = spans.map((span) => span.getClientRects()[0]), box = boxes[from];
  if (!box) return from;
  const down = (i) => by * (boxes[i].top - box.top), middle = ({ left, width }) => left + width / 2;
  const side = (i) => Math.abs(middle(boxes[i]) - middle(box));
  const ahead = [...boxes.keys()].filter((i) => down(i) > box.height / 2), nearest = Math.min(...ahead.map(down));
  const line = ahead.filter((i) => down(i) < nearest + box.height / 2);
  return line.reduce((best, i) => (side(i) < side(best) ? i : best), line[0] ?? from);
}
