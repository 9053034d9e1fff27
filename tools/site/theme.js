// Before anything is painted: the theme that the reader chose, else that of the system; and whether answers are
// covered. Where storage is not to be had (some browsers refuse it to files) a choice lasts for the page.
const stored = (name) => {
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
};
const keep = (name, value) => {
  try {
    localStorage.setItem(name, value);
  } catch {
    // it lasts for this page
  }
};
const system = matchMedia("(prefers-color-scheme: dark)");
const setTheme = () => {
  document.documentElement.dataset.theme = stored("theme") || (system.matches ? "dark" : "light");
};
setTheme();
system.addEventListener("change", setTheme);
document.documentElement.dataset.answers = stored("answers") === "shown" ? "shown" : "covered";
