// Which cells of a map are in sight, and how it moves: zoom around a place, pan, follow the cursor. A window is
// [first query, end, first key, end] in cells of the map that is shown, fractions allowed; all of it is the default.

import { put } from "../core.js";
import { cursorMiddle } from "./selection.js";

const LEAST_CELLS = 6; // in sight along an axis
export const ZOOM_STEP = 1.6; // by a key or a button

/** Is less in sight than all? @param {View} view */
export const isZoomed = ({ model }) => model.get("window").length > 0;

/** The window of the view, inside of the map that is shown. @param {View} view @returns {Win} */
export function windowOf({ model, size: { queries, keys } }, given = model.get("window")) {
  if (!given.length) return [0, queries, 0, keys];
  const [q0, q1] = clampSpan(given[0], given[1], queries), [k0, k1] = clampSpan(given[2], given[3], keys);
  return [q0, q1, k0, k1];
}

/** Does a window show all? @param {View} view @param {Win} win */
const showsAll = ({ size: { queries, keys } }, [q0, q1, k0, k1]) => q0 <= 0 && k0 <= 0 && q1 >= queries && k1 >= keys;

/** Move and shrink a span so that it lies in 0 to `size`. */
function clampSpan(start, end, size) {
  const long = Math.max(Math.min(end - start, size), Math.min(LEAST_CELLS, size));
  const first = Math.max(0, Math.min(size - long, start));
  return [first, first + long];
}

/** Set the window; what covers all is stored as none. @param {View} view */
export function setWindow(view, win) {
  const inside = windowOf(view, win);
  put(view.model, "window", showsAll(view, inside) ? [] : inside);
}

/** Zoom by `factor`, above 1 to see less, around a place in cells; without one around the cursor. @param {View} view */
export function zoom(view, factor, place = null) {
  const { queries, keys } = view.size, [q0, q1, k0, k1] = windowOf(view);
  const [q, k] = place || cursorMiddle(view);
  const inside = q >= q0 && q <= q1 && k >= k0 && k <= k1;
  const [y, x] = inside ? [q, k] : [(q0 + q1) / 2, (k0 + k1) / 2];
  // Where one axis is much shorter, it stays whole until the other has come down to it.
  const span = Math.max(q1 - q0, k1 - k0) / factor;
  const [tall, wide] = [queries, keys].map((size) => Math.min(size, Math.max(span, Math.min(LEAST_CELLS, size))));
  const top = y - ((y - q0) / (q1 - q0)) * tall, left = x - ((x - k0) / (k1 - k0)) * wide;
  setWindow(view, [top, top + tall, left, left + wide]);
  if (!place) bringIntoSight(view, Math.floor(q), Math.floor(k)); // all of the cell
}

/** Move the window by so many cells. @param {View} view */
function pan(view, rowsDown, columnsRight) {
  const [q0, q1, k0, k1] = windowOf(view);
  setWindow(view, [q0 + rowsDown, q1 + rowsDown, k0 + columnsRight, k1 + columnsRight]);
}

/** Move the window only as far as a cell needs to come into sight. @param {View} view */
export function bringIntoSight(view, row, column) {
  if (!isZoomed(view)) return;
  const [q0, q1, k0, k1] = windowOf(view);
  const move = (place, start, end) => (place < start ? place - start : place + 1 > end ? place + 1 - end : 0);
  const down = move(row, q0, q1), right = move(column, k0, k1);
  if (down || right) pan(view, down, right);
}

/** Say what is in sight, or nothing where that is all. @param {View} view @param {Win} win */
export function windowText(view, win) {
  const [q0, q1, k0, k1] = win, { w: { axes }, size: { queries, keys } } = view;
  const grouped = (size) => String(size).replace(/\B(?=(\d{3})+$)/g, ","); // to load Intl takes a frame
  const span = (start, end, size) => `${Math.floor(start)}–${Math.min(size, Math.ceil(end)) - 1} of ${grouped(size)}`;
  return showsAll(view, win) ? "" : `${axes[0]} ${span(q0, q1, queries)}, ${axes[1]} ${span(k0, k1, keys)}`;
}

// ---------------------------------------------------------------- wheel, fingers, drag

/**
 * Let a canvas zoom by wheel (with Ctrl, or once it has the focus), by two fingers and by double click, and pan by
 * drag while it is zoomed. `cellOf(x, y)` gives the place in cells, or null beside the map.
 * @param {View} view
 */
export function bindWindow(view, canvas, cellOf) {
  const fingers = new Map();
  let dragged = false;
  canvas.addEventListener("wheel", (event) => {
    const place = cellOf(event.offsetX, event.offsetY);
    if (!place || !(event.ctrlKey || event.metaKey || document.activeElement === canvas || isZoomed(view))) return;
    event.preventDefault();
    zoom(view, Math.exp(-Math.max(-60, Math.min(60, event.deltaY)) * (event.ctrlKey ? 0.012 : 0.006)), place);
  }, { passive: false });
  canvas.addEventListener("dblclick", (event) => {
    const place = cellOf(event.offsetX, event.offsetY);
    if (place) zoom(view, event.shiftKey ? 1 / (ZOOM_STEP * ZOOM_STEP) : ZOOM_STEP * ZOOM_STEP, place);
  });
  canvas.addEventListener("pointerdown", (event) => {
    fingers.set(event.pointerId, [event.offsetX, event.offsetY]);
    dragged = false;
  });
  canvas.addEventListener("pointermove", (event) => {
    const before = fingers.get(event.pointerId), now = [event.offsetX, event.offsetY];
    if (!before || !view.picture) return;
    if (fingers.size === 2) {
      const [other] = [...fingers].filter(([id]) => id !== event.pointerId).map(([, at]) => at);
      const apart = (at) => Math.hypot(at[0] - other[0], at[1] - other[1]);
      const place = cellOf((now[0] + other[0]) / 2, (now[1] + other[1]) / 2);
      if (place && apart(before) > 8) zoom(view, apart(now) / apart(before), place);
      dragged = true;
    } else if (isZoomed(view) && (dragged || Math.hypot(now[0] - before[0], now[1] - before[1]) > 4)) {
      if (!dragged) canvas.setPointerCapture(event.pointerId);
      dragged = true;
      const [down, right] = view.picture.cellsOf(before[0] - now[0], before[1] - now[1]);
      pan(view, down, right);
    } else return;
    fingers.set(event.pointerId, now);
  });
  for (const end of ["pointerup", "pointercancel", "pointerleave"]) {
    canvas.addEventListener(end, (event) => fingers.delete(event.pointerId));
  }
  // A drag ends in a click, which must not move the cursor.
  canvas.addEventListener("click", (event) => dragged && event.stopImmediatePropagation(), { capture: true });
}
