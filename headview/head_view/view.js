// HeadView in the browser: an overview of all heads, one of them in full, the weights of one query.
// What is chosen lives in traits.

import {
  bindKeys, focusable, freshId, listen, node, oncePerFrame, onNewRoom, put, roomIn, setUp, tellUnderPointer,
  themeColours, tooltip,
} from "../core.js";
import { LABEL_FONT, placeText, shorten, SMALL_FONT, widestOf, writeIn } from "../core_draw.js";
import { drawBars } from "./bars.js";
import { bindOverview } from "./choose_heads.js";
import { DRAWN, makeControls } from "./controls.js";
import { hiddenLimits } from "./hidden_tokens.js";
import { endAt, isolate, isolatedIn, pictureKeys, placeAt } from "./hover.js";
import { makePicturePanel } from "./image.js";
import { layout } from "./layout.js";
import { drawAcross, drawPairs } from "./lines.js";
import { followGroup } from "./linked.js";
import { drawMap, joined } from "./map.js";
import { makeNeuronPanel } from "./neuron.js";
import { headOrder, overviewLimits, sortedBy } from "./order.js";
import { drawOverview } from "./overview.js";
import { patchNames } from "./patches.js";
import { makeReasonsPanel } from "./reasons.js";
import { headName, readSet } from "./sample.js";
import { cellText, cursorIn, lacks, queriesTogether, shownHeads, shownMaps } from "./selection.js";
import { makeBlocks } from "./source.js";
import { drawText, makeText } from "./text.js";
import { bindWindow, bringIntoSight, windowOf, windowText } from "./window.js";
/** @import { Scene } from "./map.js" */
/** @import { View } from "./selection.js" */
/** @import { Source } from "./source.js" */

export const PAGE = 10; // queries that Page Up and Page Down move
const LONGEST_LABEL = { characters: 14, pixels: 92 };
const MEASURED = 3000; // labels whose width is measured; of more, these stand for all

/** How a head can be shown. `draw(canvas, scene)` returns where maps or lines are and what is to be said of them. */
const MODES = {
  map: { label: "heat map", name: "Heat map", draw: drawMap },
  lines: { label: "lines", name: "Lines", draw: drawPairs },
  across: { label: "lines across", name: "Lines across", draw: drawAcross },
  text: { label: "text", name: "Text", draw: drawText },
};

// ---------------------------------------------------------------- elements

/** Make what stands below the controls. Returns the elements by name. @param {View} view */
function makePage(view) {
  const ids = { overview: freshId("help-a"), focus: freshId("help-b"), text: freshId("help-c") };
  const picture = (name, label) =>
    focusable(node("canvas", { class: name, role: "application", "aria-label": label, "aria-describedby": ids[name] }));
  const overview = picture("overview", "Overview of all heads");
  const focus = picture("focus", "");
  const bars = node("canvas", { class: "bars", role: "img" });
  const readout = node("p", { class: "note readout" });
  const limits = node("p", { class: "limits" }); // what the marks mean, what is not drawn or not stored
  const ofOverview = node("span", { id: ids.overview },
    "Overview: arrow keys or a click choose a head, Space or Ctrl+click adds it to the overlay, L shows all heads of " +
    "its layer together, A all there are. ");
  const ofFocus = node("span", { id: ids.focus },
    "Large picture: arrow keys or a click, on a cell or a word, move the cursor; Ctrl+click or Enter adds its row to " +
    "those that are summed; Home and End go to the first and last key, Page Up and Page Down move ten queries; + and " +
    "−, a double click, two fingers or Ctrl+wheel zoom, 0 shows all; / finds a token, h hides that of the key, H " +
    "shows all tokens.");
  const ofText = node("span", { id: ids.text },
    "Text: arrow keys or a click choose a token, Page Up and Page Down move ten; / finds a token, h hides that of " +
    "the key, H shows all tokens.");
  const help = node("p", { class: "keys" }, ofOverview, ofFocus, ofText);
  const text = makeText(view, ids.text);
  const panels = node("div", { class: "panels" }, overview, focus, text.box, readout, bars);
  return { overview, focus, text, bars, readout, limits, help, ofOverview, ofFocus, ofText, panels };
}

