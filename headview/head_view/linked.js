// Views of one group follow each other: the same layer, head, query and window in all of them, as far as each has them.

import { kept, listen, put } from "../core.js";

const FOLLOWED = ["part", "sample", "layer", "head", "query", "window", "scale", "mode"];
const GROUPS = (globalThis.mhalibGroups ||= new Map()); // the name of a group, its views on this page

/** Let a view lead and follow its group, if it is in one. Returns what ends it. @param {View} view */
export function followGroup(view) {
  const { model } = view;
  let group = "";
  const join = () => {
    GROUPS.get(group)?.delete(view);
    group = model.get("group");
    if (group) kept(GROUPS, group, () => new Set()).add(view);
  };
  const lead = (name) => () => {
    const value = model.get(name), same = JSON.stringify(value);
    for (const other of GROUPS.get(group) || []) {
      if (other.model === model || JSON.stringify(other.model.get(name)) === same) continue;
      if (canShow(other, name, value)) put(other.model, name, value);
    }
  };
  const stops = FOLLOWED.map((name) => listen(model, [name], lead(name)));
  stops.push(listen(model, ["group"], join));
  join();
  return () => {
    stops.forEach((stop) => stop());
    GROUPS.get(group)?.delete(view);
  };
}

/** Does a view have this place? @param {View} view */
function canShow({ w, model }, name, value) {
  const parts = model.get("parts");
  const sizes = { part: parts.length, sample: parts[w.part].samples, layer: w.layers, head: w.heads, query: w.queries };
  return !(name in sizes) || value < sizes[name];
}
