// ReshapeView: cells that walk from one station of a reshape to the next. What each station looks like, and what is
// told about it, comes from Python, where torch made it; here it is only laid out, drawn and moved.

const PATH_NAMES = [
  ["split", "split: view, transpose"],
  ["merge", "merge: transpose, contiguous…"],
  ["fold", "fold as d2l does"],
  ["wrong split", "wrong split: view only"],
  ["wrong merge", "wrong merge: reshape only"],
];
const MOVE_MS = 600; // how long cells walk; a key or a click in the picture ends it at once
const STEADY = 340; // up to this height a path keeps its height, so that what is below does not jump while stepping


/** How a mistake, a view and a copy are told. */
const MEMORY_WORDS = {
  start: ["new", "the numbers as they are made"],
  view: ["view", "the same memory, read in another way"],
  copy: ["copy", "new memory, written in the new order"],
};

export default {
  render({ model, el }) {
    const { root, say, onTheme, dispose } = setUp(el, "reshape-view", "ReshapeView: where each number goes");
    const sizes = model.get("sizes");
    let stations = stationsOf(model, model.get("path"));
    const step = () => Math.max(0, Math.min(stations.length - 1, model.get("step")));
    const here = () => stations[step()];
    const groupOf = (label) => meaning(label, sizes)[model.get("colour_by")];

    // ------------------------------------------------------------ controls
    const paths = choice("Path", PATH_NAMES, (path) => {
      model.set("path", path);
      put(model, "step", 0); // one message with both, so that Python has nothing to correct
    });
    const go = (to) => {
      if (to >= 0 && to < stations.length && to !== step()) put(model, "step", to);
    };
    const back = pushButton("◀ Back", () => go(step() - 1));
    const forward = pushButton("Forward ▶", () => go(step() + 1));
    const steps = slider("Step", { min: 0, max: 1, step: 1 }, (v) => `${v} of ${stations.length - 1}`, go);
    const colours = choice("Colour by", [["token", "token"], ["head", "head (features)"]], (v) =>
      put(model, "colour_by", v),
    );
    const stepping = node("div", { class: "stepping" }, back, steps.box, forward);
    const controls = node("div", { class: "controls" }, paths.box, colours.box, stepping);
    for (const button of [back, forward]) {
      button.addEventListener("keydown", (event) => {
        const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
        if (by) go(step() + by);
      });
    }

    // ------------------------------------------------------------ what is told, and the picture
    const code = node("pre", { class: "code" });
    const table = node("div", { class: "facts" });
    const canvas = focusable(node("canvas", { role: "application", "aria-roledescription": "tensor" }));
    const legend = node("div", { class: "legend note" });
    const mistake = node("p", { class: "mistake" });
    const journey = node("p");
    const place = node("p", { class: "note" });
    const hint = node("p", { class: "note" }, "Click a number to follow it, or use the arrow keys in the picture; Page Up and Page Down go back and forward.");
    root.append(controls, code, table, legend, canvas, mistake, journey, place, hint);
    const tip = tooltip(root);

    const fact = (name, value, why) => node("div", {}, name, node("b", {}, value), why);
    const write = () => {
      const at = step();
      const station = here();
      const told = tell(stations, at, model.get("chosen"), sizes);
      paths.show(model.get("path"));
      colours.show(model.get("colour_by"));
      steps.input.max = stations.length - 1;
      steps.show(at);
      back.setAttribute("aria-disabled", at === 0);
      forward.setAttribute("aria-disabled", at === stations.length - 1);
      code.textContent = station.code;
      const order = station.contiguous ? ["yes", "read in the order of memory"] : ["no", "reading in order jumps in memory"];
      table.replaceChildren(
        fact("Shape", inBrackets(station.shape), inBrackets(station.axes)),
        fact("Strides", inBrackets(station.strides), "places in memory, per step on each axis"),
        fact("Contiguous", ...order),
        fact("View or copy", ...MEMORY_WORDS[station.memory]),
      );
      const count = model.get("colour_by") === "token" ? sizes.tokens : sizes.num_heads;
      const swatches = Array.from({ length: count }, (_, group) => {
        const colour = GROUP_COLOURS[group];
        const dots = node("i", { "aria-hidden": "true", style: `background:${colour};color:${inkOn(colour)}` }, "·".repeat(group));
        const first = group * sizes.head_dim;
        const features = sizes.head_dim === 1 ? `feature ${first}` : `features ${first}–${first + sizes.head_dim - 1}`;
        return node("span", {}, dots, model.get("colour_by") === "token" ? `token ${group}` : `head ${group}: ${features}`);
      });
      const [rows, columns] = station.counts.slice(-2);
      legend.replaceChildren(node("span", {}, `rows: ${rows}, columns: ${columns}`), ...swatches);
      mistake.hidden = !station.mistake;
      mistake.replaceChildren(...(wrongOf(station).size ? [node("b", {}, "!"), " "] : []), station.mistake);
      journey.replaceChildren(`${told.name}: ${told.places.slice(0, -1).map((p) => `${p} → `).join("")}`, node("strong", {}, told.places.at(-1)), ` ${told.astray}`);
      place.textContent = `Place ${told.offset} in memory = ${told.sum}, its index times the strides.`;
      canvas.setAttribute("aria-label", `Tensor of shape ${inBrackets(station.shape)}. ${told.name}, at ${told.places.at(-1)}. ${told.astray} Arrow keys choose a number, Page Up and Page Down go back and forward.`);
    };

    // ------------------------------------------------------------ drawing
    // Where each label is drawn: [x, y in the tensor, x, y in memory]. While cells walk it lies between two stations.
    let shown = new Map();
    let origin = null;
    let started = 0;
    let grid = null;
    let strip = null;
    let stripTop = 0;
    let drawnWidth = 0;
    const still = matchMedia("(prefers-reduced-motion: reduce)");

    const targets = () => {
      const station = here();
      const places = new Map();
      station.cells.forEach((label, i) => places.set(label, [grid.x[i], grid.y[i], 0, 0]));
      station.line.forEach((label, i) => {
        const to = places.get(label);
        to[2] = (i % strip.perLine) * strip.cell;
        to[3] = stripTop + Math.floor(i / strip.perLine) * (MEMORY_HEIGHT + 22);
      });
      return places;
    };

    const paint = () => {
      const width = Math.floor(root.clientWidth - 16);
      if (width <= 0) return; // not on the page yet, or in a closed tab
      const chosen = model.get("chosen");
      const station = here();
      const context = canvas.getContext("2d");
      const measure = (text) => ((context.font = `11px ${FONT}`), context.measureText(text).width);
      const layouts = stations.map((s) => layOut(s, sizes, width, measure));
      grid = layouts[step()];
      strip = layOutMemory(station.cells.length, sizes, width);
      stripTop = Math.max(grid.height, Math.min(STEADY, Math.max(...layouts.map((l) => l.height)))) + 26;
      sizeCanvas(canvas, width, stripTop + strip.height);
      if (width !== drawnWidth) origin = null; // a new width is no journey
      drawnWidth = width;
      const goal = targets();
      const share = origin ? Math.min(1, (performance.now() - started) / MOVE_MS) : 1;
      const eased = share < 0.5 ? 2 * share * share : 1 - 2 * (1 - share) * (1 - share);
      shown = new Map([...goal].map(([label, to]) => [label, share < 1 ? to.map((v, i) => origin.get(label)[i] * (1 - eased) + v * eased) : to]));
      const ink = cssColour(root, "ink");
      const soft = cssColour(root, "soft");
      const write = (text, x, y, align = "left", font = "11px", colour = soft) => {
        context.font = `${font} ${FONT}`;
        context.textAlign = align;
        context.textBaseline = "alphabetic";
        context.fillStyle = colour;
        context.fillText(text, x, y);
      };
      for (const block of grid.blocks) {
        write(block.title, block.left, block.top - 18, "left", "bold 11px", ink);
        for (let j = 0; j < block.columns; j++) write(j, block.left + (j + 0.5) * grid.width, block.top - 4, "center");
        for (let i = 0; i < block.rows; i++) write(i, block.left - 5, block.top + (i + 0.5) * CELL_HEIGHT + 4, "right");
      }
      const wrong = wrongOf(station);
      write("memory", 0, stripTop - 6, "left", "bold 11px", ink);
      for (const [label, [x, y, mx, my]] of shown) {
        drawCell(context, x, y, grid.width, CELL_HEIGHT, groupOf(label), grid.width >= 18 ? String(label) : null, wrong.has(label));
        drawCell(context, mx, my, strip.cell, MEMORY_HEIGHT, groupOf(label), strip.labelled ? String(label) : null);
      }
      const [x, y, mx, my] = shown.get(chosen);
      if (share === 1) {
        station.cells.forEach((label, i) => {
          if (wrong.has(label)) drawSign(context, grid.x[i], grid.y[i], grid.width);
        });
        const home = station.right.indexOf(chosen);
        if (station.cells[home] !== chosen) outline(context, grid.x[home], grid.y[home], grid.width, CELL_HEIGHT, true);
      }
      outline(context, x, y, grid.width, CELL_HEIGHT);
      outline(context, mx, my, strip.cell, MEMORY_HEIGHT);
      // The first place of every line of memory, and the place of the chosen number.
      const offset = station.line.indexOf(chosen);
      for (let i = 0; i < station.line.length; i += strip.perLine) {
        const top = stripTop + (i / strip.perLine) * (MEMORY_HEIGHT + 22) + MEMORY_HEIGHT + 14;
        const close = Math.floor(offset / strip.perLine) * strip.perLine === i && (offset - i) * strip.cell < 40;
        if (!close) write(i, 2, top);
      }
      if (share === 1) {
        const atEdge = mx + strip.cell / 2 + 30 > width; // there the number goes to the left of its arrow
        const [text, shift, align] = atEdge ? [`${offset} ▲`, 5, "right"] : [`▲ ${offset}`, -5, "left"];
        write(text, mx + strip.cell / 2 + shift, my + MEMORY_HEIGHT + 14, align, "bold 12px", ink);
      }
      if (share < 1) draw();
    };
    const draw = oncePerFrame(paint);
    let news = ""; // what a screen reader is told at the next frame
    const update = oncePerFrame(() => {
      write();
      paint();
      if (news) say(news);
      news = "";
    });

    // ------------------------------------------------------------ the state
    const moved = () => {
      stations = stationsOf(model, model.get("path"));
      if (!still.matches && shown.size) {
        origin = shown;
        started = performance.now();
      }
      const station = here();
      const told = tell(stations, step(), model.get("chosen"), sizes);
      const order = station.contiguous ? "contiguous" : "not contiguous";
      news =
        `Step ${step()} of ${stations.length - 1}: ${station.code}. Shape ${inBrackets(station.shape)}, ` +
        `strides ${inBrackets(station.strides)}, ${order}, ${MEMORY_WORDS[station.memory].join(": ")}. ` +
        `${told.name}, at ${told.places.at(-1)}, place ${told.offset} in memory. ${station.mistake}`;
      update();
    };
    const chosenNow = () => {
      const told = tell(stations, step(), model.get("chosen"), sizes);
      news = `${told.name}: ${told.places.join(" to ")}, place ${told.offset} in memory. ${told.astray}`;
      update();
    };
    const arrive = () => (origin = null);

    /** The label under the pointer, in the tensor or in memory; undefined where there is none. */
    const labelAt = (event) => {
      const px = event.offsetX;
      const py = event.offsetY;
      const hit = (x, y, w, h) => px >= x && px < x + w && py >= y && py < y + h;
      for (const [label, [x, y, mx, my]] of shown) {
        if (hit(x, y, grid.width, CELL_HEIGHT) || hit(mx, my, strip.cell, MEMORY_HEIGHT)) return label;
      }
      return undefined;
    };
    canvas.addEventListener("pointerdown", (event) => {
      arrive();
      paint();
      const label = labelAt(event);
      if (label !== undefined) put(model, "chosen", label);
    });
    canvas.addEventListener("pointermove", (event) => {
      const label = labelAt(event);
      if (label === undefined) return tip.hide();
      const told = tell(stations, step(), label, sizes);
      tip.show(`${told.name}; at ${told.places.at(-1)}, place ${told.offset} in memory`, event);
    });
    canvas.addEventListener("pointerleave", tip.hide);
    canvas.addEventListener("keydown", (event) => {
      const pages = { PageUp: -1, PageDown: 1 }[event.key];
      const [dx, dy] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key] || [0, 0];
      arrive();
      draw();
      if (!grid || (!pages && !dx && !dy)) return;
      event.preventDefault(); // the page would scroll
      if (pages) return go(step() + pages);
      // The nearest cell in that direction, on the same line of the picture.
      const at = here().cells.indexOf(model.get("chosen"));
      let best = -1;
      here().cells.forEach((_, i) => {
        const [along, across] = dx ? [dx * (grid.x[i] - grid.x[at]), grid.y[i] - grid.y[at]] : [dy * (grid.y[i] - grid.y[at]), grid.x[i] - grid.x[at]];
        const nearer = best < 0 || along < (dx ? dx * (grid.x[best] - grid.x[at]) : dy * (grid.y[best] - grid.y[at]));
        if (along > 1 && Math.abs(across) < 1 && nearer) best = i;
      });
      if (best >= 0) put(model, "chosen", here().cells[best]);
    });

    const stops = [listen(model, ["path", "step"], moved), listen(model, ["chosen"], chosenNow), listen(model, ["colour_by"], update)];
    // The width only: the height changes with what is drawn, and would ask for drawing again.
    const watcher = new ResizeObserver(() => Math.floor(root.clientWidth - 16) !== drawnWidth && draw());
    watcher.observe(root);
    onTheme(draw);
    write();
    update();
    return () => {
      stops.forEach((stop) => stop());
      watcher.disconnect();
      dispose();
    };
  },
};
