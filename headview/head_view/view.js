// HeadView in the browser: an overview of all heads, one of them in full, the weights of one query.
// What is chosen lives in traits; records.js says what passes between the modules.
/// <reference path="./records.js" />

import {
  bindKeys, focusable, freshId, listen, node, oncePerFrame, onNewRoom, put, roomIn, setUp, tellUnderPointer,
  themeColours, tooltip, walkKeys, within,
} from "../core.js";
import { LABEL_FONT, placeText, shorten, SMALL_FONT, widestOf, writeIn } from "../core_draw.js";
import { drawBars } from "./bars.js";
import { bindOverview } from "./choose_heads.js";
import { LEVELS } from "./codes.js";
import { DRAWN, makeControls } from "./controls.js";
import { shortest } from "./draw.js";
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
import { headName, readSet, visible } from "./sample.js";
import {
  cellText, cursorIn, here, lacks, queriesTogether, shownHeads, shownMaps, sidesOf,
} from "./selection.js";
import { makeBlocks } from "./source.js";
import { drawText, makeText } from "./text.js";
import { bindWindow, bringIntoSight, isZoomed, windowOf, windowText } from "./window.js";

export const PAGE = 10; // queries that Page Up and Page Down move
const LONGEST_LABEL = { characters: 14, pixels: 92 };

/** How a head can be shown. `draw(canvas, scene)` returns where maps or lines are and what is to be said of them. */
const MODES = {
  map: { name: "Heat map", draw: drawMap },
  lines: { name: "Lines", draw: drawPairs },
  across: { name: "Lines across", draw: drawAcross },
  text: { name: "Text", draw: drawText },
};

// ---------------------------------------------------------------- elements

const TOKENS = [["/", "find a token"], ["h", "hide the token of the key"], ["H", "show all tokens"]];
/** What keys and clicks do, by where and under which title: behind "?", and for screen readers. */
const KEYS = {
  overview: ["Overview", ["arrow keys, click", "choose a head"], ["Space, Ctrl+click", "add it to the overlay"],
    ["l", "all heads of its layer together"], ["a", "all heads there are"]],
  focus: ["Large picture", ["arrow keys, click", "move the cursor, on a cell or a word"],
    ["Enter, Ctrl+click", "add its row to those that are summed"], ["Home, End", "the first and the last key"],
    ["Page Up, Page Down", "ten queries up, down"], ["+ −, double click, two fingers, Ctrl+wheel", "zoom"],
    ["0", "show all"], ...TOKENS],
  text: ["Text", ["arrow keys, click", "choose a token"], ["Page Up, Page Down", "ten tokens on"], ...TOKENS],
};

/** Make what stands below the controls. Returns the elements by name. @param {View} view */
function makePage(view) {
  const keys = Object.fromEntries(Object.entries(KEYS).map(([name, [title, ...rows]]) => [name,
    node("table", { id: freshId(`keys-${name}`) }, node("caption", {}, title),
      ...rows.map(([keys, does]) => node("tr", {}, node("th", { scope: "row" }, keys), node("td", {}, does))))]));
  const picture = (name, label) => focusable(node("canvas", {
    class: name, role: "application", "aria-label": label, "aria-describedby": keys[name].id,
  }));
  const overview = picture("overview", "Overview of all heads"), focus = picture("focus", "");
  const bars = node("canvas", { class: "bars", role: "img" });
  const readout = node("p", { class: "note readout" });
  const limits = node("p", { class: "limits" }); // what the marks mean, what is not drawn or not stored
  const help = node("div", { class: "keys" }, ...Object.values(keys)), text = makeText(view, keys.text.id);
  const panels = node("div", { class: "panels" }, overview, focus, text.box, readout, bars);
  return { overview, focus, text, bars, readout, limits, help, keys, panels };
}

/** A label as short as the picture needs it, one of so many that stand together. */
const shortName = (token, parts) => shorten(visible(token), Math.floor(LONGEST_LABEL.characters / parts));

