// HeadView in the browser: an overview of all heads, one of them in full, the weights of one query.
// The chosen layer, head, query, mode, scale and overlay live in traits; the key under the cursor in this view only.

const TICKS = 16; // heads of a layer that get a tick box each

function render({ model, el }) {
  const { root, say, onTheme, atEnd, dispose } = setUp(el, "head-view", "Attention heads");
  const w = readWeights(model);
  const several = w.layers * w.heads > 1;
  // Kept between frames. `map` is never in the page: it is painted when the weights change and drawn often.
  const state = { key: 0, layout: null, kept: {}, pooled: null, poolSide: 0, decoded: new Map(), map: node("canvas") };
  const trait = (name) => model.get(name);

  // ---------------------------------------------------------------- what is shown

  const headName = (layer, head) => (w.layers > 1 ? `layer ${layer} head ${head}` : `head ${head}`);

  /** The heads that are drawn: those ticked, and the chosen one in any case. */
  function shownHeads() {
    const chosen = [trait("layer"), trait("head")];
    return isIn(trait("overlay"), ...chosen) ? trait("overlay") : [chosen, ...trait("overlay")];
  }

  /** Decode heads, keeping those in use. */
  function weightsOf(pairs) {
    const kept = new Map(pairs.map(([i, j]) => [`${i},${j}`, state.decoded.get(`${i},${j}`) || decodeHead(w, i, j)]));
    state.decoded = kept;
    return [...kept.values()];
  }

  /** The one map that the picture, the bars and the cursor read from, its name and the top of its scale. */
  function current() {
    const pairs = shownHeads();
    const maps = weightsOf(pairs);
    const names = pairs.map(([i, j]) => headName(i, j));
    const id = `${names} ${trait("combine")}`;
    if (state.current?.id !== id) {
      const weights = combineHeads(maps, trait("combine"));
      state.current = { id, maps, pairs, names, weights, ...survey(weights), digits: digitsOf(w, pairs) };
    }
    const fixed = trait("scale") === "fixed";
    const title = names.length > 1 ? `${trait("combine")} of ${names.join(", ")}` : names[0];
    return { ...state.current, title, top: fixed ? 1 : Math.max(state.current.most, 1e-6) };
  }

  /** Say a cell: the weight shown there, and in line mode that of each head. */
  function cellText(q, k) {
    const shown = current(), at = q * w.keys + k;
    const apart = trait("mode") === "lines" && shown.names.length > 1;
    const each = shown.names.map((name, i) => `${name} ${formatWeight(shown.maps[i][at], digitsOf(w, [shown.pairs[i]]))}`);
    const said = apart ? each.join(", ") : formatWeight(shown.weights[at], shown.digits);
    return `query ${quoted(w.tokens, q)}, key ${quoted(w.keyTokens, k)}: ${said}`;
  }

  // ---------------------------------------------------------------- controls

  const mode = choice("Show as", [["map", "heat map"], ["lines", "lines"]], (value) => put(model, "mode", value));
  const scales = [["fixed", "fixed, 0 to 1"], ["maximum", "per-head maximum"]];
  const scale = choice("Scale", scales, (value) => put(model, "scale", value));
  const combine = choice("Heads together as", [["maximum", "maximum"], ["mean", "mean"]], (value) => put(model, "combine", value));
  const save = pushButton("Save PNG", () => savePng(wholePicture(), "attention.png"));
  const ticks = node("fieldset");
  const clear = pushButton("Clear", () => {
    put(model, "overlay", []);
    ticks.querySelector("input")?.focus();
  });
  const controls = node("div", { class: "controls" }, mode.box, scale.box, combine.box, save);

  function toggleOverlay(layer, head) {
    const others = trait("overlay").filter(([i, j]) => i !== layer || j !== head);
    const on = others.length === trait("overlay").length;
    if (on && others.length >= 32) return say("At most 32 heads can be shown together.");
    put(model, "overlay", on ? [...others, [layer, head]] : others);
    say(`${headName(layer, head)} ${on ? "added to" : "removed from"} the overlay`);
  }

  /** Tick boxes for the heads of the chosen layer; in a layer of many heads for the chosen one only. */
  function fillTicks() {
    const layer = trait("layer");
    const heads = w.heads <= TICKS ? Array.from({ length: w.heads }, (_, i) => i) : [trait("head")];
    const id = `${layer}:${heads}`;
    if (state.ticks !== id) {
      state.ticks = id;
      state.boxes = heads.map((head) => [head, tickBox(w.heads <= TICKS ? String(head) : headName(layer, head), () => toggleOverlay(layer, head))]);
      state.boxes.forEach(([head, box]) => box.input.setAttribute("aria-label", `Overlay ${headName(layer, head)}`));
      const legend = w.layers > 1 ? `Overlay heads of layer ${layer}` : "Overlay heads";
      ticks.replaceChildren(node("legend", {}, legend), ...state.boxes.map(([, box]) => box.box), clear);
    }
    state.boxes.forEach(([head, box]) => box.show(isIn(trait("overlay"), layer, head)));
    clear.disabled = trait("overlay").length === 0;
  }

  // ---------------------------------------------------------------- canvases

  const picture = (name, label, help) =>
    focusable(node("canvas", { class: name, role: "application", "aria-label": label, "aria-describedby": help }));
  const number = Math.random().toString(36).slice(2);
  const overview = picture("overview", "Overview of all heads", `help-a-${number}`);
  const focus = picture("focus", "", `help-b-${number}`);
  const bars = node("canvas", { class: "bars", role: "img" });
  const readout = node("p", { class: "note readout" });
  const limits = node("p", { class: "limits" }); // what the marks mean, what is not drawn or not stored
  const help = node("p", { class: "keys" },
    several ? node("span", { id: `help-a-${number}` }, "Overview: arrow keys or a click choose a head, Space or Ctrl+click adds it to the overlay. ") : "",
    node("span", { id: `help-b-${number}` }, "Large picture: arrow keys or a click move the cursor, Home and End go to the first and last key, Page Up and Page Down move ten queries."));
  const panels = node("div", { class: "panels" }, ...(several ? [overview] : []), focus, readout, bars);
  root.append(controls, ...(several ? [ticks] : []), panels, limits, help);
  const tip = tooltip(root);
  const colours = () => themeColours(root);

  /** Share the width between overview, picture and bars; where a cell would get less than a pixel, stack them. */
  function arrange(width) {
    const context = focus.getContext("2d");
    context.font = SMALL_FONT;
    const short = (token) => (token.trim() ? shorten(token, 14) : `“${shorten(token, 12)}”`); // blanks must be seen
    state.rowNames ||= w.tokens.map(short);
    state.columnNames ||= w.keyTokens.map(short);
    const longest = (labels) => Math.ceil(Math.min(92, Math.max(...labels.map((label) => context.measureText(label).width)))) + 10;
    const left = longest(state.rowNames) + 14, keyRoom = longest(state.columnNames) + 16, scaleRoom = 64;
    const least = Math.max(320, left + scaleRoom + w.keys);
    const sizes = several ? [300, Math.min(width, 620), width].map((room) => overviewGrid(w, room)) : [];
    const grid = sizes.find(({ side }) => side >= 14) || sizes[2]; // a narrow overview, unless its heads are too small
    const column = several ? Math.max(240, grid.width) + 16 : 0;
    const form = width - column - 256 >= least ? "three" : several && width - column >= least ? "two" : "one";
    panels.className = `panels ${form}${several ? "" : " single"}`;
    const room = width - { three: column + 256, two: column, one: 0 }[form];
    const cell = Math.min((room - left - scaleRoom) / w.keys, Math.max(460, w.queries) / w.queries, 44);
    const cellWide = Math.max(cell, Math.min(Math.min(160, room - left - scaleRoom) / w.keys, 10));
    const cellHigh = Math.max(cell, Math.min(160 / w.queries, 10));
    const frame = { x: left, y: 24, width: cellWide * w.keys, height: cellHigh * w.queries };
    const below = keyRoom - 26 > cellWide - 4 ? keyRoom - 8 : 22; // turned labels or flat ones
    return {
      grid: form === "one" && several ? sizes[1].side >= 14 ? sizes[1] : sizes[2] : grid, left, below, keyRoom, frame,
      width: Math.max(260, left + frame.width + scaleRoom), height: frame.y + frame.height + below + 18,
      lines: { height: Math.min(Math.max(460, w.queries), 26 * Math.max(w.queries, w.keys)), width: Math.min(room, 560) },
      bars: { three: 240, two: Math.min(column - 16, 460), one: Math.min(width, 460) }[form],
    };
  }

  // ---------------------------------------------------------------- drawing

  let width = 0;
  function draw() {
    if (!width) return;
    const shown = current();
    if (!state.layout) Object.assign(state, { layout: arrange(width), kept: {} });
    const scene = {
      w, shown, paint: colours(), layout: state.layout, dark: root.classList.contains("dark"), cache: state, key: state.key,
      layer: trait("layer"), head: trait("head"), query: trait("query"), overlay: trait("overlay"), scale: trait("scale"),
    };
    mode.show(trait("mode"));
    scale.show(trait("scale"));
    combine.show(trait("combine"));
    combine.box.hidden = shown.pairs.length < 2;
    if (several) {
      fillTicks();
      drawOverview(overview, scene);
      overview.setAttribute("aria-label", `Overview of ${w.layers} × ${w.heads} layers and heads; chosen: ${headName(scene.layer, scene.head)}`);
    }
    const asMap = trait("mode") === "map";
    const { context, frame, drawn, all } = asMap ? drawMap(focus, scene) : drawPairs(focus, scene);
    state.frame = frame;
    const counted = (count) => count.toLocaleString("en");
    const fewer = drawn < all ? `The ${counted(drawn)} strongest of ${counted(all)} lines are drawn, and all lines of the chosen query. ` : "";
    const rounded = w.levels === 253 ? "So many weights are stored in one byte each and shown rounded to what that holds; exact=True keeps more digits." : "";
    const marks = (shown.masked ? "× or grey hatching: masked. " : "") + (shown.missing ? "? or orange hatching: NaN, not a number. " : "");
    limits.textContent = marks + fewer + rounded;
    limits.hidden = !limits.textContent;
    const room = parseFloat(focus.style.width), count = `${shown.pairs.length} heads`;
    context.font = `bold ${LABEL_FONT}`;
    context.fillStyle = scene.paint.ink;
    const short = asMap ? `${trait("combine")} of ${count}` : count; // the legend of the lines names them
    const fits = shown.pairs.length === 1 || (asMap && context.measureText(shown.title).width <= room);
    placeText(context, fits ? shown.title : short, 0, 0, "left", "top", room);
    focus.setAttribute("aria-label", `${asMap ? "Heat map" : "Lines"} of ${shown.title}: ${w.queries} queries by ${w.keys} keys`);
    drawBars(bars, scene);
    const of = asMap && shown.pairs.length > 1 ? ` (${shown.title})` : "";
    readout.textContent = cellText(scene.query, state.key) + of;
  }
  const redraw = oncePerFrame(draw);

  /** Put what is seen onto one canvas. */
  function wholePicture() {
    const origin = panels.getBoundingClientRect();
    const parts = [...panels.children].map((part) => [part, part.getBoundingClientRect()]);
    const whole = node("canvas");
    const across = Math.max(...parts.map(([, box]) => box.right - origin.left));
    const down = Math.max(...parts.map(([, box]) => box.bottom - origin.top));
    const context = sizeCanvas(whole, across + 16, down + 16);
    context.fillStyle = colours().paper;
    context.fillRect(0, 0, across + 16, down + 16);
    context.font = LABEL_FONT;
    context.fillStyle = colours().ink;
    for (const [part, box] of parts) {
      const x = box.left - origin.left + 8, y = box.top - origin.top + 8;
      if (part === readout) placeText(context, part.textContent, x, y + box.height / 2, "left", "middle", box.width);
      else context.drawImage(part, x, y, box.width, box.height);
    }
    return whole;
  }

  // ---------------------------------------------------------------- pointer and keyboard

  /** The head under the pointer, or null. */
  function headAt(event) {
    const { grid } = state.layout;
    for (let layer = 0; layer < w.layers; layer++) {
      for (let head = 0; head < w.heads; head++) {
        const [x, y] = grid.at(layer, head);
        const inside = (offset, start) => offset >= start - GAP / 2 && offset < start + grid.side + GAP / 2;
        if (inside(event.offsetX, x) && inside(event.offsetY, y)) return [layer, head];
      }
    }
    return null;
  }

  /** Query and key under the pointer; in line mode one of them, the other one null. Null where there is neither. */
  function cellAt(event) {
    const { frame } = state;
    const x = event.offsetX - frame.x, y = event.offsetY - frame.y;
    if (y < 0 || y >= frame.height) return null;
    const row = (size) => Math.floor((y / frame.height) * size);
    if (trait("mode") === "map") {
      return x < 0 || x >= frame.width ? null : [row(w.queries), Math.floor((x / frame.width) * w.keys)];
    }
    return x < frame.width / 2 ? [row(w.queries), null] : [null, row(w.keys)];
  }

  function chooseHead(layer, head) {
    if (layer !== trait("layer")) put(model, "layer", layer);
    if (head !== trait("head")) put(model, "head", head);
    say(headName(layer, head));
  }

  function moveCursor(query, key) {
    state.key = Math.max(0, Math.min(w.keys - 1, key));
    const row = Math.max(0, Math.min(w.queries - 1, query));
    if (row !== trait("query")) put(model, "query", row);
    say(cellText(row, state.key));
    redraw();
  }

  overview.addEventListener("click", (event) => {
    const found = headAt(event);
    if (found) (event.ctrlKey || event.metaKey ? toggleOverlay : chooseHead)(...found);
  });
  focus.addEventListener("click", (event) => {
    const cell = cellAt(event);
    if (cell) moveCursor(cell[0] ?? trait("query"), cell[1] ?? state.key);
  });

  tellUnderPointer(overview, tip, (event) => {
    const found = headAt(event);
    return found && `${headName(...found)}, largest weight ${w.maxima[found[0] * w.heads + found[1]].toFixed(4)}`;
  });
  tellUnderPointer(focus, tip, (event) => {
    const cell = cellAt(event);
    return cell && cellText(cell[0] ?? trait("query"), cell[1] ?? state.key);
  });

  const step = (columns, rows) => () => {
    const { folded, columns: across } = state.layout.grid;
    const layer = trait("layer") + (folded ? 0 : rows), head = trait("head") + columns + (folded ? rows * across : 0);
    if (layer >= 0 && layer < w.layers && head >= 0 && head < w.heads) chooseHead(layer, head);
  };
  bindKeys(overview, {
    ArrowLeft: step(-1, 0), ArrowRight: step(1, 0), ArrowUp: step(0, -1), ArrowDown: step(0, 1),
    Home: () => chooseHead(trait("layer"), 0), End: () => chooseHead(trait("layer"), w.heads - 1),
    " ": () => toggleOverlay(trait("layer"), trait("head")),
  });
  const move = (rows, columns) => () => moveCursor(trait("query") + rows, state.key + columns);
  bindKeys(focus, {
    ArrowLeft: move(0, -1), ArrowRight: move(0, 1), ArrowUp: move(-1, 0), ArrowDown: move(1, 0),
    PageUp: move(-10, 0), PageDown: move(10, 0), Home: move(0, -w.keys), End: move(0, w.keys),
  });

  // ---------------------------------------------------------------- life

  const traits = ["layer", "head", "query", "mode", "scale", "combine", "overlay"];
  atEnd(listen(model, traits, redraw));
  onTheme(() => {
    state.kept = {};
    redraw();
  });
  /** Take the width that there is. */
  function resize() {
    [width, state.layout] = [roomIn(root), null];
  }
  atEnd(onNewRoom(root, () => {
    resize();
    redraw();
  }));
  resize();
  draw(); // in a page at once, a frame earlier; a notebook puts the view in place only later
  return dispose;
}

export default { render };
