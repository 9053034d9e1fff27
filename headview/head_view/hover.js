// What of a picture lies under the pointer: a cell of a map, or a token at the end of lines, which then stands alone.

import { hide, hideAtCursor } from "./hidden_tokens.js";
import { cellAt } from "./layout.js";
import { setWindow, zoom, ZOOM_STEP } from "./window.js";
/** @import { View } from "./selection.js" */

const NEAR_AN_END = 0.2; // of the way from queries to keys: so close to a token the pointer means this one

/** A frame with its axes exchanged. */
const turnedFrame = ({ x, y, width, height }) => ({ x: y, y: x, width: height, height: width });

/**
 * The place under the pointer: the row and column of a map, fractions included; of lines one of them, the other null.
 * Null where there is neither. @param {View} view @returns {number[] | null}
 */
export function placeAt(view, x, y) {
  const mode = view.model.get("mode"), win = view.shownWindow;
  for (const frame of view.frames || []) {
    const found = mode === "across" ? cellAt(turnedFrame(frame), win, "lines", y, x)
      : cellAt(frame, win, mode === "map" ? "map" : "lines", x, y);
    if (found) return found;
  }
  return null;
}

/** The row or the column whose word is under the pointer, beside or below a map; the other null. @param {View} view */
export function wordAt(view, x, y) {
  const win = view.shownWindow;
  if (view.model.get("mode") !== "map") return null;
  for (const { x: left, y: top, width, height } of view.frames || []) {
    const down = (y - top) / height, right = (x - left) / width;
    if (x < left && down >= 0 && down < 1) return [win[0] + down * (win[1] - win[0]), null];
    if (y > top + height && y < top + height + view.layout.map.below && right >= 0 && right < 1) {
      return [null, win[2] + right * (win[3] - win[2])];
    }
  }
  return null;
}

/**
 * The token under the pointer where heads are lines, or null; between the tokens, where lines cross, there is none.
 * @param {View} view @returns {{axis: number, place: number} | null}
 */
export function endAt(view, x, y) {
  const mode = view.model.get("mode"), [frame] = view.frames || [];
  if (!frame || (mode !== "lines" && mode !== "across")) return null;
  const far = mode === "lines" ? (x - frame.x) / frame.width : (y - frame.y) / frame.height;
  const found = far > NEAR_AN_END && far < 1 - NEAR_AN_END ? null : placeAt(view, x, y);
  if (!found) return null;
  const axis = found[0] === null ? 1 : 0;
  return { axis, place: Math.floor(found[axis]) };
}

/** Show a token alone, or all with null. @param {View} view @param {{axis: number, place: number} | null} one */
export function isolate(view, one) {
  const before = view.isolated;
  if (one === before || (one && before && one.axis === before.axis && one.place === before.place)) return;
  view.isolated = one;
  view.redraw();
}

/** The token that stands alone, unless another map has come since that lacks it. @param {View} view */
export function isolatedIn({ isolated }, { rows, columns }) {
  return isolated && isolated.place < (isolated.axis ? columns : rows).length ? isolated : null;
}

/** The element with the keyboard, on the page or in the shadow tree that holds `element`. */
export function activeBeside(element) {
  /** @type {any} */
  const tree = element.getRootNode();
  return tree.activeElement;
}

/** The element that holds the picture, for the keyboard. @param {View} view */
export function pictureOf({ page, model }) {
  return model.get("mode") === "text" ? page.text.made[0]?.run || page.focus : page.focus;
}

/** The keys of a picture that are the same in every mode. @param {View} view */
export function pictureKeys(view) {
  return {
    "+": () => zoom(view, ZOOM_STEP),
    "=": () => zoom(view, ZOOM_STEP),
    "-": () => zoom(view, 1 / ZOOM_STEP),
    0: () => setWindow(view, [], view.size.rows, view.size.columns),
    "/": () => view.controls.find(),
    h: () => hideAtCursor(view),
    H: () => hide(view, []),
  };
}
