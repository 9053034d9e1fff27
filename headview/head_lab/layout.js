// Where the parts of HeadLab stand on its canvas: sizes in, places out. No page; all lengths are CSS pixels.
// A panel is a map from (x, y), with `cell` as the side of its cells and its band of features above it.

/** @import { LabState } from "./view.js" */

export const WIDEST = 1100;
const BESIDE_FROM = 620; // from this width on, all heads stand beside the head in focus
const OVERVIEW = { share: 0.44, beside: 420, above: 250 }; // of the width; its height beside and above the focus
const FOCUS = { cell: 44, tall: 420, title: 38 };
const SMALL = { gap: 12, title: 20, least: 30, narrowest: 56, cell: 26 }; // gap covers the frame of the chosen head
const ENTROPY_ROOM = 58, OUTPUT = { share: 0.22, least: 24, most: 150 };
const AIR = 8;
export const BAND = 14; // the features of a head, above its map
export const LEGEND_LINE = 20;

/**
 * Place everything on a canvas of this width: the head in focus, all heads small beside or above it, the legend.
 * @param {LabState} state @param {{wide: number, high: number}} labels the room beside and below the map in focus
 * @param {{entropy: boolean, output: boolean}} shown what stands right of the map in focus
 */
export function layout(state, width, labels, shown) {
  const beside = width >= BESIDE_FROM;
  const [wide, high] = beside ? [width * OVERVIEW.share, OVERVIEW.beside] : [width, OVERVIEW.above];
  const overview = state.heads > 1 ? smallPanels(state, wide, high) : { thumbs: [], wide: 0, high: 0 };
  const left = labels.wide + (beside && overview.wide ? overview.wide + 24 : 0);
  const top = (beside ? 0 : overview.high) + FOCUS.title + (overview.wide ? 0 : BAND + 4);
  const focus = focusPanel(state, left, top, width - left, shown);
  const legend = Math.max(top + focus.high + labels.high + AIR, overview.high) + 4;
  const { thumbs } = overview;
  return { width, high: legend + LEGEND_LINE * (shown.output ? 2 : 1), focus, thumbs, legend, labels };
}

/** The head in focus, with its bars of entropy and the strip of its output where they are `shown`. */
function focusPanel({ queries, keys, headDim }, x, y, room, { entropy, output }) {
  const bars = entropy ? ENTROPY_ROOM : 0;
  const forMap = (room - bars - AIR) * (output ? 1 - OUTPUT.share : 1);
  const exact = Math.min(FOCUS.cell, forMap / keys, FOCUS.tall / queries);
  const cell = exact >= 3 ? Math.floor(exact) : exact, wide = cell * keys;
  const right = x + wide + AIR, rest = room - bars - wide - 2 * AIR;
  const stripWide = output ? Math.max(OUTPUT.least, Math.min(headDim * cell, rest, OUTPUT.most)) : 0;
  return { x, y, cell, wide, high: cell * queries, bars: right, strip: right + bars, stripWide };
}

/** Small maps of all heads, in as many columns as make them largest. */
function smallPanels({ queries, keys, heads }, width, high) {
  const { gap, title, least, narrowest } = SMALL, above = title + BAND + 4;
  const most = Math.max(1, Math.min(heads, Math.floor((width + gap) / (narrowest + gap))));
  let [cell, columns] = [0, 1];
  for (let n = 1; n <= most; n++) { // rather a longer canvas than maps of a few pixels
    const tall = Math.max(least, high / Math.ceil(heads / n) - above - gap);
    const side = Math.min(((width - 6 + gap) / n - gap) / keys, tall / queries, SMALL.cell);
    if (side >= cell) [cell, columns] = [side, n];
  }
  if (cell >= 4) cell = Math.floor(cell);
  const wide = keys * cell, stepX = Math.max(wide, narrowest) + gap, stepY = queries * cell + above + gap;
  const thumbs = Array.from({ length: heads }, (_, h) => (
    { x: (h % columns) * stepX + 3, y: Math.floor(h / columns) * stepY + above, cell, wide, high: queries * cell }
  ));
  return { thumbs, wide: Math.min(heads, columns) * stepX - gap + 6, high: Math.ceil(heads / columns) * stepY };
}

/** Where each feature stands, above the map of its head: from its left edge, its upper edge, and its width. */
export function featurePlaces({ thumbs, focus }, { features, headDim }) {
  const panels = thumbs.length ? thumbs : [focus];
  return new Map(Array.from({ length: features }, (_, f) => {
    const { x, y, wide } = panels[Math.floor(f / headDim)], step = Math.max(wide, 20) / headDim;
    return [f, [x + (f % headDim) * step, y - BAND - 3, step]];
  }));
}

/** What lies at a place of the canvas: head, row and column, and whether that is the head in focus. Or null. */
export function cellAt({ thumbs, focus }, { queries, keys, headDim, head: inFocus }, px, py) {
  const inside = (panel, head, large) => {
    const row = Math.floor((py - panel.y) / panel.cell);
    if (row < 0 || row >= queries || px < panel.x) return null;
    if (px < panel.x + panel.wide) return { head, row, column: Math.floor((px - panel.x) / panel.cell), large };
    const share = (px - panel.strip) / panel.stripWide;
    return share >= 0 && share < 1 ? { head, row, column: keys + Math.floor(share * headDim), large } : null;
  };
  return thumbs.map((panel, head) => inside(panel, head, false)).find(Boolean) || inside(focus, inFocus, true);
}
