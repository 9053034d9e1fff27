// The overview of HeadView: every head small, the chosen one framed.

import { node } from "../core.js";
import {
  drawKept, LABEL_FONT, placeText, placeTurned, sharpness, sizeCanvas, SMALL_FONT, strokeIn, writeIn,
} from "../core_draw.js";
import { largestSize, poolHeads } from "./codes.js";
import { paintCells } from "./draw.js";
import { BRACKET, sharedBy, TURNED_NAME } from "./grid.js";
import { factText, headCaption, sortedBy } from "./order.js";
import { pairOf } from "./sample.js";
import { isOpen, scalesOf } from "./selection.js";

const THUMB_CELLS = 150; // at most, along each side of a head: a thumbnail is not larger

/** The scale of all heads, as if they were one map that is shown; to the largest, each ends at its own. @param {Scene} scene */
function scaleOfAll({ w, view: { model } }, side) {
  const top = largestSize(w.some(side)?.tops(side) || []), signed = w.signed || side === "difference";
  return scalesOf([{ top, signed }], model, w)[0];
}

/**
 * Draw what stays of the overview while heads are chosen: thumbnails, names and marks.
 * @param {Scene} scene @param {Scale} scale
 */
function drawThumbs(context, scene, side, scale) {
  const { w, paint, order, shown, look, layout: { grid } } = scene;
  writeIn(context, `bold ${LABEL_FONT}`, paint.ink);
  const alone = w.meta.named ? `heads of ${w.meta.layer_names[0]}` : "heads";
  const title = order.heads ? `heads by ${sortedBy(order.by)}` : w.layers > 1 ? "layers × heads" : alone;
  const sided = shown.called[side] ? `${title} · ${shown.called[side]}` : title;
  placeText(context, context.measureText(sided).width > grid.width ? title : sided, 0, 0, "left", "top", grid.width);
  nameThumbs(context, scene);
  bracketShared(context, scene);
  const some = w.some(side);
  if (!some) return false;
  const most = Math.max(8, Math.min(THUMB_CELLS, Math.round(grid.side * sharpness()))); // no more than it has pixels
  const { rows, columns, cells } = poolHeads(some, most, side), size = rows * columns;
  const own = scale.kind === "maximum" || isOpen(w), thumb = node("canvas"), framed = grid.step - grid.side >= 2;
  context.imageSmoothingEnabled = false;
  strokeIn(context, paint.hair, 1);
  for (let i = 0; i < w.layers * w.heads; i++) {
    const [x, y] = grid.at(...pairOf(w, i)), half = grid.side / 2;
    const ends = own ? { ...scale, top: some.tops(side)[i] } : scale;
    const map = cells.subarray(i * size, (i + 1) * size);
    paintCells({ rows, columns, cells: map }, { scale: ends, look }, thumb);
    context.drawImage(thumb, x, y, grid.side, grid.side);
    if (framed) context.strokeRect(x - 0.5, y - 0.5, grid.side + 1, grid.side + 1);
    if (grid.side >= 10 && map.some(Number.isNaN)) markMissing(context, x + half, y + half, grid.side);
  }
  return true;
}

/** Name layers and heads, as many as can be read, and say what they are sorted by and how far layers see. */
function nameThumbs(context, { w, paint, order, layout: { grid } }) {
  const { side, step, left, rows, turned, captioned, folded, bracket } = grid;
  const every = folded ? 1 : Math.max(1, Math.ceil((turned ? 13 : Math.max(20, order.room.head + 6)) / step));
  const captionOf = (i) => (folded ? headCaption(w, order, i) : order.names[i % w.heads]);
  let last = -Infinity; // where the last name at the left stands
  context.font = SMALL_FONT;
  for (const [r, { heads, y, name, first, window }] of rows.entries()) {
    context.fillStyle = paint.ink;
    for (let column = 0; captioned && (folded || r === 0) && column < heads.length; column += every) {
      const x = left + column * step + side / 2, above = y - 3 - bracket, text = captionOf(heads[column]);
      if (turned) placeTurned(context, text, x, above, "left", "middle", TURNED_NAME);
      else placeText(context, text, x, above, "center", "bottom", every * step - 4);
    }
    const middle = y + side / 2, told = middle - last >= 12, atLeft = first && name;
    if (told && (atLeft || !captioned)) {
      placeText(context, atLeft || captionOf(heads[0]), left - 6, middle, "right", "middle", left - 8);
      last = middle;
    }
    context.fillStyle = paint.soft;
    if (told && window) placeText(context, window, left + heads.length * step + 3, middle, "left", "middle", 34);
    if (!grid.below) continue;
    heads.forEach((i, column) => {
      const x = left + column * step + side / 2;
      placeText(context, factText(order.by, order.numbers[i]), x, y + side + 2, "center", "top", step);
    });
  }
}

