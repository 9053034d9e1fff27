// The picture under the tokens of HeadView: the weights of a query over its patches, or what patches give to a key.

import { bindKeys, bindPlaces, choice, focusable, freshId, node, put, slider, walkKeys } from "../core.js";
import {
  cssColour, hatch, hatchColour, LABEL_FONT, lyingScale, maskedPixel, NAN_PIXEL, placeText, sizeCanvas, strokeIn,
  strokeOnAnything, writeIn,
} from "../core_draw.js";
import { formatWeight, largestSize, MASKED } from "./codes.js";
import { markCells, percent, pixelsOf, scaleEnds, shareOn } from "./draw.js";
import { patchOf, patchPlace, photoOf, tokenOf } from "./patches.js";
import { inText, placeName } from "./sample.js";
import { cellText, here, notHere, placeOf } from "./selection.js";
import { regionOf } from "./source.js";
import { moveAlong } from "./view.js";

const PICTURE_WIDEST = 360, PICTURE_TITLE = 20, PICTURE_SCALE = 24; // pixels; the title above, the scale below
const GRID_FROM = 7; // pixels of a patch; the grid would hide smaller ones
const OUTSIDE = 6; // tokens beside the picture that are named

/** What the picture shows: queries (0), and so what they give to the chosen key, or keys (1). @param {View} view */
function axisShown({ w, model }) {
  const { on } = w.meta.picture;
  return on === "queries" || (on === "both" && model.get("direction") === "to") ? 0 : 1;
}

/**
 * Return what lies over the picture: `values`, one for each patch, undefined where it is hidden; `rest`, the numbers of
 * what is no patch and open, strongest first; `text(value)` says one. Null while the numbers are not there.
 * @param {Scene} scene
 */
function overPatches({ w, view, cursor, shown, scale }) {
  const [frame] = shown.frames, { source } = frame, axis = axisShown(view), row = source.row(cursor[0]);
  const cells = axis ? row?.cells : regionOf(source, [0, source.rows.length, cursor[1], cursor[1] + 1]);
  if (!cells) return null;
  const { rows, columns } = w.meta.picture, rest = [], values = new Array(rows * columns).fill(undefined);
  source.places[axis].forEach((tokens, i) => {
    const patches = tokens.map((token) => patchOf(w, axis, token)).filter((at) => at >= 0);
    patches.forEach((at) => (values[at] = cells[i]));
    if (!patches.length && cells[i] !== MASKED) rest.push({ tokens, value: cells[i] });
  });
  const exact = row?.exact && (axis === 1 || source.cells !== null); // a column is made of tiles
  const size = ({ value }) => (value === value ? Math.abs(value) : Infinity);
  rest.sort((a, b) => size(b) - size(a));
  return {
    axis, values, rest, scale: { kind: scale, top: largestSize(values) || frame.scale.top, signed: source.signed },
    sum: source.signed ? null : values.reduce((sum, value) => (Math.abs(value) < Infinity ? sum + value : sum), 0),
    text: (value) => formatWeight(value, exact ? 0 : source.error(value)),
  };
}

/**
 * Lay the weights over the patches: the stronger, the less of the picture is seen.
 * @param {CanvasRenderingContext2D} context @param {Scene} scene
 */
function shadePatches(context, { look, strength }, { values, scale }, cell) {
  const share = shareOn(scale), table = pixelsOf(scale, look), masked = [];
  values.forEach((value, at) => {
    const place = share(value), shown = scale.signed ? Math.abs(2 * place - 1) : place;
    const none = Number.isNaN(value) ? NAN_PIXEL : maskedPixel(look.dark), number = value > MASKED;
    const [x, y] = cell.corner(at);
    context.globalAlpha = strength * (number ? shown : 0.8);
    context.fillStyle = cssColour(number ? table[Math.round(place * 255)] : none);
    context.fillRect(x, y, cell.wide, cell.high);
    if (value === MASKED) masked.push([x, y, cell.wide, cell.high]);
  });
  context.globalAlpha = 1;
  markCells(context, values, cell.middle, cell);
  hatch(context, masked, hatchColour(look.dark));
}

/**
 * Draw the grid, and frame the cursor's patches: the query with a line, the key with dashes.
 * @param {CanvasRenderingContext2D} context @param {Scene} scene
 */
