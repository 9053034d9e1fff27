// The neuron view of HeadView: where the weights of one query come from, feature by feature. A query, its keys (of many
// the strongest), their products, the scores, and their softmax over all keys.
// Vig, A Multiscale Visualization of Attention in the Transformer Model (ACL 2019).

import {
  bindKeys, bindPlaces, focusable, freshId, kept, node, softmax, spread, typed, walkKeys, within,
} from "../core.js";
import {
  hatch, hatchColour, LABEL_FONT, placeText, sizeCanvas, SMALL_FONT, strokeIn, widestOf, writeIn,
} from "../core_draw.js";
import { largestSize, MASKED, readPacked, withMinus } from "./codes.js";
import { dressLabel, paintCells, shortest } from "./draw.js";
import { headName, placeName } from "./sample.js";
import { here, isOpen, notHere, placeOf, sideOfHeads, sourceOf } from "./selection.js";
import { plainSpec } from "./source.js";
import { moveAlong } from "./view.js";

/** @typedef {ReturnType<typeof readNeurons>} Neurons one query with some of its keys */

const MOST_KEYS = 40;
const SIZE = { strip: 9, row: 16, gap: 10, label: 92, number: 52, bar: 56, top: 69, widest: 1100 }; // pixels
const NARROW = { ...SIZE, gap: 4, label: 64, number: 41, bar: 20 }, NARROW_BELOW = 560;

// ---------------------------------------------------------------- numbers

const numbersOf = new WeakMap(); // of the blocks of heads: all queries, then all keys

/** @returns {Float32Array} */
const readHead = (block) => kept(numbersOf, block, () => (
  block.storage === "float32" ? typed(block.bytes, Float32Array) : readPacked(block.bytes, true)));

/** The keys to show, in their order: all, or the strongest of many; NaN counts as strong. */
function keysShown(scores) {
  const order = [...scores.keys()], high = (i) => (scores[i] === scores[i] ? scores[i] : Infinity);
  if (order.length <= MOST_KEYS) return order;
  return order.sort((a, b) => high(b) - high(a) || a - b).slice(0, MOST_KEYS).filter((i) => scores[i] !== -Infinity);
}

/**
 * What is known of the cursor's query in the chosen head; null while it is not there. Made anew for another query only.
 * @param {Scene} scene
 */
function readNeurons({ view, w, layer, head, query }) {
  const side = sideOfHeads(view.model), key = `neurons ${w.part} ${w.sample} ${side} ${layer} ${head}`;
  const block = view.blocks.get(key), renormalise = view.model.get("renormalise");
  if (!block) return null;
  const row = sourceOf(view, plainSpec(w, side, [layer, head], renormalise))?.row(query);
  return kept(view.neurons, `${key} ${query} ${Boolean(row)}`, () => {
    const { features, scale } = block, numbers = readHead(block), all = numbers.subarray(w.queries * features);
    const q = numbers.subarray(query * features, (query + 1) * features);
    const dot = (key) => q.reduce((sum, x, j) => sum + x * all[key * features + j], 0);
    const scores = Float32Array.from({ length: w.keys }, (_, i) => (
      row?.cells[i] === MASKED ? -Infinity : dot(i) * scale));
    const keys = keysShown(scores), k = new Float32Array(keys.length * features);
    keys.forEach((i, at) => k.set(all.subarray(i * features, (i + 1) * features), at * features));
    return {
      query, features, keys, q, k, // rows of the keys that are shown
      products: k.map((x, i) => x * q[i % features]), sums: keys.map(dot), scale, // what sums are multiplied by
      scores, // of all keys, -Infinity where masked; and their softmax, none where all are
      softmax: scores.every((x) => x === -Infinity) ? scores.map(() => 0) : softmax([...scores]),
      weights: row?.cells ?? null, // of the map, all keys; null where the page does not have them
      rough: block.rough || !row?.exact, // were the numbers kept in few bits?
    };
  }, 1);
}

// ---------------------------------------------------------------- in words

/** A number with a true minus sign, in so many digits behind the point; none where these are 0. */
const withSign = (x, digits = 2) =>
  withMinus(x, x.toFixed(digits)).replace(/^−([0.]+)$/, "$1").replace("Infinity", "∞");

