// The box of the first page: of the questions, those stay in sight that hold most of the words that one types, in the
// question itself or in what the answering cell says.
(() => {
  const field = document.getElementById("ask");
  const count = document.getElementById("ask-count");
  const rows = [...document.querySelectorAll("#asked li")];
  const SHORT = 3; // letters; shorter words count only where there is nothing else

  field.addEventListener("input", () => {
    const typed = field.value.toLowerCase().match(/[\p{L}\p{N}_.=]+/gu) ?? [];
    const long = typed.filter((word) => word.length >= SHORT);
    const words = long.length ? long : typed;
    const held = rows.map((row) => words.filter((word) => row.dataset.words.includes(word)).length);
    const most = Math.max(...held);
    rows.forEach((row, at) => (row.hidden = words.length > 0 && (most === 0 || held[at] < most)));
    const left = rows.filter((row) => !row.hidden).length;
    const found = `${left} question${left === 1 ? "" : "s"}`;
    count.textContent = !words.length ? "" : left ? found : "None of these. The search goes through all pages.";
  });
})();
