// A run of text in HeadView: tokens in spans, one each, on the colour of a weight. Text wraps, and runs to the right or
// to the left, as its language does; what is coloured changes without new elements. What a text shows is text.js's
// business.

import { bindKeys, focusable, node } from "../core.js";
import { cssColour, inkOn, shorten } from "../core_draw.js";
import { MASKED } from "./codes.js";
import { pixelsOf, shareOn } from "./draw.js";
import { isolate, pictureKeys } from "./hover.js";
import { joined } from "./map.js";
import { cellText, cursorIn, rowTogether, shownMaps } from "./selection.js";
import { regionOf } from "./source.js";
import { moveCursor, PAGE } from "./view.js";
/** @import { View } from "./selection.js" */

const LONGEST_TOKEN = 60; // characters
const SPECIAL = /^(<[^<>\s]+>|<\|.*\|>|\[[A-Z]+\d*\])$/, BYTES = /^(<(0x)?[0-9A-Fa-f]{2}>)+$/;
const CLOSING = /^[,.;:!?%)\]}’”…、。，！？]+$/u, OPENING = /^[([{“‘¿¡]+$/u;
const UNSPACED = /^[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Thai}、。，！？]+$/u;
const STEERING = /[\u200e\u200f\u202a-\u202e\u2066-\u2069]/g; // signs that would turn the text around them
const LEFT_TO_RIGHT = /\p{sc=Latin}|\p{sc=Greek}|\p{sc=Cyrillic}|\p{sc=Han}/gu;
const RIGHT_TO_LEFT = /\p{sc=Hebrew}|\p{sc=Arabic}|\p{sc=Syriac}|\p{sc=Thaana}/gu;

/** Does a label stand for no text, such as [CLS] or <s>? */
export const isSpecial = (label) => SPECIAL.test(label) && !BYTES.test(label);

/** A token as it stands in a text; what would not be seen is drawn. */
function textOf(label) {
  const text = label.replace(STEERING, "");
  if (!text) return "“”";
  if (text.trim()) return shorten(text.replace(/\t/g, "⇥").replace(/\r?\n/g, "↵\n"), LONGEST_TOKEN);
  return text.replace(/[^\S\n\r\t]/g, "␣").replace(/\t/g, "⇥").replace(/\r?\n|\r/g, "↵\n");
}

/** Do labels carry the blanks between them? */
const hasBlanks = (labels) => labels.some((label) => label.trim() && label.trim() !== label);

/** Does a blank stand between two tokens of a text? `words`: their numbers, or two that are undefined. */
function isApart(before, after, words) {
  if (words[0] !== undefined && words[0] === words[1]) return false;
  return !(CLOSING.test(after) || OPENING.test(before) || (UNSPACED.test(before) && UNSPACED.test(after)));
}

/** Is most of a text written from the right? */
function runsLeft(labels) {
  const text = labels.filter((label) => !isSpecial(label)).join(" ");
  const count = (letters) => (text.match(letters) || []).length;
  return count(RIGHT_TO_LEFT) > count(LEFT_TO_RIGHT);
}

/** Make one run: the tokens of an axis, from the first to before the end of `range`. @param {View} view */
export function makeRun(view, w, frame, n, axis, [first, end], alone) {
  const labels = w.labels(axis, frame.side), all = axis ? frame.source.columns : frame.source.rows;
  const places = all.slice(first, end);
  const numbers = w.words[axis] || [], texts = places.map((tokens) => joined(labels, tokens));
  const spaced = hasBlanks(texts), spans = [], children = [];
  texts.forEach((text, i) => {
    const last = i > 0 && places[i - 1][places[i - 1].length - 1], word = [numbers[last], numbers[places[i][0]]];
    if (i && !spaced && isApart(texts[i - 1], text, word)) children.push(" ");
    spans.push(node("span", {}, textOf(text)));
    children.push(spans[i]);
  });
  const left = runsLeft(texts);
  const help = view.page.text.help, dir = left ? "rtl" : "ltr";
  const about = { class: "run", role: "application", "aria-describedby": help, dir };
  const run = focusable(node("div", about, ...children));
  const name = alone ? "" : `${w.axes[axis]} text`, caption = [frame.title, name].filter(Boolean).join(", ");
  const one = {
    run, spans, axis, first, n, left, alone, special: texts.map(isSpecial), shown: [], chosen: -1,
    caption: caption ? node("div", { class: "caption" }, caption) : null,
  };
  bindRun(view, one);
  return one;
}

// ---------------------------------------------------------------- colours

const cssOf = new WeakMap();

/** The colours of a table of pixels as CSS, with the ink that reads on each. */
function cssColours(table) {
  if (!cssOf.has(table)) cssOf.set(table, Array.from(table, (pixel) => [cssColour(pixel), inkOn(pixel)]));
  return cssOf.get(table);
}

/**
 * Dress the tokens of a run: on the colours of numbers, plain where there are none; the cursor's outlined, what was
 * searched for marked. Touches only what changes.
 * @param {ReturnType<typeof makeRun>} one @param {boolean} chooses is the cursor's token of this axis in front?
 */
export function dressRun(one, values, scale, { look, cursor, found }, places, chooses) {
  const share = shareOn(scale), css = cssColours(pixelsOf(scale, look)), { spans, first, axis, alone } = one;
  const at = cursor[axis] - first, other = alone ? cursor[1 - axis] - first : -1;
  spans.forEach((span, i) => {
    const value = values?.[i], number = value > MASKED, special = one.special[i];
    const [colour, ink] = number ? css[Math.round(share(value) * 255)] : ["", ""];
    const marks = {
      special, masked: value === MASKED, missing: Number.isNaN(value), chosen: chooses && i === at,
      other: (i === at && !chooses) || (i === other && i !== at),
      found: places[first + i].some((token) => found[axis].has(token)),
    };
    const name = Object.keys(marks).filter((mark) => marks[mark]).join(" "), shown = `${name} ${colour}`;
    if (one.shown[i] === shown) return;
    one.shown[i] = shown;
    span.className = name;
    Object.assign(span.style, { backgroundColor: colour, color: ink });
  });
  if (one.chosen !== at && spans[at]) keepInBox(one.run.parentElement, spans[at]);
  one.chosen = at;
}

/** The numbers of one token over a span of the other axis; null while they are not there. @param {View} view */
export function numbersOf(view, source, { axis, place }, [first, end]) {
  const together = axis === 0 && !view.isolated;
  if (together) return rowTogether(view, source)?.cells.subarray(first, end) || null;
  if (axis === 0) return source.row(place)?.cells.subarray(first, end) || null;
  return regionOf(source, [first, end, place, place + 1]);
}

/** Scroll a box, never the page, as far as an element in it needs. */
function keepInBox(box, element) {
  const outer = box.getBoundingClientRect(), inner = element.getBoundingClientRect(), air = 8;
  if (inner.top < outer.top) box.scrollTop -= outer.top - inner.top + air;
  if (inner.bottom > outer.bottom) box.scrollTop += inner.bottom - outer.bottom + air;
}

// ---------------------------------------------------------------- pointer and keyboard

/** Let a run choose its tokens, by click and by key, and show the one under the pointer alone. @param {View} view */
function bindRun(view, one) {
  const { run, spans, axis, first, alone } = one, { tip } = view;
  const numbers = new Map(spans.map((span, i) => [span, first + i]));
  const cursor = () => {
    const source = shownMaps(view)?.source;
    return source ? cursorIn(view, source) : [0, 0];
  };
  /** The cell of a token of this run and the chosen one: of one text, the run is both axes. */
  const cellOf = (place, both) => cursor().map((at, i) => (i === (both ? 1 - axis : axis) ? place : at));
  /** @param {"one" | "add"} [rows] */
  const choose = (place, rows) => {
    const cell = cellOf(Math.max(0, place), false);
    moveCursor(view, cell[0], cell[1], rows);
  };
  run.addEventListener("pointermove", (event) => {
    const place = numbers.get(event.target);
    isolate(view, place === undefined ? null : { axis, place });
    if (place === undefined) return tip.hide();
    const [row, column] = cellOf(place, alone);
    tip.show(cellText(view, row, column), event);
  });
  run.addEventListener("pointerleave", () => {
    isolate(view, null);
    tip.hide();
  });
  run.addEventListener("click", (event) => {
    if (numbers.has(event.target)) choose(numbers.get(event.target), axis === 0 && (event.ctrlKey || event.metaKey) ? "add" : "one");
  });
  const step = (by) => () => choose(cursor()[axis] + by), forward = one.left ? -1 : 1;
  const line = (by) => () => choose(first + nextLine(spans, cursor()[axis] - first, by));
  bindKeys(run, {
    ArrowLeft: step(-forward), ArrowRight: step(forward), ArrowUp: line(-1), ArrowDown: line(1),
    PageUp: step(-PAGE), PageDown: step(PAGE), Home: step(-Infinity), End: step(Infinity),
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
