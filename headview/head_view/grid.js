// Where the thumbnails of HeadView's overview stand: in bands of heads, each folded where it is longer than the page: a
// layer, a group of likeness, or all heads. No page and no canvas; all lengths are CSS pixels.

import { pairOf } from "./sample.js";

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
const NUMBER_LINE = 16; // a head's number or caption above a thumbnail
const CAPTION_SHARE = 0.55; // of the longest caption must have room; the few that are so long are squeezed
const CAPTION_IN_GROUP = 28; // pixels of a thumbnail: many short rows would shrink for their captions
const BELOW_LINE = 13; // what it is sorted by, below
const BELOW_FROM = 28; // pixels of a thumbnail that has room for that
const GROUP_NAME = 82; // left of its first row
const GROUP_GAP = 4; // between groups
export const BRACKET = 6; // above heads that share their keys
const WINDOW_MARK = 40; // right of a row
export const TURNED_NAME = 70; // of a head, at most

/** How far two thumbnails stand apart, by the length of a step from one to the next. */
const gapOf = (step) => (step >= 20 ? 3 : step >= 10 ? 2 : step >= 5 ? 1 : 0);
const LEAST_STEP = LEAST_THUMB + gapOf(LEAST_THUMB + 2);

/**
 * How many neighbouring heads share their keys, in each layer; 1 where every head has its own.
 * @param {Weights} w @returns {number[]}
 */
export const sharedBy = ({ layers, heads, meta: { kv_heads: own } }) =>
  Array.from({ length: layers }, (_, layer) => (own?.[layer] ? Math.max(1, Math.round(heads / own[layer])) : 1));

/** Are these numbers all the same? */
export const allAlike = (numbers) => numbers.every((number) => number === numbers[0]);

/**
 * What stands in rows of its own, with its name at the left and its window at the right.
 * @param {Weights} w @param {Order} order @returns {{heads: number[], name: string, window: string}[]}
 */
function bandsOf(w, order) {
  const list = order.heads || Array.from({ length: w.layers * w.heads }, (_, i) => i), windows = w.meta.windows || [];
  const marked = !order.heads && w.layers > 1 && !allAlike(windows);
  const sizes = order.groups || (order.heads ? [list.length] : Array(w.layers).fill(w.heads));
  let done = 0;
  return sizes.map((size, n) => ({
    heads: list.slice(done, (done += size)),
    name: order.groups ? `group ${n + 1} of ${sizes.length}` : sizes.length > 1 ? order.layers[n] : "",
    window: marked && windows[n] ? `≤ ${windows[n]}` : "",
  }));
}

/**
 * Where the thumbnails stand in a room of this width and height: as large as they can be, in all of the width at most.
 * @param {Weights} w @param {Order} order
 */
export function overviewGrid(w, order, room, tall) {
  const bands = bandsOf(w, order);
  for (let step = LARGEST_THUMB + gapOf(LARGEST_THUMB); ; step--) {
    const grid = gridOf(w, order, bands, room, step);
    const most = grid.side > LEAST_THUMB ? tall : Math.max(tall, OVERVIEW_TALLEST);
    if (step === 1 || (grid.width <= room && grid.height <= most)) return grid;
  }
}

