// The overview of HeadView: every head small, the chosen one framed.

import { node } from "../core.js";
import {
  drawKept, LABEL_FONT, paintPixels, placeText, placeTurned, sharpness, sizeCanvas, SMALL_FONT,
} from "../core_draw.js";
import { isLarger, MASKED } from "./codes.js";
import { shadeWeights } from "./draw.js";
import { allAlike, BRACKET, ROW_BRACKET, sharedBy, TURNED_NAME, WINDOW_MARK } from "./grid.js";
import { captionOf, factText, sortedBy } from "./order.js";
/** @import { Scene } from "./map.js" */

const LONGEST_CANVAS = 8192; // pixels that every browser allows
const THUMB_CELLS = 150; // at most, along each side of a head: a thumbnail is not larger

/** Colour all thumbnails on one hidden canvas, in rows no longer than browsers allow; return what draws one. */
function paintAtlas({ rows, columns, cells, tops }, scene) {
  const { w, look, shown } = scene, { signed } = shown.frames[0].scale;
  const kind = scene.scale === "auto" ? w.meta.auto : scene.scale;
  const size = rows * columns, count = w.layers * w.heads;
  const across = Math.min(count, Math.max(1, Math.floor(LONGEST_CANVAS / columns)));
  const wide = across * columns, open = w.kind === "signed" || w.kind === "positive";
  const atlas = node("canvas");
  paintPixels(atlas, wide, Math.ceil(count / across) * rows, (pixels) => {
    for (let i = 0; i < count; i++) {
      const start = Math.floor(i / across) * rows * wide + (i % across) * columns;
      const scale = { kind, signed, top: kind === "maximum" || open ? tops[i] : 1 };
      const cut = cells.subarray(i * size, (i + 1) * size);
      shadeWeights(pixels, start, wide, cut, { rows, columns, scale, look, hatched: false });
    }
  });
  return (context, i, x, y, side) =>
    context.drawImage(atlas, (i % across) * columns, Math.floor(i / across) * rows, columns, rows, x, y, side, side);
}

/** All heads shrunk to no more cells than a thumbnail has pixels, so that none is lost; null until they are there. */
function pooledFor({ w, side }, pixels) {
  const most = Math.max(8, Math.min(THUMB_CELLS, Math.round(pixels * sharpness())));
  const pooled = w.overview(side, most);
  return pooled && poolThumbs(pooled, most, w.layers * w.heads, w.signed || side === "difference");
}

/** Pool thumbnails that have more cells than pixels by their largest, as `poolHeads` does with maps. */
function poolThumbs(pooled, most, count, signed) {
  const { rows: from, columns: across, cells } = pooled, rows = Math.min(from, most), columns = Math.min(across, most);
  if (rows === from && columns === across) return pooled;
  const size = rows * columns, made = new Float32Array(count * size).fill(MASKED);
  const rowOf = Int32Array.from({ length: from }, (_, q) => Math.floor((q * rows) / from));
  const columnOf = Int32Array.from({ length: across }, (_, k) => Math.floor((k * columns) / across));
  for (let head = 0, i = 0; head < count; head++) {
    for (let q = 0; q < from; q++) {
      const start = head * size + rowOf[q] * columns;
      for (let k = 0; k < across; k++, i++) {
        const at = start + columnOf[k], [x, now] = [cells[i], made[at]];
        if (x !== x || (x !== MASKED && now === now && (now === MASKED || isLarger(x, now, signed)))) made[at] = x;
      }
    }
  }
  return { ...pooled, rows, columns, cells: made };
}

/** Draw what stays of the overview while heads are chosen: thumbnails, names and marks. @param {Scene} scene */
function drawThumbs(context, scene) {
  const { w, paint, order, layout: { grid } } = scene, pooled = pooledFor(scene, grid.side);
  context.font = `bold ${LABEL_FONT}`;
  context.fillStyle = paint.ink;
  const alone = w.meta.named ? `heads of ${w.meta.layer_names[0]}` : "heads";
  const title = order.heads ? `heads by ${sortedBy(order.by)}` : w.layers > 1 ? "layers × heads" : alone;
  placeText(context, title, 0, 0, "left", "top", grid.width);
  nameThumbs(context, scene);
  bracketShared(context, scene);
  if (!pooled) return false;
  const thumb = paintAtlas(pooled, scene), framed = grid.step - grid.side >= 2;
  context.imageSmoothingEnabled = false;
  context.strokeStyle = paint.hair;
  context.lineWidth = 1;
  for (let i = 0; i < w.layers * w.heads; i++) {
    const [x, y] = grid.at(Math.floor(i / w.heads), i % w.heads);
    thumb(context, i, x, y, grid.side);
    if (framed) context.strokeRect(x - 0.5, y - 0.5, grid.side + 1, grid.side + 1);
    if (pooled.missing?.[i] && grid.side >= 10) markMissing(context, x + grid.side / 2, y + grid.side / 2, grid.side);
  }
  return true;
}

