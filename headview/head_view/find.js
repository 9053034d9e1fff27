// Finding a token in HeadView: what matches is marked wherever labels stand, and Enter goes from one to the next.

import { bindKeys, focusable, node } from "../core.js";
import { pictureOf } from "./hover.js";
import { joined } from "./map.js";
import { cellText, cursorIn, shownMaps } from "./selection.js";
import { isOneText } from "./text.js";
import { moveCursor } from "./view.js";
/** @import { Scene } from "./map.js" */
/** @import { View } from "./selection.js" */

/** Which tokens of an axis match, words as well, whatever their case. `words`: their numbers, empty where not known. */
function matching(labels, words, wanted) {
  const text = wanted.toLowerCase(), matches = new Set();
  const has = (label) => label.toLowerCase().includes(text);
  labels.forEach((label, i) => has(label) && matches.add(i));
  for (let i = 0; i < words.length; ) {
    let end = i + 1;
    while (end < words.length && words[end] === words[i]) end++;
    const tokens = Array.from({ length: end - i }, (_, n) => i + n);
    if (tokens.length > 1 && !tokens.some((token) => matches.has(token)) && has(joined(labels, tokens))) {
      tokens.forEach((token) => matches.add(token)); // the word has what none of its pieces has
    }
    i = end;
  }
  return matches;
}

/** The places in a map that hold a token that was found: `[axis, place]`, keys only where they are another text. */
function foundPlaces(view) {
  const source = shownMaps(view)?.source;
  if (!source) return [];
  const isFound = (tokens, axis) => tokens.some((token) => view.found[axis].has(token));
  const of = (places, axis) => places.flatMap((tokens, place) => (isFound(tokens, axis) ? [[axis, place]] : []));
  return [...of(source.rows, 0), ...(isOneText(view.w) ? [] : of(source.columns, 1))];
}

/**
 * Make the search field. Returns `{box, show, open}`; `open()` puts the hand into it.
 * @param {View} view
 */
export function makeFind(view) {
  const input = focusable(node("input", { type: "search", "aria-label": "Find a token", size: "12" }), null);
  const count = node("output", { role: "presentation" });
  const box = node("label", { class: "find" }, "Find a token", input, count);
  let at = -1, places = [], searched = "", of = null;

  function search() {
    const { w } = view, wanted = input.value.trim();
    searched = input.value;
    of = w;
    at = -1;
    const find = (labels, words) => (wanted ? matching(labels, words, wanted) : new Set());
    view.found = [find(w.tokens, w.words[0]), find(w.keyTokens, w.words[1])];
    tell();
    view.redraw();
  }
  function tell() {
    places = view.found[0].size || view.found[1].size ? foundPlaces(view) : [];
    const total = places.length, none = view.found[0].size || view.found[1].size ? "hidden" : "not found";
    count.textContent = !searched.trim() ? "" : !total ? none : at < 0 ? `${total} found` : `${at + 1} of ${total}`;
  }
  function go(by) {
    if (input.value !== searched) search();
    tell();
    if (!places.length) return view.say(count.textContent || "Nothing to find");
    at = (at < 0 ? (by > 0 ? 0 : places.length - 1) : at + by + places.length) % places.length;
    const [axis, place] = places[at], cursor = cursorIn(view, shownMaps(view).source);
    cursor[axis] = place;
    moveCursor(view, cursor[0], cursor[1]);
    tell();
    view.say(`${count.textContent}: ${cellText(view, cursor[0], cursor[1])}`);
  }
  input.addEventListener("input", () => {
    search();
    view.say(count.textContent);
  });
  bindKeys(input, {
    Enter: (event) => go(event.shiftKey ? -1 : 1),
    Escape: () => {
      if (!input.value) return pictureOf(view).focus();
      input.value = "";
      search();
      view.say("Nothing is marked any more");
    },
  });
  return {
    box,
    show() {
      if (of !== view.w && searched) search(); // another part or sample
      else tell();
    },
    open() {
      input.focus();
      input.select();
    },
  };
}

/**
 * Mark at the edges of a map where tokens lie that were found: labels have no room for all.
 * @param {CanvasRenderingContext2D} context @param {Scene} scene
 */
export function markFound(context, { found, shown, win, paint }, n, frame) {
  const { rows, columns } = shown.frames[n].source, long = 4;
  context.fillStyle = paint.accent;
  [rows, columns].forEach((places, axis) => {
    const [first, end] = win.slice(2 * axis), step = (axis ? frame.width : frame.height) / (end - first);
    for (let i = Math.floor(first); found[axis].size && i < end; i++) {
      if (!places[i]?.some((token) => found[axis].has(token))) continue;
      const from = Math.max(0, i - first) * step, wide = Math.max(1, (Math.min(end, i + 1) - first) * step - from);
      if (axis) context.fillRect(frame.x + from, frame.y + frame.height + 1, wide, long);
      else context.fillRect(frame.x - long - 1, frame.y + from, long, wide);
    }
  });
}
