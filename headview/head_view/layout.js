// Where the parts of HeadView stand: sizes in, places out. No page and no canvas; all lengths are CSS pixels.

import { LEAST_SIDE } from "./combine.js";
import { GRID_TALL, leastGrid, overviewGrid, STACKED_NARROW, STACKED_TALL } from "./grid.js";

const GUTTER = 16; // between panels, as in style.css
const BARS_WIDE = 240; // the list of one query, beside the picture
const BARS_WIDEST = 460; // and below it
const BARS_GROWN = 1.15; // how much larger maps must become for the bars to leave their side
const BARS_TALL = 300; // about, where they stand below the overview
const MOST_BARS = 12, FEW_BARS = 6; // keys in the list; on a telephone
const NARROW = 560; // a telephone: all of a view is to be a screen and a half
const LEAST_PICTURE = 320; // width of the map or the lines; where less is left, panels stack
const PICTURE_KEEPS = 480; // of the width there is, before thumbnails grow into it: lines and text need more than a map
export const SCALE_ROOM = 76; // right of a map, for the colour scale and numbers as long as −0.0123
const MAP_GAP = 20; // between two maps that share a colour bar
const ROW_MARGIN = 24; // around the labels of the queries: the name of their axis, and air
const KEY_MARGIN = 26; // the same around those of the keys
export const TITLE_ROOM = 24; // above the map or the lines
const FLAT_LABELS = 22; // below a map; labels that are turned need as much as the longest
export const LABEL_AIR = 4; // a label lies flat if its cell is so much wider
export const NAME_ROOM = 18; // below the labels, for the name of the axis
const TALLEST_NARROW = 270;
const TALLEST = 460; // of a map or of lines, unless there are more tokens than that ...
const LONGEST = 640; // ... and however many there are: from there on one looks closer
const NARROWEST_LONG = 400; // pixels for a map of more keys than that; it is looked at more closely
const LEAST_FRAME = 220; // of maps beside each other; with less, they stand below each other
const FRAME_TITLE = 18; // above each of several maps
const LARGEST_CELL = 44;
const CELL_OF_FEW = 10; // of a map of many queries and few keys, or the other way round: no cell is widened further

const LINE_STEP = 26; // between the tokens of a short text in line mode
const LINES_WIDEST = 560;
export const ACROSS_STEP = 14; // between two labels that are turned: with less they run into each other
const ACROSS_WIDEST = 64; // between the tokens of a short text, side by side
const ACROSS_TALL = { least: 120, most: 240, share: 0.4 }; // of lines that run down; the share is that of their width
export const SAMPLE_WIDE = 130, SAMPLE_HIGH = 18; // an entry of the legend of lines, at least

/**
 * Share a width between overview, picture and bars; where a key would get less than a pixel, stack them. The picture
 * takes what it can use, and the thumbnails grow into what that leaves.
 *
 * @param {Weights} w @param {number} width @param {{row: number, key: number, apart: boolean}} labels the room that the
 *   longest needs; has each of several maps its own rows?
 * @param {{queries: number, keys: number}} seen rows and columns in sight @param {number} maps beside each other
 * @param {Order} order of the heads, from order.js
 * @returns {any} `form`: "one", "two" or "three" columns of panels, "two low" where bars stand below the picture, "above"
 *   where it stands below both; `room`: the width of its column; `bars`: that of theirs, and `most` in the list
 */
