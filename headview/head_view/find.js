// Finding a token in HeadView: what matches is marked wherever labels stand, and Enter goes from one to the next.

import { bindKeys, focusable, node } from "../core.js";
import { groupsOf } from "./combine.js";
import { pictureOf } from "./hover.js";
import { joined } from "./map.js";
import { cellText, here } from "./selection.js";
import { isOneText } from "./text.js";
import { moveAlong } from "./view.js";

/** Which tokens of an axis match, words as well, whatever their case. @param {Weights} w */
function matching(w, axis, wanted) {
  const labels = axis ? w.keyTokens : w.tokens, text = wanted.toLowerCase();
  const has = (label) => label.toLowerCase().includes(text);
  const matches = new Set([...labels.keys()].filter((i) => has(labels[i])));
  for (const tokens of groupsOf(w, { words: true, hidden: [] }, axis)) {
    if (tokens.some((token) => matches.has(token)) || !has(joined(labels, tokens))) continue;
    tokens.forEach((token) => matches.add(token)); // the word has what none of its pieces has
  }
  return matches;
}

/** The places in a map that hold a token that was found: `[axis, place]`, keys only where they are another text. */
function foundPlaces(view) {
  const axes = isOneText(view.w) ? [0] : [0, 1];
  return axes.flatMap((axis) => (here(view)?.source.places[axis] || []).flatMap((tokens, place) => (
    tokens.some((token) => view.found[axis].has(token)) ? [[axis, place]] : [])));
}

/** Make the search field. Returns `{box, show, open}`; `open()` puts the hand into it. @param {View} view */
export function makeFind(view) {
  const input = focusable(node("input", { type: "search", "aria-label": "Find a token", size: "12" }), null);
  const count = node("output", { role: "presentation" });
  const box = node("label", { class: "find" }, "Find a token", input, count);
  let at = -1, of = null; // which match the cursor went to, and where it was searched

  function search() {
    const { w } = view, wanted = input.value.trim();
    [at, of] = [-1, w];
    view.found = [0, 1].map((axis) => (wanted ? matching(w, axis, wanted) : new Set()));
    tell();
    view.redraw();
  }
  /** Say how many matches there are, and return their places. */
  function tell() {
    const some = view.found.some(({ size }) => size), places = some ? foundPlaces(view) : [], total = places.length;
    const found = !total ? (some ? "hidden" : "not found") : at < 0 ? `${total} found` : `${at + 1} of ${total}`;
    count.textContent = input.value.trim() && found;
    return places;
  }
  function go(by) {
    const places = tell(), total = places.length;
    if (!total) return view.say(count.textContent || "Nothing to find");
    at = (at < 0 && by < 0 ? total - 1 : at + by + total) % total;
    const [axis, place] = places[at];
    moveAlong(view, axis, place);
    tell();
    view.say(`${count.textContent}: ${cellText(view, ...here(view).cursor)}`);
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
      if (of !== view.w && input.value) search(); // another part or sample
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
  const long = 4;
  context.fillStyle = paint.accent;
  shown.frames[n].source.places.forEach((places, axis) => {
    const [first, end] = win.slice(2 * axis), step = (axis ? frame.width : frame.height) / (end - first);
    for (let i = Math.floor(first); found[axis].size && i < end; i++) {
      if (!places[i]?.some((token) => found[axis].has(token))) continue;
      const from = Math.max(0, i - first) * step, wide = Math.max(1, (Math.min(end, i + 1) - first) * step - from);
      if (axis) context.fillRect(frame.x + from, frame.y + frame.height + 1, wide, long);
      else context.fillRect(frame.x - long - 1, frame.y + from, long, wide);
    }
  });
}
