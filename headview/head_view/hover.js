// What of a picture lies under the pointer: a cell of a map, or a token at the end of lines, which then stands alone.

import { hide, hideAtCursor } from "./hidden_tokens.js";
import { setWindow, zoom, ZOOM_STEP } from "./window.js";

const NEAR_AN_END = 0.2; // of the way from queries to keys: so close to a token the pointer means this one

/**
 * The place under the pointer: the row and column of a map, fractions included; of lines one of them, the other null.
 * Null where there is neither. With `words` also beside a map, where a word is its row, and below, where it is its
 * column. @param {View} view @returns {(number | null)[] | null}
 */
export function placeAt(view, x, y, words = false) {
  if (!view.picture) return null;
  const mode = view.model.get("mode"), { frames, win: [q0, q1, k0, k1] } = view.picture;
  for (const { x: left, y: top, width, height } of frames) {
    const right = (x - left) / width, down = (y - top) / height, inside = (share) => share >= 0 && share < 1;
    const query = (share) => q0 + share * (q1 - q0), key = (share) => k0 + share * (k1 - k0);
    if (mode !== "map") {
      const [along, far] = mode === "across" ? [right, down] : [down, right];
      if (inside(along)) return far < 0.5 ? [query(along), null] : [null, key(along)];
    } else if (inside(right) && inside(down)) return [query(down), key(right)];
    else if (words && inside(down) && x < left) return [query(down), null];
    else if (words && inside(right) && y >= top + height && y < top + height + view.layout.map.below) {
      return [null, key(right)];
    }
  }
  return null;
}

/**
 * The token under the pointer where heads are lines, or null; between the tokens, where lines cross, there is none.
 * @param {View} view @returns {{axis: number, place: number} | null}
 */
export function endAt(view, x, y) {
  const mode = view.model.get("mode"), [frame] = view.picture?.frames || [];
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
export const isolatedIn = ({ isolated }, { places }) =>
  (isolated && isolated.place < places[isolated.axis].length ? isolated : null);

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
  const closer = () => zoom(view, ZOOM_STEP);
  return {
    "+": closer,
    "=": closer,
    "-": () => zoom(view, 1 / ZOOM_STEP),
    0: () => setWindow(view, []),
    "/": () => view.controls.find(),
    h: () => hideAtCursor(view),
    H: () => hide(view, []),
  };
}