/** Lay bands in rows with steps of this length. @param {Weights} w @param {Order} order */
function gridOf(w, order, bands, room, step) {
  const folded = w.layers === 1 || order.heads !== null, side = step - gapOf(step);
  const least = Math.min(CAPTION_SHARE * order.room.caption, 44);
  const captioned = !folded || side >= (order.groups ? Math.max(CAPTION_IN_GROUP, least) : least);
  const turned = !folded && w.meta.head_names.length > 0 && order.room.head > step - 4;
  const name = turned ? Math.min(TURNED_NAME, order.room.head) + 6 : captioned ? NUMBER_LINE : 0;
  const shared = order.heads ? [1] : sharedBy(w), once = !folded && allAlike(shared);
  const bracket = shared.some((size) => size > 1) && (once || step >= LEAST_STEP) ? BRACKET : 0;
  const below = order.numbers && side >= BELOW_FROM ? BELOW_LINE : 0;
  const atLeft = [order.groups && GROUP_NAME, folded && !captioned && order.room.caption, !folded && order.room.layer];
  const widest = Math.max(...atLeft.map(Number)), left = widest ? Math.max(20, widest + 10) : 4;
  const right = bands.some(({ window }) => window) ? WINDOW_MARK : 2;
  const longest = Math.max(...bands.map(({ heads }) => heads.length));
  const most = folded ? Math.max(1, Math.floor((room - left - right) / step)) : longest;
  const across = Math.ceil(longest / Math.ceil(longest / most)); // no wider than the rows need
  const top = TITLE_LINE + name + bracket, down = step + below + (folded ? name : 0) + (once ? 0 : bracket);
  const rows = [], places = [];
  for (const [n, { heads, ...band }] of bands.entries()) {
    for (let i = 0; i < heads.length; i += across) {
      const y = top + rows.length * down + (order.groups ? n * GROUP_GAP : 0), row = heads.slice(i, i + across);
      rows.push({ ...band, heads: row, y, first: i === 0 });
      row.forEach((head, column) => (places[head] = [left + column * step, y]));
    }
  }
  return {
    folded, // a block, not a table
    side, step, left, top, rows,
    captioned, turned, // do names of heads stand above them, and upright?
    below, bracket, once, // room under each thumbnail, and above; above the first row only?
    list: bands.flatMap(({ heads }) => heads), // in the order in which they stand, layer times heads + head
    at: (layer, head) => places[layer * w.heads + head],
    width: Math.max(order.heads ? Math.min(180, room) : 96, left + across * step + right),
    height: rows[rows.length - 1].y + step + below + 2,
  };
}

/**
 * The smallest overview that can be read and leaves room for the picture; where none does, one as wide as the page.
 * @param {(grid: Grid) => boolean} leavesRoom
 */
export function leastGrid(w, order, width, leavesRoom) {
  const all = Math.max(20, order.room.layer + 10) + LEAST_STEP * w.heads + WINDOW_MARK;
  const tries = [[GRID_NARROW, READABLE_THUMB], [GRID_WIDE, READABLE_THUMB], [all, LEAST_THUMB]];
  for (const [room, least] of tries) {
    const grid = overviewGrid(w, order, Math.min(room, width), OVERVIEW_TALL);
    if (grid.side >= least && leavesRoom(grid)) return grid;
  }
  return overviewGrid(w, order, width, OVERVIEW_TALL);
}

/** The layer and head at a place of the overview, or null. @param {Grid} grid @returns {[number, number] | null} */
export function headAt(w, grid, px, py) {
  const air = (grid.step - grid.side) / 2;
  const inside = (place, start) => place >= start - air && place < start + grid.side + air;
  const row = grid.rows.find(({ y }) => inside(py, y));
  const found = row?.heads[Math.floor((px - grid.left + air) / grid.step)];
  return found === undefined ? null : pairOf(w, found);
}

/**
 * The head that stands one step right and down of another, as it is drawn, or null at the edge; infinitely far is the
 * end of its line. A block is one long line that is folded.
 * @returns {[number, number] | null}
 */
export function headBeside(w, { folded, list, rows }, layer, head, right, down) {
  const here = layer * w.heads + head, line = folded ? list : rows[layer].heads;
  if (Math.abs(right) === Infinity) return pairOf(w, line.at(right < 0 ? 0 : -1));
  const row = rows.findIndex(({ heads }) => heads.includes(here)), below = rows[row + down]?.heads;
  const column = rows[row].heads.indexOf(here);
  const to = right ? line[line.indexOf(here) + right] : below?.[Math.min(column, below.length - 1)];
  return to === undefined ? null : pairOf(w, to);
}
