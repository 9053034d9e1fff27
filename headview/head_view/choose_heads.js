// How a reader chooses heads in the overview of HeadView: by pointer and by keyboard, one or many.

import { bindKeys, put, tellUnderPointer } from "../core.js";
import { formatWeight } from "./codes.js";
import { headAt, headBeside, lineOf, pairOf } from "./grid.js";
import { cellOfHead, headText } from "./order.js";
import { headName } from "./sample.js";
/** @import { View } from "./selection.js" */

const MOST_TOGETHER = 32; // as in Python

/** @param {View} view */
function chooseHead(view, layer, head) {
  const { model, say } = view;
  if (model.get("heads") === "all") showHeads(view, "chosen"); // of all heads together nothing would change
  if (layer !== model.get("layer")) put(model, "layer", layer);
  if (head !== model.get("head")) put(model, "head", head);
  say(headText(view, layer, head));
}

/**
 * Show the chosen heads, all of the chosen layer or all there are; many at once as their mean, until the reader wants
 * their maximum. @param {View} view
 */
export function showHeads({ model, say, w }, which) {
  const before = model.get("heads");
  if (before === which) return;
  put(model, "heads", which);
  if (before === "chosen" && which !== "chosen") put(model, "combine", "mean");
  const layer = `all heads of ${w.meta.layer_names[model.get("layer")]}`;
  say(`${{ chosen: "the chosen heads", layer, all: "all heads" }[which]} shown`);
}

/** Add a head to those shown together, or take it out. @param {View} view */
export function addOrRemove(view, layer, head) {
  const { model, w, say } = view;
  const overlay = model.get("overlay");
  showHeads(view, "chosen");
  const others = overlay.filter(([i, j]) => i !== layer || j !== head);
  const on = others.length === overlay.length;
  if (on && others.length >= MOST_TOGETHER) return say(`At most ${MOST_TOGETHER} heads can be shown together.`);
  put(model, "overlay", on ? [...others, [layer, head]] : others);
  say(`${headName(w, layer, head)} ${on ? "added to" : "removed from"} the heads shown together`);
}

/** @param {View} view */
export function bindOverview(view, tip) {
  const { model, page } = view;
  const found = ({ offsetX, offsetY }) => view.layout && headAt(view.w, view.layout.grid, offsetX, offsetY);
  page.overview.addEventListener("click", (event) => {
    const head = found(event);
    if (head) (event.ctrlKey || event.metaKey ? addOrRemove : chooseHead)(view, ...head);
  });
  tellUnderPointer(page.overview, tip, (event) => {
    const head = found(event);
    if (!head) return null;
    const { w } = view, side = model.get("side") === "b" ? "b" : "a", tops = w.some(side)?.tops(side);
    const said = cellOfHead(view, ...head) + headText(view, ...head);
    view.blocks.ask(); // its facts, if they are not here yet
    return `${said}, largest weight ${tops ? formatWeight(tops[head[0] * w.heads + head[1]], null) : "…"}`;
  });
  /** @returns {[number, number]} */
  const here = () => [model.get("layer"), model.get("head")];
  /** @param {[number, number] | null} head */
  const go = (head) => head && chooseHead(view, ...head);
  const step = (right, down) => () => go(headBeside(view.w, view.layout.grid, ...here(), right, down));
  const end = (last) => () => go(pairOf(view.w, lineOf(view.w, view.layout.grid, here()[0]).at(last)));
  const together = (which) => () => showHeads(view, model.get("heads") === which ? "chosen" : which);
  bindKeys(page.overview, {
    ArrowLeft: step(-1, 0),
    ArrowRight: step(1, 0),
    ArrowUp: step(0, -1),
    ArrowDown: step(0, 1),
    Home: end(0),
    End: end(-1),
    " ": () => addOrRemove(view, ...here()),
    l: together("layer"),
    a: together("all"),
  });
}
