// The patches of the picture under the tokens of HeadView: which token is which patch, how it is called, and how it
// looks as a label of a map. The pixels are a block; where the patches are, Python says in the part.

import { kept, node, typed } from "../core.js";
import { packColour, paintPixels, strokeIn } from "../core_draw.js";

const THUMB_FROM = 14, THUMB_WIDEST = 26; // pixels of a cell that gets a patch as its label, and of that

/** Where frames of a video stand on the sheet: their rows and columns of patches, how many stand side by side. */
function framesOn({ rows, columns, frames: [down, across] }) {
  return { high: rows / down, wide: columns / across, across };
}

/** The frame, row and column of a patch, counted in the frame. */
function inFrame(picture, at) {
  const { high, wide, across } = framesOn(picture), row = Math.floor(at / picture.columns), column = at % picture.columns;
  return [Math.floor(row / high) * across + Math.floor(column / wide), row % high, column % wide];
}

/** The token that a patch is. */
export function tokenOf(picture, at) {
  const { high, wide } = framesOn(picture), [frame, row, column] = inFrame(picture, at);
  return picture.first + (frame * high + row) * wide + column;
}

/**
 * The number of the patch that a token is, counted over the rows of the picture, or -1. `axis`: 0 for queries, 1 for
 * keys. @param {Weights} w
 */
export function patchOf({ meta: { picture } }, axis, token) {
  if (!picture || picture.on === (axis ? "queries" : "keys")) return -1;
  const { high, wide, across } = framesOn(picture), at = token - picture.first;
  if (at < 0 || at >= picture.rows * picture.columns) return -1;
  const frame = Math.floor(at / (high * wide)), inside = at % (high * wide);
  const row = Math.floor(frame / across) * high + Math.floor(inside / wide);
  return row * picture.columns + (frame % across) * wide + (inside % wide);
}

/** The row and column of a patch, as it is called; of a video, behind the frame. */
export function patchPlace({ meta: { picture } }, at) {
  const [frame, row, column] = inFrame(picture, at), many = Math.max(...picture.frames) > 1;
  return `${many ? `${frame}:` : ""}${row},${column}`;
}

/** Give patches short names; other labels stay. @param {Weights} w @param {string[]} labels */
export function patchNames(w, axis, labels) {
  if (!w.meta.picture) return labels;
  const own = axis ? w.keyTokens : w.tokens;
  return labels.map((label, i) => {
    const at = patchOf(w, axis, i), place = at < 0 ? "" : patchPlace(w, at);
    return place && (own[i] === `patch ${place}` || own[i] === String(i)) ? place : label;
  });
}

/** The picture as a canvas, one pixel for one of its own; null where there is none, or not yet. @param {View} view */
export function photoOf({ w, blocks, photos }) {
  const block = w.meta.picture && (photos.has(w.part) || blocks.get(`image ${w.part}`));
  return block ? kept(photos, w.part, () => {
    const photo = node("canvas"), { width, height } = block, bytes = typed(block.bytes, Uint8Array);
    paintPixels(photo, width, height, (pixels) => {
      for (let i = 0; i < pixels.length; i++) pixels[i] = packColour(bytes[3 * i], bytes[3 * i + 1], bytes[3 * i + 2]);
    });
    return photo;
  }) : null;
}

// ---------------------------------------------------------------- labels of a map

/**
 * Draw the patches in sight as labels of an axis, where there is room, and return the labels of what is none.
 * `labels` from `labelsOf`; `place`: where `rowLabels` or `columnLabels` would write them.
 * @param {Scene} scene
 */
export function besideThumbs(context, scene, axis, places, labels, place) {
  const { w, view, cursor, paint } = scene, { picture } = w.meta;
  const photo = place.step >= THUMB_FROM && photoOf(view);
  if (!photo) return labels;
  const thumbOf = (i) => (places[i].length === 1 ? patchOf(w, axis, places[i][0]) : -1);
  const most = Math.min(place.step - 2, THUMB_WIDEST, place.room - 4);
  const across = photo.width / picture.columns, down = photo.height / picture.rows, shape = across / down; // of a patch
  const wide = most * Math.min(1, shape), high = most / Math.max(1, shape);
  for (let i = labels.first; i < labels.end; i++) {
    const at = thumbOf(i), column = at % picture.columns, row = Math.floor(at / picture.columns);
    if (at < 0) continue;
    const x = axis ? place.x(i) - wide / 2 : place.x - wide, y = axis ? place.y : place.y(i) - high / 2;
    context.drawImage(photo, column * across, row * down, across, down, x, y, wide, high);
    if (i !== cursor[axis] && !labels.found(i)) continue;
    strokeIn(context, i === cursor[axis] ? paint.ink : paint.accent, 2);
    context.strokeRect(x, y, wide, high);
  }
  return { ...labels, label: (i) => (thumbOf(i) >= 0 ? "" : labels.label(i)) };
}
