// Why a score is what it is: the terms (source of the query) × (source of the key) of the cell at the cursor, as bars.
// A click on one that a head brought leads to what this head looked at, in its own layer.
// Elhage et al., A Mathematical Framework for Transformer Circuits (2021).

import { node, pushButton, put, spread, tickBox, typed } from "../core.js";
import { headName, placeName } from "./sample.js";
import { notHere, shownMaps, sourceOf } from "./selection.js";
import { plainSpec } from "./source.js";

const MOST_TERMS = 8, WIDEST = 620; // terms in the list; pixels

/** @typedef {{query: number, key: number, value: number}} Term two sources, by number, and their product */

/**
 * All terms of a cell, the largest first. With `lead`, those of what its score is above the mean of the keys that the
 * query may see. @returns {Term[]}
 */
function termsOf({ names, features, bytes }, w, query, key, lead) {
  const numbers = typed(bytes, Float32Array), count = names.length;
  const atKeys = count * w.queries * features, atMeans = atKeys + count * w.keys * features;
  const terms = [];
  for (let q = 0; q < count; q++) {
    for (let k = 0; k < count; k++) {
      let value = 0;
      for (let j = 0; j < features; j++) {
        const brought = numbers[atKeys + (k * w.keys + key) * features + j];
        const mean = lead ? numbers[atMeans + (k * w.queries + query) * features + j] : 0;
        value += numbers[(q * w.queries + query) * features + j] * (brought - mean);
      }
      terms.push({ query: q, key: k, value });
    }
  }
  return terms.sort((a, b) => Math.abs(b.value) - Math.abs(a.value));
}

const signed = (x) => `${x < 0 ? "−" : "+"}${Math.abs(x).toFixed(2)}`;

/** Where a term leads: the head that brought it, at the token where it did; null where that was no head. */
function sourceAt({ places }, term, query, key) {
  if (places[term.key]) return { head: places[term.key], token: key };
  return places[term.query] ? { head: places[term.query], token: query } : null;
}

/** Go to a head, to the row of a token, and there to the strongest key. @param {View} view */
function goTo(view, { head: [layer, head], token }) {
  const { model, w } = view;
  const spec = plainSpec(w, "a", [layer, head], model.get("renormalise"));
  const cells = [...(sourceOf(view, spec)?.row(token)?.cells || [])];
  Object.entries({ layer, head, query: token, rows: [] }).forEach(([name, value]) => put(model, name, value));
  if (cells.length) put(model, "key", cells.indexOf(Math.max(...cells)));
  view.say(`${headName(w, layer, head)}, ${w.axes[0]} ${placeName(w.tokens, [token])}`);
  view.redraw();
}

/** One line of the list: a name, a bar from the middle, a number. */
function lineOf(name, value, top, onClick) {
  const share = top ? (50 * Math.abs(value)) / top : 0, bar = node("i");
  Object.assign(bar.style, { width: `${share}%`, left: `${value < 0 ? 50 - share : 50}%` });
  const inside = [node("span", { class: "name" }, name), node("span", { class: "bar" }, bar),
    node("span", { class: "number" }, signed(value))];
  if (!onClick) return node("div", { class: "term" }, ...inside);
  const button = pushButton("", onClick);
  Object.assign(button, { className: "term", title: "See what this head looked at" });
  button.append(...inside);
  return button;
}

/** Make the panel. Returns `{box, show}`; `show(scene)` fills it while it is open. @param {View} view */
export function makeReasonsPanel(view) {
  const title = node("p", { class: "title", "aria-live": "polite" }), list = node("div", { class: "terms" });
  const foot = node("p", { class: "keys" });
  let lead = true, made = "";
  const which = tickBox("above the mean of the keys that it may see", (on) => {
    lead = on;
    view.redraw();
  });
  which.show(lead);
  const box = node("div", { class: "under wide reasons", hidden: true }, title, node("div", { class: "controls" }, which.box),
    list, foot);

  /** @param {Scene} scene @param {any} block */
  function fill({ w, layer, head, query, key }, block) {
    const terms = termsOf(block, w, query, key, lead), sum = (some) => some.reduce((total, { value }) => total + value, 0);
    const shown = terms.slice(0, MOST_TERMS), rest = terms.slice(MOST_TERMS), top = Math.abs(terms[0]?.value || 0);
    const cell = `${w.axes[0]} ${placeName(w.tokens, [query])}, ${w.axes[1]} ${placeName(w.keyTokens, [key])}`;
    const score = sum(lead ? termsOf(block, w, query, key, false) : terms).toFixed(2);
    const ofIt = lead ? `, ${signed(sum(terms))} above the mean` : "";
    title.textContent = `Why ${headName(w, layer, head)} looks there (${cell}): score ${score}${ofIt}`;
    const lines = shown.map((term) => {
      const name = `${block.names[term.query]} × ${block.names[term.key]}`, to = sourceAt(block, term, query, key);
      return lineOf(name, term.value, top, to && (() => goTo(view, to)));
    });
    if (rest.length) lines.push(lineOf(`the other ${rest.length.toLocaleString("en")}`, sum(rest), top, null));
    list.replaceChildren(...lines);
    foot.textContent = "Each bar: what wrote into the query × what wrote into the key; all of them sum to the number " +
      "above. Click one with a head in it to see what that head looked at." +
      (block.frozen ? " Norms are kept as the numbers by which they divided." : "") +
      (block.beside && ` Not the whole score: ${block.beside}.`);
  }

  return {
    box,
    show(scene) {
      const { w, layer, head, query, key } = scene, { model, blocks } = view;
      box.hidden = !(model.get("reasons") && w.meta.why === w.sample);
      if (box.hidden || !shownMaps(view)) return;
      spread(box, view.root, WIDEST);
      const asked = `why ${layer} ${head}`, block = blocks.get(asked), state = [asked, query, key, lead, !block].join(" ");
      if (state === made && block) return;
      made = state;
      if (block) return void fill(scene, block);
      title.textContent = blocks.error(asked) || notHere(view, "What this score is made of is");
      list.replaceChildren();
      foot.textContent = "";
    },
  };
}
