// LiveModel in the browser: two sentences, all heads small, one large, and how alike the sentences are to the model. What
// comes out of the model is kept by what went in; the sentences that the page opens with are known before it is loaded.

import {
  bindKeys, bytesOf, focusable, kept, listen, node, plural, pushButton, put, roomIn, setUp, tellUnderPointer,
  themeColours, tooltip, typed, walkKeys, within,
} from "../core.js";
import { inkStyle } from "../core_draw.js";
import { drawHeads, drawMap, gridIn } from "./draw.js";
import { load } from "./load.js";
import { startWorker } from "./worker.js";

const KEPT = 6; // results; of the longest sentence one takes 19 MB
const GAP = 26, BESIDE = 300; // pixels between the small maps and the large one, and for it; on a phone it is below them

const keyOf = (text, off) => JSON.stringify([text, [...off].sort((a, b) => a - b)]);
const nothingIn = (text, found) => !text || found?.tokens.length < 3; // [CLS] and [SEP] alone
const same = (a, b) => a.join(" ") === b.join(" ");
const cosine = (a, b) => a.reduce((sum, value, i) => sum + value * b[i], 0); // of vectors of length 1

function render({ model, el }) {
  const { root, say, drawOn, atEnd, dispose } = setUp(el, "live-model", "A real model, live");
  const [layers, heads] = model.get("sizes"), known = firstResults(model, layers * heads);
  const pairOf = (i) => [Math.floor(i / heads), i % heads], numberOf = ([layer, head]) => layer * heads + head;
  const nameOf = (i) => `layer ${pairOf(i)[0]} head ${pairOf(i)[1]}`;
  const offNow = () => new Set(model.get("off").map(numberOf)), chosenNow = () => numberOf(model.get("head"));
  const textOf = (name) => model.get(name).trim(), keyNow = () => keyOf(textOf("sentence"), offNow());
  const layerNow = () => Array.from({ length: heads }, (_, head) => model.get("head")[0] * heads + head);
  const choose = (i) => put(model, "head", pairOf(i));
  /** Switch heads off, or on again where all of them are off. */
  function toggle(which) {
    const off = offNow(), on = which.every((i) => off.has(i));
    which.forEach((i) => (on ? off.delete(i) : off.add(i)));
    put(model, "off", [...off].sort((a, b) => a - b).map(pairOf));
  }
  const page = layOut(root, model, {
    bring, one: () => toggle([chosenNow()]), layer: () => toggle(layerNow()), all: () => put(model, "off", []),
  });
  let shown = known.get(keyOf(model.get("first_texts")[0], [])), grid, underMap, worker = null, ready = false, problem = "";
  let mark = model.get("query"); // where it was when `shown` was new

  async function bring() {
    problem = "";
    page.bringing(0);
    worker?.terminate();
    try {
      worker = startWorker();
      await load(model, worker, page.bringing);
      ready = true;
      known.clear(); // from now on all that is shown comes from the model in this page
      worker.onmessage = ({ data }) => hear(data);
      worker.onerror = ({ message }) => hear({ failed: message });
      page.fields[0].focus({ preventScroll: true }); // the button goes
      say("The model is loaded; type a sentence");
      ask();
    } catch (error) {
      problem = `The model was not loaded: ${error.message}.`;
    }
    page.bringing(null);
    redraw();
  }
  /** Ask for what is not known yet: first what the maps show, then what the sentences are compared by. */
  function ask() {
    const off = [...offNow()], wanted = [];
    for (const [name, without] of [["sentence", off], ["second", off], ["sentence", []], ["second", []]]) {
      const text = textOf(name), key = keyOf(text, without);
      if (known.has(key)) keep(key, known.get(key)); // what is in use goes last
      else if (text && !wanted.some((one) => one.key === key)) wanted.push({ key, text, off: without });
    }
    if (ready) worker.postMessage({ wanted });
    redraw();
  }
  function keep(key, found) {
    known.delete(key);
    kept(known, key, () => found, KEPT);
  }
  /** @param {{failed?: string, key?: string, [name: string]: any}} said */
  function hear({ failed, key, ...found }) {
    if (failed) problem = `The model stopped: ${failed}.`;
    else keep(key, found);
    if (key === keyNow()) model.send({ torch: key }); // without a kernel this goes nowhere
    redraw();
  }
  /** How far the page's weights are from those that the kernel computes for the same. */
  function hearTorch({ torch }, [bytes]) {
    const mine = known.get(torch), maps = mine && typed(bytes, Float32Array);
    if (!mine) return;
    const far = mine.maps.map((weight, i) => Math.abs(weight - maps[i])).sort();
    mine.torch = far[Math.floor(0.999 * far.length)];
    redraw();
  }

  const redraw = drawOn(model, ["head", "query"], () => {
    const room = roomIn(root), off = offNow(), now = known.get(keyNow());
    if (!room) return;
    if (now) follow(shown.tokens, now.tokens);
    shown = now || shown;
    const empty = nothingIn(textOf("sentence"), now);
    const { tokens } = shown, maps = empty ? null : shown.maps, query = Math.min(model.get("query"), tokens.length - 1);
    const scene = { layers, heads, maps, tokens, off, chosen: chosenNow(), query, paint: themeColours(root) };
    root.classList.toggle("stale", !now && !empty);
    grid = gridIn(room > 2 * BESIDE ? room - BESIDE - GAP : room, layers, heads);
    const rest = room - grid.width - GAP, wide = rest >= BESIDE;
    page.both.style.gridTemplateColumns = wide ? `${grid.width}px minmax(0, 1fr)` : "minmax(0, 1fr)";
    drawHeads(page.small, grid, scene);
    underMap = drawMap(page.large, wide ? Math.min(rest, 440) : room, scene);
    page.name(nameOf(scene.chosen), scene, layerNow().every((i) => off.has(i)));
    showWords(page.words, model, scene);
    page.tell(messages(now, empty), problem);
    const by = [[], off].map((without) => {
      const [a, b] = ["sentence", "second"].map((name) => known.get(keyOf(textOf(name), without)));
      return a?.tokens.length > 2 && b?.tokens.length > 2 ? cosine(a.vector, b.vector) : undefined;
    });
    page.compare(0, "all heads", by[0]);
    page.compare(1, off.size ? `${plural(off.size, "head")} off` : "no head off", off.size ? by[1] : undefined);
  });
  /** Keep the mark on its token where only what is before it has changed. */
  function follow(old, tokens) {
    const query = model.get("query"), rest = query - old.length, inFront = [0, query + 1];
    const moved = !same(tokens.slice(...inFront), old.slice(...inFront)) && same(tokens.slice(rest), old.slice(rest));
    if (query === mark && moved) put(model, "query", tokens.length + rest);
    mark = model.get("query");
  }
  /** What of a text does not reach the model. */
  function lacks(found) {
    return [
      found?.known === 0 && "None of it is in the model’s vocabulary: every piece is [UNK].",
      found?.left && `The model reads ${found.tokens.length} tokens; ${found.left} more are left out.`,
    ].filter(Boolean);
  }
  function messages(now, empty) {
    if (problem) return `${problem} What is below is what was known before.`;
    const none = "there is no word in it that reaches the model.";
    if (empty) return `Type a sentence: ${none}`;
    if (!now) return ready ? "computing …" : "Load the model to see what it says now.";
    const told = lacks(now), second = textOf("second"), other = known.get(keyOf(second, offNow()));
    if (now.ms !== undefined) told.push(`${now.tokens.length} tokens in ${Math.round(now.ms)} ms.`);
    if (now.torch !== undefined) told.push(`999 of 1,000 weights within ${now.torch.toFixed(3)} of torch in the kernel.`);
    const lacking = nothingIn(second, other) ? [none] : lacks(other);
    if (lacking.length) told.push("Compare with:", ...lacking);
    return told.join(" ");
  }

  page.small.addEventListener("click", ({ offsetX, offsetY }) => {
    const i = grid.under(offsetX, offsetY);
    if (i >= 0) i === chosenNow() ? toggle([i]) : choose(i);
  });
  bindKeys(page.small, {
    ...walkKeys((down, right) => {
      const [layer, head] = model.get("head");
      put(model, "head", [within(layer + down, layers), within(head + right, heads)]);
    }),
    " ": () => toggle([chosenNow()]),
  });
  page.large.addEventListener("click", ({ offsetX, offsetY }) => {
    const cell = underMap(offsetX, offsetY);
    if (cell) put(model, "query", cell[0]);
  });
  tellUnderPointer(page.large, tooltip(root), ({ offsetX, offsetY }) => {
    const [a, b] = underMap(offsetX, offsetY) ?? [], { tokens, maps } = shown, T = tokens.length;
    return a === undefined ? null : `${tokens[a]} → ${tokens[b]} ${maps[(chosenNow() * T + a) * T + b].toFixed(2)}`;
  });
  model.on("msg:custom", hearTorch);
  atEnd(() => model.off("msg:custom", hearTorch));
  atEnd(listen(model, ["sentence", "second", "off"], ask));
  atEnd(() => worker?.terminate());
  return dispose;
}

