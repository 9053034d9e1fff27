// What ReshapeView tells: what a label means, at which index it stands at each station of a path, and how that is said.
// Nothing here knows the page; where cells stand in the picture is decided in layout.js.

import { within } from "../core.js";

/**
 * @typedef {object} Station
 * @property {string} code the line that makes it
 * @property {number[]} shape
 * @property {string[]} axes names of the axes, such as "head_dim"
 * @property {string[]} counts what an index along each axis counts, such as "head"
 * @property {number[]} strides
 * @property {boolean} contiguous
 * @property {"start"|"view"|"copy"} memory
 * @property {string} mistake what stands wrong, in words; empty on the right paths
 * @property {number[]} cells labels row by row
 * @property {number[]} right what should stand there
 * @property {number[]} line labels in the order of memory
 *
 * @typedef {ReturnType<typeof stateOf>} State
 */

/** How a new tensor, a view and a copy are told. */
export const MEMORY_WORDS = {
  start: ["new", "the numbers as they are made"],
  view: ["view", "the same memory, read in another way"],
  copy: ["copy", "new memory, written in the new order"],
};

/** Read from the traits what is shown at the moment. */
export function stateOf(model) {
  const [sizes, path, chosen, colourBy] = ["sizes", "path", "chosen", "colour_by"].map((name) => model.get(name));
  /** @type {Station[]} */
  const stations = model.get("stations")[path].map((facts) => ({ ...facts, line: lineOf(facts) }));
  const step = within(model.get("step"), stations.length);
  return { sizes, path, stations, step, station: stations[step], chosen, colourBy };
}

/** The labels in the order of memory: at index times strides stands the cell of that index. */
function lineOf({ cells, shape, strides }) {
  const line = [];
  cells.forEach((label, i) => (line[indexOf(i, shape).reduce((sum, at, axis) => sum + at * strides[axis], 0)] = label));
  return line;
}

/** The labels that stand where they should not. @param {Station} station */
export const wrongOf = ({ cells, right }) => new Set(cells.filter((label, i) => label !== right[i]));

/** What a label means, as `ReshapeView._where` says it in Python. @param {number} label */
export function meaning(label, sizes) {
  const feature = label % sizes.token_step;
  const token = Math.floor((label % sizes.sample_step) / sizes.token_step);
  return { sample: Math.floor(label / sizes.sample_step), token, feature, head: Math.floor(feature / sizes.head_dim) };
}

/** The index along every axis of the cell that is number `flat` when rows are read in order. */
function indexOf(flat, shape) {
  const index = [];
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    index.unshift(flat % shape[axis]);
    flat = Math.floor(flat / shape[axis]);
  }
  return index;
}

export const inBrackets = (list) => `(${list.join(", ")}${list.length === 1 ? "," : ""})`;

/** Say which block of cells this is: "head 1", "sample 0, head 1"; nothing where there is only one. */
export function blockTitle(block, { shape, counts }, { batch, num_heads }) {
  const leading = shape.slice(0, -2), index = indexOf(block, leading);
  const titles = leading.map((size, axis) => {
    if (counts[axis] === "sample" && size === 1) return "";
    if (counts[axis] !== "folded") return `${counts[axis]} ${index[axis]}`;
    const sample = batch > 1 ? `sample ${Math.floor(index[axis] / num_heads)}, ` : "";
    return `${index[axis]}: ${sample}head ${index[axis] % num_heads}`;
  });
  return titles.filter(Boolean).join(", ");
}

/**
 * Tell the way of one label, up to the present step.
 * @param {State} w
 * @returns `name`: the label and what it means; `places`: its index at each station; `offset`: its place in memory,
 *   and `sum`, how that follows from index and strides; `astray`: where it should stand, or "".
 */
export function tell(w, label = w.chosen) {
  const { sample, token, feature } = meaning(label, w.sizes);
  const name = `${label} = ${w.sizes.batch > 1 ? `sample ${sample}, ` : ""}token ${token}, feature ${feature}`;
  const places = w.stations.slice(0, w.step + 1).map((s) => inBrackets(indexOf(s.cells.indexOf(label), s.shape)));
  const { cells, right, line, shape, strides, mistake } = w.station;
  const at = cells.indexOf(label), home = right.indexOf(label);
  const sum = indexOf(at, shape).map((i, axis) => `${i} · ${strides[axis]}`).join(" + ");
  const here = mistake ? "There it stands right." : "";
  const astray = home === at ? here : `It should stand at ${inBrackets(indexOf(home, shape))}, in the dashed frame.`;
  return { name, places, offset: line.indexOf(label), sum, astray };
}
