// What HeadView shows, on one canvas, for a PNG: every panel at its place on the page.

import { node, themeColours } from "../core.js";
import { LABEL_FONT, placeText, sizeCanvas } from "../core_draw.js";
import { paintText } from "./text.js";
/** @import { View } from "./selection.js" */

/** Put what is seen onto one canvas. @param {View} view */
export function wholePicture({ root, page: { panels, readout, text } }) {
  const margin = 8, paint = themeColours(root);
  const origin = panels.getBoundingClientRect();
  const drawn = [...panels.querySelectorAll("canvas, .readout")].filter((part) => !text.box.contains(part));
  const parts = [...drawn, text.box].map((part) => [part, part.getBoundingClientRect()]).filter(([, box]) => box.width);
  const across = Math.max(...parts.map(([, box]) => box.right - origin.left)) + 2 * margin;
  const down = Math.max(...parts.map(([, box]) => box.bottom - origin.top)) + 2 * margin;
  const whole = node("canvas");
  const context = sizeCanvas(whole, across, down);
  context.fillStyle = paint.paper;
  context.fillRect(0, 0, across, down);
  context.font = LABEL_FONT;
  context.fillStyle = paint.ink;
  const at = (box) => [box.left - origin.left + margin, box.top - origin.top + margin];
  for (const [part, box] of parts) {
    const x = box.left - origin.left + margin, y = box.top - origin.top + margin;
    context.save();
    if (part instanceof HTMLCanvasElement) context.drawImage(part, x, y, box.width, box.height);
    else if (part === text.box) paintText(context, text, paint, at);
    else if (part === readout) placeText(context, part.textContent, x, y + box.height / 2, "left", "middle", box.width);
    context.restore();
  }
  return whole;
}