export function layout(w, width, labels, seen, maps, order) {
  const names = labels.row + ROW_MARGIN, keys = Math.min(seen.keys, NARROWEST_LONG);
  const least = maps > 1 ? names + maps * LEAST_FRAME : Math.max(LEAST_PICTURE, names + SCALE_ROOM + keys);
  const columnOf = (grid) => (w.several ? Math.max(BARS_WIDE, grid.width) + GUTTER : 0);
  const small = w.several ? leastGrid(w, order, width, (grid) => width - columnOf(grid) >= least) : null;
  const rest = width - columnOf(small), withBars = rest - BARS_WIDE - GUTTER;
  const form = withBars >= least ? "three" : w.several && rest >= least ? "two" : "one";
  const spared = { three: withBars, two: rest, one: width }[form];
  if (maps > 1 && form !== "one" && !w.meta.picture) {
    const below = mapPlace(seen, width, labels, maps), beside = mapPlace(seen, spared, labels, maps);
    const grows = below.frames[0].width > BARS_GROWN * beside.frames[0].width;
    if (grows || below.across > beside.across) return aboveMaps(w, width, labels, below, order);
  }
  let grid = small;
  if (w.several && form !== "one") {
    const map = mapPlace(seen, spared, labels, maps), used = Math.max(map.width, Math.min(spared, PICTURE_KEEPS));
    const tall = Math.max(small.height, form === "two" ? map.height - BARS_TALL : map.height, GRID_TALL);
    const larger = overviewGrid(w, order, columnOf(small) - GUTTER + spared - used, tall);
    if (larger.side > small.side) grid = larger;
  } else if (w.several) grid = overviewGrid(w, order, width, width < NARROW ? STACKED_NARROW : STACKED_TALL);
  const room = form === "one" ? width : spared + columnOf(small) - columnOf(grid);
  const map = mapPlace(seen, room, labels, maps);
  // Bars stand below the one that is shorter.
  const underMap = form === "two" && grid.height > map.height, column = underMap ? room : columnOf(grid) - GUTTER;
  const bars = { three: BARS_WIDE, two: Math.min(column, BARS_WIDEST), one: Math.min(width, BARS_WIDEST) }[form];
  const most = width < NARROW ? FEW_BARS : MOST_BARS;
  return { form: underMap ? "two low" : form, grid, room, map, bars, most, labels };
}

/** Place maps that are compared over the whole width, below the overview and the bars beside it. */
function aboveMaps(w, width, labels, map, order) {
  const of = { room: width, map, labels };
  if (!w.several) return { ...of, form: "one", grid: null, bars: Math.min(width, BARS_WIDEST), most: MOST_BARS };
  const grid = overviewGrid(w, order, width - BARS_WIDE - GUTTER, BARS_TALL); // no higher than the bars
  const bars = Math.min(width - grid.width - GUTTER, BARS_WIDEST);
  return { ...of, form: "above", grid, bars, most: FEW_BARS };
}

/**
 * Where maps stand on a canvas of `width` x `height`, beside or below each other: the largest cells that fit, but not
 * huge. `seen`: rows and columns in sight.
 */
function mapPlace(seen, room, labels, maps) {
  const left = labels.row + ROW_MARGIN, gap = MAP_GAP + (labels.apart ? labels.row : 0);
  const across = maps > 1 && room - left - (maps - 1) * (gap - MAP_GAP) >= maps * LEAST_FRAME ? maps : 1;
  // What lies between the first map and map `i`, but for maps: the first two share a colour bar.
  const between = (i) => (across > 1 ? i * gap + (i > 1 ? SCALE_ROOM - MAP_GAP : 0) : 0);
  const free = (room - left - between(across - 1) - SCALE_ROOM) / across;
  const usual = room < NARROW ? TALLEST_NARROW : Math.min(LONGEST, Math.max(TALLEST, seen.queries));
  const tallest = usual * (across < maps ? 0.7 : 1);
  const cell = Math.min(free / seen.keys, tallest / seen.queries, LARGEST_CELL);
  const wide = Math.max(cell, Math.min(Math.min(LEAST_SIDE, free) / seen.keys, CELL_OF_FEW));
  const high = Math.max(cell, Math.min(LEAST_SIDE / seen.queries, CELL_OF_FEW));
  const below = labels.key > wide - LABEL_AIR ? labels.key + KEY_MARGIN - 8 : FLAT_LABELS;
  const title = maps > 1 ? FRAME_TITLE : 0;
  const step = title + high * seen.queries + below + NAME_ROOM;
  const frames = Array.from({ length: maps }, (_, i) => ({
    x: left + between(i) + (across > 1 ? i : 0) * wide * seen.keys,
    y: TITLE_ROOM + title + (across > 1 ? 0 : i) * step,
    width: wide * seen.keys,
    height: high * seen.queries,
  }));
  const width = Math.max(260, frames[across - 1].x + wide * seen.keys + SCALE_ROOM);
  return { frames, across, below, width, height: TITLE_ROOM + (across > 1 ? 1 : maps) * step };
}

