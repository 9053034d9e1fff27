// What HeadView shows, on one canvas, for a PNG: every panel at its place on the page.

import { node, themeColours } from "../core.js";
import { LABEL_FONT, placeText, sizeCanvas } from "../core_draw.js";

const LOOKS = ["background", "border-radius", "color", "font", "margin", "outline", "outline-offset", "padding",
  "white-space", "overflow-wrap", "display", "flex-wrap", "gap", "direction", "text-decoration", "width"];

/** An element as an image, with the looks that its style sheets give it. @param {HTMLElement} element */
async function imageOf(element) {
  const { width, height } = element.getBoundingClientRect();
  const copy = /** @type {HTMLElement} */ (element.cloneNode(true));
  const all = (root) => [root, ...root.querySelectorAll("*")];
  all(element).forEach((one, i) => {
    const style = getComputedStyle(one), made = all(copy)[i];
    LOOKS.forEach((name) => made.style.setProperty(name, style.getPropertyValue(name)));
    if (!one.matches("canvas, label")) return; // the scale is drawn as it is, and a choice is none in a picture
    Object.assign(made.style, { visibility: "hidden", height: style.height, minWidth: style.width });
  });
  const text = new XMLSerializer().serializeToString(copy);
  const svg = `data:image/svg+xml,${encodeURIComponent(`<svg xmlns="http://www.w3.org/2000/svg" width="${width}" ` +
    `height="${height}"><foreignObject width="100%" height="100%">${text}</foreignObject></svg>`)}`;
  const image = Object.assign(new Image(), { src: svg }); // from this page, of this page: nothing is loaded
  await image.decode();
  return image;
}

/** Put what is seen onto one canvas. @param {View} view */
export async function wholePicture({ root, page: { panels, readout, text } }) {
  const margin = 8, paint = themeColours(root), origin = panels.getBoundingClientRect();
  const drawn = [...panels.querySelectorAll("canvas, .readout")];
  const parts = [text.box, ...drawn].map((part) => [part, part.getBoundingClientRect()]).filter(([, box]) => box.width);
  const across = Math.max(...parts.map(([, box]) => box.right - origin.left)) + 2 * margin;
  const down = Math.max(...parts.map(([, box]) => box.bottom - origin.top)) + 2 * margin;
  const whole = node("canvas"), context = sizeCanvas(whole, across, down);
  context.fillStyle = paint.paper;
  context.fillRect(0, 0, across, down);
  context.font = LABEL_FONT;
  for (const [part, box] of parts) {
    const x = box.left - origin.left + margin, y = box.top - origin.top + margin;
    context.fillStyle = paint.ink;
    if (part === readout) placeText(context, part.textContent, x, y + box.height / 2, "left", "middle", box.width);
    else context.drawImage(part === text.box ? await imageOf(part) : part, x, y, box.width, box.height);
  }
  return whole;
}