/** What Python said of the two sentences, by what went in. */
function firstResults(model, count) {
  const maps = bytesOf(model, "first_maps", Float32Array), vectors = bytesOf(model, "first_vectors", Float32Array);
  const wide = vectors.length / 2, known = new Map();
  let at = 0;
  for (const [i, tokens] of model.get("first_tokens").entries()) {
    const found = { tokens, maps: maps.subarray(at, (at += count * tokens.length ** 2)) };
    known.set(keyOf(model.get("first_texts")[i], []), { ...found, vector: vectors.subarray(i * wide, (i + 1) * wide) });
  }
  return known;
}

/** The tokens, shaded by what the query takes from each; a click chooses another query. */
function showWords(box, model, { maps, tokens, chosen, query, paint }) {
  const T = tokens.length, said = maps ? tokens.join(" ") : "";
  if (box.dataset.said !== said) {
    box.dataset.said = said;
    box.replaceChildren(...(maps ? tokens : []).map((token, at) => pushButton(token, () => put(model, "query", at))));
  }
  [...box.children].forEach((word, at) => {
    word.setAttribute("style", inkStyle(Math.sqrt(maps[(chosen * T + query) * T + at]), paint.dark));
    word.setAttribute("aria-pressed", String(at === query));
  });
}

/** Make all elements; `act`: what the buttons do. */
function layOut(root, model, act) {
  const fields = ["sentence", "second"].map((name) => {
    const field = focusable(node("input", { type: "text", spellcheck: "false" }), null);
    field.addEventListener("input", () => put(model, name, field.value));
    const follow = () => field.value !== model.get(name) && (field.value = model.get(name)); // else its cursor moves
    model.on(`change:${name}`, follow);
    follow();
    return field;
  });
  const labels = ["Sentence", "Compare with"].map((text, i) => node("label", {}, node("span", {}, text), fields[i]));
  const button = pushButton(`Load the model (${model.get("megabytes")} MB)`, act.bring);
  const bar = node("progress", { max: 1, hidden: true, "aria-label": "Loading the model" });
  const note = node("p", { class: "note", role: "status" });
  const bars = [0, 1].map(() => [node("span"), node("span", { class: "track" }, node("i")), node("span")]);
  const alike = node("div", { class: "alike" }, node("b", {}, "How alike the two are"), ...bars.flat());
  const help = "Click a head to see it large, click it again to switch it off. Keys: arrows, Space.", title = node("b");
  const small = focusable(node("canvas", { role: "application", "aria-description": help }));
  const large = node("canvas", { role: "img" }), words = node("div", { class: "words", role: "group", "aria-label": "Query" });
  const one = pushButton("", act.one), layer = pushButton("", act.layer), all = pushButton("All on", act.all);
  const controls = [[node("b", {}, "Layers × heads"), all], [title, one, layer]]
    .map((row) => node("div", { class: "controls" }, ...row));
  const left = node("div", {}, controls[0], small, node("p", { class: "note" }, help), alike);
  const both = node("div", { class: "both" }, left, node("div", {}, controls[1], large, words));
  root.append(...labels, node("div", { class: "bring" }, button, bar, note), both);
  return {
    fields, small, large, both, words,
    /** Show how much of the model is there; null: nothing is on its way. */
    bringing(share) {
      bar.hidden = share === null;
      button.disabled = !bar.hidden;
      bar.value = share ?? 0;
      button.hidden ||= share === 1;
    },
    tell(text, problem) {
      if (note.textContent !== text) note.textContent = text; // what is said again is read aloud again
      note.classList.toggle("problem", Boolean(problem));
    },
    compare(i, name, alike) {
      const [label, track, number] = bars[i];
      label.textContent = name;
      track.firstChild.style.width = `${100 * Math.max(0, alike ?? 0)}%`;
      number.textContent = alike?.toFixed(3) ?? "–";
    },
    name(name, { maps, tokens, chosen, query, off }, layerIsOff) {
      const T = tokens.length, start = (chosen * T + query) * T, weights = maps?.subarray(start, start + T) ?? [];
      const most = Math.max(...weights), isOff = off.has(chosen);
      title.textContent = name.replace("l", "L");
      one.textContent = `Switch ${isOff ? "on" : "off"}`;
      layer.textContent = `Layer ${model.get("head")[0]} ${layerIsOff ? "on" : "off"}`;
      all.disabled = !off.size;
      small.setAttribute("aria-label", `All heads. Chosen: ${name}${isOff ? ", off" : ""}`);
      const looks = maps ? `${tokens[query]} looks most at ${tokens[weights.indexOf(most)]}, ${most.toFixed(2)}` : "empty";
      large.setAttribute("aria-label", `Weights of ${name}: ${looks}`);
    },
  };
}

export default { render };