/** Say one feature of a key. @param {Neurons} read */
function featureText({ q, k, products, features }, i, feature) {
  const at = i * features + feature;
  return `feature ${feature}: q ${withSign(q[feature])} × k ${withSign(k[at])} = ${withSign(products[at])}`;
}

/** Say one key. */
function keyText(w, { keys, sums, scale, softmax, scores }, i) {
  const key = keys[i], share = scores[key] === -Infinity ? "masked" : `softmax ${softmax[key].toFixed(4)}`;
  const score = `sum ${withSign(sums[i], 3)} × ${shortest(scale)} = score ${withSign(sums[i] * scale, 3)}`;
  return `${w.axes[1]} ${placeName(w.keyTokens, [key])}: ${score}, ${share}`;
}

/**
 * Was something added to the scores that is not the same for all keys? log(weight) less the score tells it, as far as
 * the digits go.
 */
function wasAdded({ scores, softmax, weights, rough }) {
  const most = weights.reduce((a, b) => Math.max(a, b), 0), least = rough ? 0.02 * most : 1e-6;
  if (weights.some((x, i) => x === 0 && softmax[i] > (rough ? 0.02 : 1e-3))) return true;
  const known = [...weights.keys()].filter((i) => weights[i] > least && Math.abs(scores[i]) < Infinity);
  const apart = known.map((i) => Math.log(weights[i]) - scores[i]);
  return Math.max(...apart) - Math.min(...apart) > (rough ? 0.4 : 0.02);
}

/** Say what the numbers leave open. @param {Scene} scene @param {Neurons} read */
function noteOf({ w, key, feature }, read) {
  const { weights, features, rough, keys } = read, at = keys.indexOf(key);
  const total = weights ? weights.reduce((sum, x) => (x > 0 ? sum + x : sum), 0) : 1;
  const compared = weights && !isOpen(w), added = compared && wasAdded(read);
  return [
    feature !== null && feature < features && at >= 0 && `${featureText(read, at, feature)}. `,
    at >= 0 && `${keyText(w, read, at)}. `,
    added && "Something else was added to the scores than a constant, such as a bias of places: " +
      "the weights of the map are not their softmax. ",
    compared && !added && "Nothing was added to the scores: their softmax is the weights of the map. ",
    compared && total > 0 && total < 0.98 &&
      `The weights of this row sum to ${total.toFixed(4)}: the rest went to no key, as with a sink. `,
    !weights && "Which keys are masked is not known in this page: none is taken for masked. ",
    rough && compared && "(Compared as far as the digits go that were kept.) ",
  ].filter(Boolean).join("");
}

// ---------------------------------------------------------------- how it looks

/** Where everything stands in this width, labels as wide as that. @param {Neurons} read */
function placesOf({ features, keys }, width, labels) {
  const narrow = width < NARROW_BELOW, size = narrow ? NARROW : SIZE;
  const label = Math.min(size.label, Math.ceil(labels) + 4), left = label + size.gap;
  const room = Math.max(24, width - left - 2 * (size.number + size.bar + size.gap));
  const beside = room >= 2 * features + size.gap, strip = beside ? (room - size.gap) / 2 : room;
  const long = Math.min(strip, 8 * features), second = beside ? left + long + size.gap : left;
  const tall = beside ? size.strip : 2 * size.strip + 1, high = Math.max(size.row, tall + 3);
  const score = second + long + size.gap, softmax = score + size.number + size.bar + size.gap;
  return {
    ...size, label, left, long, second, beside, high, score, softmax,
    width: softmax + size.number + size.bar, height: size.top + keys.length * high + 4,
    rowAt: (i) => size.top + i * high,
    /** Left and top of the strips of a key: its features, and the products. @returns {[number, number][]} */
    stripsAt(i) {
      const y = size.top + i * high + Math.round((high - tall) / 2);
      return [[left, y], [second, beside ? y : y + size.strip + 1]];
    },
  };
}

/** Colour rows of features, one pixel each; returns what draws a row at a place. */
function stripsOf(numbers, features, { long, strip }, look) {
  const scale = { kind: "fixed", top: largestSize(numbers) || 1, signed: true };
  const tile = { cells: numbers, rows: Math.max(1, numbers.length / features), columns: features };
  const image = paintCells(tile, { scale, look });
  return (context, row, [x, y]) => {
    context.imageSmoothingEnabled = long < features;
    context.drawImage(image, 0, row, features, 1, x, y, long, strip);
  };
}

