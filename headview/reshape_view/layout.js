// Where everything stands in the picture of ReshapeView, in CSS pixels: the tensor block by block, its memory below.
// Pure functions of the state and the width; nothing here draws.

import { blockTitle } from "./cells.js";
/** @import { State, Station } from "./cells.js" */

export const CELL_HEIGHT = 32;
const CELL_WIDTH = 46; // at most
const CELL_NARROW = 32; // a cell may shrink to this, where then more blocks stand side by side
const ROW_NUMBERS = 16; // room left of a block
const COLUMN_NUMBERS = 16; // room above a block
const BLOCK_TITLE = 16; // room above that, where blocks have titles
const BLOCK_GAP = 16; // between blocks side by side
const LINE_GAP = 10; // between lines of blocks
const FRAME = 2; // room for the frame around a cell at the edge of the picture
const STEADY = 340; // up to this height a path keeps its height, so that what is below does not jump while stepping
const MEMORY_TITLE = 26; // room above the memory line
export const MEMORY_HEIGHT = 24;
const MEMORY_NUMBERS = 22; // room below each of its lines
const PLACE_WIDTH = 34; // at most
const PLACE_LABELLED = 26; // a place in memory that shows its label is at least as wide
const PLACE_PLAIN = 10; // one that shows colour and dots only
const LABELLED = 72; // a memory line of more numbers than this is plain

/**
 * @typedef {object} Grid the tensor
 * @property {Float32Array} x left edges by cell, row by row
 * @property {Float32Array} y upper edges
 * @property {number} cell width of a cell
 * @property {number} height
 * @property {{title: string, left: number, top: number, rows: number, columns: number}[]} blocks
 *
 * @typedef {object} Memory the memory line, broken into lines
 * @property {number} top
 * @property {number} place width of a place
 * @property {number} perLine places on a line
 * @property {number} height of all lines
 * @property {boolean} labelled
 *
 * @typedef {object} Layout
 * @property {number} width
 * @property {number} height
 * @property {Grid} grid
 * @property {Memory} memory
 * @property {Map<number, number[]>} places for each label x, y in the tensor and x, y in memory
 */

/**
 * Say where everything stands.
 * @param {State} w
 * @param {number} width of the picture
 * @param {(text: string) => number} textWidth of the title of a block
 * @returns {Layout}
 */
export function layout(w, width, textWidth) {
  const grids = w.stations.map((station) => gridLayout(station, w.sizes, width, textWidth));
  const grid = grids[w.step];
  const tallest = Math.max(...grids.map((g) => g.height));
  const memory = {
    ...memoryLayout(w.station.cells.length, w.sizes.d_model, width),
    top: Math.max(grid.height, Math.min(STEADY, tallest)) + MEMORY_TITLE,
  };
  return { width, height: memory.top + memory.height, grid, memory, places: placesOf(w.station, grid, memory) };
}

/**
 * Place the cells of a station: one block for every index before the last two axes, blocks side by side, a new line
 * for every sample and where the width ends.
 * @param {Station} station
 * @returns {Grid}
 */
function gridLayout(station, sizes, width, textWidth) {
  const [rows, columns] = station.shape.slice(-2);
  const perBlock = rows * columns;
  const count = station.cells.length / perBlock;
  const titles = Array.from({ length: count }, (_, block) => blockTitle(block, station, sizes));
  const above = COLUMN_NUMBERS + (titles[0] ? BLOCK_TITLE : 0);
  const { cell, blockWidth, fits } = blockSize(count, columns, Math.max(...titles.map(textWidth)), width);
  // One line for each sample, unless all blocks fit on one.
  const together = count <= fits || (station.shape.length === 3 && station.counts[0] === "sample");
  const group = together ? count : count / sizes.batch;
  const perLine = Math.ceil(group / Math.ceil(group / fits)); // equal lines: 2 + 2 rather than 3 + 1
  const x = new Float32Array(station.cells.length);
  const y = new Float32Array(station.cells.length);
  const blocks = titles.map((title, block) => {
    const within = block % group;
    const line = Math.floor(block / group) * Math.ceil(group / perLine) + Math.floor(within / perLine);
    const left = (within % perLine) * (blockWidth + BLOCK_GAP) + ROW_NUMBERS;
    const top = line * (above + rows * CELL_HEIGHT + LINE_GAP) + above;
    for (let i = 0; i < perBlock; i++) {
      x[block * perBlock + i] = left + (i % columns) * cell;
      y[block * perBlock + i] = top + Math.floor(i / columns) * CELL_HEIGHT;
    }
    return { title, left, top, rows, columns };
  });
  return { x, y, cell, height: Math.max(...y) + CELL_HEIGHT + 2 * FRAME, blocks };
}