function framePatches(context, { w, paint, shown: { source }, cursor }, cell, width, height) {
  const { rows, columns, frames: [down, across] } = w.meta.picture, top = PICTURE_TITLE;
  context.save();
  if (Math.min(cell.wide, cell.high) >= GRID_FROM) {
    context.beginPath();
    for (let i = 1; i < columns; i++) context.rect(i * cell.wide, top, 0, height);
    for (let i = 1; i < rows; i++) context.rect(0, top + i * cell.high, width, 0);
    strokeIn(context, "rgb(128 128 128 / .4)", 1);
    context.stroke();
  }
  context.beginPath(); // between frames of a video
  for (let i = 1; i < across; i++) context.rect((i * width) / across, top, 0, height);
  for (let i = 1; i < down; i++) context.rect(0, top + (i * height) / down, width, 0);
  strokeIn(context, paint.paper, 3);
  context.stroke();
  source.places.forEach((places, axis) => {
    const at = patchOf(w, axis, places[cursor[axis]][0]);
    if (at < 0) return;
    const [x, y] = cell.corner(at), left = Math.max(1, x), above = Math.max(top + 1, y);
    const right = Math.min(width - 1, x + cell.wide), below = Math.min(top + height - 1, y + cell.high);
    context.setLineDash(axis ? [4, 3] : []);
    strokeOnAnything(context, axis ? 3 : 4, axis ? 1.5 : 2, () =>
      context.strokeRect(left, above, right - left, below - above));
  });
  context.restore();
}

/** Where the patches stand in a picture of this size. */
function patchCells({ rows, columns }, width, height) {
  const wide = width / columns, high = height / rows;
  const corner = (at) => [(at % columns) * wide, PICTURE_TITLE + Math.floor(at / columns) * high];
  const middle = (at) => [corner(at)[0] + wide / 2, corner(at)[1] + high / 2];
  return { wide, high, corner, middle };
}

/** Say what lies beside the picture. @param {Scene} scene */
function outsideText({ w }, { axis, rest, sum, text, values }) {
  const labels = axis ? w.keyTokens : w.tokens, name = w.axes[axis];
  const called = (tokens) => inText(tokens.map((i) => (labels[i] === String(i) ? `${name} ${i}:` : labels[i])).join(""));
  const named = rest.slice(0, OUTSIDE).map(({ tokens, value }) => `${called(tokens)} ${text(value)}`);
  const more = rest.length > OUTSIDE ? ` and ${rest.length - OUTSIDE} more` : "";
  const hidden = values.filter((value) => value === undefined).length;
  return [
    sum !== null && axis === 1 && `In the picture: ${sum.toFixed(4)} in all. `,
    rest.length > 0 && `Outside the picture: ${named.join(", ")}${more}. `,
    hidden > 0 && (hidden === 1 ? "1 patch is hidden. " : `${hidden} patches are hidden. `),
  ].filter(Boolean).join("");
}

/** Draw the picture with what lies over it, and say that. @param {Scene} scene */
function drawPicture(panel, scene) {
  const { w, view, paint, look, layout, shown, cursor } = scene, { picture } = w.meta, { canvas, note } = panel;
  const room = Math.min(PICTURE_WIDEST, layout.form === "two" ? layout.room : layout.bars);
  panel.box.style.width = `${room}px`;
  const fit = Math.min(room / picture.width, PICTURE_WIDEST / picture.height);
  const [width, height] = [picture.width, picture.height].map((size) => Math.max(1, Math.round(size * fit)));
  const context = sizeCanvas(canvas, Math.max(width, Math.min(room, 200)), PICTURE_TITLE + height + PICTURE_SCALE);
  const photo = photoOf(view), over = overPatches(scene);
  const cell = (panel.cell = patchCells(picture, width, height));
  const of = 1 - axisShown(view), chosen = shown.source.places[of][cursor[of]];
  const title = `${of ? "onto" : "of"} ${w.axes[of]} ${placeName(of ? w.keyTokens : w.tokens, chosen)}`;
  context.direction = "ltr";
  writeIn(context, `bold ${LABEL_FONT}`, paint.ink);
  placeText(context, `picture: weights ${title}`, 0, 0, "left", "top", room);
  if (photo) context.drawImage(photo, 0, PICTURE_TITLE, width, height);
  if (over) {
    const { scale } = over, middle = PICTURE_TITLE + height + 14;
    shadePatches(context, scene, over, cell);
    lyingScale(context, pixelsOf(scale, look), scaleEnds(scale), 0, middle, paint.ink);
  }
  framePatches(context, scene, cell, width, height);
  const lacks = [!photo && "The picture is not here. ", !over && notHere(view, "The numbers of this row are")];
  note.textContent = (over ? outsideText(scene, over) : "") + lacks.filter(Boolean).join("");
  const [down, across] = picture.frames, each = down * across > 1 ? `${down * across} frames of ` : "";
  const patches = `${each}${picture.rows / down} × ${picture.columns / across} patches`;
  canvas.setAttribute("aria-label", `Picture of ${patches}, weights ${title}: ` +
    `${over ? heardPatches(w, over) : "not here yet"}. ${note.textContent}`);
}

