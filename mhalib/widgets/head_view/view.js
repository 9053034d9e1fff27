// HeadView in the browser: an overview of all heads, one of them in full, the weights of one query.
// The chosen layer, head, query, mode, scale and overlay live in traits; the key under the cursor in this view only.

const PAGE = 10; // queries that Page Up and Page Down move
const LONGEST_LABEL = { characters: 14, pixels: 92 };

// ---------------------------------------------------------------- elements

/** Make what stands below the controls. Returns the elements by name. @param {View} view */
function makePage({ several }) {
  const ids = { overview: freshId("help-a"), focus: freshId("help-b") };
  const picture = (name, label) =>
    focusable(node("canvas", { class: name, role: "application", "aria-label": label, "aria-describedby": ids[name] }));
  const overview = picture("overview", "Overview of all heads");
  const focus = picture("focus", "");
  const bars = node("canvas", { class: "bars", role: "img" });
  const readout = node("p", { class: "note readout" });
  const limits = node("p", { class: "limits" }); // what the marks mean, what is not drawn or not stored
  const ofOverview =
    "Overview: arrow keys or a click choose a head, Space or Ctrl+click adds it to the overlay. ";
  const ofFocus =
    "Large picture: arrow keys or a click move the cursor, Home and End go to the first and last key, " +
    "Page Up and Page Down move ten queries.";
  const help = node("p", { class: "keys" },
    several ? node("span", { id: ids.overview }, ofOverview) : "", node("span", { id: ids.focus }, ofFocus));
  const panels = node("div", { class: "panels" }, ...(several ? [overview] : []), focus, readout, bars);
  return { overview, focus, bars, readout, limits, help, panels };
}

/** Labels as short as the picture needs them. */
function shortNames(tokens) {
  const { characters } = LONGEST_LABEL;
  return tokens.map((token) =>
    token.trim() ? shorten(token, characters) : `“${shorten(token, characters - 2)}”`); // blanks must be seen
}

/** Return the room that the longest labels of queries and keys need. */
function roomOfLabels(canvas, { rows, columns }) {
  const context = canvas.getContext("2d");
  context.font = SMALL_FONT;
  const room = (labels) => Math.ceil(Math.min(LONGEST_LABEL.pixels, widestOf(context, labels)));
  return { row: room(rows), key: room(columns) };
}

/** Put what is seen onto one canvas. @param {View} view */
function wholePicture({ root, page: { panels, readout } }) {
  const margin = 8, paint = themeColours(root);
  const origin = panels.getBoundingClientRect();
  const parts = [...panels.children].map((part) => [part, part.getBoundingClientRect()]);
  const across = Math.max(...parts.map(([, box]) => box.right - origin.left)) + 2 * margin;
  const down = Math.max(...parts.map(([, box]) => box.bottom - origin.top)) + 2 * margin;
  const whole = node("canvas");
  const context = sizeCanvas(whole, across, down);
  context.fillStyle = paint.paper;
  context.fillRect(0, 0, across, down);
  context.font = LABEL_FONT;
  context.fillStyle = paint.ink;
  for (const [part, box] of parts) {
    const x = box.left - origin.left + margin, y = box.top - origin.top + margin;
    if (part !== readout) context.drawImage(part, x, y, box.width, box.height);
    else placeText(context, part.textContent, x, y + box.height / 2, "left", "middle", box.width);
  }
  return whole;
}

// ---------------------------------------------------------------- a frame

/** Gather what a frame draws. @param {View} view @returns {Scene} */
function sceneOf(view) {
  const { model, w, root, names, layout, kept, images, key } = view;
  /** @type {any} */
  const traits = Object.fromEntries(DRAWN.map((name) => [name, model.get(name)]));
  const dark = root.classList.contains("dark");
  return { ...traits, w, names, layout, kept, images, key, dark, shown: shownMap(view), paint: themeColours(root) };
}

/** @param {View} view */
function draw(view) {
  const { w, root, page, several } = view;
  if (!view.layout) {
    const width = roomIn(root);
    if (!width) return;
    Object.assign(view, { layout: layout(w, width, view.labels), kept: {} });
    page.panels.className = `panels ${view.layout.form}${several ? "" : " single"}`;
  }
  const scene = sceneOf(view);
  view.choices.show(scene.shown);
  view.ticks.show();
  if (several) {
    drawOverview(page.overview, scene);
    const chosen = headName(w, scene.layer, scene.head);
    const told = `Overview of ${w.layers} × ${w.heads} layers and heads; chosen: ${chosen}`;
    page.overview.setAttribute("aria-label", told);
  }
  const picture = scene.mode === "map" ? drawMap(page.focus, scene) : drawPairs(page.focus, scene);
  view.frame = picture.frame;
  titlePicture(page.focus, picture.context, scene);
  drawBars(page.bars, scene);
  page.limits.textContent = limitsText(scene, picture);
  page.limits.hidden = !page.limits.textContent;
  const together = scene.mode === "map" && scene.shown.pairs.length > 1 ? ` (${scene.shown.title})` : "";
  page.readout.textContent = cellText(view, scene.query, scene.key) + together;
}

/** Write above the picture which heads it shows, or how many where that is too long. */
function titlePicture(canvas, context, { w, mode, combine, shown, paint }) {
  const asMap = mode === "map", room = parseFloat(canvas.style.width);
  context.font = `bold ${LABEL_FONT}`;
  context.fillStyle = paint.ink;
  const count = `${shown.pairs.length} heads`, short = asMap ? `${combine} of ${count}` : count;
  const fits = asMap && context.measureText(shown.title).width <= room; // the legend of the lines names them
  placeText(context, fits || shown.pairs.length === 1 ? shown.title : short, 0, 0, "left", "top", room);
  const told = `${asMap ? "Heat map" : "Lines"} of ${shown.title}: ${w.queries} queries by ${w.keys} keys`;
  canvas.setAttribute("aria-label", told);
}

