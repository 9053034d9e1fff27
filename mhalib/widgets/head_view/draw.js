// How HeadView draws a map: its pixels, marks, numbers, labels and scale. No state and no listeners.

const HATCH = 4; // every fourth pixel
const HATCH_MASKED = packColour([150, 150, 150]), HATCH_NAN = packColour([255, 255, 255]);

/**
 * Colour weights, one pixel each, into an ImageData as wide as `stride`, the first one at pixel `start`. Where cells
 * are too small for marks, `hatched` says by a pattern what the colour says: masked one way, NaN the other.
 * `pixels` is a Uint32Array.
 */
function shadeWeights(pixels, start, stride, weights, { rows, columns, top, hatched }) {
  const factor = 255 / Math.max(top, 1e-9);
  const turns = HATCH * Math.max(rows, columns); // keeps x - y from being negative
  for (let y = 0, i = 0; y < rows; y++) {
    for (let x = 0, at = start + y * stride; x < columns; x++, i++, at++) {
      const weight = weights[i];
      if (weight >= 0) pixels[at] = WEIGHT_PIXELS[Math.min(255, (weight * factor + 0.5) | 0)];
      else if (weight === MASKED) pixels[at] = hatched && (x + y) % HATCH === 0 ? HATCH_MASKED : MASKED_PIXEL;
      else pixels[at] = hatched && (x - y + turns) % HATCH === 0 ? HATCH_NAN : NAN_PIXEL;
    }
  }
}

/** The middle of cell `i` of a map. */
function middleOf(i, keys, { frame, wide, high }) {
  return [frame.x + ((i % keys) + 0.5) * wide, frame.y + (Math.floor(i / keys) + 0.5) * high];
}

/** Draw a cross into every masked cell and a "?" into every NaN cell of the map at `place`. */
function markCells(context, weights, keys, place) {
  const side = Math.min(place.wide, place.high);
  context.beginPath();
  context.font = `bold ${Math.round(Math.min(side, 20) * 0.7)}px system-ui, sans-serif`;
  context.fillStyle = "#000";
  for (let i = 0; i < weights.length; i++) {
    if (weights[i] >= 0) continue;
    const [x, y] = middleOf(i, keys, place);
    if (weights[i] === MASKED) addCross(context, x, y, side * 0.22);
    else placeText(context, "?", x, y + 1, "center", "middle");
  }
  context.strokeStyle = CROSS_INK;
  context.lineWidth = 1;
  context.stroke();
}

/** Write the weights into the cells of the map at `place`, as far as they are numbers. */
function cellValues(context, weights, keys, place, top) {
  context.font = SMALL_FONT;
  for (let i = 0; i < weights.length; i++) {
    if (!(weights[i] >= 0)) continue;
    context.fillStyle = weightColour(weights[i] / top).ink;
    placeText(context, weights[i].toFixed(2), ...middleOf(i, keys, place), "center", "middle");
  }
}

/** Set font and colour of a label: the one of the cursor stands out. */
function dressLabel(context, isCursor, paint) {
  context.font = isCursor ? `bold ${SMALL_FONT}` : SMALL_FONT;
  context.fillStyle = isCursor ? paint.ink : paint.soft;
}

/**
 * Write labels in a column. The last parameter says where they end or begin (x), their middle heights (y, a function),
 * the distance between two and the room of one.
 */
function rowLabels(context, labels, cursor, paint, { x, y, step, room, align }) {
  for (const i of thinned(labels.length, step, 14, cursor)) {
    dressLabel(context, i === cursor, paint);
    placeText(context, labels[i], x, y(i), align, "middle", room);
  }
}

/** Write labels below a row of cells, turned where they do not fit; places as for `rowLabels`, turned as well. */
function columnLabels(context, labels, cursor, paint, { x, y, step, room }) {
  context.font = SMALL_FONT;
  const turned = labels.some((label) => context.measureText(label).width > step - LABEL_AIR); // often the first
  for (const i of thinned(labels.length, step, turned ? 14 : 0, cursor)) {
    dressLabel(context, i === cursor, paint);
    if (turned) placeTurned(context, labels[i], x(i), y, "right", "middle", room);
    else placeText(context, labels[i], x(i), y, "center", "top");
  }
}

/** Name the axes: `rows` beside the frame, turned; `columns` below it, at the foot of a canvas of this height. */
function axisNames(context, frame, height, rows, columns, paint) {
  context.font = LABEL_FONT;
  context.fillStyle = paint.soft;
  placeText(context, columns, frame.x + frame.width / 2, height - 2, "center", "bottom");
  placeTurned(context, rows, 2, frame.y + frame.height / 2, "center", "top");
}

/** Draw the colour scale from 0 to `top`, the numbers beside it. */
function colourBar(context, x, y, height, top, paint) {
  const wide = 12;
  for (let i = 0; i < height; i++) {
    context.fillStyle = weightColour(1 - i / height).fill;
    context.fillRect(x, y + i, wide, 1.5);
  }
  context.font = SMALL_FONT;
  context.fillStyle = paint.ink;
  placeText(context, top === 1 ? "1" : top.toPrecision(3), x + wide + 4, y, "left", "top");
  placeText(context, "0", x + wide + 4, y + height, "left", "bottom");
}
