// The switches of HeadSwitchboard: a button a head, what switching just this one would do, and the keys among them.

import { bindKeys, focusable, node, plural, walkKeys, within } from "../core.js";
import { effectOf, flip, formatChange, formatScore, headName, largestChange, wordsOfChange } from "./table.js";
/** @import { State } from "./table.js" */

const SWITCH_LEAST = 22; // pixels wide
const ROOMY_FROM = 44; // a switch of this width has room for a number
const NAMED_UP_TO = 8; // heads: "head 3" above a column; beyond, "3"

/**
 * Make the switches.
 * @param {State} w sizes and names; the rest is shown by `show(w)`
 * @param {() => State} state
 * @param {(setting: string) => void} go
 * @returns `{grid, readout, show}`; `readout` tells about the switch that has the pointer or the focus
 */
export function makeSwitches(w, state, go) {
  const readout = node("p", { class: "note readout" });
  let pointed = 0;
  const point = (at) => {
    pointed = at;
    readout.textContent = readoutText(state(), at);
  };
  const choose = (at) => {
    buttons.forEach((button, i) => (button.tabIndex = i === at ? 0 : -1));
    point(at);
  };
  const switches = Array.from(w.setting, (_, at) => makeSwitch(headName(w, at), at ? -1 : 0));
  const buttons = switches.map(({ button }) => button);
  buttons.forEach((button, at) => {
    button.addEventListener("click", () => go(flip(state().setting, at)));
    button.addEventListener("focus", () => choose(at));
    button.addEventListener("pointerenter", () => point(at));
  });
  const grid = switchGrid(w, buttons);
  return {
    grid,
    readout,
    /** @param {State} now */
    show(now) {
      const most = largestChange(now);
      switches.forEach((made, at) => showSwitch(made, now, at, most));
      grid.parentElement.classList.toggle("roomy", buttons[0].offsetWidth >= ROOMY_FROM);
      readout.textContent = readoutText(now, pointed);
    },
  };
}

function makeSwitch(label, index) {
  const [text, by, mark] = [node("span"), node("span", { class: "by" }), node("i")];
  const effect = node("span", { class: "effect" }, mark);
  const state = node("span", { class: "state" }, text, by);
  const button = node("button", { type: "button", class: "switch", "aria-label": label }, state, effect);
  return { button: focusable(button, index), text, by, effect, mark };
}

function showSwitch({ button, text, by, effect, mark }, w, at, most) {
  const change = effectOf(w, at), on = w.setting[at] === "1";
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
  const widest = heads <= 4 ? 84 : heads <= 8 ? 64 : 46;
  grid.style.gridTemplateColumns = `max-content repeat(${heads}, minmax(${SWITCH_LEAST}px, ${widest}px))`;
  grid.append(node("span", { class: "row" }, several ? "layer" : "head"));
  for (let head = 0; head < heads; head++) {
    grid.append(node("span", {}, several && heads <= NAMED_UP_TO ? `head ${head}` : String(head)));
  }
  buttons.forEach((button, at) => {
    if (at % heads === 0) grid.append(node("span", { class: "row" }, several ? String(at / heads) : ""));
    grid.append(button);
  });
  bindKeys(grid, walkKeys((down, right, event) => {
    const at = buttons.indexOf(event.target);
    if (at < 0 || event.shiftKey) return false;
    const layer = within(Math.floor(at / heads) + down, layers), head = within((at % heads) + right, heads);
    return buttons[layer * heads + head].focus();
  }));
  return grid;
}

/** Say what switching one head would do. @param {State} w */
function readoutText(w, at) {
  const by = effectOf(w, at), way = w.setting[at] === "1" ? ["on", "off"] : ["off", "on"];
  const then = by === undefined ? "not measured" : `${formatScore(w.here[0] + by)} (${formatChange(by)})`;
  return `${headName(w, at)} is ${way[0]}. Switching it ${way[1]}: ${w.name} ${then}`;
}