/** How wide cells and blocks are, and how many blocks fit side by side. */
function blockSize(count, columns, titleWidth, width) {
  const widthWith = (cell) => ROW_NUMBERS + Math.max(columns * cell, titleWidth);
  const fitting = Math.floor((width + BLOCK_GAP) / (widthWith(CELL_NARROW) + BLOCK_GAP));
  const fits = Math.min(count, Math.max(1, fitting));
  const share = (width + BLOCK_GAP) / fits - BLOCK_GAP; // of the width, for each block
  const cell = Math.min(CELL_WIDTH, (share - ROW_NUMBERS - (fits === 1 ? FRAME : 0)) / columns);
  return { cell, blockWidth: widthWith(cell), fits };
}

/** Place the memory line, broken where it is too long, at whole tokens if that is possible. */
function memoryLayout(count, d_model, width) {
  const labelled = count <= LABELLED;
  const fits = Math.max(1, Math.floor(width / (labelled ? PLACE_LABELLED : PLACE_PLAIN)));
  const whole = d_model * Math.max(1, Math.floor(fits / d_model));
  const perLine = Math.min(count, whole <= fits ? whole : fits);
  const height = Math.ceil(count / perLine) * (MEMORY_HEIGHT + MEMORY_NUMBERS);
  return { perLine, place: Math.min(PLACE_WIDTH, width / perLine), height, labelled };
}

/** The upper edge of the line of memory that holds a place. @param {Memory} memory */
export function lineTop(memory, offset) {
  return memory.top + Math.floor(offset / memory.perLine) * (MEMORY_HEIGHT + MEMORY_NUMBERS);
}

function placesOf(station, grid, memory) {
  const places = new Map();
  station.cells.forEach((label, i) => places.set(label, [grid.x[i], grid.y[i], 0, 0]));
  station.line.forEach((label, offset) => {
    const place = places.get(label);
    place[2] = (offset % memory.perLine) * memory.place;
    place[3] = lineTop(memory, offset);
  });
  return places;
}

/** The label at a point of the picture, in the tensor or in memory; undefined where there is none. */
export function labelAt({ grid, memory }, places, px, py) {
  const hit = (x, y, width, height) => px >= x && px < x + width && py >= y && py < y + height;
  for (const [label, [x, y, mx, my]] of places) {
    if (hit(x, y, grid.cell, CELL_HEIGHT) || hit(mx, my, memory.place, MEMORY_HEIGHT)) return label;
  }
  return undefined;
}

/**
 * The label of the nearest cell beside the chosen one, on the same line of the picture; undefined at its end.
 * @param {State} w
 * @param {Grid} grid
 * @param {number} dx -1 to the left, 1 to the right; 0 where `dy` says up or down
 */
export function neighbour(w, grid, dx, dy) {
  const { cells } = w.station;
  const from = cells.indexOf(w.chosen);
  const [along, across] = dx ? [grid.x, grid.y] : [grid.y, grid.x];
  const distance = (i) => (dx || dy) * (along[i] - along[from]);
  const ahead = [...cells.keys()].filter((i) => distance(i) > 1 && Math.abs(across[i] - across[from]) < 1);
  return cells[ahead.sort((i, j) => distance(i) - distance(j))[0]];
}
