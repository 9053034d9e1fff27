// How the chart of HeadSwitchboard is drawn, once layout.js has said where everything stands.

import { placeText, shorten, sizeCanvas, SMALL_FONT } from "../core_draw.js";
import { MARGIN } from "./layout.js";
/** @import { Layout } from "./layout.js" */

const RANGE_WIDTH = 7;
const WAY_WIDTH = 1.5;
const SPOT_RADIUS = 3;
const RING_RADIUS = 6;

/**
 * Draw scores against heads off: grey, the range of all that is known; a line, the way here; a ring, now.
 * @param {HTMLCanvasElement} canvas
 * @param {Layout} where
 * @param {string} name of the score
 * @param {Record<string, string>} paint colours of the theme
 */
export function drawChart(canvas, where, name, paint) {
  const context = sizeCanvas(canvas, where.width, where.height);
  context.font = SMALL_FONT;
  drawAxes(context, where, name, paint);
  for (const { x, low, high } of where.ranges) {
    stroke(context, paint.range, RANGE_WIDTH, "round", [[x, low], [x, high - 0.01]]); // no length would not be drawn
  }
  for (const ends of where.steps) stroke(context, paint.accent, WAY_WIDTH, "round", ends);
  context.fillStyle = paint.accent;
  for (const point of where.spots) {
    circle(context, point, SPOT_RADIUS);
    context.fill();
  }
  if (!where.here) return;
  circle(context, where.here, RING_RADIUS);
  context.strokeStyle = paint.ink;
  context.lineWidth = 2;
  context.stroke();
}

function drawAxes(context, where, name, paint) {
  const below = where.height - MARGIN.bottom;
  for (const { y, text } of where.marks) {
    stroke(context, paint.field, 1, "butt", [[where.left, y], [where.right, y]]);
    context.fillStyle = paint.soft;
    placeText(context, text, where.left - 5, y, "right", "middle");
  }
  for (const { x, off } of where.numbers) placeText(context, off, x, below + 6, "center", "top");
  context.fillStyle = paint.ink;
  placeText(context, "heads off", where.middle, where.height - 1, "center", "bottom");
  placeText(context, fit(context, name, where.width - 4), 2, 1, "left", "top");
}

function stroke(context, colour, width, cap, points) {
  context.strokeStyle = colour;
  context.lineWidth = width;
  context.lineCap = cap;
  context.beginPath();
  points.forEach(([x, y], i) => (i ? context.lineTo(x, y) : context.moveTo(x, y)));
  context.stroke();
}

function circle(context, [x, y], radius) {
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
}

/** Cut a text until it fits `room` pixels. */
function fit(context, text, room) {
  let shown = text;
  for (let length = 60; context.measureText(shown).width > room && length > 1; length -= 2) {
    shown = shorten(text, length);
  }
  return shown;
}
