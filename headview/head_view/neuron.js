// The neuron view of HeadView: where the weights of one query come from, feature by feature. A query, some of its keys,
// their products, the scores, the softmax over all keys, and what else the model must have added to the scores.
// Vig, A Multiscale Visualization of Attention in the Transformer Model (ACL 2019).

import { typed } from "../core.js";
import { MASKED, readHalves } from "./codes.js";
import { shortest } from "./image.js";
import { placeName } from "./sample.js";
import { sourceOf } from "./selection.js";
/** @import { Scene } from "./map.js" */
/** @import { Weights } from "./sample.js" */
/** @import { View } from "./selection.js" */
/** @import { Block } from "./source.js" */

export const MOST_NEURON_KEYS = 40; // as in neuron.py

/**
 * @typedef {object} Neurons one query with some of its keys
 * @property {number} query @property {number} features @property {number} scale what sums are multiplied by
 * @property {number[]} keys which keys, as tokens @property {Float32Array} q @property {Float32Array} k rows of keys
 * @property {Float32Array} products @property {Float64Array} sums of these, for each key
 * @property {boolean} rough were the numbers kept in few bits?
 * @property {Float32Array} scores of all keys, -Infinity where masked; null where the masks are not known
 * @property {Float64Array | null} softmax over all keys @property {Float32Array | null} weights of the map, all keys
 * @property {{bias: Float64Array, added: boolean} | null} rest what was added to the scores
 */

// ---------------------------------------------------------------- numbers

/** The tokens of the keys to look at: from `first` to before `end`, or the strongest. @param {Scene} scene */
function keysLookedAt({ view, win, shown: { source } }) {
  if (view.neuronKeys === "strongest") return { first: "strongest", end: Infinity };
  const { columns } = source, last = columns[Math.min(columns.length, Math.ceil(win[3])) - 1];
  const start = columns[Math.floor(win[2])][0], end = last[last.length - 1] + 1;
  if (end - start <= MOST_NEURON_KEYS) return { first: start, end };
  const half = MOST_NEURON_KEYS / 2, wanted = Math.floor(view.key / half) * half - half / 2; // in leaps, to ask seldom
  return { first: Math.max(start, Math.min(end - MOST_NEURON_KEYS, wanted)), end };
}

/** Add products and sums to a query and its keys. @returns {any} */
function withProducts({ q, k, keys, features, scale, ...others }) {
  const products = new Float32Array(k.length), sums = new Float64Array(keys.length);
  for (let i = 0; i < k.length; i++) {
    const product = q[i % features] * k[i];
    products[i] = product;
    sums[Math.floor(i / features)] += product;
  }
  return { q, k, keys, features, scale, products, sums, ...others };
}

/** The softmax over all scores; masked ones get 0, and where all are masked there is none. */
function softmaxOf(scores) {
  const most = scores.reduce((a, b) => (b !== b || a !== a ? NaN : Math.max(a, b)), -Infinity);
  const powers = Float64Array.from(scores, (x) => (x === -Infinity ? 0 : Math.exp(x - most)));
  const sum = powers.reduce((a, b) => a + b, 0);
  return powers.map((x) => (sum === 0 ? 0 : x / sum));
}

/**
 * Find out by the weights of the map what was added to the scores: log(weight) less the score, the same for all keys
 * where nothing was. It is known up to a constant, and its median is taken for 0.
 * @param {boolean} rough were the numbers kept in few bits?
 */
function addedTo(scores, softmax, weights, rough) {
  const most = weights.reduce((a, b) => Math.max(a, b), 0);
  const least = rough ? 0.02 * most : 1e-6, off = rough ? 0.2 : 0.01;
  const known = [...weights.keys()].filter((i) => weights[i] > least && Math.abs(scores[i]) < Infinity);
  const bias = new Float64Array(weights.length).fill(NaN);
  known.forEach((i) => (bias[i] = Math.log(weights[i]) - scores[i]));
  const middle = known.map((i) => bias[i]).sort((a, b) => a - b)[known.length >> 1] ?? 0;
  known.forEach((i) => (bias[i] -= middle));
  const gone = weights.map((w, i) => (w === 0 && softmax[i] > (rough ? 0.02 : 1e-3) ? 1 : 0));
  gone.forEach((is, i) => is && (bias[i] = -Infinity));
  return { bias, added: bias.some((b) => Math.abs(b) > off) };
}