/** Name layers and heads, as many as can be read; in a block each head, or the first of each row. */
function nameThumbs(context, scene) {
  context.font = SMALL_FONT;
  context.fillStyle = scene.paint.ink;
  (scene.layout.grid.folded ? nameBlock : nameTable)(context, scene);
}

function nameTable(context, { w, paint, order, layout: { grid } }) {
  const { side, step, left, at, turned } = grid, windows = w.meta.windows || [];
  const firstTop = at(0, 0)[1] - 4 - grid.bracket - (grid.rowBracket ? ROW_BRACKET : 0);
  const every = Math.max(1, Math.ceil((turned ? 13 : Math.max(20, order.room.head + 6)) / step));
  for (let head = 0; head < w.heads; head += every) {
    const x = at(0, head)[0] + side / 2;
    if (turned) placeTurned(context, order.names[head], x, firstTop, "left", "middle", TURNED_NAME);
    else placeText(context, order.names[head], x, firstTop, "center", "bottom");
  }
  const rows = Math.max(1, Math.ceil(14 / step)), marked = windows.some(Boolean) && !allAlike(windows);
  for (let layer = 0; layer < w.layers; layer += rows) {
    const y = at(layer, 0)[1] + side / 2;
    context.fillStyle = paint.ink;
    placeText(context, order.layers[layer], left - 6, y, "right", "middle");
    context.fillStyle = paint.soft;
    if (!marked || !windows[layer]) continue;
    placeText(context, `≤ ${windows[layer]}`, left + w.heads * step + 3, y, "left", "middle", WINDOW_MARK - 6);
  }
}

function nameBlock(context, { w, paint, order, layout: { grid } }) {
  const { side, step, caption, below, at, list, left } = grid;
  let row = -1;
  for (const i of list) {
    const layer = Math.floor(i / w.heads), [x, y] = at(layer, i % w.heads), middle = x + side / 2;
    const name = captionOf(w, order, layer, i % w.heads), first = y !== row && x === left;
    context.fillStyle = paint.ink;
    if (caption) placeText(context, name, middle, y - 2, "center", "bottom", step - 4);
    else if (first && step >= 10) placeText(context, name, left - 6, y + side / 2, "right", "middle", left - 8);
    row = y;
    context.fillStyle = paint.soft;
    if (below) placeText(context, factText(order.by, order.numbers[i]), middle, y + side + 2, "center", "top", step);
  }
  context.font = `bold ${SMALL_FONT}`;
  context.fillStyle = paint.ink;
  for (const { x, y, name } of grid.named) placeText(context, name, x, y + 4, "left", "top");
}

/** Draw a bracket over heads that share their keys: above all rows where these are alike, else over each. */
function bracketShared(context, { w, paint, order, layout: { grid } }) {
  const sizes = sharedBy(w), { side, at, caption, folded, rowBracket } = grid;
  if (order.heads || sizes.every((size) => size < 2)) return;
  context.strokeStyle = paint.soft;
  context.lineWidth = 1;
  context.beginPath();
  const bracket = (x, end, y) => {
    context.moveTo(x, y + 3);
    context.lineTo(x, y);
    context.lineTo(end, y);
    context.lineTo(end, y + 3);
  };
  for (let layer = 0; layer < (rowBracket ? w.layers : 1); layer++) {
    if (sizes[layer] < 2 || !(rowBracket || grid.bracket)) continue;
    for (let head = 0, first = 0; head < w.heads; head++) {
      const [x, y] = at(layer, head), next = head + 1 < w.heads && at(layer, head + 1);
      if (next && (head + 1) % sizes[layer] && next[1] === y) continue; // a group goes on, in the same row
      const above = folded ? y - caption + 1.5 : rowBracket ? y - 4.5 : y - BRACKET - 0.5;
      bracket(at(layer, first)[0] + 0.5, x + side - 0.5, above);
      first = head + 1;
    }
  }
  context.stroke();
}

