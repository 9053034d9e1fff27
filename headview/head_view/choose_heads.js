// How a reader chooses heads in the overview of HeadView: by pointer and by keyboard, one or many.

import { bindKeys, bindPlaces, put, walkKeys } from "../core.js";
import { formatWeight } from "./codes.js";
import { headAt, headBeside } from "./grid.js";
import { cellOfHead, headText } from "./order.js";
import { headName } from "./sample.js";
import { sideOfHeads } from "./selection.js";

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
  const { model, w, say } = view, overlay = model.get("overlay");
  showHeads(view, "chosen");
  const others = overlay.filter(([i, j]) => i !== layer || j !== head), on = others.length === overlay.length;
  if (on && others.length >= MOST_TOGETHER) return say(`At most ${MOST_TOGETHER} heads can be shown together.`);
  put(model, "overlay", on ? [...others, [layer, head]] : others);
  say(`${headName(w, layer, head)} ${on ? "added to" : "removed from"} the heads shown together`);
}

/** Let the heads of the overview be chosen and told. @param {View} view */
export function bindOverview(view) {
  const { model, page: { overview } } = view;
  const at = ({ offsetX, offsetY }) => view.layout && headAt(view.w, view.layout.grid, offsetX, offsetY);
  const choose = ([layer, head], { ctrlKey, metaKey }) =>
    (ctrlKey || metaKey ? addOrRemove : chooseHead)(view, layer, head);
  bindPlaces(overview, view.tip, at, choose, ([layer, head]) => {
    const { w } = view, side = sideOfHeads(model), tops = w.some(side)?.tops(side);
    const said = cellOfHead(view, layer, head) + headText(view, layer, head);
    view.blocks.ask(); // its facts, if they are not here yet
    return `${said}, largest weight ${tops ? formatWeight(tops[layer * w.heads + head], null) : "…"}`;
  });
  const together = (which) => () => showHeads(view, model.get("heads") === which ? "chosen" : which);
  bindKeys(overview, {
    ...walkKeys((down, right) => {
      const head = headBeside(view.w, view.layout.grid, model.get("layer"), model.get("head"), right, down);
      if (head) chooseHead(view, ...head);
    }),
    " ": () => addOrRemove(view, model.get("layer"), model.get("head")),
    l: together("layer"),
    a: together("all"),
  });
}