/**
 * Add the softmax and what the map says of it.
 * @param {Neurons} read still without these @param {Weights} w @returns {Neurons}
 */
function withWeights(read, { kind }) {
  const softmax = read.scores && softmaxOf(read.scores);
  const compared = softmax && read.weights && (kind === "weights" || kind === "part");
  return { ...read, softmax, rest: compared ? addedTo(read.scores, softmax, read.weights, read.rough) : null };
}

/**
 * Read what the kernel has sent of a query: the query, its keys, the scores and weights of all.
 * @param {Block} block @param {Weights} w
 */
function fromKernel({ bytes, keys, features, scale, rough }, w, query, end) {
  const numbers = typed(bytes, Float32Array), start = features * (1 + keys.length);
  const seen = keys.filter((key) => key < end);
  return withWeights(withProducts({
    query, features, scale, rough, keys: seen, q: numbers.subarray(0, features),
    k: numbers.subarray(features, features * (1 + seen.length)),
    scores: numbers.subarray(start, start + w.keys), weights: numbers.subarray(start + w.keys, start + 2 * w.keys),
  }), w);
}

/** Read all queries and keys of a head that a page carries, once. @param {View} view */
function carriedHead(view, key) {
  const heads = (view.neuronHeads ||= new Map());
  if (!heads.has(key)) {
    const { bytes, storage, features, scale, rough } = view.blocks.get(key);
    const numbers = storage === "float32" ? typed(bytes, Float32Array)
      : readHalves(bytes);
    heads.set(key, { numbers, features, scale, rough });
  }
  return heads.get(key);
}

/** Make in the page what a kernel would send. `row`: the row of the map, or null. @param {View} view */
function fromPage(view, key, query, { first, end }, row) {
  const { w } = view, { numbers, features, scale, rough } = carriedHead(view, key);
  const q = numbers.subarray(query * features, (query + 1) * features), all = numbers.subarray(w.queries * features);
  const scores = new Float32Array(w.keys);
  for (let i = 0; i < w.keys; i++) {
    let sum = 0;
    for (let j = 0; j < features; j++) sum += q[j] * all[i * features + j];
    scores[i] = row?.cells[i] === MASKED ? -Infinity : sum * scale;
  }
  const order = [...scores.keys()], high = (i) => (scores[i] === scores[i] ? scores[i] : Infinity);
  const best = first === "strongest" && order.sort((a, b) => high(b) - high(a) || a - b);
  const open = best && best.slice(0, MOST_NEURON_KEYS).filter((i) => scores[i] !== -Infinity);
  const last = best ? 0 : Math.min(end, first + MOST_NEURON_KEYS);
  const keys = best ? (open.length ? open : best.slice(0, 1)) : order.slice(first, last);
  const k = new Float32Array(keys.length * features);
  keys.forEach((i, at) => k.set(all.subarray(i * features, (i + 1) * features), at * features));
  return withWeights(withProducts({
    query, features, scale, keys, q, k, rough: rough || !row?.exact, scores: row && scores, weights: row?.cells,
  }), w);
}

/**
 * Return what is known of the cursor's query in the chosen head, or `{lacks}`, a sentence on why nothing is.
 * @param {Scene} scene @returns {any}
 */
