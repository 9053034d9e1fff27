// What a page does besides being read: theme, copy buttons, the search over lessons and sections.
// The lessons' sections come from contents.js, as a script, because a page opened as a file may not fetch.
/* global CONTENTS, keep */
const root = document.documentElement;

const theme = document.getElementById("theme");
const nameTheme = () => {
  theme.textContent = root.dataset.theme === "dark" ? "Light" : "Dark";
  theme.setAttribute("aria-label", `Switch to the ${theme.textContent.toLowerCase()} theme`);
};
nameTheme();
theme.addEventListener("click", () => {
  root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
  keep("theme", root.dataset.theme);
});
new MutationObserver(nameTheme).observe(root, { attributes: true, attributeFilter: ["data-theme"] });

for (const button of document.querySelectorAll("button.copy")) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    const code = button.parentElement.querySelector("pre");
    try {
      await navigator.clipboard.writeText(code.textContent.trimEnd());
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(code); // no clipboard here: then the reader's own copy takes it
      button.textContent = "Selected";
    }
    setTimeout(() => (button.textContent = "Copy"), 1500);
  });
}

const search = document.getElementById("search");
const found = document.getElementById("found");
const MOST = 30;
const element = (tag, text, more = {}) => Object.assign(document.createElement(tag), { textContent: text }, more);
search.addEventListener("input", () => {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  document.getElementById("lessons").hidden = words.length > 0;
  found.replaceChildren();
  if (!words.length) return;
  const heading = (entry) => `${entry.page} ${entry.section}`.toLowerCase();
  const inSight = (entry) => `${heading(entry)} ${entry.text}`.toLowerCase();
  const whole = (entry) => [inSight(entry), ...entry.answers.map(([, text]) => text.toLowerCase())].join(" ");
  const hits = CONTENTS.filter((entry) => words.every((word) => whole(entry).includes(word)));
  // What is in a heading comes before what is in the text.
  const inHeading = (entry) => words.every((word) => heading(entry).includes(word));
  hits.sort((a, b) => inHeading(b) - inHeading(a));
  // What stands only in a covered answer leads to it.
  const target = (entry) => {
    const covered = words.find((word) => !inSight(entry).includes(word));
    return covered ? entry.answers.find(([, text]) => text.toLowerCase().includes(covered))[0] : entry.href;
  };
  const rows = element("ol", "");
  for (const entry of hits.slice(0, MOST)) {
    const row = rows.appendChild(element("li", ""));
    row.append(element("a", `${entry.short} · ${entry.section}`, { href: target(entry) }));
  }
  found.append(element("p", hits.length ? `${hits.length} section${hits.length > 1 ? "s" : ""}` : "Nothing found"), rows);
});
