// What the lid of SealedBox covers: a row a head, with its two weights at t, and how they go along t.

import { node, pushButton, themeColours } from "../core.js";
import {
  LABEL_FONT, paintPixels, placeText, sizeCanvas, SMALL_FONT, weightColour, weightPixels,
} from "../core_draw.js";
import { letterColours, letterName } from "./draw.js";
/** @import { Box, State } from "./draw.js" */

const HEAD_ROW = 26;
const HEAD_ROW_LOW = 16; // of many heads
const MANY_HEADS = 16;
const CELL_WIDTH = 54;
const HEADER = 20;
const STRIP_BELOW = 14; // its height, where it stands below the two cells

/** The lid, what is under it, and the button that lifts it. @param {Box} box */
export function makeInside(root, box, put) {
  const told = node("p", { class: "told" });
  const nobody = "Nobody knows what is inside of this box: it came without a key. Its steps are all there is.";
  const hidden = "The lid is on: how many heads are inside, and where they look, is not shown.";
  const lid = node("div", { class: "lid" }, node("span", {}, box.heads ? hidden : nobody));
  const canvas = node("canvas", { role: "img" });
  const strip = node("canvas");
  let opened = false;
  const button = pushButton("Open the box", () => put(!opened));
  return {
    elements: [node("div", { class: "heading" }, "Inside the box"), lid, canvas, told, ...(box.heads ? [button] : [])],
    /** @param {State} state */
    show(state, where) {
      opened = state.opened && box.heads > 0;
      lid.hidden = opened;
      canvas.hidden = told.hidden = !opened;
      button.textContent = opened ? "Put the lid back" : "Open the box";
      told.textContent = opened ? comparison(box, state) : "";
      canvas.setAttribute("aria-label", opened ? insideText(box, state) : "covered");
      if (!opened) return;
      const paint = themeColours(root);
      paintStrip(strip, box, paint.dark);
      if (where) drawInside(canvas, strip, box, state, where, paint);
    },
  };
}

/** One pixel a head and point, in the colour of its weight. @param {HTMLCanvasElement} strip @param {Box} box */
function paintStrip(strip, { inside, heads, points }, dark) {
  const table = weightPixels(dark);
  paintPixels(strip, points, heads, (pixels) => {
    for (let i = 0; i < inside.length; i++) {
      pixels[(i % heads) * points + Math.floor(i / heads)] = table[Math.round(inside[i] * 255)];
    }
  });
}

/** The letters of the steps at which a head turns, "?" for what the reader has not crossed. @param {Box} box */
function lettersOf(box, { seen }, head) {
  const known = new Set(seen.map(({ number }) => number));
  return [...new Set(box.flips[head].map((number) => (known.has(number) ? box.steps[number].letter : -1)))];
}

/** What was told from the steps, beside what is there. @param {Box} box @param {State} state */
export function comparison(box, { seen }) {
  const count = new Set(seen.map(({ letter }) => letter)).size;
  const turning = box.flips.filter((steps) => steps.length).length;
  const together = seen.filter(({ number }) => box.flips.filter((steps) => steps.includes(number)).length > 1);
  const names = [...new Set(together.map(({ letter }) => letterName(letter)))].join(", ");
  const heads = `${plain(box.heads, "head")}, of which ${turning} turn${turning === 1 ? "s" : ""}`;
  const apart = names && ` Several turn at once at ${names}; more points, or another line, would tell them apart.`;
  return `You saw ${plain(count, "different vector")}. Inside: ${heads} at a step of this line.${apart}`;
}

export const plain = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;

/** @param {Box} box @param {State} state */
export function insideText(box, state) {
  const rows = Array.from({ length: box.heads }, (_, head) => {
    const look = box.inside[state.at * box.heads + head];
    const name = (letter) => (letter < 0 ? "a step not crossed yet" : letterName(letter));
    const letters = lettersOf(box, state, head).map(name);
    const turns = letters.length ? `turns at ${letters.join(", ")}` : "does not turn at a step";
    return `head ${head}: first token ${(1 - look).toFixed(2)}, second token ${look.toFixed(2)}, ${turns}`;
  });
  return rows.join("; ");
}

/** @param {Box} box @param {State} state */
function drawInside(canvas, strip, box, state, where, paint) {
  const low = box.heads > MANY_HEADS;
  const cell = low ? HEAD_ROW_LOW : HEAD_ROW;
  const row = cell + (where.beside ? 0 : STRIP_BELOW) + 4;
  const context = sizeCanvas(canvas, where.room, HEADER + box.heads * row);
  const cells = where.beside ? where.width + 8 : where.left + 22;
  context.font = SMALL_FONT;
  context.fillStyle = paint.soft;
  placeText(context, "1st token", cells + CELL_WIDTH / 2, 2, "center", "top", CELL_WIDTH - 2);
  placeText(context, "2nd token", cells + CELL_WIDTH * 1.5, 2, "center", "top", CELL_WIDTH - 2);
  if (where.beside) placeText(context, "weight of the 2nd token along t", where.left, 2, "left", "top");
  placeText(context, "turns at", cells + CELL_WIDTH * 2 + 10, 2, "left", "top");
  context.imageSmoothingEnabled = false;
  for (let head = 0; head < box.heads; head++) {
    const top = HEADER + head * row;
    const look = box.inside[state.at * box.heads + head];
    context.font = low ? SMALL_FONT : LABEL_FONT;
    context.fillStyle = paint.ink;
    placeText(context, low ? head : `head ${head}`, 0, top + cell / 2, "left", "middle");
    [1 - look, look].forEach((weight, i) => {
      const { fill, ink } = weightColour(weight, paint.dark);
      context.fillStyle = fill;
      context.fillRect(cells + i * CELL_WIDTH, top, CELL_WIDTH - 2, cell);
      context.fillStyle = ink;
      placeText(context, weight.toFixed(2), cells + (i + 0.5) * CELL_WIDTH - 1, top + cell / 2, "center", "middle");
    });
    drawTurns(context, lettersOf(box, state, head), cells + CELL_WIDTH * 2 + 10, top + cell / 2, paint);
    const [y, height] = where.beside ? [top, cell] : [top + cell + 2, STRIP_BELOW - 4];
    context.drawImage(strip, 0, head, box.points, 1, where.left, y, where.right - where.left, height);
    context.fillStyle = paint.paper;
    context.fillRect(where.x(state.at) - 2, y, 4, height);
    context.fillStyle = paint.accent;
    context.fillRect(where.x(state.at) - 1, y, 2, height);
  }
}

/** The letters of a head, side by side; a dash where it turns at no step. */
function drawTurns(context, letters, left, y, paint) {
  context.font = "bold 12px system-ui, sans-serif";
  if (!letters.length) {
    context.fillStyle = paint.soft;
    placeText(context, "–", left + 8, y, "center", "middle");
  }
  letters.forEach((letter, i) => {
    const { fill, ink } = letter < 0 ? { fill: paint.field, ink: paint.ink } : letterColours(letter);
    context.fillStyle = fill;
    context.fillRect(left + i * 20, y - 8, 17, 16);
    context.fillStyle = ink;
    placeText(context, letter < 0 ? "?" : letterName(letter), left + i * 20 + 8.5, y, "center", "middle", 16);
  });
}
