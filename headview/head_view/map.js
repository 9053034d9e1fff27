// The heat maps of HeadView: tiles of the level that fits the screen, marks and numbers where cells are large enough.

import { node } from "../core.js";
import {
  cssColour, drawKept, hatch, hatchColour, MARKED_FROM, maskedPixel, paintPixels, placeText, sizeCanvas, SMALL_FONT,
  strokeIn, writeIn,
} from "../core_draw.js";
import { TILE } from "./combine.js";
import { axisNames, cellValues, colourBar, columnLabels, markCells, rowLabels, shadeWeights } from "./draw.js";
import { markFound } from "./find.js";
import { NAME_ROOM } from "./layout.js";
import { besideThumbs } from "./patches.js";
import { placeOf, queriesTogether } from "./selection.js";
import { hasAll, regionOf, tilesIn } from "./source.js";
/** @import { Look } from "./draw.js" */
/** @import { Order } from "./order.js" */
/** @import { Weights } from "./sample.js" */
/** @import { View } from "./selection.js" */

const VALUES_FROM = { wide: 24, high: 16 }; // a cell that has room for its number
const MOST_IMAGES = 120; // coloured tiles that are kept

/**
 * @typedef {object} Scene what a frame draws
 * @property {Weights} w @property {number} layer @property {number} head @property {number} query
 * @property {[number, number]} cursor row and column @property {[number, number][]} overlay pairs of layer and head
 * @property {number} least share of the scale from which on lines are drawn @property {string} heads "chosen", "layer" or "all" @property {string} direction of the text: "from" or "to"
 * @property {number} strength of what lies over a picture
 * @property {Order} order of the heads
 * @property {{axis: number, place: number} | null} isolated the token that stands alone, if the map has it
 * @property {string} mode @property {string} scale @property {string} combine @property {string} side
 * @property {Look} look the colour map and the page @property {boolean} dark
 * @property {object} shown from `shownMaps` @property {Win} win
 * @property {{rows: string[], columns: string[]}} names short labels of tokens @property {Set<number>[]} found tokens
 *   that were searched for, of both axes
 * @property {object} layout from `layout` @property {object} paint colours of the theme
 * @property {object} kept drawings that many frames share, while layout and theme last
 * @property {Map<string, HTMLCanvasElement>} images coloured tiles
 * @property {View} view
 *
 * @typedef {[number, number, number, number]} Win the window: first query, end, first key, end
 */

/** A label of several tokens. */
export const joined = (labels, tokens) => (tokens.length === 1 ? labels[tokens[0]] : tokens.map((i) => labels[i]).join(""));

/** The level at which a cell is as large as a pixel of the page, so that nothing is dropped or smoothed away. */
function levelFor([q0, q1, k0, k1], frame, levels) {
  const packed = Math.max((q1 - q0) / frame.height, (k1 - k0) / frame.width);
  return Math.max(0, Math.min(levels - 1, Math.ceil(Math.log2(packed) - 0.01)));
}

/** A tile, coloured, one pixel a cell; kept. */
function tileImage(scene, { source, scale }, level, i, j, tile, hatched) {
  const { images, look } = scene;
  const key = [source.key, level, i, j, scale.kind, scale.top, look.colours, hatched].join(" ");
  let image = images.get(key);
  if (!image) {
    image = node("canvas");
    const how = { rows: tile.rows, columns: tile.columns, scale, look, hatched, bare: true };
    paintPixels(image, tile.columns, tile.rows, (pixels) => shadeWeights(pixels, 0, tile.columns, tile.cells, how));
    images.set(key, image);
    if (images.size > MOST_IMAGES) images.delete(images.keys().next().value);
  }
  return image;
}

