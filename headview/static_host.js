// A page without a kernel: a stand-in for the model that a notebook would give the view.
// `parts` holds the kind of the view, its module text and style, the state, and a sentence for where it cannot be
// shown. Text and style may be missing: an earlier view of its kind, or a file beside the page, brought them along.
const element = document.currentScript.previousElementSibling;
const texts = ((window.mhalibTexts ||= {})[parts.kind] ||= parts);
/** Bytes travel as deflated base64, also inside of objects; everything else as it is. */
const unpack = async (value) => {
  if (!value || typeof value !== "object" || Array.isArray(value)) return value;
  if (value.$deflated === undefined) {
    const all = Object.entries(value).map(async ([name, part]) => [name, await unpack(part)]);
    return Object.fromEntries(await Promise.all(all));
  }
  const packed = value.$deflated;
  const bytes = Uint8Array.fromBase64?.(packed) ?? Uint8Array.from(atob(packed), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new DataView(await new Response(stream).arrayBuffer());
};
const state = {};
const listeners = {};
const model = {
  get: (name) => state[name],
  set: (name, value) => {
    if (state[name] === value) return;
    state[name] = value;
    (listeners[`change:${name}`] || []).forEach((call) => call());
  },
  on: (event, call) => (listeners[event] = [...(listeners[event] || []), call]),
  off: (event, call) => (listeners[event] = (listeners[event] || []).filter((other) => other !== call)),
  save_changes: () => {},
  send: () => {},
  isStatic: true,
};
const start = async () => {
  if (!texts.dressed) {
    texts.dressed = true;
    const style = document.createElement("style");
    style.textContent = texts.style; // never as HTML; its rules reach this kind of view only
    document.head.append(style);
  }
  const unpacked = Object.entries(parts.state).map(async ([name, value]) => (state[name] = await unpack(value)));
  const source = await unpack(texts.source);
  const address = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
  const [module] = await Promise.all([import(address), ...unpacked]);
  module.default.render({ model, el: element });
};
start().catch((error) => {
  console.error(error); // for whoever looks for the reason
  element.textContent = parts.instead;
});