/** The short labels of queries and keys, as a side has them. @param {Weights} w */
function namesOf(w, side) {
  const [rows, columns] = [0, 1].map((axis) => patchNames(w, axis, w.labels(axis, side, shortName)));
  return { rows, columns };
}

/** The room that the longest labels of rows and columns need, words in one piece; `apart`: has each side its own rows? */
function roomOfLabels(canvas, w, side, [rows, columns]) {
  const context = canvas.getContext("2d"), { pixels } = LONGEST_LABEL, names = namesOf(w, side);
  const [one, two] = ["a", "b"].map((each) => w.labels(0, each)), apart = one.some((label, i) => label !== two[i]);
  context.font = SMALL_FONT;
  const room = (labels, places) =>
    Math.ceil(Math.min(pixels, widestOf(context, places.map((tokens) => joined(labels, tokens)))));
  return { row: room(names.rows, rows), key: room(names.columns, columns), apart };
}

// ---------------------------------------------------------------- a frame

/** Take up a part and a sample; what was drawn before is forgotten. @param {View} view */
function takeUp(view) {
  const { model, page } = view, part = model.get("part"), first = !view.w;
  const sample = Math.min(model.get("sample"), model.get("parts")[part].samples - 1); // parts may have fewer
  if (view.w?.part === part && view.w.sample === sample) return;
  const w = (view.w = readSet(view, part, sample));
  Object.assign(view, { sources: new Map(), images: new Map(), layout: null });
  page.overview.hidden = page.keys.overview.hidden = !w.several;
  if (first) return;
  if (isZoomed(view)) put(model, "window", []); // of the map before
  if (model.get("sample") !== sample) put(model, "sample", sample);
  if (lacks(w, model.get("values"))) put(model, "values", "weights");
  for (const [name, size] of [["layer", w.layers], ["head", w.heads], ["query", w.queries], ["key", w.keys]]) {
    if (model.get(name) >= size) put(model, name, 0);
  }
  put(model, "overlay", model.get("overlay").filter(([layer, head]) => layer < w.layers && head < w.heads));
}

/** Gather what a frame draws. @param {View} view @returns {Scene} */
function sceneOf(view, shown) {
  const { model, w, root } = view, { source } = shown;
  /** @type {any} */
  const traits = Object.fromEntries(DRAWN.map((name) => [name, model.get(name)]));
  const paint = themeColours(root);
  const frames = shown.frames.map((frame) => ({ ...frame, names: namesOf(w, frame.side) }));
  return {
    ...traits, ...view, view, paint,
    shown: { ...shown, frames }, names: namesOf(w, traits.side),
    look: { colours: traits.colours, dark: paint.dark }, side: sidesOf(model)[0], win: windowOf(view),
    cursor: cursorIn(view, source), isolated: isolatedIn(view, source),
  };
}

/** @param {View} view */
function draw(view) {
  takeUp(view);
  const { w, root, page, model, blocks } = view, width = roomIn(root);
  if (!width) return;
  const shown = shownMaps(view), each = (labels) => labels.map((_, i) => [i]);
  const places = shown?.source.places || [each(w.tokens), each(w.keyTokens)];
  const seen = (view.size = { queries: places[0].length, keys: places[1].length });
  view.order = headOrder(view);
  const maps = model.get("mode") === "map" && shown?.frames.length || 1;
  const form = JSON.stringify([model.get("side"), seen, maps, view.order.id, model.get("words"), model.get("hidden")]);
  if (!view.layout || view.form !== form) {
    const labels = roomOfLabels(page.focus, w, model.get("side"), places);
    Object.assign(view, { layout: layout(w, width, labels, seen, maps, view.order), form });
    view.kept = { map: {}, lines: {}, thumbs: {} };
    const marks = [w.several ? "" : " single", w.meta.picture ? " pictured" : ""].join("");
    page.panels.className = `panels ${view.layout.form}${marks}`;
  }
  view.controls.show();
  const ofMaps = shown ? drawScene(view, sceneOf(view, shown)) : "";
  page.limits.textContent = ofMaps + overviewLimits(view, shownHeads(model)) + waitingText(view);
  page.limits.hidden = !page.limits.textContent;
  blocks.ask();
}

