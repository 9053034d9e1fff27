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
  if (target.matches(".answer[hidden]")) show(questionOf(target), true);
});
// A guess in a widget uncovers, once there is one in each widget of the question.
document.addEventListener("mhalib-predicted", ({ target }) => {
  const asking = target.closest("[data-asks]");
  if (asking) asking.dataset.guessed = "";
  const question = questions.find(({ widgets }) => widgets.includes(asking));
  if (question?.widgets.every((widget) => "guessed" in widget.dataset)) show(question, true);
});

/** Uncover the place that the address names, and go there. */
function uncoverPlace() {
  const place = [...document.querySelectorAll("main [id]")].find(({ id }) => location.hash === `#${encodeURI(id)}`);
  const covered = questions.filter(({ parts }) => parts.some((part) => part.hidden && isIn(part, place)));
  covered.forEach((question) => show(question, true));
  if (covered.length) place.scrollIntoView();
}
/** Does a link to this place mean this part? One to a cell or a text means what it holds. */
const isIn = (part, place) => part.contains(place) || (place?.matches(".cell, .text") && place.contains(part));
uncoverPlace();
addEventListener("hashchange", uncoverPlace);
// A link to the place at which the address is already changes nothing in the address.
document.addEventListener("click", ({ target }) => target.closest('a[href*="#"]') && setTimeout(uncoverPlace));

const answers = document.getElementById("answers");

function nameSwitch() {
  answers.textContent = `Answers: ${html.dataset.answers}`;
  const other = html.dataset.answers === "covered" ? "show all" : "cover all";
  answers.setAttribute("aria-label", `${answers.textContent}; ${other}`);
}
nameSwitch();
answers.addEventListener("click", () => {
  html.dataset.answers = html.dataset.answers === "covered" ? "shown" : "covered";
  questions.forEach((question) => show(question, false));
  keep("answers", html.dataset.answers);
  nameSwitch();
});