/** A label as short as the picture needs it, one of so many that stand together. */
function shortName(token, parts) {
  const characters = Math.floor(LONGEST_LABEL.characters / parts);
  return token.trim() ? shorten(token, characters) : `“${shorten(token, characters - 2)}”`; // blanks must be seen
}

/** Name the rows and columns as the side that is shown has them. @param {View} view */
function takeNames(view) {
  const { w, page, model } = view, side = model.get("side");
  const [rows, columns] = [0, 1].map((axis) => patchNames(w, axis, w.labels(axis, side, shortName)));
  view.names = { rows, columns, side };
  view.labels = roomOfLabels(page.focus, view.names);
}

/**
 * The short names of the rows and columns of a map, words in one piece.
 * @param {{rows: string[], columns: string[]}} names @param {Source} source
 */
function namesShown(names, { rows, columns }) {
  const name = (labels, places) => places.map((tokens) => joined(labels, tokens));
  return { rows: name(names.rows, rows), columns: name(names.columns, columns) };
}

/** Return the room that the longest labels of queries and keys need. */
function roomOfLabels(canvas, { rows, columns }) {
  const context = canvas.getContext("2d");
  context.font = SMALL_FONT;
  const some = (labels) => (labels.length <= MEASURED ? labels : [...labels.slice(0, MEASURED), ...labels.slice(-9)]);
  const room = (labels) => Math.ceil(Math.min(LONGEST_LABEL.pixels, widestOf(context, some(labels))));
  return { row: room(rows), key: room(columns) };
}

// ---------------------------------------------------------------- a frame

/** Take up a part and a sample: names, the room of labels; what was drawn before is forgotten. @param {View} view */
function takeUp(view) {
  const { model, page } = view, part = model.get("part");
  const sample = Math.min(model.get("sample"), model.get("parts")[part].samples - 1); // parts may have fewer
  if (view.w?.part === part && view.w.sample === sample) {
    if (view.w.meta.compared && view.names.side !== model.get("side")) takeNames(view);
    return;
  }
  const first = !view.w;
  view.w = readSet(view, part, sample);
  const { w } = view;
  takeNames(view);
  view.several = w.layers * w.heads > 1;
  view.sources = new Map();
  view.images = new Map();
  view.layout = null;
  page.overview.hidden = page.ofOverview.hidden = !view.several;
  if (first) return;
  view.window = [];
  clearTimeout(view.tellWindow);
  if (model.get("window").length) put(model, "window", []); // of the map before
  if (model.get("sample") !== sample) put(model, "sample", sample);
  if (lacks(w, model.get("values"))) put(model, "values", "weights");
  for (const [name, size] of [["layer", w.layers], ["head", w.heads], ["query", w.queries], ["key", w.keys]]) {
    if (model.get(name) >= size) put(model, name, 0);
  }
  put(model, "overlay", model.get("overlay").filter(([layer, head]) => layer < w.layers && head < w.heads));
}

/** Gather what a frame draws; null while nothing is there. @param {View} view @returns {Scene | null} */
function sceneOf(view) {
  const { model, w, root, names, layout, kept, images } = view;
  const shown = shownMaps(view);
  if (!shown) return null;
  /** @type {any} */
  const traits = Object.fromEntries(DRAWN.map((name) => [name, model.get(name)]));
  const dark = root.classList.contains("dark"), { rows, columns } = shown.source, cursor = cursorIn(view, shown.source);
  const side = model.get("sides").length < 2 ? "a" : traits.side === "both" ? "a" : traits.side;
  return {
    ...traits, look: { colours: traits.colours, dark }, side, w, names, layout, kept, images, cursor, dark, shown, view, paint: themeColours(root),
    win: windowOf(view, rows.length, columns.length), order: view.order, found: view.found,
    isolated: isolatedIn(view, shown.source),
  };
}