/** Draw the cells in sight; where a tile is on its way, what is known of the place more coarsely. */
function drawTiles(context, scene, shown, frame) {
  const { source } = shown, { win } = scene, [q0, q1, k0, k1] = win;
  const high = frame.height / (q1 - q0), wide = frame.width / (k1 - k0);
  const level = levelFor(win, frame, source.levels), hatched = Math.min(high, wide) < MARKED_FROM;
  context.save();
  context.beginPath();
  context.rect(frame.x, frame.y, frame.width, frame.height);
  context.clip();
  context.imageSmoothingEnabled = false;
  // What is masked is bare: the hatch has the same lines at every size, and none looks like a cell.
  const place = (image, y, x, rows, columns) => {
    const [left, top] = [frame.x + Math.max(0, x - k0) * wide, frame.y + Math.max(0, y - q0) * high];
    const [right, foot] = [frame.x + (x + columns - k0) * wide, frame.y + (y + rows - q0) * high];
    if (source.masked) {
      const ends = [Math.min(right, frame.x + frame.width), Math.min(foot, frame.y + frame.height)];
      const seen = [left, top, ends[0] - left, ends[1] - top];
      context.fillStyle = cssColour(maskedPixel(scene.dark));
      context.fillRect(...seen);
      hatch(context, [seen], hatchColour(scene.dark));
    }
    context.drawImage(image, frame.x + (x - k0) * wide, frame.y + (y - q0) * high, columns * wide, rows * high);
  };
  const all = [source.rows.length, source.columns.length];
  const draw = (level, asks) => {
    const side = TILE << level;
    for (const [i, j] of tilesIn(win, level)) {
      const tile = (asks || source.has(level, i, j)) && source.tile(level, i, j);
      // At an edge the last cell of a level may stand for less than its 2 x 2.
      if (!tile) continue;
      const image = tileImage(scene, shown, level, i, j, tile, hatched);
      place(image, i * side, j * side, tile.rows << level, tile.columns << level);
    }
  };
  const whole = hasAll(source, win, level), { small } = source;
  if (!whole) {
    if (small) place(tileImage(scene, shown, "small", 0, 0, small, true), 0, 0, ...all);
    for (let above = source.levels - 1; above > level; above--) draw(above, false);
  }
  draw(level, true);
  context.restore();
  return { level, whole };
}

/** Draw what stays of the maps while the cursor moves. @param {Scene} scene */
function drawCells(sheet, scene) {
  const { w, shown, paint, layout: { map }, win } = scene;
  const told = [];
  shown.frames.forEach((one, n) => {
    const frame = map.frames[n], [q0, q1, k0, k1] = win;
    const cell = { wide: frame.width / (k1 - k0), high: frame.height / (q1 - q0) };
    told.push(drawTiles(sheet, scene, one, frame));
    if (Math.min(cell.wide, cell.high) >= MARKED_FROM) markAndNumber(sheet, scene, one, { frame, cell });
    frameMap(sheet, frame, paint);
    axisNames(sheet, frame, frame.y + frame.height + map.below + NAME_ROOM, w.axes[0], w.axes[1], paint);
    const tall = Math.min(frame.height, 160);
    const next = shown.frames[n + 1], last = !next || next.scale.signed !== one.scale.signed || map.across === 1;
    if (last) colourBar(sheet, frame.x + frame.width + 12, frame.y, tall, one.scale, scene.look, paint);
    if (shown.frames.length < 2) return; // the title of the picture names the side
    writeIn(sheet, `bold ${SMALL_FONT}`, paint.ink);
    placeText(sheet, one.title, frame.x, frame.y - 4, "left", "bottom", frame.width);
  });
  return told;
}

/** Mark and number the cells in sight, which are large. */
function markAndNumber(sheet, scene, { source, scale }, { frame, cell }) {
  const [q0, q1, k0, k1] = scene.win;
  /** @type {Win} */
  const outer = [Math.floor(q0), Math.ceil(q1), Math.floor(k0), Math.ceil(k1)];
  const region = regionOf(source, outer);
  if (!region) return;
  const wide = outer[3] - outer[2], origin = [outer[0] - q0, outer[2] - k0], place = { frame, cell };
  sheet.save();
  sheet.beginPath();
  sheet.rect(frame.x, frame.y, frame.width, frame.height);
  sheet.clip();
  markCells(sheet, region, wide, origin, place);
  if (cell.wide >= VALUES_FROM.wide && cell.high >= VALUES_FROM.high) {
    cellValues(sheet, region, wide, origin, place, scale, scene.look);
  }
  sheet.restore();
}