/** A number and its bar, from the left or, where it may be below 0, from the middle. */
function numberAndBar(context, paint, place, text, share, x, y, signed) {
  placeText(context, text, x + place.number - 4, y, "right", "middle", place.number - 4);
  const from = x + place.number, wide = place.bar - 2, zero = signed ? from + wide / 2 : from;
  const long = Math.abs(share) <= 1 ? share * (signed ? wide / 2 : wide) : 0, ink = context.fillStyle;
  context.fillStyle = paint.accent;
  context.fillRect(Math.min(zero, zero + long), y - 5, Math.max(Math.abs(long), 0.5), 10);
  context.fillStyle = paint.line;
  context.fillRect(zero - 0.5, y - 7, 1, 14);
  context.fillStyle = ink;
}

/** Draw the panel. @param {Scene} scene @param {Neurons} read */
function drawNeurons(panel, scene, read) {
  const { paint, names, w, layer, head, look } = scene, { canvas } = panel, { keys, features, scale } = read;
  const labels = canvas.getContext("2d");
  labels.font = `bold ${SMALL_FONT}`;
  const widest = widestOf(labels, [names.rows[read.query], ...keys.map((key) => names.columns[key])]);
  const place = (panel.place = placesOf(read, panel.width, widest));
  const context = sizeCanvas(canvas, place.width, place.height);
  context.direction = "ltr";
  writeIn(context, `bold ${LABEL_FONT}`, paint.ink);
  const title = `${headName(w, layer, head)}, ${w.axes[0]} ${placeName(w.tokens, [read.query])}`;
  placeText(context, title, 0, 0, "left", "top", place.width);
  writeIn(context, SMALL_FONT, paint.soft);
  const count = keys.length === w.keys ? "all" : `the strongest ${keys.length} of`;
  const [ofQ, ofK, ofProducts] = [read.q, read.k, read.products].map((numbers) => `±${shortest(largestSize(numbers))}`);
  placeText(context, `${count} ${w.keys.toLocaleString("en")} ${w.axes[1]}s; colours of q to ${ofQ}, k to ${ofK}, ` +
    `q × k to ${ofProducts}`, 0, 18, "left", "top", place.width);
  const write = (text, x, room) => placeText(context, text, x, place.top - 3, "left", "bottom", room);
  write(place.beside ? "k" : "k, below it q × k", place.left, place.long);
  if (place.beside) write("q × k", place.second, place.long);
  write(`sum × ${shortest(scale)}`, place.score, place.number + place.bar - 2);
  write("softmax", place.softmax, place.number + place.bar - 2);
  dressLabel(context, true, paint);
  placeText(context, names.rows[read.query], place.label, 42, "right", "middle", place.label - 2);
  stripsOf(read.q, features, place, look)(context, 0, [place.left, 38]);
  const drawn = [read.k, read.products].map((numbers) => stripsOf(numbers, features, place, look));
  const top = Math.max(largestSize(read.sums) * Math.abs(scale), 1e-9);
  keys.forEach((key, i) => {
    const middle = place.rowAt(i) + place.high / 2, share = read.softmax[key];
    dressLabel(context, key === scene.key, { ink: paint.ink, soft: paint.ink });
    placeText(context, names.columns[key], place.label, middle, "right", "middle", place.label - 2);
    place.stripsAt(i).forEach((at, which) => drawn[which](context, i, at));
    context.font = SMALL_FONT;
    const score = read.sums[i] * scale;
    numberAndBar(context, paint, place, withSign(score), score / top, place.score, middle, true);
    if (read.scores[key] !== -Infinity) {
      numberAndBar(context, paint, place, share.toFixed(4), share, place.softmax, middle, false);
    } else hatch(context, [[place.softmax + place.number - 24, middle - 5, 20, 10]], hatchColour(paint.dark));
  });
  frameChosen(context, read, place, scene);
  panel.note.textContent = noteOf(scene, read);
  const best = [...keys.keys()].sort((a, b) => read.sums[b] - read.sums[a]).slice(0, 5);
  const heard = best.map((i) => keyText(w, read, i)).join("; ");
  canvas.setAttribute("aria-label", `Query and keys by feature: ${title}. ${heard}. ${panel.note.textContent}`);
}

