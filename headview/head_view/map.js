// The heat maps of HeadView: tiles of the level that fits the screen, marks and numbers where cells are large enough.

import { kept } from "../core.js";
import {
  clipped, cssColour, drawKept, hatch, hatchColour, MARKED_FROM, maskedPixel, placeText, sharpness,
  sizeCanvas, SMALL_FONT, strokeIn, writeIn,
} from "../core_draw.js";
import { TILE } from "./combine.js";
import { axisNames, cellValues, colourBar, columnLabels, markCells, paintCells, rowLabels } from "./draw.js";
import { markFound } from "./find.js";
import { NAME_ROOM } from "./layout.js";
import { besideThumbs } from "./patches.js";
import { rowsTogether } from "./selection.js";
import { hasAll, regionOf, tilesIn } from "./source.js";

const VALUES_FROM = { wide: 24, high: 16 }; // a cell that has room for its number
const MOST_IMAGES = 120; // coloured tiles that are kept

/** A label of several tokens. */
export const joined = (labels, tokens) => (tokens.length === 1 ? labels[tokens[0]] : tokens.map((i) => labels[i]).join(""));

/** Where cells stand in a frame: their size, and the left of a column and the top of a row, fractions allowed. */
function cellsIn({ x, y, width, height }, [q0, q1, k0, k1]) {
  const high = height / (q1 - q0), wide = width / (k1 - k0);
  return { high, wide, x: (column) => x + (column - k0) * wide, y: (row) => y + (row - q0) * high };
}

/** The level at which a cell is as large as a pixel of the page, so that nothing is dropped or smoothed away. */
function levelFor([q0, q1, k0, k1], frame, levels) {
  const packed = Math.max((q1 - q0) / frame.height, (k1 - k0) / frame.width);
  return Math.max(0, Math.min(levels - 1, Math.ceil(Math.log2(packed) - 0.01)));
}

/** A tile, coloured, one pixel a cell; kept. */
function tileImage({ images, look }, { source, scale }, level, i, j, tile, hatched) {
  const key = [source.key, level, i, j, scale.kind, scale.top, look.colours, look.dark, hatched].join(" ");
  return kept(images, key, () => paintCells(tile, { scale, look, hatched, bare: true }), MOST_IMAGES);
}

/** Draw the cells in sight; where a tile is on its way, what is known of the place more coarsely. Returns the level. */
function drawTiles(context, scene, shown, frame, cells) {
  const { source } = shown, { win, look: { dark } } = scene, right = frame.x + frame.width, foot = frame.y + frame.height;
  const level = levelFor(win, frame, source.levels), hatched = Math.min(cells.high, cells.wide) < MARKED_FROM;
  context.imageSmoothingEnabled = false;
  // Tiles end where a pixel of the screen does: through a seam of half covered ones one would see what lies below.
  const ratio = sharpness(), whole = (at) => Math.round(at * ratio) / ratio;
  const place = (tile, level, i, j, hatched, [down, across]) => {
    // At an edge the last cell of a level may stand for less than its block.
    const [left, end] = [j * TILE, j * TILE + tile.columns].map((column) => whole(cells.x(column * across)));
    const [top, below] = [i * TILE, i * TILE + tile.rows].map((row) => whole(cells.y(row * down)));
    if (source.masked) { // and bare: the hatch below has the same lines at every size, and none looks like a cell
      const [from, above] = [Math.max(frame.x, left), Math.max(frame.y, top)];
      const seen = [from, above, Math.min(right, end) - from, Math.min(foot, below) - above];
      context.fillStyle = cssColour(maskedPixel(dark));
      context.fillRect(...seen);
      hatch(context, [seen], hatchColour(dark));
    }
    const image = tileImage(scene, shown, tile === source.small ? "small" : level, i, j, tile, hatched);
    context.drawImage(image, left, top, end - left, below - top);
  };
  const draw = (level, asks) => {
    for (const [i, j] of tilesIn(source, win, level)) {
      const tile = (asks || source.has(level, i, j)) && source.tile(level, i, j);
      if (tile) place(tile, level, i, j, hatched, source.block(level));
    }
  };
  clipped(context, frame, 0, () => {
    if (!hasAll(source, win, level)) {
      const { small, rows, columns } = source;
      if (small) place(small, 0, 0, 0, true, [rows.length / small.rows, columns.length / small.columns]);
      for (let above = source.levels - 1; above > level; above--) draw(above, false);
    }
    draw(level, true);
  });
  return level;
}

