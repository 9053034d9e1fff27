// ScoreBars in the browser: a row for each word, in it a bar to drag for each head, the bar that one head makes of
// them, and the weight that comes of each.

import { LINE_COLOURS } from "../colours.js";
import {
  bindDrag, bindKeys, bytesOf, focusable, node, oncePerFrame, pushButton, put, setUp, softmax,
} from "../core.js";
import { inkStyle } from "../core_draw.js";

const LEAST = 0, STEP = 0.25; // of a score that is dragged, or moved by a key

function render({ model, el }) {
  const { root, say, drawOn, dispose } = setUp(el, "score-bars", "Scores and weights of one word");
  const names = model.get("names"), tokens = model.get("tokens"), count = tokens.length;
  const given = bytesOf(model, "scores", Float32Array);
  const most = Math.ceil(2 * Math.max(...given)); // room to drag a bar until it wins
  const said = node("span"), reset = pushButton("Reset", () => put(model, "dragged", []));
  const table = node("div", { class: "table", style: `--heads: ${names.length}` });
  const sum = names.length === 2 ? "one head adds both" : "one head adds all";
  table.append(...["", ...names, sum].map((text) => node("b", {}, text)));

  /** The scores of the word that looks, a row for each head. */
  function scores() {
    const query = model.get("query"), start = (head) => (head * count + query) * count;
    const rows = names.map((_, head) => [...given.subarray(start(head), start(head) + count)]);
    for (const [head, looks, key, score] of model.get("dragged")) if (looks === query) rows[head][key] = score;
    return rows;
  }
  function set(head, key, score) {
    const query = model.get("query"), value = Math.max(LEAST, Math.min(most, Math.round(score / STEP) * STEP));
    const others = model.get("dragged").filter(([h, q, k]) => h !== head || q !== query || k !== key);
    put(model, "dragged", [...others, [head, query, key, value]]);
  }
  const rows = tokens.map((token, key) => {
    const word = pushButton(token, () => put(model, "query", key));
    word.setAttribute("aria-label", token.trim() || `word ${key}`);
    const bars = names.map((name, head) => makeBar(`${name}, ${token}`, (score) => set(head, key, score), most));
    const stack = node("span", { class: "track" }, ...names.map(() => node("i")));
    const cells = [...bars, stack].map(() => node("span", { class: "weight" }));
    table.append(word, ...[...bars.map((bar) => bar.track), stack].map((track, i) => node("span", {}, track, cells[i])));
    return { word, bars, stack, cells };
  });
  root.append(node("div", { class: "controls" }, said, reset), table);

  function draw() {
    const dark = root.classList.contains("dark"), query = model.get("query"), apart = scores();
    const share = 1 / Math.sqrt(names.length), colours = LINE_COLOURS[dark ? "dark" : "light"];
    const added = tokens.map((_, key) => share * apart.reduce((total, row) => total + row[key], 0));
    const weights = [...apart, added].map(softmax);
    rows.forEach(({ word, bars, stack, cells }, key) => {
      word.setAttribute("aria-pressed", String(key === query));
      bars.forEach((bar, head) => bar.show(apart[head][key], colours[head]));
      [...stack.children].forEach((part, head) => {
        const wide = (100 * Math.max(0, apart[head][key])) / (most * names.length);
        part.style.cssText = `width: ${wide}%; background: ${colours[head]}`;
      });
      cells.forEach((cell, i) => {
        cell.style.cssText = inkStyle(weights[i][key], dark);
        cell.textContent = weights[i][key].toFixed(2);
      });
    });
    said.textContent = `“${tokens[query]}” looks at every word. Drag a bar; click a word, and that one looks.`;
    reset.disabled = !model.get("dragged").length;
    const last = weights[weights.length - 1], strongest = last.indexOf(Math.max(...last));
    say(`${tokens[query]} looks most at ${tokens[strongest]} in one head, ${last[strongest].toFixed(2)}`);
  }
  drawOn(model, ["query", "dragged"], draw);
  return dispose;
}

/** A bar whose end is dragged, or moved by the arrow keys, from LEAST to `most`. */
function makeBar(label, set, most) {
  const fill = node("i"), range = { "aria-valuemin": LEAST, "aria-valuemax": most };
  const track = node("span", { class: "track drag", role: "slider", "aria-label": label, ...range }, fill);
  let now = 0, wanted = 0;
  const drag = oncePerFrame(() => set(wanted));
  bindDrag(track, ({ clientX }) => {
    const { left, width } = track.getBoundingClientRect();
    wanted = (most * (clientX - left)) / width;
    drag();
  });
  const go = (by) => () => set(now + by);
  bindKeys(focusable(track), { ArrowLeft: go(-STEP), ArrowDown: go(-STEP), ArrowRight: go(STEP), ArrowUp: go(STEP) });
  return {
    track,
    show(score, colour) {
      now = score;
      fill.style.cssText = `width: ${(100 * Math.max(0, score)) / most}%; background: ${colour}`;
      track.setAttribute("aria-valuenow", score.toFixed(2));
      track.title = score.toFixed(2);
    },
  };
}

export default { render };
