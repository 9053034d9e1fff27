// Where the parts of HeadLab stand on its canvas: sizes in, places out. No page; all lengths are CSS pixels.
// A panel is `{x, y, cell, wide, high, strip, stripWide}`: a map from (x, y), and beside it, from `strip`, the strip of
// its output, if there is one.

/** @import { LabState } from "./numbers.js" */

export const WIDEST = 1100;
const BESIDE_FROM = 620; // from this width on, the overview may stand beside the head in focus
const OVERVIEW = { share: 0.44, tall: 420, above: 250 }; // of the width and height beside the focus; height above it
const BETWEEN = { beside: 24, above: 6 }; // overview and focus
const LARGEST_CELL = 44;
const TALLEST = 420; // of the map in focus
const WHOLE_FROM = 3; // a cell of so many pixels gets a whole number of them
const SEEN_CELL = 14, SEEN_SIDE = 300; // below both, the focus has too little room beside the overview
const TITLE_HIGH = 36; // above the map in focus
const BARS_ROOM = 54; // for the entropy of each query
const AIR = 8;
const STRIP = { share: 0.22, least: 24, most: 150, apart: 12 }; // of the room; what the outputs of a head get
export const LEGEND = { high: 26, stacked: 44, stackedBelow: 420, second: { x: 190, below: 18 } };

const THUMB = { gap: 10, caption: 25, least: 30, narrowest: 56, largestCell: 26 };
const THUMB_STRIP = 0.22; // of the width of a small map
const NAMED = { room: 52, cell: 13 }; // small maps are named where names take no more, and cells are no smaller

/**
 * Place everything on a canvas of this width: the head in focus, all heads small beside or above it, the legend.
 * @param {LabState} state @param {{wide: number, high: number}} labels the room beside and below the map in focus
 */
export function layout(state, width, hasOutput, labels) {
  const { queries, keys, heads } = state;
  const above = () => (heads > 1 ? overviewPlace(state, width, OVERVIEW.above, hasOutput, labels) : null);
  let beside = heads > 1 && width >= BESIDE_FROM;
  let overview = beside
    ? overviewPlace(state, width * OVERVIEW.share, OVERVIEW.tall, hasOutput, labels)
    : above();
  const leftOf = () => labels.wide + (beside ? overview.wide + BETWEEN.beside : 0);
  const cell = focusCell(state, width - leftOf(), hasOutput);
  if (beside && cell < SEEN_CELL && cell * Math.max(keys, queries) < SEEN_SIDE) {
    beside = false;
    overview = above();
  }
  const top = TITLE_HIGH + (overview && !beside ? overview.high + BETWEEN.above : 0);
  const focus = focusPlace(state, leftOf(), top, width, hasOutput);
  const content = Math.max(top + focus.high + labels.high + AIR, overview ? overview.high : 0);
  const high = content + (width < LEGEND.stackedBelow ? LEGEND.stacked : LEGEND.high);
  return { width, high, focus, thumbs: overview ? overview.thumbs : [], legend: content + 4, labels };
}

/** The room for a map and its strip, right of its labels. */
const focusRoom = (room) => room - BARS_ROOM - AIR;

/** The side of a cell in focus, where `room` is left of the width. */
function focusCell({ queries, keys }, room, hasOutput) {
  const share = hasOutput ? 1 - STRIP.share : 1;
  const cell = Math.min(LARGEST_CELL, (focusRoom(room) * share) / keys, TALLEST / queries);
  return cell >= WHOLE_FROM ? Math.floor(cell) : cell;
}

/** The panel of the head in focus, and where its bars of entropy begin. */
function focusPlace(state, x, y, width, hasOutput) {
  const { queries, keys, headDim } = state;
  const cell = focusCell(state, width - x, hasOutput), wide = cell * keys;
  const rest = focusRoom(width - x) - wide - STRIP.apart;
  const stripWide = hasOutput ? Math.max(STRIP.least, Math.min(headDim * cell, rest, STRIP.most)) : 0;
  const bars = x + wide + AIR;
  return { x, y, cell, wide, high: cell * queries, bars, strip: bars + BARS_ROOM, stripWide };
}

/** Small maps of all heads, named where their names are short and take little of their room. */
function overviewPlace(state, width, high, hasOutput, labels) {
  const names = { left: labels.wide - 19, below: labels.high - 7 };
  const short = names.left <= NAMED.room && names.below <= NAMED.room;
  const named = short && thumbPlaces(state, width, high, hasOutput, names);
  return named && named.cell >= NAMED.cell ? named : thumbPlaces(state, width, high, hasOutput, null);
}

/** Place small maps in as many columns as make them largest; `names`: the room for labels beside and below each. */
function thumbPlaces({ queries, keys, heads }, width, high, hasOutput, names) {
  const { left, below } = names || { left: 0, below: 0 };
  const { gap, caption } = THUMB;
  const side = hasOutput ? 1 + THUMB_STRIP : 1;
  const { cell, columns } = thumbColumns({ queries, keys, heads }, width, high, side, { left, below });
  const wide = keys * cell;
  const stepX = Math.max(wide * side + gap, THUMB.narrowest) + left;
  const stepY = queries * cell + caption + gap + below;
  const step = stepX - gap - left; // what a caption may take
  const stripWide = hasOutput ? wide * (side - 1) - 2 : 0;
  const thumbs = Array.from({ length: heads }, (_, h) => {
    const x = (h % columns) * stepX + 3 + left, y = Math.floor(h / columns) * stepY + caption;
    return { x, y, cell, wide, high: queries * cell, strip: x + wide + 2, stripWide, step, named: names !== null };
  });
  const across = Math.min(heads, columns);
  return { thumbs, cell, wide: across * stepX - gap + 6, high: Math.ceil(heads / columns) * stepY };
}

/** The number of columns that makes small maps largest, and the side of their cells. */
function thumbColumns({ queries, keys, heads }, width, high, side, { left, below }) {
  const { gap, caption, least } = THUMB;
  const most = Math.min(heads, Math.floor((width + gap) / (THUMB.narrowest + left)));
  let best = { cell: 0, columns: most };
  for (let columns = 1; columns <= most; columns++) {
    const tall = high / Math.ceil(heads / columns) - caption - gap - below;
    const across = ((width - (columns - 1) * gap - 4) / columns - left) / side;
    if (tall < least && columns < most) continue; // rather a longer canvas than maps of a few pixels
    const cell = Math.min(across / keys, (tall < least ? across : tall) / queries, THUMB.largestCell);
    if (cell > best.cell) best = { cell, columns };
  }
  return { ...best, cell: best.cell >= 4 ? Math.floor(best.cell) : best.cell };
}

/** What lies at a place of the canvas: head, row and column, and whether that is the head in focus. Or null. */
export function cellAt(plan, { queries, keys, headDim, head: inFocus }, px, py) {
  const inside = (panel, head, large) => {
    const row = Math.floor((py - panel.y) / panel.cell);
    if (row < 0 || row >= queries || px < panel.x) return null;
    if (px < panel.x + panel.wide) return { head, row, column: Math.floor((px - panel.x) / panel.cell), large };
    const share = (px - panel.strip) / panel.stripWide;
    return share >= 0 && share < 1 ? { head, row, column: keys + Math.floor(share * headDim), large } : null;
  };
  const small = plan.thumbs.map((panel, head) => inside(panel, head, false)).find(Boolean);
  return small || inside(plan.focus, inFocus, true);
}
