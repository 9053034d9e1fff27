// What the views share on the page: theme, controls, keys, pointer, width, traits. How they draw stands in core_draw.js.
// Text from outside (tokens, labels) reaches the page through textContent and canvas only, never as HTML.

// ---------------------------------------------------------------- a view and its theme

/**
 * Is the page around `el` dark? JupyterLab, VS Code and Colab say so where they are, each in its way; a page may
 * declare it; else the system decides.
 */
function isDark(el) {
  const { body, documentElement } = el.ownerDocument;
  const jupyter = body.dataset.jpThemeLight;
  if (jupyter !== undefined) return jupyter === "false";
  const code = body.dataset.vscodeThemeKind || body.className; // vscode-dark, vscode-high-contrast-light, ...
  if (/vscode-/.test(code)) return /vscode-(dark|high-contrast)(?!-light)/.test(code);
  const colab = documentElement.getAttribute("theme");
  if (colab) return colab === "dark";
  const declared = el.closest("[data-theme]")?.getAttribute("data-theme");
  if (declared) return declared === "dark";
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

/**
 * Prepare `el` for a view: its root, its theme, a region for what a screen reader is told. `kind` is the class under
 * which style.css dresses this view.
 *
 * Returns `{root, say, onTheme, drawOn, atEnd, dispose}`: draw inside `root`, announce with `say(text)`, redraw canvases
 * in `onTheme(call)`, hand over with `atEnd(call)` what is to be stopped, return `dispose` from `render`.
 * `drawOn(model, names, draw)` draws at once, and again, once a frame, when one of these traits, the theme or the width
 * changes; it returns what asks for that.
 */
export function setUp(el, kind, label) {
  const root = node("div", { class: `mha ${kind}`, role: "group", "aria-label": label });
  const live = node("div", { class: "hidden", role: "status", "aria-live": "polite" });
  root.append(live);
  el.replaceChildren(root);
  const redraws = [], ends = [];
  const dress = () => root.classList.toggle("dark", isDark(el));
  const update = () => {
    dress();
    redraws.forEach((draw) => draw());
  };
  dress();
  const observer = new MutationObserver(update);
  observer.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme", "theme"] });
  const said = ["data-theme", "data-jp-theme-light", "data-vscode-theme-kind", "class"];
  observer.observe(document.body, { attributes: true, attributeFilter: said });
  const media = matchMedia("(prefers-color-scheme: dark)");
  media.addEventListener("change", update);
  keepInSight(root);
  ends.push(() => observer.disconnect(), () => media.removeEventListener("change", update));
  return {
    root,
    say: (text) => (live.textContent = text),
    onTheme: (draw) => redraws.push(draw),
    drawOn(model, names, draw) {
      const redraw = oncePerFrame(draw);
      redraws.push(redraw);
      ends.push(listen(model, names, redraw), onNewRoom(root, redraw));
      draw();
      return redraw;
    },
    atEnd: (stop) => ends.push(stop),
    dispose: () => ends.forEach((stop) => stop()),
  };
}

const SETTLED_MS = 200; // until a notebook has made room for an output

/**
 * Bring a view into sight again whose cell was run by Shift+Enter in JupyterLab or Notebook 7: they scroll to the next
 * cell before the view has its height. Told by the next cell being the active one, so that nothing moves by itself.
 */
function keepInSight(root) {
  setTimeout(() => {
    const cell = root.closest(".jp-Cell"), box = root.getBoundingClientRect();
    if (!cell?.nextElementSibling?.classList.contains("jp-mod-active") || !box.height) return;
    const high = root.ownerDocument.documentElement.clientHeight;
    if (box.top < 0 || box.bottom > high) root.scrollIntoView({ block: box.height > high ? "start" : "nearest" });
  }, SETTLED_MS);
}

/** Return the theme's colours by name, with those of this view's style.css in `more`, and whether it is `dark`. */
export function themeColours(root, ...more) {
  const names = ["ink", "soft", "paper", "line", "field", "accent", "cursor", "hair", ...more];
  const style = getComputedStyle(root);
  /** @type {any} */
  const colours = Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
  colours.dark = root.classList.contains("dark");
  return colours;
}

const PADDING = 16; // of a view, left and right together, as core.css has it

/** Return how wide a view may draw; 0 while it is not in the page, or in a closed tab. */
export function roomIn(root) {
  return Math.max(0, Math.floor(root.clientWidth - PADDING));
}

/** Make a box as wide as a view, but for `widest` pixels, so that it widens no column; returns how wide. */
export function spread(box, root, widest) {
  const width = Math.min(roomIn(root), widest);
  Object.assign(box.style, { width: `${width}px`, marginRight: `${-width}px` });
  return width;
}

/** Call `changed()` when a view gets another width, or comes back to the page; its height is its own doing. */
export function onNewRoom(root, changed) {
  let last = roomIn(root);
  const observer = new ResizeObserver(() => {
    const now = roomIn(root);
    if (now === last) return;
    last = now;
    if (now) changed();
  });
  observer.observe(root);
  return () => observer.disconnect();
}

// ---------------------------------------------------------------- elements and controls

/** Set attributes: true is one without a value, false and undefined are none. Returns the element. */
export function setAll(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  return element;
}

/** Make an element. Attributes are set as attributes; children are nodes or text, and text stays text. */
export function node(tag, attributes = {}, ...children) {
  const made = setAll(document.createElement(tag), attributes);
  made.append(...children);
  return made;
}

/** The same for an element of SVG. */
export function svgNode(tag, attributes = {}, ...children) {
  const made = setAll(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes);
  made.append(...children);
  return made;
}

/**
 * Let an element take keys. JupyterLab runs its own commands for keys that reach it from a widget (arrow keys, a,
 * b, d d would move, insert and delete cells) unless this attribute stands on the focusable element itself.
 * `index`: its tabindex, or null where it has one by nature.
 */
export function focusable(element, index = 0) {
  element.setAttribute("data-lm-suppress-shortcuts", "true");
  if (index !== null) element.tabIndex = index;
  return element;
}

/** A labelled slider. `options`: min, max, step. Returns `{box, input, show}`; `show(value)` sets it silently. */
export function slider(label, options, format, onInput) {
  const input = focusable(node("input", { type: "range", ...options, "aria-label": label }), null);
  const output = node("output");
  const show = (value) => {
    input.value = value;
    output.textContent = format(Number(value));
    input.setAttribute("aria-valuetext", output.textContent);
  };
  input.addEventListener("input", () => {
    show(input.value);
    onInput(Number(input.value));
  });
  return { box: node("label", {}, label, input, output), input, show };
}

/** A labelled choice. `choices`: array of [value, text]. Returns `{box, input, show}`. */
export function choice(label, choices, onChange) {
  const options = choices.map(([value, text]) => node("option", { value }, text));
  const input = focusable(node("select", { "aria-label": label }, ...options), null);
  input.addEventListener("change", () => onChange(input.value));
  return { box: node("label", {}, label, input), input, show: (value) => (input.value = value) };
}

/** A labelled tick box. Returns `{box, input, show}`. */
export function tickBox(label, onChange) {
  const input = focusable(node("input", { type: "checkbox" }), null);
  input.addEventListener("change", () => onChange(input.checked));
  return { box: node("label", {}, input, label), input, show: (value) => (input.checked = value) };
}

/** A button. */
export function pushButton(label, onClick) {
  const made = focusable(node("button", { type: "button" }, label), null);
  made.addEventListener("click", onClick);
  return made;
}

/** A button that shows and hides a box, and tells `changed()`. Returns `{button, open(on)}`. */
export function foldButton(label, name, box, changed) {
  const button = pushButton(label, () => open(box.hidden));
  const open = (on) => {
    box.hidden = !on;
    button.setAttribute("aria-expanded", String(on));
    changed();
  };
  button.setAttribute("aria-expanded", "false");
  button.setAttribute("aria-label", name);
  return { button, open };
}

/** A tooltip that follows the pointer. Returns `{show(text, event), hide()}`. */
export function tooltip(root) {
  const tip = node("div", { class: "tip", role: "presentation", hidden: true });
  root.append(tip);
  const [away, edge] = [14, 4]; // from the pointer, from the end of the window
  return {
    show(text, event) {
      tip.textContent = text;
      tip.hidden = false;
      tip.style.left = tip.style.top = "0";
      // Where an ancestor is its own frame, as in JupyterLab, "fixed" counts from there and not from the window.
      const { left, top } = tip.getBoundingClientRect();
      tip.style.left = `${Math.min(event.clientX + away, innerWidth - tip.offsetWidth - edge) - left}px`;
      tip.style.top = `${Math.min(event.clientY + away, innerHeight - tip.offsetHeight - edge) - top}px`;
    },
    hide: () => (tip.hidden = true),
  };
}

/** The place among so many that is nearest to this one. */
export const within = (place, count) => Math.max(0, Math.min(count - 1, place));

/** Count things: "1 head", "2 heads". */
export const plural = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;

/** Return an id that no other view on the page has. */
export function freshId(name) {
  return `${name}-${Math.random().toString(36).slice(2)}`;
}

// ---------------------------------------------------------------- keys, pointer, frames

/**
 * Give an element its keys: `table` maps a key, as `event.key` names it, to what it does. A key that is in the table
 * ends here, unless its function returns false. Other keys, and all with Ctrl, Alt or Meta, go on to the page.
 */
export function bindKeys(element, table) {
  focusable(element, null);
  element.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || !Object.hasOwn(table, event.key)) return;
    if (table[event.key](event) === false) return;
    event.preventDefault(); // the page would scroll
    event.stopPropagation();
  });
}

