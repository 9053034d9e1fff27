// HeadSwitchboard in the browser: the switches, the score, what the model says, the way here.
// The present setting and the way to it live in traits. What is not in the table is asked of the kernel, one setting
// at a time, so that it can do other work in between and the last click wins.

const WAIT_MS = 150; // after the last click, before the kernel is asked
const PATIENCE_S = 10; // then the reader is told that no answer has come: a kernel that died says nothing
const KEPT = 200; // settings to which undo leads back, as in Python
const CHART_HEIGHT = 190;

function render({ model, el }) {
  const { root, say, onTheme, dispose } = setUp(el, "switchboard", "Head switchboard");
  const [layers, heads] = model.get("sizes"), count = layers * heads;
  const name = model.get("score_name"), labels = model.get("labels");
  const table = makeTable(model, count);
  const every = "1".repeat(count), none = "0".repeat(count);
  const headName = (at) => (layers > 1 ? `layer ${Math.floor(at / heads)} ` : "") + `head ${at % heads}`;
  const now = () => model.get("gates").flat().join("");
  const plural = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;

  // ---------------------------------------------------------------- changing the setting

  /** Go to a setting; `way` is what leads there, with the setting at its end. */
  function go(setting, way = [...model.get("visited"), setting].slice(-KEPT)) {
    if (setting === now()) return;
    const gates = Array.from({ length: layers }, (_, i) => [...setting.slice(i * heads, (i + 1) * heads)].map(Number));
    model.set("visited", way);
    put(model, "gates", gates);
  }
  const back = () => {
    const way = model.get("visited").slice(0, -1);
    if (way.length) go(way.at(-1), way);
  };

  // ---------------------------------------------------------------- asking the kernel

  /** @type {{setting: string, times: number} | null} */
  let asked = null;
  let timer = 0, patience = 0, late = false;
  const failed = (setting) => model.get("failures")[setting];
  const neighbours = () => Array.from(every, (_, at) => flip(now(), at));
  function send(setting) {
    asked = { setting, times: failed(setting)?.[1] || 0 };
    patience = setTimeout(() => {
      late = true;
      redraw();
    }, 1000 * PATIENCE_S);
    model.send({ measure: setting });
    redraw();
  }
  /** Ask for what is wanted first: the present setting, then, if the reader wants that, each switch alone. */
  function ask() {
    if (model.isStatic || asked || timer) return;
    const wanted = [now(), ...(each.input.checked ? neighbours() : [])];
    const next = wanted.find((setting) => !table.known.has(setting) && !failed(setting));
    if (next) send(next);
  }
  function askSoon() {
    clearTimeout(timer);
    timer = setTimeout(() => {
      timer = 0;
      ask();
    }, WAIT_MS);
  }
  /** Take in what Python has found since. */
  function learn() {
    table.read();
    if (asked && (table.known.has(asked.setting) || (failed(asked.setting)?.[1] || 0) > asked.times)) {
      asked = null;
      late = false;
      clearTimeout(patience);
    }
    ask();
    redraw();
  }

  // ---------------------------------------------------------------- elements

  const fact = (label) => {
    const value = node("b");
    return { box: node("div", {}, label, value), value };
  };
  const score = fact(name), start = fact("with all heads on"), change = fact("difference"), off = fact("heads off");
  score.box.className = "now";
  const summary = node("div", { class: "summary" }, score.box, start.box, change.box, off.box);
  const allOn = pushButton("All on", () => go(every)), allOff = pushButton("All off", () => go(none));
  const undo = pushButton("Undo", back);
  const each = tickBox("Measure every switch", () => {
    ask();
    redraw();
  });
  const progress = node("output");
  const controls = node("div", { class: "controls" }, allOn, allOff, undo, each.box, progress);
  const problem = node("p", { class: "problem", role: "alert", hidden: true });
  const again = pushButton("Measure again", () => {
    switches.find(({ button }) => button.tabIndex === 0).button.focus(); // this button is about to go
    send(problem.dataset.setting);
  });
  const readout = node("p", { class: "note readout" });
  const chart = node("canvas", { role: "img" });
  const heading = node("p", { class: "heading" });
  const list = node("ul", { class: "answers" });
  const key = (colour) => node("span", { class: "key", style: `background: var(--${colour})`, "aria-hidden": "true" });
  const longest = node("span");
  const limits = node("p", { class: "keys" });
  const help = node("p", { class: "keys" }, "Under a switch: what switching just this one would do now. ", key("down"), " to the left: lower, ",
    key("up"), " to the right: higher", longest, "; nothing drawn: not measured. In the chart: grey, lowest to highest of all settings measured; line, your way; ring, now. ",
    "Arrow keys move among the switches, Space switches.");

  const switches = Array.from(every, (_, at) => {
    const by = node("span", { class: "by" }), text = node("span"), mark = node("i");
    const effect = node("span", { class: "effect" }, mark);
    const button = focusable(node("button", { type: "button", class: "switch", "aria-label": headName(at) }, node("span", { class: "state" }, text, by), effect), at ? -1 : 0);
    button.addEventListener("click", () => go(flip(now(), at)));
    button.addEventListener("focus", () => choose(at));
    button.addEventListener("pointerenter", () => point(at));
    return { button, by, text, mark, effect };
  });
  const widest = heads <= 4 ? 84 : heads <= 8 ? 64 : 46;
  const grid = node("div", { class: "switches", role: "group", "aria-label": `Switches of ${layers > 1 ? `${plural(layers, "layer")} with ` : ""}${plural(heads, "head")}${layers > 1 ? " each" : ""}` },
    node("span", { class: "row" }, layers > 1 ? "layer" : "head"),
    ...Array.from({ length: heads }, (_, j) => node("span", {}, layers > 1 && heads <= 8 ? `head ${j}` : String(j))));
  grid.style.gridTemplateColumns = `max-content repeat(${heads}, minmax(22px, ${widest}px))`;
  for (let i = 0; i < layers; i++) {
    grid.append(node("span", { class: "row" }, layers > 1 ? String(i) : ""), ...switches.slice(i * heads, (i + 1) * heads).map((s) => s.button));
  }
  const board = node("div", { class: "board" }, grid);
  const side = node("div", { class: "side" }, chart);
  const stage = node("div", { class: "stage" }, board, side);
  root.append(summary, controls, problem, stage, readout, heading, list, limits, help);

  // ---------------------------------------------------------------- what is shown

  /** What switching one head would change, or undefined where that is not known. */
  function effectOf(at) {
    const here = table.known.get(now()), there = table.known.get(flip(now(), at));
    return here && there && there.score - here.score;
  }
  let pointed = 0;
  function readOut() {
    const by = effectOf(pointed), on = now()[pointed] === "1";
    const then = by === undefined ? "not measured" : `${formatScore(table.known.get(flip(now(), pointed)).score)} (${formatChange(by)})`;
    readout.textContent = `${headName(pointed)} is ${on ? "on" : "off"}. Switching it ${on ? "off" : "on"}: ${name} ${then}`;
  }
  function point(at) {
    pointed = at;
    readOut();
  }
  function choose(at) {
    switches.forEach(({ button }, i) => (button.tabIndex = i === at ? 0 : -1));
    point(at);
  }

  function showSwitches(setting) {
    const most = table.largest();
    switches.forEach(({ button, by, text, mark, effect }, at) => {
      const change = effectOf(at), on = setting[at] === "1";
      button.setAttribute("aria-pressed", String(on));
      text.textContent = on ? "on" : "off";
      by.textContent = change === undefined ? "" : formatChange(change);
      effect.classList.toggle("known", change !== undefined);
      mark.className = change < 0 ? "lower" : "higher";
      mark.style.width = change && most ? `${Math.max(2, (Math.abs(change) / most) * 50)}%` : "0";
      button.setAttribute("aria-description", `Switching it ${on ? "off" : "on"}: ${change === undefined ? "not measured" : wordsOfChange(change)}`);
    });
    longest.textContent = most ? `; a full half is ${formatScore(most)}` : "";
  }

  function showAnswers(here) {
    heading.hidden = list.hidden = labels.length === 0;
    if (list.hidden) return;
    const phrases = model.get("phrases"), before = table.known.get(every).said;
    const marks = [];
    list.replaceChildren(...labels.map((label, i) => {
      const [said, right] = here ? phrases[here.said[i]] : ["…", null];
      const [was] = phrases[before[i]];
      marks.push(right);
      const mark = right === null ? [] : [right ? " ✓" : " ✗", node("span", { class: "hidden" }, right ? "right" : "wrong")];
      return node("li", { class: right === null ? undefined : right ? "right" : "wrong" }, node("small", {}, label),
        node("b", {}, said), ...mark, node("small", {}, here && was !== said ? `was ${was}` : ""));
    }));
    const judged = marks.filter((right) => right !== null);
    heading.textContent = "One example, and what the model says now" + (judged.length ? `: ${judged.filter(Boolean).length} of ${judged.length} right` : "");
  }

  function showProblem(setting) {
    const wrong = [setting, ...(each.input.checked ? neighbours() : [])].find((other) => failed(other) && asked?.setting !== other);
    if (problem.hidden !== !wrong || (wrong && problem.dataset.told !== wrong + failed(wrong))) {
      const at = wrong && [...wrong].findIndex((digit, i) => digit !== setting[i]);
      const whose = wrong === setting ? "This setting" : `Switching ${headName(at)}`;
      problem.replaceChildren(...(wrong ? [`${whose} could not be measured. ${failed(wrong)[0]} `, ...(model.isStatic ? [] : [again])] : []));
      Object.assign(problem.dataset, { told: wrong && wrong + failed(wrong), setting: wrong });
    }
    problem.hidden = !wrong;
  }

  let told = "";
  function tell(setting, here) {
    const waits = model.isStatic ? "not measured, which needs a notebook with a kernel" : failed(setting) && asked?.setting !== setting ? "not measured" : late ? "no answer yet" : "measuring";
    const first = table.known.get(every).score;
    const text = `${name} ${here ? `${formatScore(here.score)}, ${wordsOfChange(here.score - first)} against all heads on` : waits}; ${plural(countOff(setting), "head")} off`;
    if (told && told !== text) say(text);
    told = text;
    score.value.textContent = here ? formatScore(here.score) : waits === "measuring" ? "measuring…" : late ? waits : "not measured";
    start.value.textContent = formatScore(first);
    change.value.textContent = here ? formatChange(here.score - first) : "–";
    change.box.className = here && here.score < first ? "lower" : here && here.score > first ? "higher" : "";
    off.value.textContent = `${countOff(setting)} of ${count}`;
  }

  let width = 0;
  function draw() {
    const setting = now(), here = table.known.get(setting), way = model.get("visited");
    const complete = table.known.size === 2 ** count;
    tell(setting, here);
    // Not `disabled`: a button that has the focus would lose it, and the next key would go to the notebook.
    const idle = [[allOn, setting === every], [allOff, setting === none], [undo, way.length < 2]];
    for (const [button, does] of idle) button.setAttribute("aria-disabled", String(does));
    showSwitches(setting);
    showAnswers(here);
    showProblem(setting);
    readOut();
    each.box.hidden = complete || Boolean(model.isStatic);
    const there = neighbours().filter((other) => table.known.has(other)).length;
    progress.textContent = each.box.hidden || !each.input.checked ? "" : `${there} of ${count}`;
    limits.hidden = complete;
    limits.textContent = `${plural(table.known.size, "setting")} measured so far; ` + (model.isStatic ? "others need a notebook with a kernel." : late ? `no answer from the kernel for ${PATIENCE_S} seconds. It may be busy; if it was restarted, run this cell again.` : "the kernel measures others when you go there.");
    if (!width) return;
    board.classList.toggle("roomy", switches[0].button.offsetWidth >= 44);
    stage.classList.toggle("narrow", width < 520);
    const paint = Object.fromEntries(["ink", "soft", "field", "accent", "range"].map((colour) => [colour, cssColour(root, colour)]));
    drawHistory(chart, Math.max(200, side.clientWidth), CHART_HEIGHT, { table, heads: count, way, setting, name, paint });
    const seen = way.filter((other) => table.known.has(other)).slice(-8).map((other) => `${formatScore(table.known.get(other).score)} with ${countOff(other)} off`);
    chart.setAttribute("aria-label", `${name} against heads off, the way here: ${seen.join(", ")}`);
  }
  const redraw = oncePerFrame(draw);

  // ---------------------------------------------------------------- keyboard and life

  grid.addEventListener("keydown", (event) => {
    const at = switches.findIndex(({ button }) => button === event.target);
    if (at < 0 || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const column = at % heads, row = at - column;
    const to = { ArrowLeft: column ? at - 1 : at, ArrowRight: column < heads - 1 ? at + 1 : at, ArrowUp: row ? at - heads : at,
      ArrowDown: at + heads < count ? at + heads : at, Home: row, End: row + heads - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    switches[to].button.focus();
  });
  const stops = [
    listen(model, ["gates"], () => {
      askSoon();
      redraw();
    }),
    listen(model, ["visited"], redraw),
    listen(model, ["settings", "failures"], learn),
  ];
  onTheme(redraw);
  function resize() {
    const wide = Math.floor(root.clientWidth - 16);
    if (wide === width || wide <= 0) return false;
    width = wide;
    return true;
  }
  const observer = new ResizeObserver(() => resize() && redraw());
  observer.observe(root);
  table.read();
  resize();
  draw();
  ask();
  return () => {
    clearTimeout(timer);
    clearTimeout(patience);
    stops.forEach((stop) => stop());
    observer.disconnect();
    dispose();
  };
}

export default { render };
