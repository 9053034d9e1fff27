// The cells of ReshapeView: what a label means, where each cell lies in the tensor and in memory, how it is drawn.
// Nothing here knows the page or the model's events; reshape_view.js does.

const GAP = 16; // between blocks
const CELL_WIDTH = 46; // at most
const NARROW = 32; // a cell may shrink to this, where then more blocks stand side by side
const CELL_HEIGHT = 32;
const SIGN = 11; // width of the mark of a wrong place
const MEMORY_HEIGHT = 24;
const LABELLED = 72; // a memory line of more numbers than this shows colours and dots only
const FONT = "system-ui, sans-serif";

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
 * @property {Int16Array} cells labels row by row
 * @property {Int16Array} right what should stand there
 * @property {Int16Array} line labels in the order of memory
 */

/** Put what Python says about the stations of one path together with their numbers. @returns {Station[]} */
function stationsOf(model, path) {
  const { tokens, batch, d_model } = model.get("sizes");
  const size = batch * tokens * d_model;
  const numbers = bytesOf(model, "numbers", Int16Array);
  return model.get("stations")[path].map((facts) => {
    const part = (k) => numbers.subarray((3 * facts.at + k) * size, (3 * facts.at + k + 1) * size);
    return { ...facts, cells: part(0), right: part(1), line: part(2) };
  });
}

/** The labels that stand where they should not. @param {Station} station */
function wrongOf(station) {
  return new Set(station.cells.filter((label, i) => label !== station.right[i]));
}