/** The keys that walk: `step(down, right, event)` for the arrows, for Home and End as far as it goes. */
export const walkKeys = (step) => ({
  ArrowLeft: (event) => step(0, -1, event),
  ArrowRight: (event) => step(0, 1, event),
  ArrowUp: (event) => step(-1, 0, event),
  ArrowDown: (event) => step(1, 0, event),
  Home: (event) => step(0, -Infinity, event),
  End: (event) => step(0, Infinity, event),
});

/** Run `draw` at most once a frame, however often it is asked for; the last state wins. */
export function oncePerFrame(draw) {
  let waiting = false;
  return () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      draw();
    });
  };
}

/** Follow the pointer over a canvas with the tooltip `tip`, once a frame. `tell(event)` gives what to say, or null. */
export function tellUnderPointer(canvas, tip, tell) {
  let last = null;
  const show = oncePerFrame(() => {
    const said = last && tell(last);
    said ? tip.show(said, last) : tip.hide();
  });
  canvas.addEventListener("pointermove", ({ offsetX, offsetY, clientX, clientY }) => {
    last = { offsetX, offsetY, clientX, clientY }; // an event keeps its offsets for as long as it is on its way only
    show();
  });
  canvas.addEventListener("pointerleave", () => {
    last = null;
    tip.hide();
  });
}

