// What the guesses on this page come to, where the lesson shows `predict.results(…)`: without a kernel the page
// writes what `mhacourse.prediction` writes in a notebook. Nothing is stored or sent; who comes back begins anew.
const guesses = new Map(); // by the name of the prediction: what its view told, and the view

document.addEventListener("mhalib-predicted", ({ target, detail }) => {
  guesses.set(detail.name, { ...detail, target });
  document.querySelectorAll(".mhalib-results").forEach(sumUp);
});

/** Write into a note what was foreseen, what was a surprise, and how many predictions were left out. */
function sumUp(note) {
  const inOrder = (one, other) => (one.target.compareDocumentPosition(other.target) & 4 ? -1 : 1); // 4: comes after
  const made = [...guesses.values()].sort(inOrder);
  const right = made.filter((guess) => guess.right);
  const missing = Number(note.dataset.count) - made.length;
  const rows = [row(`Predicted: ${made.length} of ${note.dataset.count}, ${right.length} right`)];
  if (right.length) rows.push(row("Foreseen:", right.map(({ about }) => about).join("; ")));
  for (const { about, answer, said, right: foreseen } of made) {
    if (!foreseen) rows.push(row("Surprised by:", `${about}: ${answer}, not ${said}`));
  }
  if (missing > 0) rows.push(row("Not predicted:", missing));
  note.replaceChildren(...rows);
}

/** A line of the note; all of it is text, never HTML. */
function row(label, text = "") {
  const line = document.createElement("div");
  const bold = document.createElement("b");
  bold.textContent = label;
  line.append(bold, ` ${text}`);
  return line;
}
