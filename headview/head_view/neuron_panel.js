// How the neuron view of HeadView looks: strips of features, bars of scores and of the softmax.

import { bindKeys, choice, focusable, freshId, node, roomIn, tellUnderPointer } from "../core.js";
import {
  hatch, hatchColour, LABEL_FONT, paintPixels, placeText, sizeCanvas, SMALL_FONT, strokeOnAnything, widestOf,
} from "../core_draw.js";
import { dressLabel, shadeWeights } from "./draw.js";
import { shortest } from "./image.js";
import { featureText, heardNeurons, keyText, MOST_NEURON_KEYS, neuronNote, readNeurons, withSign } from "./neuron.js";
import { headName, placeName } from "./sample.js";
import { placeOf, shownMaps } from "./selection.js";
import { moveCursor } from "./view.js";
/** @import { Scene } from "./map.js" */
/** @import { Neurons } from "./neuron.js" */
/** @import { View } from "./selection.js" */

const NEURON = { strip: 9, row: 16, gap: 10, label: 92, number: 52, bar: 56, title: 38, head: 18, widest: 1100 };
const NEURON_NARROW = { ...NEURON, gap: 4, label: 64, number: 41, bar: 20 }; // on a telephone
const NEURON_NARROW_BELOW = 560;

/** Where everything stands in this width, labels as wide as that. @param {Neurons} read */
function neuronPlace({ features, keys, rest }, width, labels) {
  const narrow = width < NEURON_NARROW_BELOW, size = { ...(narrow ? NEURON_NARROW : NEURON) };
  size.label = Math.min(size.label, Math.ceil(labels) + 4);
  if (narrow && rest?.added) size.bar = 0; // the numbers say the same
  const { gap, label, number, bar } = size;
  const right = 2 * (number + bar) + 2 * gap + (rest?.added ? 2 * (number + gap) : 0);
  const room = Math.max(24, width - label - right - 2 * gap), half = Math.floor((room - gap) / 2);
  const beside = half >= features, wide = beside ? half : room;
  const lines = Math.ceil(features / wide), each = Math.max(1, Math.min(8, Math.floor(wide / features)));
  const across = lines > 1 ? Math.ceil(features / lines) : features, long = across * each;
  const tall = lines * size.strip, high = Math.max(size.row, (beside ? tall : 2 * tall + 1) + 3);
  const left = label + gap, second = beside ? left + long + gap : left;
  const score = Math.max(left, second) + long + gap;
  const top = size.title + tall + 4 + size.head;
  const softmax = score + number + bar + gap, bias = softmax + number + bar + gap;
  return {
    size, lines, each, across, long, tall, high, beside, left, second, score, softmax, bias, top, queryAt: size.title,
    width: narrow ? width : Math.min(width, Math.max(320, bias + (rest?.added ? 2 * number + gap : 0))),
    height: top + keys.length * high + 4,
    rowAt: (i) => top + i * high,
    /** Left and top of the strips of a key: its features, and the products. */
    stripsAt: (i) => {
      const y = top + i * high + Math.round((high - (beside ? tall : 2 * tall + 1)) / 2);
      return [[left, y], [second, beside ? y : y + tall + 1]];
    },
  };
}

/** The largest size of some numbers, NaN and infinities aside. */
const largestOf = (numbers) =>
  numbers.reduce((most, x) => (Math.abs(x) < Infinity ? Math.max(most, Math.abs(x)) : most), 0);

/** Colour rows of features, one pixel each; returns what draws a row at a place. */
function stripsOf(numbers, features, place, look) {
  const image = node("canvas"), rows = numbers.length / features, top = largestOf(numbers);
  const scale = { kind: "fixed", top: top || 1, signed: true };
  paintPixels(image, features, Math.max(1, rows), (pixels) =>
    shadeWeights(pixels, 0, features, numbers, { rows, columns: features, scale, look, hatched: false }));
  const { across, each, lines, size: { strip } } = place;
  return (context, row, x, y) => {
    context.imageSmoothingEnabled = false;
    for (let line = 0; line < lines; line++) {
      const from = line * across, count = Math.min(across, features - from);
      context.drawImage(image, from, row, count, 1, x, y + line * strip, count * each, strip - (lines > 1 ? 1 : 0));
    }
  };
}