/** What a label means. @param {number} label */
function meaning(label, sizes) {
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

const inBrackets = (list) => `(${list.join(", ")}${list.length === 1 ? "," : ""})`;

/** Say which block of cells this is: "head 1", "sample 0, head 1"; nothing where there is only one. */
function blockTitle(block, station, sizes) {
  const leading = station.shape.slice(0, -2);
  const index = indexOf(block, leading);
  return leading
    .map((size, axis) => {
      if (station.counts[axis] === "sample" && size === 1) return "";
      if (station.counts[axis] !== "folded") return `${station.counts[axis]} ${index[axis]}`;
      const head = `head ${index[axis] % sizes.num_heads}`;
      const sample = sizes.batch > 1 ? `sample ${Math.floor(index[axis] / sizes.num_heads)}, ` : "";
      return `${index[axis]}: ${sample}${head}`;
    })
    .filter(Boolean)
    .join(", ");
}

/**
 * Place the cells of a station: one block for every index before the last two axes, blocks side by side, a new line
 * for every sample and where the width ends.
 * @param {Station} station
 * @returns {{x: Float32Array, y: Float32Array, width: number, height: number, blocks: object[]}} corners by cell
 */
function layOut(station, sizes, width, measure) {
  const [rows, columns] = station.shape.slice(-2);
  const perBlock = rows * columns;
  const count = station.cells.length / perBlock;
  const side = 16; // for the numbers of the rows
  const titles = Array.from({ length: count }, (_, block) => blockTitle(block, station, sizes));
  const above = titles[0] ? 32 : 16; // the title, and the numbers of the columns
  const named = Math.max(...titles.map((title) => side + measure(title)));
  const beside = (cell) => Math.max(1, Math.floor((width + GAP) / (Math.max(side + columns * cell, named) + GAP)));
  const fits = Math.min(count, beside(NARROW));
  const cell = Math.min(CELL_WIDTH, ((width + GAP) / fits - GAP - side - (fits === 1 ? 2 : 0)) / columns);
  const wide = Math.max(side + columns * cell, named);
  // One line for each sample, unless all blocks fit on one.
  const group = count <= fits || station.shape.length === 3 && station.counts[0] === "sample" ? count : count / sizes.batch;
  // Equal lines: 2 + 2 rather than 3 + 1.
  const perLine = Math.ceil(group / Math.ceil(group / fits));
  const linesPerGroup = Math.ceil(group / perLine);
  const x = new Float32Array(station.cells.length);
  const y = new Float32Array(station.cells.length);
  const blocks = titles.map((title, block) => {
    const within = block % group;
    const left = (within % perLine) * (wide + GAP) + side;
    const line = Math.floor(block / group) * linesPerGroup + Math.floor(within / perLine);
    const top = line * (above + rows * CELL_HEIGHT + 10) + above;
    for (let i = 0; i < perBlock; i++) {
      x[block * perBlock + i] = left + (i % columns) * cell;
      y[block * perBlock + i] = top + Math.floor(i / columns) * CELL_HEIGHT;
    }
    return { title, left, top, rows, columns };
  });
  return { x, y, width: cell, height: Math.max(...y) + CELL_HEIGHT + 4, blocks };
}

/** Place the memory line, broken where it is too long, at whole tokens if that is possible. */
function layOutMemory(count, sizes, width) {
  const least = count <= LABELLED ? 26 : 10;
  const fits = Math.max(1, Math.floor(width / least));
  const whole = sizes.d_model * Math.max(1, Math.floor(fits / sizes.d_model));
  const perLine = Math.min(count, whole <= fits ? whole : fits);
  const lines = Math.ceil(count / perLine);
  return { perLine, cell: Math.min(34, width / perLine), height: lines * (MEMORY_HEIGHT + 22), labelled: count <= LABELLED };
}

/** The ink that reads on a group colour: white on the dark blue, black on all others. */
const inkOn = (colour) => (colour === "#0072B2" ? "#fff" : "#000");

/**
 * Draw one number: colour for its group, as many dots as the group has, so that colour is not all there is.
 * @param {CanvasRenderingContext2D} context
 */
function drawCell(context, x, y, width, height, group, label, wrong = false) {
  const colour = GROUP_COLOURS[group % GROUP_COLOURS.length];
  context.fillStyle = colour;
  context.fillRect(x + 0.75, y + 0.75, width - 1.5, height - 1.5);
  context.fillStyle = inkOn(colour);
  if (label !== null) {
    const room = wrong ? width - SIGN : width; // beside the mark, not under it
    context.font = `${Math.min(14, Math.max(9, (room - 4) / (0.6 * Math.max(2, label.length))))}px ${FONT}`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.fillText(label, x + room / 2, y + height / 2 - 2);
  }
  const upright = width < height * 0.7;
  const apart = Math.min(4.5, (upright ? height - 4 : width - 6) / 8);
  for (let dot = 0; dot < group; dot++) {
    const along = (dot - (group - 1) / 2) * apart;
    context.beginPath();
    context.arc(upright ? x + width / 2 : x + width / 2 + along, upright ? y + height / 2 + along : y + height - 4.5, 1.3, 0, 7);
    context.fill();
  }
}

/** Outline a cell so that it is seen on every colour and in both themes: dark, light, dark. */
function outline(context, x, y, width, height, dashed = false) {
  for (const [line, colour] of [[5, "#000"], [2, "#fff"]]) {
    context.lineWidth = line;
    context.strokeStyle = colour;
    context.setLineDash(dashed && line === 2 ? [4, 4] : []);
    context.strokeRect(x, y, width, height); // on the edge, so that the number stays clear
  }
  context.setLineDash([]);
}

/** Mark a cell that stands where it should not: a dark corner with "!". */
function drawSign(context, x, y, width) {
  context.fillStyle = "#000";
  context.fillRect(x + width - SIGN - 0.75, y + 0.75, SIGN, 13);
  context.fillStyle = "#fff";
  context.font = `bold 10px ${FONT}`;
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.fillText("!", x + width - 0.75 - SIGN / 2, y + 8);
}

/** Everything that is written below the picture, and read out: the way of the chosen number. */
function tell(stations, step, chosen, sizes) {
  const { sample, token, feature } = meaning(chosen, sizes);
  const name = `${chosen} = ${sizes.batch > 1 ? `sample ${sample}, ` : ""}token ${token}, feature ${feature}`;
  const places = stations.slice(0, step + 1).map((s) => inBrackets(indexOf(s.cells.indexOf(chosen), s.shape)));
  const here = stations[step];
  const index = indexOf(here.cells.indexOf(chosen), here.shape);
  const offset = here.line.indexOf(chosen);
  const sum = index.map((i, axis) => `${i} · ${here.strides[axis]}`).join(" + ");
  const home = here.right.indexOf(chosen);
  const stray = home !== here.cells.indexOf(chosen);
  const astray = stray ? `It should stand at ${inBrackets(indexOf(home, here.shape))}, in the dashed frame.` : here.mistake ? "There it stands right." : "";
  return { name, places, offset, sum, astray };
}
