// Where the thumbnails of HeadView's overview stand: layers by heads as a table, or heads in a row that is folded into
// a block. No page and no canvas; all lengths are CSS pixels.

/** @import { Order } from "./order.js" */
/** @import { Weights } from "./sample.js" */

const LARGEST_THUMB = 150;
const READABLE_THUMB = 14; // what is smaller gets more of the width, if there is more ...
const LEAST_THUMB = 10; // ... but no less than this, as long as the page has room
const GRID_NARROW = 300, GRID_WIDE = 620; // widths that are tried before the least that shows all
export const GRID_TALL = 400; // beside a picture that is shorter
export const STACKED_TALL = 480; // above the picture
export const STACKED_NARROW = 250; // on a telephone
const OVERVIEW_TALL = 560; // at most, unless thumbnails became smaller than LEAST_THUMB ...
const OVERVIEW_TALLEST = 900; // ... and then at most this
const TITLE_LINE = 18; // what the overview says of itself
const NUMBER_LINE = 15; // a head's number or caption above a thumbnail
const CAPTION_SHARE = 0.55; // of the longest caption must have room; the few that are so long are squeezed
const BELOW_LINE = 13; // what it is sorted by, below
const BELOW_FROM = 40; // pixels of a thumbnail that has room for that
const GROUP_LINE = 18; // the name of a group, above it
const GROUP_NAME = 88; // and its room
export const BRACKET = 6; // above the numbers of heads that share their keys
export const ROW_BRACKET = 5; // the same in each row
export const WINDOW_MARK = 40; // right of a row
export const TURNED_NAME = 70; // of a head, at most

/** How far two thumbnails stand apart, by the length of a step from one to the next. */
const gapOf = (step) => (step >= 20 ? 3 : step >= 10 ? 2 : step >= 5 ? 1 : 0);
const LEAST_STEP = LEAST_THUMB + gapOf(LEAST_THUMB + 2);

/**
 * How many neighbouring heads share their keys, in each layer; 1 where every head has its own.
 * @param {Weights} w @returns {number[]}
 */
export function sharedBy(w) {
  const { kv_heads: own } = w.meta;
  const size = (layer) => (own?.[layer] ? Math.max(1, Math.round(w.heads / own[layer])) : 1);
  return Array.from({ length: w.layers }, (_, layer) => size(layer));
}

/** Are these numbers all the same? */
export const allAlike = (numbers) => numbers.every((number) => number === numbers[0]);

/**
 * Where the thumbnails stand in a room of this width and height: as large as they can be, in all of the width at most.
 *
 * @param {Weights} w @param {Order} order
 * @returns {Grid}
 * @typedef {object} Grid
 * @property {boolean} folded is it a block, not a table? @property {number} side of a thumbnail
 * @property {number} step from one to the next @property {(layer: number, head: number) => [number, number]} at
 * @property {number} left where the first one begins @property {number} top @property {number} width
 * @property {number} height @property {number[]} list heads in the order in which they stand, layer times heads + head
 * @property {number} caption room above each thumbnail @property {number} below room under each
 * @property {boolean} turned are names of heads turned? @property {number} bracket room above all for groups of shared
 *   keys @property {boolean} rowBracket has each row that room?
 * @property {{x: number, y: number, name: string}[]} named groups
 */
export function overviewGrid(w, order, room, tall) {
  return w.layers === 1 || order.heads ? blockGrid(w, order, room, tall) : tableGrid(w, order, room, tall);
}

/**
 * The smallest overview that can be read and leaves room for the picture; where none does, one as wide as the page.
 * @param {(grid: Grid) => boolean} leavesRoom
 */
export function leastGrid(w, order, width, leavesRoom) {
  const last = leastRoom(w, order);
  for (const [room, least] of [[GRID_NARROW, READABLE_THUMB], [GRID_WIDE, READABLE_THUMB], [last, LEAST_THUMB]]) {
    const grid = overviewGrid(w, order, Math.min(room, width), OVERVIEW_TALL);
    if (grid.side >= least && leavesRoom(grid)) return grid;
  }
  return overviewGrid(w, order, width, OVERVIEW_TALL);
}

const leastRoom = (w, order) => sidesOfTable(w, order).reduce((sum, side) => sum + side, LEAST_STEP * w.heads);

/** The room left and right of a table: for the names of its layers, and for their windows where these differ. */
function sidesOfTable(w, order) {
  const windows = w.meta.windows || [];
  return [Math.max(20, order.room.layer + 10), windows.some(Boolean) && !allAlike(windows) ? WINDOW_MARK : 2];
}

/** @returns {Grid} */
function tableGrid(w, order, room, tall) {
  const { layers, heads } = w, [left, right] = sidesOfTable(w, order), shared = sharedBy(w), alike = allAlike(shared);
  const wide = Math.floor((room - left - right) / heads);
  const turned = w.meta.head_names.length > 0 && order.room.head > wide - 4;
  const bracket = alike && shared[0] > 1 ? BRACKET : 0;
  const top = TITLE_LINE + (turned ? Math.min(TURNED_NAME, order.room.head) + 6 : NUMBER_LINE) + bracket + 3;
  const above = alike ? 0 : ROW_BRACKET; // brackets of each row on its own
  const down = Math.max(tall, Math.min(OVERVIEW_TALLEST, top + layers * (LEAST_STEP + above))) - top;
  const step = Math.max(1, Math.min(LARGEST_THUMB + gapOf(LARGEST_THUMB), wide, Math.floor(down / layers) - above));
  const stepY = step + (step >= LEAST_STEP ? above : 0), side = step - gapOf(step);
  return {
    folded: false, side, step, left, turned, caption: 0, below: 0, named: [],
    top: top + stepY - step,
    at: (layer, head) => [left + head * step, top + stepY - step + layer * stepY],
    list: Array.from({ length: layers * heads }, (_, i) => i),
    bracket,
    rowBracket: stepY > step,
    width: Math.max(96, left + heads * step + right),
    height: top + layers * stepY + 2,
  };
}