/** Where lines stand in a frame. `turned`: do they run down, from tokens side by side? */
function linesIn(frame, seen, turned) {
  const [start, long] = turned ? [frame.x, frame.width] : [frame.y, frame.height];
  const [end, far] = turned ? [frame.y, frame.height] : [frame.x, frame.width];
  const steps = [long / seen.queries, long / seen.keys]; // of each axis, from one token to the next
  return {
    frame, turned, steps, ends: [end, end + far], // where they begin and end
    at: steps.map((step) => (i) => start + (i + 0.5) * step), // where a token stands along them
  };
}

/** How many entries of the legend of lines, each so `wide`, stand in a row, and how high all are. */
function legendOf(heads, width, wide) {
  const samples = Math.max(1, Math.floor(width / wide));
  return { samples, wide: Math.min(wide, width), legend: heads > 1 ? Math.ceil(heads / samples) * SAMPLE_HIGH + 4 : 0 };
}

/**
 * Where the lines of `heads` heads stand: queries at the left of `frame`, keys at its right, a legend above it with
 * entries so `wide`. `beside`: of each axis its labels, as `rowLabels` or `columnLabels` takes them; `marks`: where
 * marks stand, and from which step on.
 */
export function linesPlace(seen, { room, labels }, heads, wide) {
  const width = Math.min(room, LINES_WIDEST), { legend, ...samples } = legendOf(heads, width, wide);
  const left = labels.row + ROW_MARGIN, right = Math.max(60, labels.key + KEY_MARGIN);
  const usual = room < NARROW ? TALLEST_NARROW : TALLEST;
  const tall = Math.max(usual, Math.min(LONGEST, seen.queries)), most = LINE_STEP * Math.max(seen.queries, seen.keys);
  const frame = { x: left, y: TITLE_ROOM + legend, width: width - left - right, height: Math.min(tall, most) };
  return {
    ...linesIn(frame, seen, false), ...samples, width,
    height: frame.y + frame.height + 24,
    beside: [
      { x: left - 6, room: labels.row + 4, align: "right" }, { x: width - right + 6, room: right - 22, align: "left" },
    ],
    marks: [left - labels.row - 8, width - 6].map((end) => ({ end, align: "right", baseline: "middle", from: 9 })),
  };
}

/** The same for lines that run down, from a row of queries to a row of keys; `left`: the room of the axes' names. */
export function acrossPlace(seen, { room, labels }, heads, wide, left) {
  const widths = [labels.row, labels.key];
  const { legend, ...samples } = legendOf(heads, room, wide), { least, most, share } = ACROSS_TALL;
  const width = Math.min(room - left - 8, ACROSS_WIDEST * Math.max(seen.queries, seen.keys));
  const turned = (axis) => widths[axis] > width / (axis ? seen.keys : seen.queries) - LABEL_AIR;
  const [above, below] = widths.map((widest, axis) => (turned(axis) ? widest + 4 : FLAT_LABELS - 4) + 6);
  const height = Math.max(least, Math.min(most, share * width));
  const frame = { x: left, y: TITLE_ROOM + legend + above, width, height }, end = frame.y + height;
  return {
    ...linesIn(frame, seen, true), ...samples,
    width: Math.max(260, left + width + 8),
    height: end + below + NAME_ROOM,
    beside: [{ y: frame.y - 6, room: widths[0] + 2, above: true }, { y: end + 6, room: widths[1] + 2 }],
    marks: [
      { end: frame.y + 4, align: "center", baseline: "top", from: 6 },
      { end: end - 4, align: "center", baseline: "bottom", from: 6 },
    ],
  };
}