/** The strongest patches, for those who hear. */
function heardPatches(w, { values, text }) {
  const size = (at) => Math.abs(values[at]);
  const order = [...values.keys()].filter((at) => size(at) < Infinity).sort((a, b) => size(b) - size(a)).slice(0, 5);
  return order.map((at) => `patch ${patchPlace(w, at)} ${text(values[at])}`).join("; ") || "no numbers";
}

// ---------------------------------------------------------------- the panel

/** Make the panel. Returns `{box, show}`; `show(scene)` draws it where the part has a picture. @param {View} view */
export function makePicturePanel(view) {
  const { model } = view, help = freshId("help-p");
  const canvas = focusable(node("canvas", { class: "image", role: "application", "aria-describedby": help }));
  const ways = [["from", "weights of the query"], ["to", "weights on the key"]];
  const over = choice("Over the picture", ways, (value) => put(model, "direction", value));
  const range = { min: 0, max: 1, step: 0.05 };
  const strength = slider("Weights over the picture", range, percent, (value) => put(model, "strength", value));
  const note = node("p", { class: "note outside" }), keys = node("p", { class: "keys", id: help });
  const controls = node("div", { class: "controls" }, over.box, strength.box);
  const box = node("div", { class: "under", hidden: true }, canvas, note, controls, keys);
  const panel = { box, canvas, note, cell: null };
  bindPicture(view, panel);
  return {
    box,
    show(scene) {
      const { picture } = scene.w.meta;
      box.hidden = !picture;
      if (!picture) return;
      over.box.hidden = picture.on !== "both";
      over.show(scene.direction);
      strength.show(scene.strength);
      const shift = picture.on === "both" ? "; with Shift the other of query (framed) and key (dashed)" : "";
      keys.textContent = `Picture: arrow keys or a click choose a patch${shift}.`;
      drawPicture(panel, scene);
    },
  };
}

/** Let clicks and keys choose patches, and tell the patch under the pointer. @param {View} view */
function bindPicture(view, panel) {
  const patchAt = ({ offsetX, offsetY }) => {
    const { rows, columns } = view.w.meta.picture, { wide, high } = panel.cell;
    const column = Math.floor(offsetX / wide), row = Math.floor((offsetY - PICTURE_TITLE) / high);
    return column >= 0 && column < columns && row >= 0 && row < rows ? row * columns + column : null;
  };
  const choose = (at, event) => choosePatch(view, axisChosen(view, event.shiftKey), at);
  bindPlaces(panel.canvas, view.tip, patchAt, choose, (at) => {
    const shown = here(view), axis = axisShown(view), name = `patch ${patchPlace(view.w, at)}`;
    if (!shown) return null;
    const place = placeHolding(view, shown, axis, at), [row, column] = shown.cursor;
    if (place < 0) return `${name} is hidden`;
    const said = axis ? cellText(view, row, place) : cellText(view, place, column);
    return said.includes(name) ? said : `${name} · ${said}`;
  });
  bindKeys(panel.canvas, walkKeys((down, right, { shiftKey }) => (
    walkPatches(view, axisChosen(view, shiftKey), down, right))));
}

/** The axis on which a patch is chosen: that of the queries where they are patches; `other`: the other of two. */
function axisChosen(view, other) {
  if (view.w.meta.picture.on !== "both") return axisShown(view);
  return (axisShown(view) === 1) === other ? 1 : 0;
}

/** The row or column that holds a patch, or -1 where it is hidden. @param {View} view */
function placeHolding({ w }, { source: { places } }, axis, at) {
  const token = tokenOf(w.meta.picture, at), place = placeOf(places[axis], token);
  return places[axis][place]?.includes(token) ? place : -1;
}

/** Move the cursor to a patch; false where it is hidden. @param {View} view */
function choosePatch(view, axis, at) {
  const shown = here(view), place = shown ? placeHolding(view, shown, axis, at) : -1;
  if (place >= 0) moveAlong(view, axis, place);
  return place >= 0;
}

/** Walk from the cursor's patch, past hidden ones; from beside the picture, to its first. @param {View} view */
function walkPatches(view, axis, down, right) {
  const { w } = view, { rows, columns } = w.meta.picture;
  const now = patchOf(w, axis, view.model.get(axis ? "key" : "query"));
  if (now < 0) {
    for (let at = 0; at < rows * columns && !choosePatch(view, axis, at); at++);
    return;
  }
  let row = Math.floor(now / columns), column = now % columns;
  if (Math.abs(right) === Infinity) [column, right] = right < 0 ? [-1, 1] : [columns, -1]; // inwards from the end
  do {
    [row, column] = [row + down, column + right];
    if (row < 0 || row >= rows || column < 0 || column >= columns) return;
  } while (!choosePatch(view, axis, row * columns + column));
}
