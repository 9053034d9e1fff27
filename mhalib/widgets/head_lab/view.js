// HeadLab: knobs on one side, the maps of all heads on the other, computed here while a knob moves.
// One canvas holds an overview of all heads and the head in focus; a step computes and draws within a frame.

const LAB_TRAITS = ["num_heads", "scale", "temperature", "mask", "valid_len", "own_bytes", "head"];
const LAB_SCALES = [["head_dim", "÷ √head_dim"], ["none", "none"], ["d_model", "÷ √d_model"]];
const LAB_MASKS = [["none", "none"], ["causal", "causal"], ["padding", "padding"], ["own", "own cells"]];
const LAB_KEYS = "Arrow keys move over the cells, Page Up and Page Down change the head, Space blocks or allows a cell of the own mask.";

export default {
  render({ model, el }) {
    const { root, say, onTheme, dispose } = setUp(el, "head-lab", "Attention lab");
    const [q, k, v] = ["q_bytes", "k_bytes", "v_bytes"].map((name) => bytesOf(model, name, Float32Array));
    const [queries, keys, features] = ["num_queries", "num_keys", "d_model"].map((name) => model.get(name));
    const choices = model.get("head_choices");
    const visible = (text) => (text.trim() ? text : `"${text}"`);
    const labelsOf = (name, count) =>
      model.get(name).length ? model.get(name).map(visible) : Array.from({ length: count }, (_, i) => String(i));
    const [rows, columns] = [labelsOf("tokens", queries), labelsOf("key_tokens", keys)];
    const [shortRows, shortColumns] = [rows, columns].map((labels) => labels.map((text) => shorten(text, 12)));
    // Direction isolates, so that a right-to-left token does not turn the sentence around it.
    const quoted = (text) => `“\u2068${text}\u2069”`;

    /** @type {LabState} */ let state;
    /** @type {LabResult} */ let result;
    let [scores, scoredHeads] = [null, 0];
    const cursor = { row: 0, column: 0 };
    const view = { cursor, colours: {} }; // what the painter reads

    // ------------------------------------------------------------ controls
    let telling = 0;
    const change = (name, value) => {
      put(model, name, value);
      clearTimeout(telling); // once the reader pauses, say what came of it
      telling = setTimeout(() => say(summary.textContent), 700);
    };
    const heads = slider("Heads", { min: 0, max: choices.length - 1, step: 1 },
      (at) => `${choices[at]} × ${features / choices[at]} features`,
      (at) => {
        if (model.get("head") >= choices[at]) model.set("head", choices[at] - 1);
        change("num_heads", choices[at]);
      });
    const scale = choice("Scale", LAB_SCALES, (value) => change("scale", value));
    const warmth = slider("Temperature", { min: -1, max: 1, step: 0.02 },
      (power) => String(Number((10 ** power).toPrecision(3))),
      (power) => change("temperature", Number((10 ** power).toPrecision(3))));
    const mask = choice("Mask", LAB_MASKS.filter(([kind]) => kind !== "causal" || queries <= keys), (kind) => {
      // A fresh own mask starts from what is seen.
      if (kind === "own" && bytesOf(model, "own_bytes", Uint8Array).every((may) => may)) putOwn(state.allowed.slice());
      change("mask", kind);
    });
    const length = slider("Valid keys", { min: 0, max: keys, step: 1 }, (n) => `${n} of ${keys}`, (n) => change("valid_len", n));
    const clear = pushButton("Allow all cells", () => {
      putOwn(new Uint8Array(queries * keys).fill(1));
      say("All cells are allowed.");
    });
    const focusHead = slider("Head in focus", { min: 0, max: 0, step: 1 }, String, (h) => change("head", h));
    const code = focusable(node("pre", { hidden: true, role: "region", "aria-label": "The code for what is shown" }));
    const codeButton = pushButton("Show the code", () => {
      code.hidden = !code.hidden;
      codeButton.setAttribute("aria-expanded", String(!code.hidden));
      codeButton.textContent = code.hidden ? "Show the code" : "Hide the code";
      showCode();
    });
    codeButton.setAttribute("aria-expanded", "false");
    const hint = node("p", { class: "hidden", id: `keys-${Math.random().toString(36).slice(2)}` }, LAB_KEYS);
    const canvas = focusable(node("canvas", { role: "application", "aria-label": "Maps of all heads", "aria-describedby": hint.id }));
    const save = pushButton("Save as PNG", () => savePng(canvas, "heads.png"));
    const summary = node("p", { class: "note" });
    const caption = node("p", { class: "note" });
    const readout = node("p", { class: "note readout" });
    const table = node("table");
    const sideways = focusable(node("div", { class: "sideways", role: "region", "aria-label": "Numbers of every head" }), 0); // a narrow page scrolls the table
    sideways.append(table);
    const details = node("details", {}, focusable(node("summary", {}, "Numbers of every head"), null), sideways);
    details.addEventListener("toggle", () => showTable());
    const tip = tooltip(root);
    const painter = labPainter(canvas, view, shortRows, shortColumns);
    const [labelWide, labelHigh] = [painter.widest(shortRows) + 24, painter.widest(shortColumns) + 12];
    for (const [part, name] of [[heads, "heads"], [warmth, "temperature"], [length, "length"], [focusHead, "focus-head"]]) {
      part.box.classList.add("knob", name);
    }
    root.append(
      node("div", { class: "controls" }, heads.box, scale.box, warmth.box, mask.box, length.box, clear, focusHead.box),
      canvas, readout, summary, caption, hint,
      node("div", { class: "controls" }, codeButton, save), code, details,
    );

    // ------------------------------------------------------------ a step
    function read() {
      const get = (name) => model.get(name);
      const count = get("num_heads");
      state = {
        queries, keys, features, heads: count, headDim: features / count, scale: get("scale"), temperature: get("temperature"),
        mask: get("mask"), validLen: get("valid_len"), head: Math.min(get("head"), count - 1),
        allowed: labAllowed(get("mask"), queries, keys, get("valid_len"), bytesOf(model, "own_bytes", Uint8Array)),
      };
    }

    function step() {
      const start = performance.now();
      read();
      if (scoredHeads !== state.heads) [scores, scoredHeads] = [labScores(q, k, state), state.heads];
      result = labAttend(scores, v, state);
      const computed = performance.now();
      Object.assign(view, { state, result });
      painter.refresh();
      arrange();
      draw();
      const drawn = performance.now();
      showControls();
      root.headLab = { ...result, state, plan: view.plan, computeMs: computed - start, stepMs: drawn - start };
    }

    function arrange() {
      const width = Math.min((root.clientWidth || 696) - 16, 1100);
      view.plan = labPlan(state, width, Boolean(result.output), labelWide, labelHigh);
    }

    /** Where the cursor is; two views of one lab share it. A feature of the output may be gone with a new number of heads. */
    function where() {
      const [row, column] = model.get("cursor");
      return { row, column: Math.min(column, lastColumn()) };
    }

    function draw() {
      dress();
      Object.assign(cursor, where());
      painter.draw();
      readout.textContent = describe(state.head, cursor.row, cursor.column);
    }

    // ------------------------------------------------------------ words
    function describe(head, row, column) {
      const query = `query ${quoted(rows[row])}`;
      if (column >= keys) {
        const value = result.output[(head * queries + row) * state.headDim + column - keys];
        return `head ${head}, ${query}: output feature ${column - keys} is ${value.toFixed(4)}`;
      }
      const at = (head * queries + row) * keys + column;
      const cell = `head ${head}, ${query}, key ${quoted(columns[column])}`;
      if (!state.allowed[row * keys + column]) return `${cell}: masked`;
      return `${cell}: weight ${result.weights[at].toFixed(4)}, q·k\u00a0${scores[at].toPrecision(4)}`;
    }

    function lastColumn() {
      return keys - 1 + (v.length ? Math.min(state.headDim, features / model.get("num_heads")) : 0);
    }

    function showControls() {
      const { bits, most, off, empty, norm } = labHeadNumbers(state, result, state.head);
      heads.show(choices.indexOf(state.heads));
      scale.show(state.scale);
      warmth.show(Math.log10(state.temperature));
      mask.show(state.mask);
      length.show(state.validLen);
      focusHead.input.max = state.heads - 1;
      focusHead.show(state.head);
      for (const [part, shown] of [[length.box, state.mask === "padding"], [clear, state.mask === "own"], [focusHead.box, state.heads > 1]]) {
        part.hidden = !shown;
      }
      summary.textContent =
        `Head ${state.head}: entropy ${bits.toFixed(2)} of at most ${most.toFixed(2)} bits, the mean of ${queries} queries · ` +
        `scores × ${Number(labFactor(state).toPrecision(3))} · ` +
        (empty === queries ? "" : off < 1e-5 ? "rows sum to 1" : `row sums are off by ${off.toPrecision(2)}`) +
        (empty ? `${empty === queries ? "" : ", but "}${empty} with nothing to attend to: zeros` : "") +
        (result.output ? ` · mean length of its output ${norm.toPrecision(3)}` : "");
      caption.textContent =
        (state.heads > 1 ? "Above each map: head · entropy in bits. " : "") +
        "Bars: entropy as a share of the most possible." + (state.mask === "none" ? "" : " Crossed or hatched: masked.");
      showCode();
      showTable();
    }

    function showCode() {
      if (!code.hidden) code.textContent = labCode(state, model.get("code_inputs"), model.get("code_note"));
    }

    function showTable() {
      if (!details.open) return;
      const titles = ["head", "entropy in bits", "at most", "row sum off by", "empty rows"];
      if (result.output) titles.push("output length");
      const lines = Array.from({ length: state.heads }, (_, h) => {
        const { bits, most, off, empty, norm } = labHeadNumbers(state, result, h);
        const cells = [bits.toFixed(3), most.toFixed(3), off.toExponential(0), empty];
        if (result.output) cells.push(norm.toPrecision(3));
        return node("tr", {}, node("th", { scope: "row" }, h), ...cells.map((cell) => node("td", {}, cell)));
      });
      table.replaceChildren(node("tr", {}, ...titles.map((title) => node("th", { scope: "col" }, title))), ...lines);
    }

    // ------------------------------------------------------------ pointer and keys
    function putOwn(allowed) {
      put(model, "own_bytes", new DataView(allowed.buffer));
    }

    function allow(row, column, may) {
      const own = labAllowed("own", queries, keys, keys, bytesOf(model, "own_bytes", Uint8Array));
      if (own[row * keys + column] === may) return;
      own[row * keys + column] = may;
      putOwn(own);
      say(`query ${quoted(rows[row])}, key ${quoted(columns[column])}: ${may ? "allowed" : "masked"}`);
    }

    /** What lies under the pointer: head, row and column, and whether that is the head in focus. */
    function hit(event) {
      const box = canvas.getBoundingClientRect();
      const [x, y] = [(event.clientX - box.left) * (view.plan.width / box.width), (event.clientY - box.top) * (view.plan.high / box.height)];
      const inside = (panel, head, large) => {
        const row = Math.floor((y - panel.y) / panel.cell);
        if (row < 0 || row >= queries || x < panel.x) return null;
        if (x < panel.x + panel.wide) return { head, row, column: Math.floor((x - panel.x) / panel.cell), large };
        const share = (x - panel.strip) / panel.stripWide;
        return share >= 0 && share < 1 ? { head, row, column: keys + Math.floor(share * state.headDim), large } : null;
      };
      return view.plan.thumbs.map((panel, head) => inside(panel, head, false)).find(Boolean) || inside(view.plan.focus, state.head, true);
    }

    let painting = null; // what a drag over the own mask writes
    canvas.addEventListener("pointerdown", (event) => {
      const at = hit(event);
      if (!at) return;
      put(model, "cursor", [at.row, at.column]);
      if (at.head !== state.head) put(model, "head", at.head);
      if (at.large && state.mask === "own" && at.column < keys) {
        painting = 1 - state.allowed[at.row * keys + at.column];
        canvas.setPointerCapture(event.pointerId);
        allow(at.row, at.column, painting);
      }
    });
    canvas.addEventListener("pointermove", (event) => {
      const at = hit(event);
      if (!at) return tip.hide();
      tip.show(describe(at.head, at.row, at.column), event);
      if (painting !== null && at.large && at.column < keys) allow(at.row, at.column, painting);
    });
    for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => (painting = null));
    canvas.addEventListener("pointerleave", tip.hide);

    canvas.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const moves = {
        ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1],
        Home: [0, -Infinity], End: [0, Infinity],
      };
      const turns = { PageUp: -1, PageDown: 1 };
      const { row, column } = where();
      if (moves[event.key]) {
        const next = [row + moves[event.key][0], column + moves[event.key][1]];
        const ends = [queries - 1, lastColumn()];
        put(model, "cursor", next.map((place, axis) => Math.max(0, Math.min(ends[axis], place))));
        say(describe(state.head, ...model.get("cursor")));
      } else if (turns[event.key]) {
        const head = Math.max(0, Math.min(model.get("num_heads") - 1, model.get("head") + turns[event.key]));
        put(model, "head", head);
        say(describe(head, row, column));
      } else if (event.key === " " || event.key === "Enter") {
        if (model.get("mask") !== "own") say("Choose own cells as the mask to block or allow single cells.");
        else if (column < keys) allow(row, column, 1 - bytesOf(model, "own_bytes", Uint8Array)[row * keys + column]);
      } else return;
      event.preventDefault();
    });

    // ------------------------------------------------------------ life
    /** Read the colours of the theme. Before the view stands in the page, as at its first step in a notebook, there are none. */
    function dress() {
      for (const name of ["ink", "soft", "paper", "line", "field", "accent"]) view.colours[name] = cssColour(root, name);
    }
    const redraw = oncePerFrame(() => draw());
    const update = oncePerFrame(step);
    const stop = listen(model, LAB_TRAITS, update);
    const stopCursor = listen(model, ["cursor"], redraw);
    const observer = new ResizeObserver(oncePerFrame(() => {
      const drawn = view.colours.paper && Math.min(root.clientWidth - 16, 1100) === view.plan.width;
      if (drawn || !root.clientWidth) return;
      arrange();
      draw();
    }));
    observer.observe(root);
    onTheme(redraw);
    step();
    return () => {
      stop();
      stopCursor();
      clearTimeout(telling);
      observer.disconnect();
      dispose();
    };
  },
};