/** Draw what stays of the maps while the cursor moves; returns the coarsest level that is seen. @param {Scene} scene */
function drawCells(sheet, scene) {
  const { w, shown, paint, look, layout: { map }, win } = scene;
  return Math.max(...shown.frames.map((one, n) => {
    const frame = map.frames[n], cells = cellsIn(frame, win), level = drawTiles(sheet, scene, one, frame, cells);
    if (Math.min(cells.wide, cells.high) >= MARKED_FROM) markAndNumber(sheet, scene, one, frame, cells);
    strokeIn(sheet, paint.hair, 1); // around the map: what holds little has the colour of the page
    sheet.strokeRect(frame.x - 0.5, frame.y - 0.5, frame.width + 1, frame.height + 1);
    const queries = n && map.across > 1 ? "" : w.axes[0];
    axisNames(sheet, frame, frame.y + frame.height + map.below + NAME_ROOM, queries, w.axes[1], paint);
    const next = shown.frames[n + 1], last = !next || next.scale.signed !== one.scale.signed || map.across === 1;
    const tall = Math.min(frame.height, 160);
    if (last) colourBar(sheet, frame.x + frame.width + 12, frame.y, tall, one.scale, look, paint);
    if (shown.frames.length > 1) { // of one, the title of the picture names the side
      writeIn(sheet, `bold ${SMALL_FONT}`, paint.ink);
      placeText(sheet, one.title, frame.x, frame.y - 4, "left", "bottom", frame.width);
    }
    return level;
  }));
}

/** Mark and number the cells in sight, which are large. */
function markAndNumber(sheet, { win, look }, { source, scale }, frame, cells) {
  /** @type {Win} */
  const outer = [Math.floor(win[0]), Math.ceil(win[1]), Math.floor(win[2]), Math.ceil(win[3])];
  const weights = regionOf(source, outer), wide = outer[3] - outer[2];
  if (!weights) return;
  const middle = (i) => [cells.x(outer[2] + (i % wide) + 0.5), cells.y(outer[0] + Math.floor(i / wide) + 0.5)];
  clipped(sheet, frame, 0, () => {
    markCells(sheet, weights, middle, cells);
    if (cells.wide < VALUES_FROM.wide || cells.high < VALUES_FROM.high) return;
    cellValues(sheet, weights, middle, cells, frame, scale, look);
  });
}

/** The labels of an axis, for `rowLabels` and `columnLabels`: those whose middle is in sight, where a label stands. */
export function labelsOf({ names, found }, axis, places, span) {
  const [start, end] = span, labels = axis ? names.columns : names.rows;
  return {
    label: (i) => joined(labels, places[i]), first: Math.ceil(start - 0.5), end: Math.floor(end - 0.5) + 1,
    found: (i) => found[axis].size > 0 && places[i].some((token) => found[axis].has(token)),
  };
}

/**
 * Draw the chosen head (or heads, combined) as a heat map. Returns where the cells are, and the level.
 * @param {Scene} scene
 */
export function drawMap(canvas, scene) {
  const { shown, view, paint, look, kept: drawings, cursor, win, layout: { map, labels } } = scene;
  const context = sizeCanvas(canvas, map.width, map.height);
  const looks = shown.frames.map(({ source, scale }) => [source.key, scale.kind, scale.top]);
  const id = JSON.stringify([looks, win, look, view.blocks.count()]);
  const level = drawKept(context, drawings.map, id, map.width, map.height, (sheet) => drawCells(sheet, scene));
  shown.frames.forEach(({ source, names }, n) => {
    const frame = map.frames[n], cells = cellsIn(frame, win);
    const write = (axis, places, draw, place) => {
      const own = labelsOf({ ...scene, names }, axis, places, win.slice(2 * axis));
      const of = besideThumbs(context, scene, axis, places, own, place);
      draw(context, of, cursor[axis], paint, place);
    };
    const rows = { x: frame.x - 6, y: (i) => cells.y(i + 0.5), step: cells.high, room: labels.row + 4, align: "right" };
    if (n === 0 || map.across === 1 || labels.apart) write(0, source.rows, rowLabels, rows);
    const y = frame.y + frame.height + 5, x = (i) => cells.x(i + 0.5);
    write(1, source.columns, columnLabels, { x, y, step: cells.wide, room: map.below - 6 });
    markFound(context, scene, n, frame);
    frameCursor(context, frame, cells, rowsTogether(view, source), cursor, paint);
  });
  const { high, wide } = cellsIn(map.frames[0], win), cellsOf = (x, y) => [y / high, x / wide];
  return { frames: map.frames, win, cellsOf, level };
}

/** Frame the rows that are shown, and the cursor's cell, clear of small ones. */
function frameCursor(context, frame, { high, wide, x, y }, rows, [row, column], paint) {
  const clear = high < 6 ? 2.5 : 0;
  clipped(context, frame, 4, () => {
    strokeIn(context, paint.cursor, 1.5);
    for (const at of rows) context.strokeRect(frame.x, y(at) - clear, frame.width, high + 2 * clear);
    context.lineWidth = 2.5;
    context.strokeRect(x(column) - clear, y(row) - clear, wide + 2 * clear, high + 2 * clear);
  });
}
