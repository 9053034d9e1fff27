// The switches of HeadSwitchboard: a button a head, what switching just this one would do, and the keys among them.

import { bindKeys, focusable, node } from "../core.js";
import { effectOf, flip, formatChange, formatScore, headName, plural, wordsOfChange } from "./table.js";
/** @import { State } from "./table.js" */

const SWITCH_LEAST = 22; // pixels wide
const ROOMY_FROM = 44; // a switch of this width has room for a number
const NAMED_UP_TO = 8; // heads: "head 3" above a column; beyond, "3"

/** How wide a switch may become. */
const switchMost = (heads) => (heads <= 4 ? 84 : heads <= 8 ? 64 : 46);

/**
 * Make the switches.
 * @param {State} w sizes and names; the rest is shown by `show(w)`
 * @param {() => State} state
 * @param {(setting: string) => void} go
 * @returns `{grid, readout, show, focus}`; `readout` tells about the switch that has the pointer or the focus
 */
export function makeSwitches(w, state, go) {
  const readout = node("p", { class: "note readout" });
  let pointed = 0;
  const point = (at) => {
    pointed = at;
    readout.textContent = readoutText(state(), at);
  };
  const choose = (at) => {
    switches.forEach(({ button }, i) => (button.tabIndex = i === at ? 0 : -1));
    point(at);
  };
  const switches = Array.from(w.setting, (_, at) => {
    const made = makeSwitch(headName(w, at), at ? -1 : 0);
    made.button.addEventListener("click", () => go(flip(state().setting, at)));
    made.button.addEventListener("focus", () => choose(at));
    made.button.addEventListener("pointerenter", () => point(at));
    return made;
  });
  const buttons = switches.map(({ button }) => button);
  const grid = switchGrid(w, buttons);
  bindKeys(grid, switchKeys(w, buttons));
  return {
    grid,
    readout,
    /** @param {State} now */
    show(now) {
      switches.forEach((made, at) => showSwitch(made, now, at));
      grid.parentElement.classList.toggle("roomy", buttons[0].offsetWidth >= ROOMY_FROM);
      readout.textContent = readoutText(now, pointed);
    },
    focus: () => buttons.find((button) => button.tabIndex === 0).focus(),
  };
}

function makeSwitch(label, index) {
  const [text, by, mark] = [node("span"), node("span", { class: "by" }), node("i")];
  const effect = node("span", { class: "effect" }, mark);
  const state = node("span", { class: "state" }, text, by);
  const button = node("button", { type: "button", class: "switch", "aria-label": label }, state, effect);
  return { button: focusable(button, index), text, by, effect, mark };
}

function showSwitch({ button, text, by, effect, mark }, w, at) {
  const change = effectOf(w, at);
  const on = w.setting[at] === "1";
  const most = w.table.largest();
  button.setAttribute("aria-pressed", String(on));
  text.textContent = on ? "on" : "off";
  by.textContent = change === undefined ? "" : formatChange(change);
  effect.classList.toggle("known", change !== undefined);
  mark.className = change < 0 ? "lower" : "higher";
  mark.style.width = change && most ? `${Math.max(2, (Math.abs(change) / most) * 50)}%` : "0";
  const told = change === undefined ? "not measured" : wordsOfChange(change);
  button.setAttribute("aria-description", `Switching it ${on ? "off" : "on"}: ${told}`);
}

/** Put the switches under the names of their heads and beside the numbers of their layers. @param {State} w */
function switchGrid({ layers, heads }, buttons) {
  const several = layers > 1;
  const what = several ? `${plural(layers, "layer")} with ${plural(heads, "head")} each` : plural(heads, "head");
  const grid = node("div", { class: "switches", role: "group", "aria-label": `Switches of ${what}` });
  grid.style.gridTemplateColumns = `max-content repeat(${heads}, minmax(${SWITCH_LEAST}px, ${switchMost(heads)}px))`;
  grid.append(node("span", { class: "row" }, several ? "layer" : "head"));
  for (let head = 0; head < heads; head++) {
    grid.append(node("span", {}, several && heads <= NAMED_UP_TO ? `head ${head}` : String(head)));
  }
  for (let layer = 0; layer < layers; layer++) {
    grid.append(node("span", { class: "row" }, several ? String(layer) : ""));
    grid.append(...buttons.slice(layer * heads, (layer + 1) * heads));
  }
  return grid;
}

/** The keys that move the focus among the switches. @param {State} w */
function switchKeys({ heads, count }, buttons) {
  const move = (to) => (event) => {
    const at = buttons.indexOf(event.target);
    if (at < 0 || event.shiftKey) return false;
    return buttons[to(at)].focus();
  };
  const head = (at) => at % heads;
  return {
    ArrowLeft: move((at) => (head(at) > 0 ? at - 1 : at)),
    ArrowRight: move((at) => (head(at) < heads - 1 ? at + 1 : at)),
    ArrowUp: move((at) => (at >= heads ? at - heads : at)),
    ArrowDown: move((at) => (at + heads < count ? at + heads : at)),
    Home: move((at) => at - head(at)),
    End: move((at) => at - head(at) + heads - 1),
  };
}

/** Say what switching one head would do. @param {State} w */
function readoutText(w, at) {
  const by = effectOf(w, at);
  const on = w.setting[at] === "1";
  const there = w.table.known.get(flip(w.setting, at));
  const then = by === undefined ? "not measured" : `${formatScore(there.score)} (${formatChange(by)})`;
  return `${headName(w, at)} is ${on ? "on" : "off"}. Switching it ${on ? "off" : "on"}: ${w.name} ${then}`;
}