/** @param {View} view */
function draw(view) {
  takeUp(view);
  const { w, root, page, model, several, blocks } = view;
  const width = roomIn(root);
  if (!width) return;
  const shown = shownMaps(view);
  const { rows, columns } = shown?.source || { rows: { length: w.queries }, columns: { length: w.keys } };
  view.size = { rows: rows.length, columns: columns.length };
  view.order = headOrder(view);
  const maps = model.get("mode") === "map" && shown?.frames.length || 1, hidden = model.get("hidden");
  const form = [view.names.side, rows.length, columns.length, maps, view.order.id, model.get("words"), ...hidden].join(" ");
  if (!view.layout || view.form !== form) {
    const seen = { queries: rows.length, keys: columns.length };
    if (shown) view.labels = roomOfLabels(page.focus, namesShown(view.names, shown.source));
    Object.assign(view, { layout: layout(w, width, view.labels, seen, maps, view.order), kept: {}, form });
    const marks = [several ? "" : " single", w.meta.picture ? " pictured" : ""].join("");
    page.panels.className = `panels ${view.layout.form}${marks}`;
  }
  view.controls.show();
  const scene = sceneOf(view);
  if (scene) drawScene(view, scene);
  const ofMaps = scene ? limitsText(scene, view.picture) : "";
  page.limits.textContent = ofMaps + overviewLimits(view, shownHeads(model)) + waitingText(view);
  page.limits.hidden = !page.limits.textContent;
  blocks.ask();
}

/** @param {View} view @param {Scene} scene */
function drawScene(view, scene) {
  const { w, page, several } = view, { shown, mode } = scene;
  if (several) {
    drawOverview(page.overview, scene);
    const chosen = headName(w, scene.layer, scene.head);
    const sorted = scene.order.heads ? `, sorted by ${sortedBy(scene.order.by)}` : "";
    const told = `Overview of ${w.layers} × ${w.heads} layers and heads${sorted}; chosen: ${chosen}`;
    page.overview.setAttribute("aria-label", told);
  }
  page.focus.hidden = page.ofFocus.hidden = mode === "text";
  page.text.box.hidden = page.ofText.hidden = mode !== "text";
  const picture = (view.picture = MODES[mode].draw(page.focus, scene));
  view.frames = picture.frames;
  view.shownWindow = picture.win || scene.win;
  view.cursorCell = [scene.cursor[0] + 0.5, scene.cursor[1] + 0.5];
  const [q0, q1, k0, k1] = view.shownWindow;
  const { height, width } = picture.frames[0] || { height: 1, width: 1 };
  const high = height / (q1 - q0), wide = width / (k1 - k0);
  view.cellsOf = picture.cellsOf || ((x, y) => [y / high, x / wide]);
  page.focus.style.touchAction = view.window.length ? "none" : "pan-x pan-y";
  if (picture.context) titlePicture(page.focus, picture.context, scene);
  drawBars(page.bars, scene);
  view.under.forEach((panel) => panel.show(scene));
  const together = mode === "map" && shown.pairs.length > 1 ? ` (${shown.title})` : "";
  page.readout.textContent = cellText(view, ...scene.cursor) + together;
}

