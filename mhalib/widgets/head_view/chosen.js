// What HeadView shows of all its heads: those that are chosen, the one map they combine to, and what is said of a cell.

/**
 * @typedef {object} View what the functions of HeadView share, beside the traits
 * @property {object} model @property {Weights} w @property {HTMLElement} root @property {(text: string) => void} say
 * @property {() => void} redraw draws at the next frame
 * @property {number} key the key under the cursor; its query is a trait
 * @property {Map<string, Float32Array>} decoded heads in use, by "layer,head" @property {object} current their one map
 * @property {boolean} several is there more than one head? @property {{rows: string[], columns: string[]}} names short
 * @property {{row: number, key: number}} labels the room of the longest @property {object} page from `makePage`
 * @property {object} choices @property {object} ticks each with `show` @property {object | null} layout from `layout`
 * @property {object} frame where the cells or lines are @property {object} kept @property {object} images as in a Scene
 */

/** Return the maximum or mean of several heads; a cell is masked where it is masked in all, NaN where it is in one. */
function combineHeads(maps, how) {
  if (maps.length === 1) return maps[0];
  const out = new Float32Array(maps[0].length);
  for (let i = 0; i < out.length; i++) {
    let sum = 0, most = 0, open = 0;
    for (const map of maps) {
      if (map[i] === MASKED) continue;
      open++;
      sum += map[i];
      if (map[i] > most) most = map[i];
    }
    out[i] = !open ? MASKED : sum !== sum ? NaN : how === "mean" ? sum / open : most;
  }
  return out;
}

/** Return the largest weight, and whether there are masked cells and NaN. */
function survey(weights) {
  let most = 0, masked = false, missing = false;
  for (let i = 0; i < weights.length; i++) {
    if (weights[i] > most) most = weights[i];
    else if (weights[i] === MASKED) masked = true;
    else if (weights[i] !== weights[i]) missing = true;
  }
  return { most, masked, missing };
}

/** @param {Weights} w */
const headName = (w, layer, head) => (w.layers > 1 ? `layer ${layer} head ${head}` : `head ${head}`);

/** The heads that are drawn: those ticked, and the chosen one in any case. @returns {number[][]} */
function shownHeads(model) {
  const chosen = [model.get("layer"), model.get("head")], overlay = model.get("overlay");
  return isIn(overlay, ...chosen) ? overlay : [chosen, ...overlay];
}

/** Decode heads, keeping those in use. @param {View} view */
function mapsOf(view, pairs) {
  const ids = pairs.map(String);
  const maps = pairs.map(([layer, head], i) => view.decoded.get(ids[i]) || decodeHead(view.w, layer, head));
  view.decoded = new Map(ids.map((id, i) => [id, maps[i]]));
  return maps;
}

/**
 * The one map that the picture, the bars and the cursor read from, its name and the top of its scale.
 * @param {View} view
 */
function shownMap(view) {
  const { model, w } = view;
  const pairs = shownHeads(model), combine = model.get("combine");
  const names = pairs.map(([layer, head]) => headName(w, layer, head));
  const id = `${names} ${combine}`;
  if (view.current?.id !== id) {
    const maps = mapsOf(view, pairs), weights = combineHeads(maps, combine);
    view.current = { id, maps, pairs, names, weights, ...survey(weights), digits: digitsOf(w, pairs) };
  }
  const title = names.length > 1 ? `${combine} of ${names.join(", ")}` : names[0];
  const top = model.get("scale") === "fixed" ? 1 : Math.max(view.current.most, 1e-6);
  return { ...view.current, title, top };
}

/** Say a cell: the weight shown there, and in line mode that of each head. @param {View} view */
function cellText(view, query, key) {
  const { w, model } = view;
  const shown = shownMap(view), at = query * w.keys + key;
  const of = (i) => `${shown.names[i]} ${formatWeight(shown.maps[i][at], digitsOf(w, [shown.pairs[i]]))}`;
  const apart = model.get("mode") === "lines" && shown.names.length > 1;
  const said = apart ? shown.names.map((_, i) => of(i)).join(", ") : formatWeight(shown.weights[at], shown.digits);
  return `query ${quoted(w.tokens, query)}, key ${quoted(w.keyTokens, key)}: ${said}`;
}
