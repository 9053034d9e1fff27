// What the views share: colour, canvas, controls, keyboard, tooltip. Plain functions, joined in front of each view.
// Text from outside (tokens, labels) reaches the page through textContent and canvas only, never as HTML.

// ---------------------------------------------------------------- colour

// COLOUR_MAP (256 colours as [r, g, b]), MASKED_COLOUR, NAN_COLOUR, GROUP_COLOURS and DARK_INK_FROM come from
// mhalib.plots: base.py writes them in front of this file.

/** Write the colour of a weight from 0 to 1 into `pixels` (RGBA bytes) at byte `at`. */
function putColour(pixels, at, weight) {
  const [r, g, b] = shadeOf(weight);
  pixels[at] = r;
  pixels[at + 1] = g;
  pixels[at + 2] = b;
  pixels[at + 3] = 255;
}

/** Return the colour of a weight from 0 to 1, as [r, g, b]. */
function shadeOf(weight) {
  return COLOUR_MAP[Math.max(0, Math.min(255, Math.round(weight * 255)))];
}

/** Return the CSS colour of a weight, and the ink, black or white, that reads on it. */
function weightColour(weight) {
  return { fill: `rgb(${shadeOf(weight)})`, ink: weight >= DARK_INK_FROM ? "#000" : "#fff" };
}

// ---------------------------------------------------------------- theme

/** Is the page around `el` dark? */
function isDark(el) {
  const jupyter = el.ownerDocument.body.dataset.jpThemeLight;
  if (jupyter !== undefined) return jupyter === "false";
  const declared = el.closest("[data-theme]")?.getAttribute("data-theme");
  if (declared) return declared === "dark";
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

/**
 * Prepare `el` for a view: its root, a theme (JupyterLab's where there is one, the system's elsewhere; followed while
 * it changes), a region for what a screen reader is told. `kind` is the class under which style.css dresses this view.
 * Returns `{root, say, onTheme, dispose}`; draw inside `root`, announce with `say`, redraw canvases in `onTheme`.
 */
function setUp(el, kind, label) {
  const root = node("div", { class: `mha ${kind}`, role: "group", "aria-label": label });
  const live = node("div", { class: "hidden", role: "status", "aria-live": "polite" });
  el.replaceChildren(root);
  const redraws = [];
  const update = () => {
    root.classList.toggle("dark", isDark(el));
    redraws.forEach((draw) => draw());
  };
  root.classList.toggle("dark", isDark(el));
  const observer = new MutationObserver(update);
  observer.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
  observer.observe(document.body, { attributes: true, attributeFilter: ["data-theme", "data-jp-theme-light"] });
  const media = matchMedia("(prefers-color-scheme: dark)");
  media.addEventListener("change", update);
  root.append(live);
  return {
    root,
    say: (text) => (live.textContent = text),
    onTheme: (draw) => redraws.push(draw),
    dispose: () => {
      observer.disconnect();
      media.removeEventListener("change", update);
    },
  };
}

/** Return a colour variable of the theme, such as cssColour(root, "ink"), for drawing on a canvas. */
function cssColour(root, name) {
  return getComputedStyle(root).getPropertyValue(`--${name}`).trim();
}

// ---------------------------------------------------------------- elements and controls

/** Make an element. Attributes are set as attributes; children are nodes or text, and text stays text. */
function node(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children);
  return made;
}

/**
 * Let an element take keys. JupyterLab runs its own commands for keys that reach it from a widget (arrow keys, a,
 * b, d d would move, insert and delete cells) unless this attribute stands on the focusable element itself.
 */
function focusable(element, index = 0) {
  element.setAttribute("data-lm-suppress-shortcuts", "true");
  if (index !== null) element.tabIndex = index;
  return element;
}