/** Write above the picture which heads it shows, or how many where that is too long, and what is in sight. */
function titlePicture(canvas, context, { w, mode, combine, shown, paint, win }) {
  const asMap = mode === "map", room = parseFloat(canvas.style.width), { rows, columns } = shown.source;
  writeIn(context, `bold ${LABEL_FONT}`, paint.ink);
  const [one, more] = shown.frames, side = more || !one.title ? "" : `${one.title}: `;
  const part = (w.meta.name && `${w.meta.name}, `) + side, sight = windowText(w, win, rows.length, columns.length);
  const title = part + shown.title + (sight && ` · ${sight}`);
  const count = `${shown.pairs.length} heads`, short = side + (asMap ? `${combine} of ${count}` : count);
  const fits = asMap && context.measureText(title).width <= room; // the legend of the lines names them
  placeText(context, fits || shown.pairs.length === 1 ? title : short, 0, 0, "left", "top", room);
  const told = `${MODES[mode].name} of ${title}: ${rows.length} queries by ${columns.length} keys`;
  canvas.setAttribute("aria-label", told);
}

/** Say what the marks mean, what is not drawn, what is not stored. */
function limitsText({ w, shown, mode, view, least }, { drawn, all, cut, told, said }) {
  const counted = (count) => count.toLocaleString("en");
  const sources = shown.frames.map(({ source }) => source);
  const level = Math.max(0, ...(told || []).map(({ level }) => level));
  const packed = 2 ** level;
  return [
    sources.some(({ masked }) => masked) && "Hatched: masked. ",
    sources.some(({ missing }) => missing) && "? or orange: NaN, not a number. ",
    drawn < all && `The ${counted(drawn)} strongest of ${counted(all)} lines are drawn, ` +
      "and all lines of the chosen query. ",
    /lines|across/.test(mode) && least > 0 && `Lines of other queries are drawn from ${Math.round(100 * least)} % ` +
      "of the scale on. ",
    cut && "Lines need a closer look: these are the ones around the cursor. ",
    mode === "map" && level > 0 && `Each dot is the largest of ${packed} × ${packed} weights; zoom in to see each. `,
    (mode === "lines" || mode === "across") && w.signed && "Lines say how large a number is, not its sign. ",
    said,
    hiddenLimits(view),
    w.whole && w.rounded && "So many weights are stored in one byte each and shown rounded to what that holds; " +
      "exact=True keeps more digits. ",
  ].filter(Boolean).join("");
}

/** Say what has not come. @param {View} view */
function waitingText({ blocks, model }) {
  const leftOut = model.isStatic && model.get("left_out"); // said at once, not only where it is missed
  if (leftOut || blocks.missing()) return leftOut || "The rest needs a notebook with a kernel. ";
  if (!blocks.late()) return "";
  return "The kernel has not answered for a while: it is busy, or gone. What is here stays usable. ";
}

// ---------------------------------------------------------------- pointer and keyboard

/**
 * Move the cursor to a row and a column of what is shown. `rows`: "one" lets go of the rows that were summed, "add" sums
 * this one with them, or takes it out; without it they stay. @param {View} view @param {"one" | "add"} [rows]
 */
export function moveCursor(view, row, column, rows) {
  const { model } = view, source = shownMaps(view)?.source;
  if (!source) return;
  const inside = (place, size) => Math.max(0, Math.min(size - 1, place));
  const [y, x] = [inside(row, source.rows.length), inside(column, source.columns.length)];
  view.key = source.columns[x][0];
  bringIntoSight(view, y, x);
  let query = source.rows[y][0];
  if (rows) {
    const before = rows === "add" ? queriesTogether(view) : [];
    const kept = before.filter((other) => other !== query), added = kept.length === before.length;
    if (!added && kept.length) query = kept[kept.length - 1]; // it was there and is let go
    const more = added ? kept : kept.slice(0, -1);
    if (more.join() !== model.get("rows").join()) put(model, "rows", more);
  }
  if (query !== model.get("query")) put(model, "query", query);
  view.say(cellText(view, y, x));
  view.redraw();
}