/** Write what is shown and what the columns are. @param {Scene} scene @param {Neurons} read */
function neuronHeads(context, scene, read, place) {
  const { paint, layer, head, w, view } = scene;
  const { left, second, score, softmax, bias, beside, long, top, size } = place;
  const { keys, k, q, products, scale, rest } = read, all = keys.length === w.keys;
  const which = all ? "" : view.neuronKeys === "strongest" ? ", the strongest" : ", around the cursor";
  context.font = `bold ${LABEL_FONT}`;
  context.fillStyle = paint.ink;
  const title = `${headName(w, layer, head)}, ${w.axes[0]} ${placeName(w.tokens, [read.query])}`;
  placeText(context, title, 0, 0, "left", "top", place.width);
  context.font = SMALL_FONT;
  context.fillStyle = paint.soft;
  const count = `${all ? "all" : `${keys.length} of`} ${w.keys.toLocaleString("en")} ${w.axes[1]}s${which}`;
  const [ofQ, ofK, ofProducts] = [q, k, products].map((numbers) => `±${shortest(largestOf(numbers))}`);
  const colours = `colours of q to ${ofQ}, k to ${ofK}, q × k to ${ofProducts}`;
  placeText(context, `${count}; ${colours}`, 0, 18, "left", "top", place.width);
  const y = top - 3, write = (text, x, room) => placeText(context, text, x, y, "left", "bottom", Math.max(10, room));
  write(beside ? "k" : "k, below it q × k", left, long);
  if (beside) write("q × k", second, long);
  const column = size.number + size.bar;
  write(`sum × ${shortest(scale)}`, score, column);
  write("softmax", softmax, column);
  if (!rest?.added) return title;
  write("+ added", bias, size.number);
  write("map", bias + size.number + size.gap, size.number);
  return title;
}

/** Draw one key: its name, its features, the products, the score, the softmax. @param {Scene} scene */
function neuronRow(context, scene, read, place, draw, i) {
  const { paint, names, w, view } = scene, { size, score, softmax, bias, high } = place;
  const key = read.keys[i], middle = place.rowAt(i) + high / 2, chosen = key === view.key;
  const [ofKey, ofProducts] = place.stripsAt(i);
  const masked = read.scores && read.scores[key] === -Infinity;
  dressLabel(context, chosen, { ink: paint.ink, soft: paint.ink });
  placeText(context, names.columns[key], size.label, middle, "right", "middle", size.label - 2);
  draw.k(context, i, ...ofKey);
  draw.products(context, i, ...ofProducts);
  context.font = SMALL_FONT;
  context.fillStyle = masked ? paint.soft : paint.ink;
  const value = read.sums[i] * read.scale;
  placeText(context, withSign(value), score + size.number - 4, middle, "right", "middle", size.number - 4);
  signedBar(context, paint, value, draw.top, score + size.number, middle - 5, size.bar - 2);
  if (masked) {
    hatch(context, [[softmax + size.number - 24, middle - 5, 20, 10]], hatchColour(paint.dark));
  } else if (read.softmax) {
    const share = read.softmax[key];
    const text = share === share ? share.toFixed(4) : "NaN";
    placeText(context, text, softmax + size.number - 4, middle, "right", "middle", size.number - 4);
    signedBar(context, paint, share, 1, softmax + size.number, middle - 5, size.bar - 2, true);
  }
  if (!read.rest?.added || masked) return;
  context.fillStyle = paint.ink;
  const added = read.rest.bias[key], weight = read.weights[key];
  const said = added === added ? withSign(added) : "?";
  placeText(context, said, bias + size.number - 4, middle, "right", "middle", size.number - 4);
  placeText(context, weight === weight ? weight.toFixed(4) : "NaN", bias + 2 * size.number + size.gap - 4, middle,
    "right", "middle", size.number - 4);
}