/** A labelled slider. `options`: min, max, step. Returns `{box, input, show}`; `show(value)` sets it without an event. */
function slider(label, options, format, onInput) {
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

/** A labelled choice. `choices`: array of [value, text]. Returns `{box, input, show, fill}`. */
function choice(label, choices, onChange) {
  const input = focusable(node("select", { "aria-label": label }), null);
  const fill = (list) =>
    input.replaceChildren(...list.map(([value, text]) => node("option", { value }, text)));
  fill(choices);
  input.addEventListener("change", () => onChange(input.value));
  return { box: node("label", {}, label, input), input, fill, show: (value) => (input.value = value) };
}

/** A labelled tick box. Returns `{box, input, show}`. */
function tickBox(label, onChange) {
  const input = focusable(node("input", { type: "checkbox" }), null);
  input.addEventListener("change", () => onChange(input.checked));
  return { box: node("label", {}, input, label), input, show: (value) => (input.checked = value) };
}

/** A button. */
function pushButton(label, onClick) {
  const made = focusable(node("button", { type: "button" }, label), null);
  made.addEventListener("click", onClick);
  return made;
}

// ---------------------------------------------------------------- drawing

/** Give a canvas its size in CSS pixels and a context scaled for sharp lines on this screen. */
function sizeCanvas(canvas, width, height) {
  const ratio = Math.min(devicePixelRatio || 1, 2);
  canvas.width = Math.max(1, Math.round(width * ratio));
  canvas.height = Math.max(1, Math.round(height * ratio));
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}

/**
 * Keep a drawing that many frames share. `draw(context)` fills a hidden canvas when `key`, the size or the screen is
 * new; every call lays that canvas onto `context`, pixel on pixel. @param {{key?: string, canvas?: HTMLCanvasElement}} kept
 */
function drawKept(context, kept, key, width, height, draw) {
  const id = `${key} ${width} ${height} ${devicePixelRatio}`;
  if (kept.key !== id) {
    kept.key = id;
    kept.canvas ||= node("canvas");
    draw(sizeCanvas(kept.canvas, width, height));
  }
  context.save();
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.drawImage(kept.canvas, 0, 0);
  context.restore();
}

/** Run `draw` at most once a frame, however often it is asked for; the last state wins. */
function oncePerFrame(draw) {
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

/** Shorten a label for a small place; the tooltip and the screen reader get all of it. Cuts whole characters. */
function shorten(text, length) {
  if (text.length <= length) return text; // never more characters than code units, and asking costs time
  const characters = [...new Intl.Segmenter(undefined, { granularity: "grapheme" }).segment(text)];
  return characters.length <= length ? text : characters.slice(0, length - 1).map((c) => c.segment).join("") + "…";
}

/** A tooltip that follows the pointer. Returns `{show(text, event), hide()}`. */
function tooltip(root) {
  const tip = node("div", { class: "tip", role: "presentation", hidden: true });
  root.append(tip);
  return {
    show(text, event) {
      tip.textContent = text;
      tip.hidden = false;
      tip.style.left = `${Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 4)}px`;
      tip.style.top = `${Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 4)}px`;
    },
    hide: () => (tip.hidden = true),
  };
}

/** Offer a canvas as a PNG file. */
function savePng(canvas, name) {
  canvas.toBlob((blob) => {
    const link = node("a", { href: URL.createObjectURL(blob), download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });
}

// ---------------------------------------------------------------- state

/** Return the bytes of a binary trait as a typed array of `Kind`, such as Uint8Array or Float32Array, to be read only. */
function bytesOf(model, name, Kind) {
  const view = model.get(name);
  if (!view || view.byteLength === 0) return new Kind(0);
  const { buffer, byteOffset, byteLength } = view;
  if (byteOffset % Kind.BYTES_PER_ELEMENT === 0) return new Kind(buffer, byteOffset, byteLength / Kind.BYTES_PER_ELEMENT);
  return new Kind(buffer.slice(byteOffset, byteOffset + byteLength)); // Kind does not allow an odd start
}

/** Change a trait from the view: at once here, in Python as soon as the kernel listens. */
function put(model, name, value) {
  model.set(name, value);
  model.save_changes();
}

/** Listen to several traits with one function. Returns a function that stops listening. */
function listen(model, names, call) {
  names.forEach((name) => model.on(`change:${name}`, call));
  return () => names.forEach((name) => model.off(`change:${name}`, call));
}
