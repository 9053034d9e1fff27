// Tokens that a reader leaves out of the maps of HeadView, by their labels: special ones, the first one, others.

import { focusable, node, pushButton, put, tickBox } from "../core.js";
import { shorten } from "../core_draw.js";
import { activeBeside } from "./hover.js";
import { inText, placeName, quoted, visible } from "./sample.js";
import { here, shownMaps, sourceOf } from "./selection.js";

const LITTLE = 0.1; // of a row's weights: the rest was hidden

/** Would tokens be left on both axes without these? @param {Weights} w */
function leavesSome(w, hidden) {
  const gone = new Set(hidden);
  return [w.tokens, w.keyTokens].every((labels) => labels.some((label) => !gone.has(label)));
}

/** The labels that are left out; none where nothing would be left. @param {View} view */
export function hiddenLabels({ model, w }) {
  const hidden = model.get("hidden");
  return hidden.length && !leavesSome(w, hidden) ? [] : hidden;
}

/** Leave out these labels, unless nothing would be left. @param {View} view */
export function hide(view, labels) {
  const { model, w, say } = view, hidden = [...new Set(labels)];
  if (!leavesSome(w, hidden)) {
    say("A token must be left: so many cannot be hidden.");
    return view.redraw();
  }
  put(model, "hidden", hidden);
  say(hidden.length ? hiddenText(hidden) : "All tokens are shown.");
}

/** Hide the token of the cursor's key, or the word of it, wherever its label stands. @param {View} view */
export function hideAtCursor(view) {
  const { source, cursor } = here(view) || {};
  if (!source) return;
  const labels = source.columns[cursor[1]].map((token) => view.w.keyTokens[token]);
  hide(view, [...view.model.get("hidden"), ...labels]);
}

/** Say which tokens are hidden. */
function hiddenText(hidden) {
  const plain = (label) => (/[\s,.]/.test(label) ? quoted(shorten(label, 20)) : inText(shorten(visible(label), 20)));
  const more = hidden.length > 6 ? ` and ${hidden.length - 6} more` : "";
  return `Hidden: ${hidden.slice(0, 6).map(plain).join(", ")}${more}.`;
}

/** Say that rows are rescaled, and of which little was left: what they show then says little. @param {View} view */
function rescaledText(view) {
  const { w } = view, spec = shownMaps(view)?.source.spec;
  if (!spec || !spec.renormalise || w.kind !== "weights") return "";
  const sums = w.whole && spec.side !== "difference" && spec.values !== "values";
  const plain = sums && sourceOf(view, { ...spec, renormalise: false });
  const faint = !plain ? [] : plain.rows.filter((_, i) => {
    const left = plain.row(i).cells.reduce((sum, cell) => (cell > 0 ? sum + cell : sum), 0);
    return left > 0 && left < LITTLE;
  });
  if (!faint.length) return "Rows rescaled to sum to 1. ";
  const named = [...faint.slice(0, 4).map((tokens) => placeName(w.tokens, tokens)), ...(faint.length > 4 ? ["…"] : [])];
  const of = `${faint.length} of ${plain.rows.length}: ${w.axes[0]} ${named.join(", ")}`;
  return `Rows rescaled to sum to 1; under 10 % was left of ${of}. `;
}

/** The sentence on hidden tokens below the picture. @param {View} view */
export function hiddenLimits(view) {
  const { model, w, unknown = "" } = view, hidden = model.get("hidden");
  if (!hidden.length) return unknown;
  if (!leavesSome(w, hidden)) return `${unknown}All tokens would be hidden, so all are shown. `;
  return `${unknown}${hiddenText(hidden)} ${rescaledText(view)}`;
}

/** Read labels separated by blanks; one that has blanks itself, or is empty, stands in quotes. */
const labelsIn = (text) => (text.match(/"[^"]*"|\S+/g) || []).map((label) => label.replace(/^"([^"]*)"$/, "$1"));
const asField = (labels) => labels.map((label) => (/\s|^$/.test(label) ? `"${label}"` : label)).join(" ");

/** Make the controls of hidden tokens. Returns `{box, show}`. @param {View} view */
export function makeHide(view) {
  const { model } = view;
  const without = (labels) => model.get("hidden").filter((label) => !labels.includes(label));
  const ticks = [
    { label: "Hide special tokens", labels: () => view.w.meta.special },
    { label: "Hide the first token", labels: () => [view.w.tokens[0], view.w.keyTokens[0]] },
  ].map(({ label, labels }) => {
    const change = (on) => hide(view, on ? [...model.get("hidden"), ...labels()] : without(labels()));
    return { labels, ...tickBox(label, change) };
  });
  const others = () => without(ticks.flatMap(({ input, labels }) => (input.checked ? labels() : [])));
  const about = { type: "text", size: "14", "aria-label": "Hide tokens, by their labels" };
  const field = focusable(node("input", about), null);
  const all = pushButton("Show all tokens", () => {
    hide(view, []);
    field.focus(); // the button goes
  });
  field.addEventListener("change", () => {
    const known = [...view.w.tokens, ...view.w.keyTokens], unknown = []; // `hide` takes each once
    const meant = labelsIn(field.value).flatMap((label) => {
      const same = known.filter((other) => other === label || other.trim() === label.trim());
      if (!same.length) unknown.push(label);
      return same;
    });
    hide(view, [...without(others()), ...meant]);
    view.unknown = unknown.length ? `No token is called ${asField(unknown)}. ` : "";
    if (unknown.length) view.say(view.unknown);
    view.redraw();
  });
  const box = node("span", { class: "hiding", role: "group", "aria-label": "Hidden tokens" },
    ...ticks.map(({ box }) => box), node("label", {}, "Hide tokens", field), all);
  return {
    box,
    show() {
      const hidden = model.get("hidden");
      for (const { box, labels, show } of ticks) {
        box.hidden = !labels().length;
        show(labels().length > 0 && labels().every((label) => hidden.includes(label)));
      }
      all.hidden = !hidden.length;
      if (activeBeside(field) !== field) field.value = asField(others());
    },
  };
}