/** Write the "?" of a head that holds NaN, white in black. */
function markMissing(context, x, y, side) {
  context.font = `bold ${Math.min(16, side)}px system-ui, sans-serif`;
  context.textAlign = "center";
  context.textBaseline = "top";
  context.lineWidth = 3;
  context.strokeStyle = "#000";
  context.strokeText("?", x, y - 5);
  context.fillStyle = "#fff";
  context.fillText("?", x, y - 5);
}

/** The frames of what is chosen: `[x, y, width, height, dashed]`; of many heads at once one frame for all. */
function framesOf({ w, layer, head, heads, overlay, layout: { grid } }) {
  const { at, side } = grid, around = (one, two, out) => {
    const [x, y] = at(...one), [endX, endY] = at(...two);
    return [x - out, y - out, endX - x + side + 2 * out, endY - y + side + 2 * out];
  };
  const dashed = (one, two) => [...around(one, two, 2), true], here = [layer, head];
  const chosen = [...around(here, here, 1.5), false];
  if (heads === "chosen") return [...overlay.map(([i, j]) => dashed([i, j], [i, j])), chosen];
  const last = w.heads - 1;
  const all = (one, two) => [dashed(one, two), chosen];
  if (!grid.folded) return heads === "layer" ? all([layer, 0], [layer, last]) : all([0, 0], [w.layers - 1, last]);
  if (heads === "layer" && w.layers > 1) { // the heads of a layer are spread over the block
    return [...Array.from({ length: w.heads }, (_, j) => dashed([layer, j], [layer, j])), chosen];
  }
  let [right, bottom] = [0, 0];
  for (const i of grid.list) {
    const [x, y] = at(Math.floor(i / w.heads), i % w.heads);
    [right, bottom] = [Math.max(right, x), Math.max(bottom, y)];
  }
  return [[grid.left - 2, grid.top - 2, right - grid.left + side + 4, bottom - grid.top + side + 4, true], chosen];
}

/** Draw all heads small, the chosen one framed, those shown with it dashed. Only frames move. @param {Scene} scene */
export function drawOverview(canvas, scene) {
  const { paint, kept, w, order, layout: { grid } } = scene, { width, height } = grid;
  const { side, scale, look: { colours } } = scene;
  const drawn = JSON.stringify([w.part, w.sample, side, scale, colours, order.id, width, height, devicePixelRatio]);
  const key = JSON.stringify([drawn, scene.layer, scene.head, scene.heads, scene.overlay]);
  if (kept.overview === key) return; // the cursor moved, no head was chosen
  let there = true, context = canvas.getContext("2d");
  if (kept.thumbs?.drawn !== drawn) {
    context = sizeCanvas(canvas, width, height);
    drawKept(context, (kept.thumbs ||= {}), drawn, width, height, (sheet) => (there = drawThumbs(sheet, scene)));
    kept.thumbs.drawn = there ? drawn : "";
    if (!there) kept.thumbs.key = "";
  } else clearFrames(context, kept);
  kept.overview = there ? key : "";
  kept.frames = framesOf(scene);
  context.strokeStyle = paint.cursor;
  for (const [x, y, wide, high, dashed] of kept.frames) {
    context.setLineDash(dashed ? [3, 2] : []);
    context.lineWidth = dashed ? 1.5 : 2.5;
    context.strokeRect(x, y, wide, high);
  }
}

/** Lay what was drawn before over the old frames. */
function clearFrames(context, { frames, thumbs }) {
  const sharp = sharpness();
  context.save();
  context.setTransform(1, 0, 0, 1, 0, 0);
  for (const [x, y, wide, high] of frames) {
    const [left, top] = [x - 3, y - 3].map((place) => Math.max(0, Math.floor(place * sharp)));
    const [across, down] = [Math.ceil((wide + 7) * sharp), Math.ceil((high + 7) * sharp)];
    context.clearRect(left, top, across, down);
    context.drawImage(thumbs.canvas, left, top, across, down, left, top, across, down);
  }
  context.restore();
}