/** Draw a bar from its left end, or from the middle where numbers may be below 0. */
function signedBar(context, paint, value, top, x, y, wide, positive = false) {
  const zero = positive ? x : x + wide / 2, room = positive ? wide : wide / 2;
  if (wide <= 0) return;
  const long = Math.abs(value) < Infinity ? (room * value) / Math.max(top, 1e-9) : 0;
  context.save();
  context.fillStyle = paint.accent;
  context.fillRect(Math.min(zero, zero + long), y, Math.max(Math.abs(long), 0.5), 10);
  context.fillStyle = paint.line;
  context.fillRect(zero - 0.5, y - 2, 1, 14);
  context.restore();
}

/** Frame the row of the cursor's key, and the feature that was walked to. */
function frameNeuron(context, { paint }, { keys, features }, place, view) {
  const { left, size, across, each, high, queryAt } = place, at = keys.indexOf(view.key);
  context.strokeStyle = paint.accent;
  context.lineWidth = 1.5;
  if (at >= 0) context.strokeRect(1, place.rowAt(at) + 0.5, place.width - 2, high - 1);
  if (view.feature === null || view.feature >= features) return;
  const line = Math.floor(view.feature / across), x = (view.feature % across) * each;
  const places = [[left, queryAt], ...(at < 0 ? [] : place.stripsAt(at))];
  places.forEach(([from, y]) => strokeOnAnything(context, 3, 1, () =>
    context.strokeRect(from + x - 1, y + line * size.strip - 1, each + 2, size.strip + 1)));
}

/** Draw the panel. @param {Scene} scene */
function drawNeurons(panel, scene) {
  const { view, paint, names, w } = scene, { canvas, note } = panel, read = readNeurons(scene);
  panel.lacks = read.lacks || "";
  if (read.lacks && (view.model.isStatic || !panel.read || panel.head !== `${scene.layer} ${scene.head}`)) {
    Object.assign(panel, { read: null, place: null });
    canvas.hidden = true;
    note.textContent = read.lacks;
    return;
  }
  canvas.hidden = false;
  if (!read.lacks) Object.assign(panel, { read, head: `${scene.layer} ${scene.head}` }); // else the last one stays
  const held = panel.read, labels = widestLabel(canvas, scene, held);
  const place = (panel.place = neuronPlace(held, panel.width, labels));
  const context = sizeCanvas(canvas, place.width, place.height);
  context.direction = "ltr";
  const title = neuronHeads(context, scene, held, place);
  dressLabel(context, true, paint);
  const { size: { label }, queryAt, tall } = place;
  placeText(context, names.rows[held.query], label, queryAt + tall / 2, "right", "middle", label - 2);
  stripsOf(held.q, held.features, place, scene.look)(context, 0, place.left, place.queryAt);
  const draw = {
    k: stripsOf(held.k, held.features, place, scene.look),
    products: stripsOf(held.products, held.features, place, scene.look),
    top: largestOf(held.sums) * Math.abs(held.scale),
  };
  held.keys.forEach((_, i) => neuronRow(context, scene, held, place, draw, i));
  frameNeuron(context, scene, held, place, view);
  note.textContent = neuronNote(scene, held) + (read.lacks || "");
  const heard = `${title}. ${heardNeurons(w, held)}. ${note.textContent}`;
  canvas.setAttribute("aria-label", `Query and keys by feature: ${heard}`);
}

/**
 * How wide the labels of a query and its keys are.
 * @param {HTMLCanvasElement} canvas @param {Scene} scene @param {Neurons} read
 */
function widestLabel(canvas, { names }, { query, keys }) {
  const context = canvas.getContext("2d");
  context.font = `bold ${SMALL_FONT}`;
  return widestOf(context, [names.rows[query], ...keys.map((key) => names.columns[key])]);
}

// ---------------------------------------------------------------- the panel

