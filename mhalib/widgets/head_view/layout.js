// Where the parts of HeadView stand: sizes in, places out. No page and no canvas; all lengths are CSS pixels.

const GUTTER = 16; // between panels, as in style.css
const BARS_WIDE = 240; // the list of one query, beside the picture
const BARS_WIDEST = 460; // and below it
const LEAST_PICTURE = 320; // width of the map or the lines; where less is left, panels stack
const SCALE_ROOM = 64; // right of a map, for the colour scale
const ROW_MARGIN = 24; // around the labels of the queries: the name of their axis, and air
const KEY_MARGIN = 26; // the same around those of the keys
const TITLE_ROOM = 24; // above the map or the lines
const FLAT_LABELS = 22; // below a map; labels that are turned need as much as the longest
const LABEL_AIR = 4; // a label lies flat if its cell is so much wider
const NAME_ROOM = 18; // below the labels, for the name of the axis
const TALLEST = 460; // of a map or of lines, unless there are more tokens than that
const LARGEST_CELL = 44;
const LEAST_SIDE = 160; // of a map of many queries and few keys, or the other way round ...
const CELL_OF_FEW = 10; // ... as far as its cells need not be larger than this for it

const GAP = 3; // between thumbnails
const LARGEST_THUMB = 92;
const LEAST_THUMB = 14; // what is smaller gets more of the width, if there is more
const OVERVIEW_TALL = 560;
const OVERVIEW_NARROW = 300, OVERVIEW_WIDE = 620; // widths that are tried before the whole one

const LINE_STEP = 26; // between the tokens of a short text in line mode
const LINES_WIDEST = 560;
const SAMPLE_WIDE = 130, SAMPLE_HIGH = 18; // an entry of the legend of lines

/**
 * Share a width between overview, picture and bars; where a key would get less than a pixel, stack them.
 *
 * @param {Weights} w @param {number} width @param {{row: number, key: number}} labels the room that the longest needs
 * @returns {{form: "one"|"two"|"three", grid: object, map: object, room: number, bars: number, labels: object}}
 *   `form`: how many columns of panels; `room`: the width of the picture's column
 */
function layout(w, width, labels) {
  const several = w.layers * w.heads > 1;
  const least = Math.max(LEAST_PICTURE, labels.row + ROW_MARGIN + SCALE_ROOM + w.keys);
  const rooms = several ? [OVERVIEW_NARROW, Math.min(width, OVERVIEW_WIDE), width] : [];
  const grids = rooms.map((room) => overviewGrid(w, room));
  const readable = ({ side }) => side >= LEAST_THUMB;
  const beside = grids.find(readable) || grids[2];
  const column = several ? Math.max(BARS_WIDE, beside.width) + GUTTER : 0;
  const rest = width - column, withBars = rest - BARS_WIDE - GUTTER;
  const form = withBars >= least ? "three" : several && rest >= least ? "two" : "one";
  const room = { three: withBars, two: rest, one: width }[form];
  return {
    form,
    grid: form === "one" ? grids.slice(1).find(readable) || grids[2] : beside,
    room,
    map: mapPlace(w, room, labels),
    bars: { three: BARS_WIDE, two: Math.min(column - GUTTER, BARS_WIDEST), one: Math.min(width, BARS_WIDEST) }[form],
    labels,
  };
}

/** Where the cells of the map stand on a canvas of `width` x `height`: the largest that fit, but not huge. */
function mapPlace(w, room, labels) {
  const left = labels.row + ROW_MARGIN;
  const free = room - left - SCALE_ROOM;
  const cell = Math.min(free / w.keys, Math.max(TALLEST, w.queries) / w.queries, LARGEST_CELL);
  const wide = Math.max(cell, Math.min(Math.min(LEAST_SIDE, free) / w.keys, CELL_OF_FEW));
  const high = Math.max(cell, Math.min(LEAST_SIDE / w.queries, CELL_OF_FEW));
  const frame = { x: left, y: TITLE_ROOM, width: wide * w.keys, height: high * w.queries };
  const below = labels.key > wide - LABEL_AIR ? labels.key + KEY_MARGIN - 8 : FLAT_LABELS;
  const width = Math.max(260, left + frame.width + SCALE_ROOM);
  return { frame, wide, high, below, width, height: frame.y + frame.height + below + NAME_ROOM };
}

/** Where the lines of `heads` heads stand: queries at the left of `frame`, keys at its right, a legend above it. */
function linesPlace(w, room, labels, heads) {
  const width = Math.min(room, LINES_WIDEST);
  const left = labels.row + ROW_MARGIN, right = Math.max(60, labels.key + KEY_MARGIN);
  const across = Math.max(1, Math.floor(width / SAMPLE_WIDE));
  const legend = heads > 1 ? Math.ceil(heads / across) * SAMPLE_HIGH + 4 : 0;
  const tall = Math.min(Math.max(TALLEST, w.queries), LINE_STEP * Math.max(w.queries, w.keys));
  const frame = { x: left, y: TITLE_ROOM + legend, width: width - left - right, height: tall };
  const at = (i, size) => frame.y + ((i + 0.5) * frame.height) / size;
  return {
    frame,
    right,
    across,
    width,
    height: frame.y + frame.height + 24,
    ends: [frame.x, frame.x + frame.width],
    queryAt: (i) => at(i, w.queries),
    keyAt: (i) => at(i, w.keys),
  };
}

/** Where the thumbnails stand: layers by heads, or the heads of one layer folded into a block. */
function overviewGrid(w, room) {
  const folded = w.layers === 1;
  const columns = folded ? Math.min(w.heads, Math.ceil(Math.sqrt(w.heads))) : w.heads;
  const rows = folded ? Math.ceil(w.heads / columns) : w.layers;
  // Numbers of layers stand at the left and those of heads above; in a block, each head carries its own.
  const { left, top, caption } = folded ? { left: 4, top: 20, caption: 15 } : { left: 34, top: 38, caption: 0 };
  const fit = Math.min(LARGEST_THUMB, Math.floor((room - left - 2) / columns) - GAP);
  const tall = Math.max(LEAST_THUMB, Math.floor(OVERVIEW_TALL / rows) - GAP - caption);
  const side = Math.max(2, Math.min(fit, tall));
  const stepX = side + GAP, stepY = side + GAP + caption;
  const at = (layer, head) => [
    left + (folded ? head % columns : head) * stepX,
    top + caption + (folded ? Math.floor(head / columns) : layer) * stepY,
  ];
  return { columns, side, left, top, at, folded, width: left + columns * stepX + 2, height: top + rows * stepY + 2 };
}

/** The layer and head at a place of the overview, or null. @returns {[number, number] | null} */
function headAt(w, grid, px, py) {
  const inside = (place, start) => place >= start - GAP / 2 && place < start + grid.side + GAP / 2;
  for (let layer = 0; layer < w.layers; layer++) {
    for (let head = 0; head < w.heads; head++) {
      const [x, y] = grid.at(layer, head);
      if (inside(px, x) && inside(py, y)) return [layer, head];
    }
  }
  return null;
}

/** Query and key at a place of the picture; in line mode one of them, the other null. Null where there is neither. */
function cellAt(w, frame, mode, px, py) {
  const x = (px - frame.x) / frame.width, y = (py - frame.y) / frame.height;
  if (y < 0 || y >= 1) return null;
  const row = (size) => Math.floor(y * size);
  if (mode === "map") return x < 0 || x >= 1 ? null : [row(w.queries), Math.floor(x * w.keys)];
  return x < 0.5 ? [row(w.queries), null] : [null, row(w.keys)];
}
