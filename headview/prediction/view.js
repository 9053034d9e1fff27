// PredictionView in the browser: choices or a field for a number, and what is said of a guess. The guess lives in the
// trait `picked`. Whoever has guessed is judged as soon as the answer was revealed; without a kernel, at once.

import { bindKeys, freshId, listen, node, pushButton, put, setUp } from "../core.js";

const NOTED = "Noted. Go on: what follows answers it.";
const UNHEARD = "Not noted yet: the kernel is busy, or was stopped. If it was stopped, run this cell again.";
const LOST = "The kernel that asked was restarted. Run this cell again to guess.";
const FOLDED = "After your guess"; // what a learner's copy writes over such a text
const PATIENCE_MS = 1500; // until a view says that the kernel has not heard of a guess

function render({ model, el }) {
  const { root, say, atEnd, dispose } = setUp(el, "prediction", "Prediction");
  let lost = false; // does the kernel that would hear of a guess exist no more?
  let waiting = 0; // for the kernel to hear of one
  const pick = (guess) => {
    if (judged(model).settled) return;
    put(model, "picked", guess);
    if (model.isStatic) return tellPage(root, model);
    unfoldBelow(root);
    clearTimeout(waiting);
    waiting = setTimeout(() => model.get("heard") !== model.get("picked") && changed(UNHEARD), PATIENCE_MS);
  };
  const question = node("legend", {}, `Your guess: ${model.get("about")}?`);
  const note = node("p", { class: "note" });
  const typed = (other) => (note.hidden = other || !note.textContent); // what was typed over a guess is not noted
  const field = model.get("options").length ? makeChoices(model, pick) : makeNumber(model, pick, typed, say);
  const verdict = node("p", { class: "verdict" });
  root.append(node("fieldset", {}, question, ...field.elements), note, verdict);

  const show = (noted = NOTED) => {
    const w = judged(model);
    field.show(w);
    note.textContent = w.settled ? "" : lost ? LOST : w.guessed ? noted : "";
    note.hidden = !note.textContent;
    verdict.hidden = !w.settled;
    verdict.className = `verdict ${w.right ? "right" : "wrong"}`;
    const title = `You predicted: ${w.said}. ${w.right ? "Right." : `It is: ${w.answer}.`}`; // as Python writes it
    verdict.replaceChildren(...(w.settled ? [node("b", {}, title), ` ${w.sentence}`] : []));
  };
  const changed = (noted) => {
    show(noted);
    say(note.textContent || verdict.textContent);
  };
  const told = () => changed(); // without what an event brings along
  const gone = () => {
    lost = true; // the models of a kernel that is gone never come back
    changed();
  };
  atEnd(listen(model, ["picked", "revealed"], told));
  atEnd(listen(model, ["heard"], () => note.textContent === UNHEARD && changed()));
  model.on("comm_live_update", gone);
  atEnd(() => model.off("comm_live_update", gone));
  atEnd(() => clearTimeout(waiting));
  show();
  return dispose;
}

/**
 * What there is to say of the guess. `settled`: there is one, and the answer is no secret any more.
 * @typedef {{guessed: boolean, settled: boolean, guess: any, said: string, right: boolean, sentence: string,
 *   answer: string}} Judged
 * @returns {Judged}
 */
function judged(model) {
  const [guess, answer, options, ranges] = ["picked", "answer", "options", "ranges"].map((name) => model.get(name));
  const guessed = guess !== null, settled = guessed && Boolean(model.isStatic || model.get("revealed"));
  const option = options.find(([choice]) => choice === guess);
  const range = ranges.find(([low, high]) => (low ?? -Infinity) <= guess && guess <= (high ?? Infinity));
  const said = `${guess} ${model.get("unit")}`.trim(), right = options.length ? guess === answer : range === ranges[0];
  return { guessed, settled, guess, said, right, sentence: (option || range)?.at(-1) ?? model.get("other"), answer };
}

/**
 * Open the texts that go on from the answer: a learner's copy folds them, see `tools/notebooks/plain.py`. They are below
 * the question, as far as the next one or the next heading.
 * @param {Node} root
 */
function unfoldBelow(root) {
  for (const each of document.querySelectorAll("details, h1, h2, h3, h4, h5, h6, strong")) {
    if (!(root.compareDocumentPosition(each) & Node.DOCUMENT_POSITION_FOLLOWING)) continue;
    if (each instanceof HTMLDetailsElement) {
      if (each.querySelector("summary")?.textContent === FOLDED) each.open = true;
    } else if (each.tagName !== "STRONG" || each.textContent?.startsWith("Predict")) return;
  }
}

