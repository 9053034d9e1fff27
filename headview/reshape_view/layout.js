// Where everything stands in the picture of ReshapeView, in CSS pixels: the tensor block by block, its memory below.
// Pure functions of the state and the width; nothing here draws.

import { blockTitle } from "./stations.js";
/** @import { State, Station } from "./stations.js" */

export const CELL_HEIGHT = 32;
const CELL = { wide: 46, narrow: 32 }; // at most; and where that lets more blocks stand side by side
const NUMBERS = 16; // room left of a block and above it
const BLOCK_TITLE = 16; // room above that, where blocks have titles
const BLOCK_GAP = 16, LINE_GAP = 10; // between blocks side by side, and between lines of them
const FRAME = 2; // room for the frame around a cell at the edge of the picture
const STEADY = 340; // up to this height a path keeps its height, so that what is below does not jump while stepping
const MEMORY_TITLE = 26; // room above the memory line
export const MEMORY_HEIGHT = 24;
const MEMORY_NUMBERS = 22; // room below each of its lines
const PLACE = { wide: 34, labelled: 26, plain: 10 }; // at most; at least with a label; with colour and dots only
const LABELLED = 72; // a memory line of more numbers than this is plain

/** @typedef {ReturnType<typeof layout>} Layout */

/**
 * Say where everything stands; `places`: for each label x, y in the tensor and x, y in memory.
 * @param {State} w @param {number} width of the picture
 */
export function layout(w, width) {
  const grids = w.stations.map((station) => gridLayout(station, w.sizes, width));
  const { x, y, cell, blocks } = grids[w.step];
  const high = Math.max(grids[w.step].height, Math.min(STEADY, Math.max(...grids.map(({ height }) => height))));
  const { cells, line } = w.station, labelled = cells.length <= LABELLED;
  const fits = Math.max(1, Math.floor(width / (labelled ? PLACE.labelled : PLACE.plain)));
  const whole = w.sizes.d_model * Math.max(1, Math.floor(fits / w.sizes.d_model)); // broken at whole tokens
  const perLine = Math.min(cells.length, whole <= fits ? whole : fits);
  const memory = { top: high + MEMORY_TITLE, place: Math.min(PLACE.wide, width / perLine), perLine, labelled };
  const places = new Map(cells.map((label, i) => {
    const offset = line.indexOf(label);
    return [label, [x[i], y[i], (offset % perLine) * memory.place, lineTop(memory, offset)]];
  }));
  const height = lineTop(memory, cells.length - 1) + MEMORY_HEIGHT + MEMORY_NUMBERS;
  return { width, height, cell, blocks, memory, places };
}

/** Place the cells: a block for every index before the last two axes, side by side, a new line where the width ends. */
function gridLayout(station, sizes, width) {
  const [rows, columns] = station.shape.slice(-2), perBlock = rows * columns;
  const count = station.cells.length / perBlock;
  const titles = Array.from({ length: count }, (_, block) => blockTitle(block, station, sizes));
  const above = NUMBERS + (titles[0] ? BLOCK_TITLE : 0);
  const least = 6.6 * Math.max(...titles.map((title) => title.length)); // pixels that a title takes
  const wideWith = (cell) => NUMBERS + Math.max(columns * cell, least);
  const fits = Math.max(1, Math.min(count, Math.floor((width + BLOCK_GAP) / (wideWith(CELL.narrow) + BLOCK_GAP))));
  const share = (width + BLOCK_GAP) / fits - BLOCK_GAP; // of the width, for each block
  const cell = Math.min(CELL.wide, (share - NUMBERS - FRAME) / columns);
  const perLine = Math.ceil(count / Math.ceil(count / fits)); // equal lines: 2 + 2 rather than 3 + 1
  const blocks = titles.map((title, block) => {
    const left = (block % perLine) * (wideWith(cell) + BLOCK_GAP) + NUMBERS;
    const top = Math.floor(block / perLine) * (above + rows * CELL_HEIGHT + LINE_GAP) + above;
    return { title, left, top, rows, columns };
  });
  const blockOf = (i) => blocks[Math.floor(i / perBlock)];
  const x = station.cells.map((_, i) => blockOf(i).left + (i % columns) * cell);
  const y = station.cells.map((_, i) => blockOf(i).top + Math.floor((i % perBlock) / columns) * CELL_HEIGHT);
  return { x, y, cell, blocks, height: Math.max(...y) + CELL_HEIGHT + 2 * FRAME };
}

/** The upper edge of the line of memory that holds a place. */
export function lineTop(memory, offset) {
  return memory.top + Math.floor(offset / memory.perLine) * (MEMORY_HEIGHT + MEMORY_NUMBERS);
}

/** The label at a point of the picture, in the tensor or in memory; undefined where there is none. */
export function labelAt({ cell, memory }, places, px, py) {
  const hit = (x, y, width, height) => px >= x && px < x + width && py >= y && py < y + height;
  const found = [...places].find(([, [x, y, mx, my]]) =>
    hit(x, y, cell, CELL_HEIGHT) || hit(mx, my, memory.place, MEMORY_HEIGHT));
  return found?.[0];
}

/**
 * The label of the nearest cell beside the chosen one, on the same line of the picture; undefined at its end.
 * @param {State} w @param {Layout} where
 * @param {number} dx -1 to the left, 1 to the right; 0 where `dy` says up or down
 */
export function neighbour(w, { places }, dx, dy) {
  const from = places.get(w.chosen), [along, across] = dx ? [0, 1] : [1, 0];
  const distance = (place) => (dx || dy) * (place[along] - from[along]);
  const ahead = [...places].filter(([, place]) => distance(place) > 1 && Math.abs(place[across] - from[across]) < 1);
  return ahead.sort(([, one], [, other]) => distance(one) - distance(other))[0]?.[0];
}