export function readNeurons(scene) {
  const { view, w, layer, head, query } = scene, { blocks, model } = view, wanted = keysLookedAt(scene);
  const side = scene.side === "b" ? "b" : "a", place = `${w.part} ${w.sample} ${side} ${layer} ${head}`;
  if (model.isStatic) {
    const key = `neurons ${place}`;
    if (!blocks.has(key)) return { lacks: "This page does not carry the queries and keys of this head. " };
    const plain = { part: w.part, sample: w.sample, side, heads: [[layer, head]], combine: "maximum",
      values: "weights", hidden: [], renormalise: model.get("renormalise"), words: false };
    const row = sourceOf(view, plain)?.row(query) || null;
    return onceMade(view, [key, query, wanted.first, wanted.end, !row], () => fromPage(view, key, query, wanted, row));
  }
  const key = `neuron ${place} ${query} ${wanted.first}`, block = blocks.get(key);
  if (block) return onceMade(view, [key, wanted.end], () => fromKernel(block, w, query, wanted.end));
  return { lacks: blocks.error(key) || "The queries and keys are not here yet. " };
}

/** Make something anew only if it is another than the last one. @param {View} view */
function onceMade(view, what, make) {
  const id = what.join(" ");
  if (view.neuronMade?.id !== id) view.neuronMade = { id, made: make() };
  return view.neuronMade.made;
}

// ---------------------------------------------------------------- in words

/** A number with its sign, in so many digits behind the point. */
export function withSign(x, digits = 2) {
  if (x !== x) return "NaN";
  const text = Math.abs(x) === Infinity ? "∞" : Math.abs(x).toFixed(digits);
  return x < 0 && Number(text) !== 0 ? `−${text}` : text;
}

/** The highest scores, for those who hear. @param {Weights} w @param {Neurons} read */
export function heardNeurons(w, { keys, sums, scale, softmax }) {
  const order = [...keys.keys()].sort((a, b) => sums[b] - sums[a]).slice(0, 5);
  return order.map((i) => `${placeName(w.keyTokens, [keys[i]])} score ${withSign(sums[i] * scale)}` +
    (softmax ? `, softmax ${softmax[keys[i]].toFixed(4)}` : "")).join("; ");
}

/** Say what the numbers leave open. @param {Scene} scene @param {Neurons} read */
export function neuronNote({ w, view }, read) {
  const { rest, weights, softmax, features, rough, keys } = read, at = keys.indexOf(view.key), { feature } = view;
  const total = weights ? weights.reduce((sum, x) => (x > 0 ? sum + x : sum), 0) : 1;
  return [
    feature !== null && feature < features && at >= 0 && `${featureText(read, at, feature)}. `,
    at >= 0 && `${keyText(w, read, at)}. `,
    rest?.added && "Something else was added to the scores than a constant, such as a bias of places: " +
      "“added” is what the weights of the map tell of it, its median taken for 0. ",
    rest && !rest.added && "Nothing was added to the scores: their softmax is the weights of the map. ",
    rest && total > 0 && total < 0.98 &&
      `The weights of this row sum to ${total.toFixed(4)}: the rest went to no key, as with a sink. `,
    !softmax && "Which keys are masked is not known in this page, so there is no softmax. ",
    softmax && !rest && weights && "This map shows other numbers than weights. ",
    rough && rest && "(Compared as far as the digits go that were kept.) ",
  ].filter(Boolean).join("");
}

/** Say one feature of a key. @param {Neurons} read */
export function featureText({ q, k, products, features }, i, feature) {
  const at = i * features + feature;
  return `feature ${feature}: q ${withSign(q[feature])} × k ${withSign(k[at])} = ${withSign(products[at])}`;
}

/** Say one key. @param {Weights} w @param {Neurons} read */
export function keyText(w, { keys, sums, scale, softmax, scores }, i) {
  const key = keys[i], masked = scores && scores[key] === -Infinity;
  const share = masked ? ", masked" : softmax ? `, softmax ${softmax[key].toFixed(4)}` : "";
  const score = `sum ${withSign(sums[i], 3)} × ${shortest(scale)} = score ${withSign(sums[i] * scale, 3)}`;
  return `${w.axes[1]} ${placeName(w.keyTokens, [key])}: ${score}${share}`;
}