/** @returns {Grid} */
function blockGrid(w, order, room, tall) {
  const list = order.heads || Array.from({ length: w.heads }, (_, i) => i), sizes = order.groups || [list.length];
  const bracket = !order.heads && sharedBy(w)[0] > 1 ? BRACKET : 0;
  const down = Math.max(tall, Math.min(OVERVIEW_TALLEST, room));
  let made;
  for (let step = LARGEST_THUMB + gapOf(LARGEST_THUMB); step >= 1; step--) {
    const side = step - gapOf(step), captioned = side >= Math.min(CAPTION_SHARE * order.room.caption, 44);
    const caption = captioned ? NUMBER_LINE + bracket : 0;
    const below = order.numbers && side >= BELOW_FROM ? BELOW_LINE : 0;
    // What is too small for a caption has that of the first in its row at the left.
    const left = captioned ? 4 : order.room.caption + 10;
    const across = Math.max(1, Math.floor((room - left - 2) / step));
    const shelves = shelvesOf(sizes, across, step), stepY = step + caption + below;
    made = { step, side, caption, below, left, bracket: captioned ? bracket : 0, stepY, tall: 0, ...shelves };
    made.tall = TITLE_LINE + made.rows * made.stepY + made.shelves * (sizes.length > 1 ? GROUP_LINE : 0) + 4;
    if (made.tall <= (side >= LEAST_THUMB ? tall : down) && left + made.across * step + 2 <= room) break;
  }
  return placeBlock(w, order, list, sizes, made);
}

/**
 * Lay groups on shelves, beside each other where they fit. Returns for each group its shelf's first row, its column
 * and how many columns it has; how many rows, shelves and columns there are.
 */
function shelvesOf(sizes, most, step) {
  if (sizes.length === 1) {
    const rows = Math.ceil(sizes[0] / most), across = Math.ceil(sizes[0] / rows); // no wider than its rows need
    return { places: [{ row: 0, shelf: 0, column: 0, across }], rows, shelves: 1, across };
  }
  const named = Math.min(most, Math.ceil(GROUP_NAME / step)), places = [];
  let row = 0, shelf = 0, column = 0, high = 0, widest = 0;
  for (const size of sizes) {
    if (column && column + Math.max(size, named) > most) [row, shelf, column, high] = [row + high, shelf + 1, 0, 0];
    const across = Math.min(size, most);
    places.push({ row, shelf, column, across });
    high = Math.max(high, Math.ceil(size / across));
    widest = Math.max(widest, column + Math.max(across, named));
    column += Math.max(across, named) + 1;
  }
  return { places, rows: row + high, shelves: shelf + 1, across: Math.min(most, widest) };
}

/** @returns {Grid} */
function placeBlock(w, order, list, sizes, made) {
  const { step, side, caption, below, left, places, stepY, tall, across, bracket } = made;
  const title = sizes.length > 1 ? GROUP_LINE : 0, xs = [], ys = [], named = [];
  let done = 0;
  sizes.forEach((size, n) => {
    const place = places[n];
    const y = TITLE_LINE + place.row * stepY + (place.shelf + 1) * title;
    if (title) {
      named.push({ x: left + place.column * step, y: y - title, name: `group ${n + 1} of ${sizes.length}` });
    }
    for (let i = 0; i < size; i++, done++) {
      xs[list[done]] = left + (place.column + (i % place.across)) * step;
      ys[list[done]] = y + caption + Math.floor(i / place.across) * stepY;
    }
  });
  return {
    folded: true, side, step, left, top: TITLE_LINE + title + caption, turned: false, caption, below, named,
    list, bracket,
    rowBracket: false,
    at: (layer, head) => [xs[layer * w.heads + head], ys[layer * w.heads + head]],
    width: Math.max(order.heads ? 180 : 96, left + across * step + 2),
    height: tall,
  };
}

/** The layer and head at a place of the overview, or null. @param {Grid} grid @returns {[number, number] | null} */
export function headAt(w, grid, px, py) {
  const air = (grid.step - grid.side) / 2;
  const inside = (place, start) => place >= start - air && place < start + grid.side + air;
  for (let layer = 0; layer < w.layers; layer++) {
    for (let head = 0; head < w.heads; head++) {
      const [x, y] = grid.at(layer, head);
      if (inside(px, x) && inside(py, y)) return [layer, head];
    }
  }
  return null;
}

/**
 * The head that stands one step right and down of another, as it is drawn, or null at the edge. A block is one long
 * row that is folded, so that left and right lead on over its edge. @returns {[number, number] | null}
 */
export function headBeside(w, grid, layer, head, right, down) {
  const pair = (i) => /** @type {[number, number]} */ ([Math.floor(i / w.heads), i % w.heads]);
  if (!grid.folded) {
    const [i, j] = [layer + down, head + right];
    return i >= 0 && i < w.layers && j >= 0 && j < w.heads ? [i, j] : null;
  }
  const here = grid.list.indexOf(layer * w.heads + head);
  if (right) return grid.list[here + right] === undefined ? null : pair(grid.list[here + right]);
  const [x, y] = grid.at(layer, head);
  let best = null, nearest = Infinity;
  for (const i of grid.list) {
    const [toX, toY] = grid.at(...pair(i)), away = (toY - y) * down;
    const far = away * 1e4 + Math.abs(toX - x); // the next row first, then what is closest there
    if (away > 0 && far < nearest) [best, nearest] = [pair(i), far];
  }
  return best;
}