/** Draw all panels; returns what the large picture leaves to be said. @param {View} view @param {Scene} scene */
function drawScene(view, scene) {
  const { w, page } = view, { shown, mode, order } = scene;
  if (w.several) {
    drawOverview(page.overview, scene);
    const chosen = headName(w, scene.layer, scene.head);
    const sorted = order.heads ? `, sorted by ${sortedBy(order.by)}` : "";
    const told = `Overview of ${w.layers} × ${w.heads} layers and heads${sorted}; chosen: ${chosen}`;
    page.overview.setAttribute("aria-label", told);
  }
  page.focus.hidden = page.keys.focus.hidden = mode === "text";
  page.text.box.hidden = page.keys.text.hidden = mode !== "text";
  page.focus.style.touchAction = isZoomed(view) ? "none" : "pan-x pan-y";
  view.picture = MODES[mode].draw(page.focus, scene);
  if (mode !== "text") titlePicture(page.focus, scene);
  drawBars(page.bars, scene);
  view.under.forEach((panel) => panel.show(scene));
  const together = (mode === "map" || shown.all) && shown.pairs.length > 1 ? ` (${shown.title})` : "";
  page.readout.textContent = cellText(view, ...scene.cursor) + together;
  return limitsText(scene, view.picture);
}

/** Write above the picture which heads it shows, or how many where that is too long, and what is in sight. */
function titlePicture(canvas, { view, w, mode, combine, shown, paint, win }) {
  const asMap = mode === "map" || shown.all, room = parseFloat(canvas.style.width), { queries, keys } = view.size;
  const context = canvas.getContext("2d");
  writeIn(context, `bold ${LABEL_FONT}`, paint.ink);
  const [one, more] = shown.frames, side = more || !one.title ? "" : `${one.title}: `;
  const sight = windowText(view, win), part = w.meta.name && `${w.meta.name}, `;
  const title = part + side + shown.title + (sight && ` · ${sight}`);
  const count = `${shown.pairs.length} heads`, short = side + (asMap ? `${combine} of ${count}` : count);
  const fits = asMap && context.measureText(title).width <= room; // the legend of the lines names them
  placeText(context, fits || shown.pairs.length === 1 ? title : short, 0, 0, "left", "top", room);
  canvas.setAttribute("aria-label", `${MODES[mode].name} of ${title}: ${queries} queries by ${keys} keys`);
}

/** Say what the marks mean, what is not drawn, what is not stored. */
function limitsText({ w, shown, mode, view, least }, { drawn = 0, all = 0, cut, level = 0, said }) {
  const counted = (count) => count.toLocaleString("en"), asLines = mode === "lines" || mode === "across";
  const sources = shown.frames.map(({ source }) => source);
  return [
    sources.some(({ masked }) => masked) && (asLines ? "×: masked. " : "Hatched: masked. "),
    sources.some(({ missing }) => missing) && "? or orange: NaN, not a number. ",
    drawn < all && `The ${counted(drawn)} strongest of ${counted(all)} lines are drawn, ` +
      "and all lines of the chosen query. ",
    asLines && least > 0 && `Lines of other queries are drawn from ${shortest(least * shown.frames[0].scale.top)} on. `,
    cut && "Lines need a closer look: these are the ones around the cursor. ",
    level > 0 && `Each dot is the largest of ${sources[0].block(level).join(" × ")} weights; zoom in to see each. `,
    asLines && w.signed && "Lines say how large a number is, not its sign. ",
    said,
    hiddenLimits(view),
    w.whole && w.levels === LEVELS.uint8 && "So many weights are stored in one byte each and shown rounded to what " +
      "that holds; exact=True keeps more digits, in a file with megabytes=… for them. ",
  ].filter(Boolean).join("");
}

/** Say what has not come, or never will. @param {View} view */
function waitingText({ blocks, model }) {
  const leftOut = model.get("left_out"); // said at once, not only where it is missed
  if (blocks.missing()) return leftOut || "The rest needs a notebook with a kernel. ";
  if (!blocks.late()) return leftOut;
  return `${leftOut}The kernel has not answered for a while: it is busy, or gone. What is here stays usable. `;
}

