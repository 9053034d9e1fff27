// What of a picture lies under the pointer: a cell of a map, or a token at the end of lines, which then stands alone.

import { hide, hideAtCursor } from "./hidden_tokens.js";
import { cursorMiddle } from "./selection.js";
import { setWindow, zoom, ZOOM_STEP } from "./window.js";

const NEAR_AN_END = 0.2; // of the way from queries to keys: so close to a token the pointer means this one

/**
 * The row and column under the pointer, fractions included, or null. At the end of a line it is one of them, and the
 * other that of the cursor; with `words` also beside a map, where a word is its row, and below, where it is its column.
 * @param {View} view @returns {number[] | null}
 */
export function placeAt(view, x, y, words = false) {
  if (!view.picture) return null;
  const mode = view.model.get("mode"), { frames, win: [q0, q1, k0, k1] } = view.picture;
  const [row, column] = cursorMiddle(view);
  for (const { x: left, y: top, width, height } of frames) {
    const right = (x - left) / width, down = (y - top) / height, inside = (share) => share >= 0 && share < 1;
    const query = (share) => q0 + share * (q1 - q0), key = (share) => k0 + share * (k1 - k0);
    if (mode !== "map") {
      const [along, far] = mode === "across" ? [right, down] : [down, right];
      if (inside(along)) return far < 0.5 ? [query(along), column] : [row, key(along)];
    } else if (inside(right) && inside(down)) return [query(down), key(right)];
    else if (words && inside(down) && x < left) return [query(down), column];
    else if (words && inside(right) && y >= top + height && y < top + height + view.layout.map.below) {
      return [row, key(right)];
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
  if (!frame || mode === "map") return null;
  const far = mode === "lines" ? (x - frame.x) / frame.width : (y - frame.y) / frame.height;
  const found = Math.abs(far - 0.5) < 0.5 - NEAR_AN_END ? null : placeAt(view, x, y);
  const axis = far < 0.5 ? 0 : 1;
  return found && { axis, place: Math.floor(found[axis]) };
}

/** Show a token alone, or all with null. @param {View} view @param {{axis: number, place: number} | null} one */
export function isolate(view, one) {
  if (one?.axis === view.isolated?.axis && one?.place === view.isolated?.place) return;
  view.isolated = one;
  view.redraw();
}

/** The token that stands alone, unless another map has come since that lacks it. @param {View} view */
export const isolatedIn = ({ isolated }, { places }) =>
  (isolated && isolated.place < places[isolated.axis].length ? isolated : null);

/** The element with the keyboard, on the page or in the shadow tree that holds `element`. */
export const activeBeside = (element) => /** @type {any} */ (element.getRootNode()).activeElement;

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
