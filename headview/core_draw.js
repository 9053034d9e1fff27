// How the views draw on a canvas: colours of weights, pixels, marks, labels, the cursor. Nothing here knows a widget.
// COLOUR_MAP (256 colours as [r, g, b]), MASKED_COLOUR, NAN_COLOUR, GROUP_COLOURS and DARK_INK_FROM come from
// mhalib.plots: base.py writes them in front of the core.

// ---------------------------------------------------------------- colours of weights

/** One pixel of an ImageData as the 32-bit number that its little-endian buffer holds. @param {number[]} rgb */
const packColour = ([r, g, b]) => (0xff000000 | (b << 16) | (g << 8) | r) >>> 0;

/** 256 colours as whole pixels, so that an image is filled with one look-up a cell. `colour` takes 0 to 1. */
const pixelTable = (colour) => Uint32Array.from({ length: 256 }, (_, i) => packColour(colour(i / 255)));

/** Return the colour of a weight from 0 to 1, as [r, g, b]. */
const shadeOf = (weight) => COLOUR_MAP[Math.max(0, Math.min(255, Math.round(weight * 255)))];

const WEIGHT_PIXELS = pixelTable(shadeOf);
/** The colour maps that a reader can choose, by name, and that of signed numbers, as tables of pixels. */
const MAP_PIXELS = {};
for (const [name, colours] of Object.entries(COLOUR_MAPS)) MAP_PIXELS[name] = Uint32Array.from(colours, packColour);
const DIVERGING_PIXELS = Uint32Array.from(DIVERGING, packColour);
const MASKED_PIXEL = packColour(MASKED_COLOUR);
const MASKED_ON_WHITE_PIXEL = packColour(MASKED_ON_WHITE);
const NAN_PIXEL = packColour(NAN_COLOUR);

/** Return the CSS colour of a weight, and the ink, black or white, that reads on it. */
function weightColour(weight) {
  return { fill: `rgb(${shadeOf(weight)})`, ink: weight >= DARK_INK_FROM ? "#000" : "#fff" };
}

// ---------------------------------------------------------------- canvases

const MOST_SHARP = 2; // canvas pixels for one of the page; more cost time and are not seen

/** Return how many canvas pixels a view draws for one pixel of the page. */
function sharpness() {
  return Math.min(devicePixelRatio || 1, MOST_SHARP);
}

/** Give a canvas its size in CSS pixels and a context scaled for sharp lines on this screen. */
function sizeCanvas(canvas, width, height) {
  const ratio = sharpness();
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
 * new; every call lays that canvas onto `context`, pixel on pixel.
 * @param {{key?: string, canvas?: HTMLCanvasElement}} kept
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

/** Give a canvas one pixel a cell, to be drawn large. `shade(pixels)` fills it, a whole pixel at a time. */
function paintPixels(canvas, width, height, shade) {
  if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
  const context = canvas.getContext("2d");
  const image = context.createImageData(width, height);
  shade(new Uint32Array(image.data.buffer));
  context.putImageData(image, 0, 0);
}

/** Offer a canvas as a PNG file. */
function savePng(canvas, name) {
  canvas.toBlob((blob) => offerFile(blob, name));
}

/** Offer a file. @param {Blob} blob */
function offerFile(blob, name) {
  const link = node("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

// ---------------------------------------------------------------- marks

const CROSS_INK = "#5c5c5c"; // reads on the grey of masked cells
const MARKED_FROM = 8; // pixels of a cell that has room for a mark; smaller ones are hatched

/** Add the cross of a masked cell to a path: around its middle, `arm` to each side. @param {CanvasPath} path */
function addCross(path, x, y, arm) {
  path.moveTo(x - arm, y - arm);
  path.lineTo(x + arm, y + arm);
  path.moveTo(x + arm, y - arm);
  path.lineTo(x - arm, y + arm);
}

/** Draw what `stroke()` strokes twice, white on black, so that the line is seen on every colour. */
function strokeOnAnything(context, black, white, stroke) {
  for (const [colour, width] of [["#000", black], ["#fff", white]]) {
    context.strokeStyle = colour;
    context.lineWidth = width;
    stroke();
  }
}

// ---------------------------------------------------------------- text

const LABEL_FONT = "12px system-ui, sans-serif";
const SMALL_FONT = "11px system-ui, sans-serif";

/** Write at a place, `align` and `baseline` as canvas names them; squeezed where it is wider than `room`. */
function placeText(context, text, x, y, align, baseline, room = undefined) {
  context.textAlign = align;
  context.textBaseline = baseline;
  context.fillText(text, x, y, room);
}

/** Write upwards, turned by a quarter. */
function placeTurned(context, text, x, y, align, baseline, room = undefined) {
  context.save();
  context.translate(x, y);
  context.rotate(-Math.PI / 2);
  placeText(context, text, 0, 0, align, baseline, room);
  context.restore();
}

/** Return the width of the widest of these texts in the present font. */
function widestOf(context, texts) {
  return Math.max(...texts.map((text) => context.measureText(text).width));
}

/** Shorten a label for a small place; the tooltip and the screen reader get all of it. Cuts whole characters. */
function shorten(text, length) {
  if (text.length <= length) return text; // never more characters than code units, and asking costs time
  const characters = [...new Intl.Segmenter(undefined, { granularity: "grapheme" }).segment(text)];
  if (characters.length <= length) return text;
  return characters.slice(0, length - 1).map((c) => c.segment).join("") + "…";
}

/** Return which of `size` labels to show when they are `step` pixels apart and one needs `room`; `kept` always. */
function thinned(size, step, room, kept) {
  const stride = Math.max(1, Math.ceil(room / step));
  const near = (i) => Math.abs(i - kept) * step < room && i !== kept;
  return Array.from({ length: size }, (_, i) => i).filter((i) => i === kept || (i % stride === 0 && !near(i)));
}
