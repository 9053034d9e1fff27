// Views of one group follow each other: the same layer, head, query and window in all of them, as far as each has them.

import { listen, put } from "../core.js";

const FOLLOWED = ["part", "sample", "layer", "head", "query", "window", "scale", "mode"];
const VIEWS = (globalThis.mhalibViews ||= new Set()); // all that are on this page

/** Let a view lead its group, if it is in one, and be led. Returns what ends it. @param {View} view */
export function followGroup(view) {
  const { model } = view;
  const lead = (name) => () => {
    const value = model.get(name), group = model.get("group"), same = JSON.stringify(value);
    for (const other of VIEWS) {
      if (!group || other.model.get("group") !== group || JSON.stringify(other.model.get(name)) === same) continue;
      if (canShow(other, name, value)) put(other.model, name, value);
    }
  };
  const stops = FOLLOWED.map((name) => listen(model, [name], lead(name)));
  VIEWS.add(view);
  return () => {
    stops.forEach((stop) => stop());
    VIEWS.delete(view);
  };
}

/** Does a view have this place? @param {View} view */
function canShow({ w, model }, name, value) {
  const parts = model.get("parts");
  const sizes = { part: parts.length, sample: parts[w.part].samples, layer: w.layers, head: w.heads, query: w.queries };
  return !(name in sizes) || value < sizes[name];
}