/** Tell the page, which may have covered what answers. */
function tellPage(root, model) {
  const { right, said, answer } = judged(model);
  const detail = { name: model.get("name"), about: model.get("about"), right, said, answer };
  root.dispatchEvent(new CustomEvent("mhalib-predicted", { bubbles: true, detail }));
}

/**
 * The choices, as radio buttons. The arrow keys only go from one to the next, because to choose is to answer, and
 * that cannot always be taken back; Space and Enter choose. Returns `{elements, show}`.
 */
function makeChoices(model, pick) {
  const group = freshId("prediction");
  let settled = false;
  const rows = model.get("options").map(([choice], at, { length }) => {
    const input = node("input", { type: "radio", name: group });
    const mark = node("span", { class: "mark" });
    const go = (steps) => () => {
      const next = rows[(at + steps + length) % length].input;
      goBy(next);
      next.focus();
    };
    const take = () => pick(choice);
    const [back, on] = [go(-1), go(1)];
    bindKeys(input, { ArrowUp: back, ArrowLeft: back, ArrowDown: on, ArrowRight: on, Enter: take });
    input.addEventListener("click", (event) => settled && event.preventDefault());
    input.addEventListener("change", take);
    return { choice, input, mark, box: node("label", { class: "option" }, input, node("span", {}, choice), mark) };
  });
  /** Let Tab lead to this one of them. */
  const goBy = (input) => rows.forEach((row) => (row.input.tabIndex = row.input === input ? 0 : -1));
  goBy(rows[0].input);
  return {
    elements: [node("div", { class: "options" }, ...rows.map(({ box }) => box))],
    /** @param {Judged} w */
    show(w) {
      settled = w.settled;
      for (const { choice, input, mark, box } of rows) {
        const [isGuess, isRight] = [choice === w.guess, settled && choice === w.answer];
        input.checked = isGuess;
        if (isGuess) goBy(input);
        input.setAttribute("aria-disabled", settled); // not `disabled`: it would lose the focus
        box.classList.toggle("picked", isGuess);
        box.classList.toggle("settled", settled);
        mark.textContent = isRight ? "✓ right" : settled && isGuess ? "✗ not this" : "";
      }
    },
  };
}

/** A field for a number, with its unit and a button. Returns `{elements, show}`. */
function makeNumber(model, pick, typed, say) {
  const problem = node("p", { class: "problem", id: freshId("problem"), hidden: true });
  const input = node("input", { type: "text", inputmode: "decimal", autocomplete: "off", size: 8 });
  const complain = (text) => {
    problem.textContent = text;
    problem.hidden = !text;
    input.setAttribute("aria-invalid", Boolean(text));
    text ? input.setAttribute("aria-describedby", problem.id) : input.removeAttribute("aria-describedby");
    if (text) say(text);
  };
  const take = () => {
    const { number, fault } = readNumber(input.value, model.get("unit"));
    complain(fault);
    fault ? input.focus() : pick(number);
  };
  bindKeys(input, { Enter: take });
  input.addEventListener("input", () => {
    complain("");
    typed(input.value !== String(model.get("picked")));
  });
  const button = pushButton("Guess", take);
  const label = node("label", {}, node("span", { class: "hidden" }, "Your number"), input, model.get("unit"));
  return {
    elements: [node("div", { class: "number" }, label, button), problem],
    /** @param {Judged} w */
    show(w) {
      if (w.guessed) input.value = w.guess;
      complain("");
      input.readOnly = w.settled;
      button.setAttribute("aria-disabled", w.settled);
    },
  };
}

/** Read a number with a point or a comma, its unit behind it or not. Returns `{number, fault}`. */
function readNumber(text, unit) {
  let typed = text.trim();
  if (!typed) return { number: NaN, fault: "Type a number first." };
  if (unit && typed.endsWith(unit)) typed = typed.slice(0, -unit.length).trim();
  const plain = typed.replace("−", "-").replace(",", ".");
  const number = /^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i.test(plain) ? Number(plain) : NaN;
  const fault = Number.isFinite(number) ? "" : `“${typed}” is no number. Type one such as 3 or 0.25.`;
  return { number, fault };
}

export default { render };