/** Say what the marks mean, what is not drawn, what is not stored. */
function limitsText({ w, shown }, { drawn, all }) {
  const counted = (count) => count.toLocaleString("en");
  return [
    shown.masked && "× or grey hatching: masked. ",
    shown.missing && "? or orange hatching: NaN, not a number. ",
    drawn < all && `The ${counted(drawn)} strongest of ${counted(all)} lines are drawn, ` +
      "and all lines of the chosen query. ",
    w.rounded && "So many weights are stored in one byte each and shown rounded to what that holds; " +
      "exact=True keeps more digits.",
  ].filter(Boolean).join("");
}

// ---------------------------------------------------------------- pointer and keyboard

/** @param {View} view */
function chooseHead({ model, w, say }, layer, head) {
  if (layer !== model.get("layer")) put(model, "layer", layer);
  if (head !== model.get("head")) put(model, "head", head);
  say(headName(w, layer, head));
}

/** @param {View} view */
function moveCursor(view, query, key) {
  const { model, w } = view;
  view.key = Math.max(0, Math.min(w.keys - 1, key));
  const row = Math.max(0, Math.min(w.queries - 1, query));
  if (row !== model.get("query")) put(model, "query", row);
  view.say(cellText(view, row, view.key));
  view.redraw();
}

/** Bind clicks and what is told under the pointer. @param {View} view */
function bindPointer(view) {
  const { model, w, page } = view;
  const head = ({ offsetX, offsetY }) => view.layout && headAt(w, view.layout.grid, offsetX, offsetY);
  /** @returns {[number, number] | null} */
  const cell = ({ offsetX, offsetY }) => {
    const found = view.frame && cellAt(w, view.frame, model.get("mode"), offsetX, offsetY);
    return found && [found[0] ?? model.get("query"), found[1] ?? view.key];
  };
  page.overview.addEventListener("click", (event) => {
    const found = head(event);
    if (found) (event.ctrlKey || event.metaKey ? toggleOverlay : chooseHead)(view, ...found);
  });
  page.focus.addEventListener("click", (event) => {
    const found = cell(event);
    if (found) moveCursor(view, ...found);
  });
  const tip = tooltip(view.root);
  tellUnderPointer(page.overview, tip, (event) => {
    const found = head(event);
    if (!found) return null;
    return `${headName(w, ...found)}, largest weight ${w.maxima[found[0] * w.heads + found[1]].toFixed(4)}`;
  });
  tellUnderPointer(page.focus, tip, (event) => {
    const found = cell(event);
    return found && cellText(view, ...found);
  });
}

/** @param {View} view */
function bindKeyboard(view) {
  const { model, w, page } = view;
  /** @returns {[number, number]} */
  const here = () => [model.get("layer"), model.get("head")];
  const step = (columns, rows) => () => {
    const { folded, columns: across } = view.layout.grid;
    const [layer, head] = [here()[0] + (folded ? 0 : rows), here()[1] + columns + (folded ? rows * across : 0)];
    if (layer >= 0 && layer < w.layers && head >= 0 && head < w.heads) chooseHead(view, layer, head);
  };
  bindKeys(page.overview, {
    ArrowLeft: step(-1, 0),
    ArrowRight: step(1, 0),
    ArrowUp: step(0, -1),
    ArrowDown: step(0, 1),
    Home: () => chooseHead(view, here()[0], 0),
    End: () => chooseHead(view, here()[0], w.heads - 1),
    " ": () => toggleOverlay(view, ...here()),
  });
  const move = (rows, columns) => () => moveCursor(view, model.get("query") + rows, view.key + columns);
  bindKeys(page.focus, {
    ArrowLeft: move(0, -1),
    ArrowRight: move(0, 1),
    ArrowUp: move(-1, 0),
    ArrowDown: move(1, 0),
    PageUp: move(-PAGE, 0),
    PageDown: move(PAGE, 0),
    Home: move(0, -w.keys),
    End: move(0, w.keys),
  });
}

// ---------------------------------------------------------------- life

function render({ model, el }) {
  const { root, say, onTheme, atEnd, dispose } = setUp(el, "head-view", "Attention heads");
  const w = readWeights(model);
  const names = { rows: shortNames(w.tokens), columns: shortNames(w.keyTokens) };
  /** @type {any} a View once all parts are in */
  const view = { model, w, root, say, names, several: w.layers * w.heads > 1, key: 0, decoded: new Map() };
  const redraw = oncePerFrame(() => draw(view));
  const page = makePage(view);
  Object.assign(view, { redraw, page, labels: roomOfLabels(page.focus, names), images: { map: node("canvas") } });
  view.choices = makeChoices(view, () => savePng(wholePicture(view), "attention.png"));
  view.ticks = makeTicks(view);
  const ticks = view.several ? [view.ticks.box] : [];
  root.append(view.choices.box, ...ticks, page.panels, page.limits, page.help);
  bindPointer(view);
  bindKeyboard(view);
  const startAfresh = () => {
    view.layout = null;
    redraw();
  };
  atEnd(listen(model, DRAWN, redraw));
  atEnd(onNewRoom(root, startAfresh));
  onTheme(startAfresh);
  draw(view); // in a page at once, a frame earlier; a notebook puts the view in place only later
  return dispose;
}

export default { render };