/** Make the panel. Returns `{box, show}`; `show(scene)` draws it while it is open. @param {View} view */
export function makeNeuronPanel(view) {
  const { model } = view, help = freshId("help-n");
  Object.assign(view, { neuronKeys: "cursor", feature: null });
  const canvas = focusable(node("canvas", { class: "neurons", role: "application", "aria-describedby": help }));
  const choices = [["cursor", "around the cursor"], ["strongest", "the strongest"]];
  const which = choice("Keys shown", choices, (value) => {
    view.neuronKeys = value;
    view.redraw();
  });
  const note = node("p", { class: "note" });
  const keys = node("p", { class: "keys", id: help },
    "Query and keys by feature: green is above 0, purple below. Up and down or a click choose a key, left and right " +
    "a feature.");
  const controls = node("div", { class: "controls" }, which.box);
  const box = node("div", { class: "under wide", hidden: true }, controls, canvas, note, keys);
  const panel = { canvas, note, read: null, place: null, head: "", lacks: "", width: 0 };
  bindNeurons(view, panel);
  return {
    box,
    show(scene) {
      box.hidden = !(model.get("neurons") && scene.w.meta.has_neurons);
      if (box.hidden) return;
      which.box.hidden = scene.w.keys <= MOST_NEURON_KEYS;
      panel.width = Math.min(roomIn(view.root), NEURON.widest);
      Object.assign(box.style, { width: `${panel.width}px`, marginRight: `${-panel.width}px` }); // widens no column
      drawNeurons(panel, scene);
    },
  };
}

/** What lies at a place of the panel: a key and a feature, each null where there is none. */
function neuronAt({ read, place }, x, y) {
  if (!read || !place) return null;
  const { left, size, tall, across, each, high, queryAt, long } = place;
  const feature = (from, top) => {
    const line = Math.floor((y - top) / size.strip), at = line * across + Math.floor((x - from) / each);
    return x >= from && x < from + long && y >= top && y < top + tall && at < read.features ? at : null;
  };
  if (y < place.top) return { row: null, feature: feature(left, queryAt) };
  const row = Math.floor((y - place.top) / high);
  if (row >= read.keys.length) return null;
  const [one, two] = place.stripsAt(row);
  return { row, feature: feature(...one) ?? feature(...two) };
}

/** Let clicks and keys choose a key and a feature, and tell what is under the pointer. @param {View} view */
function bindNeurons(view, panel) {
  const { canvas } = panel;
  const toKey = (row) => {
    const source = shownMaps(view)?.source, { keys } = panel.read || { keys: [] };
    if (!source || !keys.length) return;
    const key = keys[Math.max(0, Math.min(keys.length - 1, row))];
    moveCursor(view, placeOf(source.rows, view.model.get("query")), placeOf(source.columns, key));
    view.say(keyText(view.w, panel.read, keys.indexOf(key)));
  };
  const toFeature = (of) => () => {
    if (!panel.read) return;
    const { features, keys } = panel.read;
    view.feature = Math.max(0, Math.min(features - 1, of(view.feature ?? -1, features)));
    view.redraw();
    view.say(featureText(panel.read, Math.max(0, keys.indexOf(view.key)), view.feature));
  };
  const here = () => panel.read?.keys.indexOf(view.key) ?? 0;
  canvas.addEventListener("click", (event) => {
    const found = neuronAt(panel, event.offsetX, event.offsetY);
    if (!found) return;
    view.feature = found.feature;
    if (found.row !== null) toKey(found.row);
    else view.redraw();
  });
  bindKeys(canvas, {
    ArrowUp: () => toKey(here() - 1),
    ArrowDown: () => toKey(here() + 1),
    ArrowLeft: toFeature((at) => at - 1),
    ArrowRight: toFeature((at) => at + 1),
    Home: toFeature(() => 0),
    End: toFeature((_, features) => features - 1),
  });
  tellUnderPointer(canvas, view.tip, (event) => {
    const found = neuronAt(panel, event.offsetX, event.offsetY);
    if (!found || (found.row === null && found.feature === null)) return null;
    if (found.row === null) return `feature ${found.feature}: q ${withSign(panel.read.q[found.feature])}`;
    if (found.feature === null) return keyText(view.w, panel.read, found.row);
    const key = `${view.w.axes[1]} ${placeName(view.w.keyTokens, [panel.read.keys[found.row]])}`;
    return `${featureText(panel.read, found.row, found.feature)} · ${key}`;
  });
}