/** Draw a bracket over heads that share their keys: above all rows where these are alike, else over each. */
function bracketShared(context, { w, paint, layout: { grid } }) {
  const sizes = sharedBy(w), { side, step, left, rows, once, bracket } = grid;
  if (!bracket) return;
  strokeIn(context, paint.soft, 1);
  context.beginPath();
  for (const { heads, y } of once ? rows.slice(0, 1) : rows) {
    const size = sizes[Math.floor(heads[0] / w.heads)], above = y - BRACKET - 0.5;
    let x = left + 0.5;
    heads.forEach((i, column) => {
      if (size < 2 || (column < heads.length - 1 && ((i % w.heads) + 1) % size)) return; // the group goes on
      const end = left + column * step + side - 0.5;
      context.moveTo(x, above + 3);
      context.lineTo(x, above);
      context.lineTo(end, above);
      context.lineTo(end, above + 3);
      x = left + (column + 1) * step + 0.5;
    });
  }
  context.stroke();
}

/** Write the "?" of a head that holds NaN, white in black. */
function markMissing(context, x, y, side) {
  writeIn(context, `bold ${Math.min(16, side)}px system-ui, sans-serif`, "#fff");
  Object.assign(context, { textAlign: "center", textBaseline: "top" });
  strokeIn(context, "#000", 3);
  context.strokeText("?", x, y - 5);
  context.fillText("?", x, y - 5);
}

/** The frames of what is chosen: `[x, y, width, height, dashed]`; one for heads that stand side by side. */
function framesOf({ w, layer, head, heads, overlay, layout: { grid } }) {
  const around = (pairs, out, dashed) => {
    const places = pairs.map((pair) => grid.at(...pair)), xs = places.map(([x]) => x), ys = places.map(([, y]) => y);
    const [x, y] = [Math.min(...xs) - out, Math.min(...ys) - out], more = grid.side + out;
    return [x, y, Math.max(...xs) - x + more, Math.max(...ys) - y + more, dashed];
  };
  const all = grid.list.map((i) => pairOf(w, i)).filter(([i]) => heads === "all" || i === layer);
  const others = heads === "chosen" ? overlay : all;
  const together = heads === "all" || (heads === "layer" && (w.layers === 1 || !grid.folded));
  const frames = together ? [others] : others.map((pair) => [pair]);
  return [...frames.map((pairs) => around(pairs, 2, true)), around([[layer, head]], 1.5, false)];
}

/** Draw all heads small, the chosen one framed, those shown with it dashed. Only frames move. @param {Scene} scene */
export function drawOverview(canvas, scene) {
  const { paint, kept, w, order, layout: { grid } } = scene, { width, height } = grid;
  const side = w.thumbs(scene.side), scale = scaleOfAll(scene, side);
  const drawn = JSON.stringify([w.part, w.sample, side, scale, scene.look.colours, order.id]);
  const context = sizeCanvas(canvas, width, height);
  const there = drawKept(context, kept.thumbs, drawn, width, height, (sheet) => drawThumbs(sheet, scene, side, scale));
  if (!there) kept.thumbs.key = "";
  context.strokeStyle = paint.cursor;
  for (const [x, y, wide, high, dashed] of framesOf(scene)) {
    context.setLineDash(dashed ? [3, 2] : []);
    context.lineWidth = dashed ? 1.5 : 2.5;
    context.strokeRect(x, y, wide, high);
  }
}