// ---------------------------------------------------------------- pointer and keyboard

/**
 * Move the cursor; `to(cursor)` says to which row and column of what is shown. `rows`: "one" lets go of the rows that
 * were summed, "add" sums this one with them, or takes it out; without it they stay.
 * @param {View} view @param {(cursor: number[]) => number[]} to @param {"one" | "add"} [rows]
 */
function moveCursor(view, to, rows) {
  const { model } = view, shown = here(view);
  if (!shown) return;
  const { places } = shown.source;
  const [y, x] = to(shown.cursor).map((place, axis) => within(place, places[axis].length));
  put(model, "key", places[1][x][0]);
  bringIntoSight(view, y, x);
  let query = places[0][y][0];
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

/** Move the cursor along one axis: to a row (0) or a column (1). @param {View} view @param {"one" | "add"} [rows] */
export const moveAlong = (view, axis, place, rows) =>
  moveCursor(view, ([row, column]) => (axis ? [row, place] : [place, column]), rows);

/** Bind clicks and what is told under the pointer. @param {View} view */
function bindPointer(view) {
  const { model, page: { focus } } = view;
  const cell = ({ offsetX, offsetY }) => placeAt(view, offsetX, offsetY, true)?.map(Math.floor);
  bindWindow(view, focus, (x, y) => placeAt(view, x, y));
  focus.addEventListener("click", (event) => {
    const found = cell(event);
    if (found) moveCursor(view, () => found, event.ctrlKey || event.metaKey ? "add" : "one");
  });
  tellUnderPointer(focus, view.tip, (event) => {
    const found = cell(event), one = endAt(view, event.offsetX, event.offsetY);
    isolate(view, one);
    return found && (one || model.get("mode") === "map") && cellText(view, found[0], found[1]);
  });
  focus.addEventListener("pointerleave", () => isolate(view, null));
}

/** Keep the row of the cursor, so that the next one is added to it; or let it go. */
function addRow({ model }) {
  const rows = model.get("rows"), query = model.get("query");
  put(model, "rows", rows.includes(query) ? rows.filter((other) => other !== query) : [...rows, query]);
}

// ---------------------------------------------------------------- life

function render({ model, el }) {
  const { root, say, onTheme, atEnd, dispose } = setUp(el, "head-view", "Attention heads");
  /** @type {any} a View once all parts are in */
  const view = {
    model, root, say, tip: tooltip(root), found: [new Set(), new Set()], isolated: null,
    photos: new Map(), feature: null, neurons: new Map(), size: { queries: 0, keys: 0 }, // until a frame is drawn
    redraw: oncePerFrame(() => draw(view)),
  };
  view.blocks = makeBlocks(model, view.redraw);
  const page = (view.page = makePage(view));
  takeUp(view);
  view.controls = makeControls(view, page.help);
  view.under = [makePicturePanel(view), makeReasonsPanel(view), makeNeuronPanel(view)];
  page.panels.append(...view.under.map(({ box }) => box));
  root.append(view.controls.box, page.help, view.controls.fold, page.panels, page.limits);
  bindPointer(view);
  bindOverview(view);
  const walk = (down, right) => moveCursor(view, ([row, column]) => [row + down, column + right]);
  bindKeys(page.focus, {
    ...walkKeys(walk),
    PageUp: () => walk(-PAGE, 0),
    PageDown: () => walk(PAGE, 0),
    Enter: () => addRow(view),
    ...pictureKeys(view),
  });
  const startAfresh = () => {
    view.layout = null;
    view.redraw();
  };
  atEnd(listen(model, DRAWN, view.redraw));
  atEnd(view.blocks.stop);
  atEnd(followGroup(view));
  atEnd(onNewRoom(root, startAfresh));
  onTheme(startAfresh);
  draw(view); // in a page at once, a frame earlier; a notebook puts the view in place only later
  return dispose;
}

export default { render };