/** The labels in sight of an axis, for `rowLabels` and `columnLabels`. */
export function labelsOf(labels, places, start, end, found) {
  return {
    // Those whose middle is in sight: a label stands there.
    label: (i) => joined(labels, places[i]), first: Math.ceil(start - 0.5), end: Math.floor(end - 0.5) + 1,
    found: (i) => places[i].some((token) => found.has(token)),
  };
}

/**
 * Draw the chosen head (or heads, combined) as a heat map. Returns the context, where the cells are, and no lines.
 * @param {Scene} scene
 */
export function drawMap(canvas, scene) {
  const { shown, paint, names, kept, cursor: [query, key], win, found, layout: { map, labels } } = scene;
  const context = sizeCanvas(canvas, map.width, map.height), [q0, q1, k0, k1] = win;
  const looks = shown.frames.map(({ source, scale }) => [source.key, scale.kind, scale.top]);
  const id = JSON.stringify([looks, win, scene.look, scene.view.blocks.count()]);
  drawKept(context, (kept.map ||= {}), id, map.width, map.height, (sheet) => (kept.told = drawCells(sheet, scene)));
  shown.frames.forEach(({ source }, n) => {
    const frame = map.frames[n], high = frame.height / (q1 - q0), wide = frame.width / (k1 - k0);
    const rowAt = (i) => frame.y + (i + 0.5 - q0) * high, columnAt = (i) => frame.x + (i + 0.5 - k0) * wide;
    if (n === 0 || map.across === 1) {
      const rows = { x: frame.x - 6, y: rowAt, step: high, room: labels.row + 4, align: "right" };
      const ofRows = labelsOf(names.rows, source.rows, q0, q1, found[0]);
      rowLabels(context, besideThumbs(context, scene, 0, source.rows, ofRows, rows), query, paint, rows);
    }
    const columns = { x: columnAt, y: frame.y + frame.height + 5, step: wide, room: map.below - 6 };
    const ofColumns = labelsOf(names.columns, source.columns, k0, k1, found[1]);
    columnLabels(context, besideThumbs(context, scene, 1, source.columns, ofColumns, columns), key, paint, columns);
    markFound(context, scene, n, frame);
    const together = queriesTogether(scene.view).map((token) => placeOf(source.rows, token) - q0);
    frameCursor(context, frame, together, [query - q0, key - k0], high, wide, paint);
  });
  return { context, frames: map.frames, drawn: 0, all: 0, told: kept.told };
}

/** A thin line around a map: what holds little has the colour of the page. */
function frameMap(context, frame, paint) {
  strokeIn(context, paint.hair, 1);
  context.strokeRect(frame.x - 0.5, frame.y - 0.5, frame.width + 1, frame.height + 1);
}

/** Frame the rows that are shown, and the cursor's cell, clear of small ones. */
function frameCursor(context, frame, rows, [row, column], high, wide, paint) {
  const clear = high < 6 ? 2.5 : 0;
  const [x, y] = [frame.x + column * wide, frame.y + row * high];
  context.save();
  context.beginPath();
  context.rect(frame.x - 4, frame.y - 4, frame.width + 8, frame.height + 8);
  context.clip();
  strokeIn(context, paint.cursor, 1.5);
  for (const at of rows) context.strokeRect(frame.x, frame.y + at * high - clear, frame.width, high + 2 * clear);
  context.lineWidth = 2.5;
  context.strokeRect(x - clear, y - clear, wide + 2 * clear, high + 2 * clear);
  context.restore();
}