/** Call `move(event)` while the pointer is held down on an element, also beyond its edge; `begin(event)` at first. */
export function bindDrag(element, move, begin = move) {
  element.addEventListener("pointerdown", (event) => {
    element.setPointerCapture(event.pointerId);
    begin(event);
  });
  element.addEventListener("pointermove", (event) => element.hasPointerCapture(event.pointerId) && move(event));
}

/**
 * Let what lies on a canvas be clicked and told: `at(event)` finds it, or null; `choose(found, event)` hears of a click
 * on it, `tell(found)` gives what the tooltip says.
 */
export function bindPlaces(canvas, tip, at, choose, tell) {
  const ifThere = (call) => (event) => {
    const found = at(event);
    return found === null ? null : call(found, event);
  };
  canvas.addEventListener("click", ifThere(choose));
  tellUnderPointer(canvas, tip, ifThere(tell));
}

// ---------------------------------------------------------------- what is kept

/** What a Map or WeakMap keeps under a key, made when it is first asked for; beyond `most` the oldest goes. */
export function kept(cache, key, make, most = Infinity) {
  if (!cache.has(key)) {
    cache.set(key, make());
    if (cache.size > most) cache.delete(cache.keys().next().value);
  }
  return cache.get(key);
}

// ---------------------------------------------------------------- traits

/** Return the bytes of a binary trait as a typed array of `Kind`, such as Float32Array, to be read only. */
export const bytesOf = (model, name, Kind) => typed(model.get(name), Kind);

/** Return bytes as a typed array, from the one numbered `start` on, as many numbers as are asked for. */
export function typed(view, Kind, start = 0, count = undefined) {
  if (!view || view.byteLength === 0) return new Kind(0);
  const { buffer, byteOffset, byteLength } = view, from = byteOffset + start;
  const size = count ?? Math.floor((byteLength - start) / Kind.BYTES_PER_ELEMENT);
  if (from % Kind.BYTES_PER_ELEMENT === 0) return new Kind(buffer, from, size);
  return new Kind(buffer.slice(from, from + size * Kind.BYTES_PER_ELEMENT)); // Kind does not allow an odd start
}

/** Change a trait from the view: at once here, in Python as soon as the kernel listens. */
export function put(model, name, value) {
  model.set(name, value);
  model.save_changes();
}

/** Listen to several traits with one function. Returns a function that stops listening. */
export function listen(model, names, call) {
  names.forEach((name) => model.on(`change:${name}`, call));
  return () => names.forEach((name) => model.off(`change:${name}`, call));
}

// ---------------------------------------------------------------- numbers

/** The softmax of some scores. @param {number[]} scores */
export function softmax(scores) {
  const most = Math.max(...scores), powers = scores.map((score) => Math.exp(score - most));
  const sum = powers.reduce((total, power) => total + power, 0);
  return powers.map((power) => power / sum);
}
