// What answers a prediction stays covered until the reader has guessed, or asks to see it.
// Which parts answer, the page says (answers.py). They are hidden "until found": the browser's own search looks into
// them, and uncovers what it finds; a browser that does not know that yet hides them altogether.
const html = document.documentElement;

const questions = [...document.querySelectorAll("button.uncover")].map((button) => {
  const parts = button.getAttribute("aria-controls").split(" ").map((id) => document.getElementById(id));
  const number = parts[0].id.split("-")[1];
  return { button, parts, widgets: [...document.querySelectorAll(`[data-asks="${number}"]`)], open: false };
});
const questionOf = (part) => questions.find(({ parts }) => parts.includes(part));

/** Uncover what answers a question, or cover it again. */
function show(question, open) {
  question.open = open;
  question.button.setAttribute("aria-expanded", String(open));
  question.button.textContent = open ? "Cover it again" : "Show what comes out";
  const covered = html.dataset.answers === "covered" && !open;
  for (const part of question.parts) {
    if (covered) part.setAttribute("hidden", "until-found");
    else part.removeAttribute("hidden");
  }
}

for (const question of questions) {
  show(question, !question.parts.every((part) => part.hidden)); // the browser may have found something already
  question.button.addEventListener("click", () => show(question, !question.open));
}

document.addEventListener("beforematch", ({ target }) => {
  const question = questionOf(target.closest(".answer"));
  if (question) show(question, true);
});

// A covered part can be clicked as well; the button is for the keyboard and for screen readers.
document.addEventListener("click", ({ target }) => {
  const question = target.matches(".answer") && questionOf(target);
  if (question && !question.open) show(question, true);
});

// A guess in a widget uncovers, once there is one in each widget of the question.
document.addEventListener("mhalib-predicted", ({ target }) => {
  const asking = target.closest("[data-asks]");
  if (asking) asking.dataset.guessed = "";
  const question = questions.find(({ widgets }) => widgets.includes(asking));
  if (question?.widgets.every((widget) => "guessed" in widget.dataset)) show(question, true);
});

// ---------------------------------------------------------------- the place on the screen

const topOf = (part) => part.getBoundingClientRect().top;

/** Keep an element at a place on the screen while what was uncovered above it is drawn; widgets take some frames. */
function hold(part, place) {
  const settle = () => scrollBy(0, topOf(part) - place);
  settle();
  const watch = new ResizeObserver(settle);
  watch.observe(document.querySelector("main"));
  const stop = () => watch.disconnect();
  setTimeout(stop, 1000);
  for (const own of ["wheel", "touchmove", "keydown"]) addEventListener(own, stop, { once: true, passive: true });
}

/** Change what is covered, and leave what the reader looks at where it is. */
function inPlace(change) {
  const below = document.querySelector("header").getBoundingClientRect().bottom;
  const stays = [...document.querySelectorAll("main .text > :not(.answer), main .cell > .code")];
  const seen = stays.find((part) => topOf(part) >= below);
  const before = seen && topOf(seen);
  change();
  if (seen) hold(seen, before);
}

// ---------------------------------------------------------------- links into what is covered

/** Return the place that an address names; a broken one names none. */
function named(hash) {
  try {
    return decodeURIComponent(hash.slice(1));
  } catch {
    return "";
  }
}

/** Uncover the place that the address names, and go there. */
function uncoverPlace() {
  const place = document.getElementById(named(location.hash));
  if (!place?.closest(".cell, .text")) return;
  const parts = [place.closest(".answer"), ...place.querySelectorAll(".answer")];
  const covered = questions.filter((question) => !question.open && question.parts.some((part) => parts.includes(part)));
  covered.forEach((question) => show(question, true));
  if (!covered.length) return;
  place.scrollIntoView();
  hold(place, topOf(place));
}
uncoverPlace();
addEventListener("hashchange", uncoverPlace);
// A link to the place at which the address is already changes nothing in the address.
document.addEventListener("click", ({ target }) => target.closest('a[href*="#"]') && setTimeout(uncoverPlace));

// ---------------------------------------------------------------- all of them

const answers = document.getElementById("answers");

function nameSwitch() {
  answers.textContent = `Answers: ${html.dataset.answers}`;
  const other = html.dataset.answers === "covered" ? "show all" : "cover all";
  answers.setAttribute("aria-label", `${answers.textContent}; ${other}`);
}
nameSwitch();
answers.addEventListener("click", () => {
  const chosen = html.dataset.answers === "covered" ? "shown" : "covered";
  inPlace(() => {
    html.dataset.answers = chosen;
    questions.forEach((question) => show(question, false));
  });
  try {
    localStorage.setItem("answers", chosen);
  } catch {
    // it lasts for this page
  }
  nameSwitch();
});
