// What folds below the bar of HeadView: what is used seldom, each control only where it can do something.

/** @param {View} view */
function makeFold(view) {
  const { model } = view;
  const offer = (label, trait, choices) => {
    const made = choice(label, choices, (value) => put(model, trait, value));
    return { ...made, follow: () => made.show(model.get(trait)) };
  };
  const tick = (label, trait) => {
    const made = tickBox(label, (value) => put(model, trait, value));
    return { ...made, follow: () => made.show(model.get(trait)) };
  };
  const colours = offer("Colours", "colours", Object.keys(MAP_PIXELS).map((name) => [name, name.toLowerCase()]));
  const kinds = [["weights", "weights"], ["values", "weights × values"], ["rollout", "rollout"]];
  const values = offer("Numbers", "values", kinds);
  const words = tick("Words for subwords", "words");
  const renormalise = tick("rows sum to 1 again", "renormalise");
  const order = offer("Order heads", "order", [
    ["model", "as in the model"], ["entropy", "by entropy"], ["sparsity", "by sparsity"], ["likeness", "by likeness"],
  ]);
  const sets = [["chosen", "chosen"], ["layer", "all of the layer"], ["all", "all"]];
  const heads = choice("Heads", sets, (which) => showHeads(view, which));
  const together = { ...heads, follow: () => heads.show(model.get("heads")) };
  const neurons = tick("Query and keys by feature", "neurons");
  const controls = [together, order, colours, values, words, neurons];
  const find = makeFind(view), hiding = makeHide(view);
  const boxes = [...controls, find, hiding, renormalise].map(({ box }) => box);
  const files = ["svg", "pdf", "html"].map((kind) => pushButton(kind.toUpperCase(), () => saveByKernel(view, kind)));
  const save = node("span", { role: "group", "aria-label": "Save as" }, "Save as ", ...files);
  save.hidden = Boolean(model.isStatic); // these are made by the kernel
  const box = node("div", { class: "controls fold", hidden: true }, ...boxes, save);
  const fold = {
    box,
    onOpen: null,
    find() {
      if (box.hidden) fold.open(true);
      find.open();
    },
    open(on) {
      box.hidden = !on;
      fold.onOpen?.(on);
      view.redraw();
    },
    show() {
      const { w } = view;
      [...controls, renormalise].forEach(({ follow }) => follow());
      find.show();
      hiding.show();
      words.box.hidden = !w.words[0].length && !w.words[1].length;
      values.box.hidden = !w.meta.has_values && w.queries !== w.keys;
      for (const option of values.input.options) {
        option.hidden = lacks(w, option.value) || (option.value === "rollout" && w.layers < 2);
      }
      order.box.hidden = together.box.hidden = !view.several;
      for (const option of order.input.options) option.hidden = option.value === "entropy" && w.signed;
      const [, ofLayer] = heads.input.options;
      ofLayer.hidden = w.layers < 2 || w.heads < 2;
      neurons.box.hidden = !w.meta.has_neurons;
      renormalise.box.hidden = !model.get("hidden").length || w.kind !== "weights";
    },
  };
  return fold;
}

/** Ask the kernel for a file of what is on screen, and offer it. @param {View} view */
function saveByKernel(view, kind) {
  const key = `save ${kind} ${freshId("file")}`;
  view.say("The file is being made");
  const wait = () => {
    if (view.blocks.stopped()) return undefined; // the view was closed
    if (view.blocks.error(key)) return view.say(`No file: ${view.blocks.error(key)}`);
    const block = view.blocks.get(key);
    if (!block) return view.blocks.ask(), setTimeout(wait, 50);
    const kinds = { svg: "image/svg+xml", pdf: "application/pdf", html: "text/html" };
    offerFile(new Blob([block.bytes], { type: kinds[kind] }), `attention.${kind}`);
    return undefined;
  };
  wait();
}