/** Frame the row of the cursor's key, and the feature that was walked to. */
function frameChosen(context, { keys, features }, place, { key, feature, paint }) {
  const at = keys.indexOf(key), wide = place.long / features;
  strokeIn(context, paint.cursor, 1.5);
  if (at >= 0) context.strokeRect(1, place.rowAt(at) + 0.5, place.width - 2, place.high - 1);
  if (feature === null || feature >= features) return;
  const strips = [[place.left, 38], ...(at < 0 ? [] : place.stripsAt(at))];
  strips.forEach(([x, y]) => context.strokeRect(x + feature * wide - 1, y - 1, wide + 2, place.strip + 1));
}

// ---------------------------------------------------------------- the panel

/** Make the panel. Returns `{box, show}`; `show(scene)` draws it while it is open. @param {View} view */
export function makeNeuronPanel(view) {
  const help = freshId("help-n");
  const canvas = focusable(node("canvas", { class: "neurons", role: "application", "aria-describedby": help }));
  const note = node("p", { class: "note" });
  const keys = node("p", { class: "keys", id: help },
    "Query and keys by feature: green is above 0, purple below. Up and down or a click choose a key, left and right " +
    "a feature.");
  const box = node("div", { class: "under wide", hidden: true }, canvas, note, keys);
  const panel = { canvas, note, read: null, place: null, width: 0 };
  bindNeurons(view, panel);
  return {
    box,
    show(scene) {
      box.hidden = !(view.model.get("neurons") && scene.w.meta.has_neurons);
      if (box.hidden) return;
      panel.width = spread(box, view.root, SIZE.widest);
      panel.read = readNeurons(scene);
      canvas.hidden = !panel.read;
      if (panel.read) drawNeurons(panel, scene, panel.read);
      else note.textContent = notHere(view, "The queries and keys of this head are");
    },
  };
}

/** What lies at a place of the panel: a key and a feature, each null where there is none. */
function neuronAt({ read, place }, { offsetX: x, offsetY: y }) {
  if (!read) return null;
  const feature = ([left, top]) => {
    const at = Math.floor(((x - left) / place.long) * read.features);
    return y >= top && y < top + place.strip && at >= 0 && at < read.features ? at : null;
  };
  if (y < place.top) return { row: null, feature: feature([place.left, 38]) };
  const row = Math.floor((y - place.top) / place.high);
  if (row >= read.keys.length) return null;
  const [one, two] = place.stripsAt(row);
  return { row, feature: feature(one) ?? feature(two) };
}

/** Let clicks and keys choose a key and a feature, and tell what is under the pointer. @param {View} view */
function bindNeurons(view, panel) {
  const atCursor = () => panel.read.keys.indexOf(view.model.get("key"));
  const toKey = (row) => {
    const { keys } = panel.read, at = within(row, keys.length), shown = here(view);
    if (!shown || !keys.length) return;
    moveAlong(view, 1, placeOf(shown.source.columns, keys[at]));
    view.say(keyText(view.w, panel.read, at));
  };
  const toFeature = (feature) => {
    view.feature = within(feature, panel.read.features);
    view.redraw();
    view.say(featureText(panel.read, Math.max(0, atCursor()), view.feature));
  };
  const choose = ({ row, feature }) => {
    view.feature = feature;
    if (row === null) view.redraw();
    else toKey(row);
  };
  bindPlaces(panel.canvas, view.tip, (event) => neuronAt(panel, event), choose, ({ row, feature }) => {
    const { w } = view, { q, keys } = panel.read;
    if (row === null) return feature === null ? null : `feature ${feature}: q ${withSign(q[feature])}`;
    if (feature === null) return keyText(w, panel.read, row);
    return `${featureText(panel.read, row, feature)} · ${w.axes[1]} ${placeName(w.keyTokens, [keys[row]])}`;
  });
  bindKeys(panel.canvas, walkKeys((down, right) => { // a canvas that is not hidden has been read
    if (down) toKey(atCursor() + down);
    else toFeature((view.feature ?? -1) + right);
  }));
}