/** Bind clicks and what is told under the pointer. @param {View} view */
function bindPointer(view) {
  const { model, page } = view;
  /** @returns {[number, number] | null} */
  const cell = ({ offsetX, offsetY }) => { // a word beside or below a map is its row, or its column
    const found = placeAt(view, offsetX, offsetY, true);
    const source = found && shownMaps(view)?.source;
    if (!source) return null;
    const whole = (place, other) => (place === null ? other : Math.floor(place));
    const here = cursorIn(view, source);
    return [whole(found[0], here[0]), whole(found[1], here[1])];
  };
  bindWindow(view, page.focus, (x, y) => {
    const found = placeAt(view, x, y);
    return found && found.map((place, axis) => place ?? view.cursorCell[axis]);
  });
  page.focus.addEventListener("click", (event) => {
    const found = cell(event);
    if (found) moveCursor(view, found[0], found[1], event.ctrlKey || event.metaKey ? "add" : "one");
  });
  bindOverview(view, view.tip);
  tellUnderPointer(page.focus, view.tip, (event) => {
    const found = cell(event), one = endAt(view, event.offsetX, event.offsetY), asLines = model.get("mode") !== "map";
    isolate(view, one);
    return found && (one || !asLines) && cellText(view, ...found);
  });
  page.focus.addEventListener("pointerleave", () => isolate(view, null));
}

/** Keep the row of the cursor, so that the next one is added to it; or let it go. @param {View} view */
function addRow(view) {
  const { model } = view, rows = model.get("rows"), query = model.get("query");
  put(model, "rows", rows.includes(query) ? rows.filter((other) => other !== query) : [...rows, query]);
}

/** @param {View} view */
function bindKeyboard(view) {
  const { page } = view;
  const move = (rows, columns) => () => {
    const source = shownMaps(view)?.source;
    if (!source) return;
    const [row, column] = cursorIn(view, source);
    moveCursor(view, row + rows, column + columns);
  };
  bindKeys(page.focus, {
    ArrowLeft: move(0, -1),
    ArrowRight: move(0, 1),
    ArrowUp: move(-1, 0),
    ArrowDown: move(1, 0),
    PageUp: move(-PAGE, 0),
    PageDown: move(PAGE, 0),
    Home: move(0, -Infinity),
    End: move(0, Infinity),
    Enter: () => addRow(view),
    ...pictureKeys(view),
  });
}

// ---------------------------------------------------------------- life

function render({ model, el }) {
  const { root, say, onTheme, atEnd, dispose } = setUp(el, "head-view", "Attention heads");
  /** @type {any} a View once all parts are in */
  const view = { model, root, say, window: model.get("window"), found: [new Set(), new Set()], isolated: null };
  Object.defineProperty(view, "key", { get: () => model.get("key"), set: (key) => put(model, "key", key) });
  view.redraw = oncePerFrame(() => draw(view));
  view.blocks = makeBlocks(model, () => view.redraw());
  view.tip = tooltip(root);
  view.page = makePage(view);
  view.size = { rows: 0, columns: 0 };
  view.cursorCell = [0.5, 0.5]; // until a frame is drawn
  takeUp(view);
  view.controls = makeControls(view, view.page.help);
  view.under = [makePicturePanel(view), makeReasonsPanel(view), makeNeuronPanel(view)];
  const { page } = view;
  page.panels.append(...view.under.map(({ box }) => box));
  root.append(view.controls.box, page.help, view.controls.fold, page.panels, page.limits);
  bindPointer(view);
  bindKeyboard(view);
  const startAfresh = () => {
    view.layout = null;
    view.redraw();
  };
  atEnd(listen(model, DRAWN, view.redraw));
  atEnd(listen(model, ["window"], () => {
    if (JSON.stringify(model.get("window")) !== view.ownWindow) view.window = model.get("window");
  }));
  atEnd(view.blocks.stop);
  atEnd(() => clearTimeout(view.tellWindow));
  atEnd(followGroup(view));
  atEnd(onNewRoom(root, startAfresh));
  onTheme(startAfresh);
  draw(view); // in a page at once, a frame earlier; a notebook puts the view in place only later
  return dispose;
}

export default { render };
