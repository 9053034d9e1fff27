// Before anything is painted: the theme that the reader chose, else that of the system; and whether answers are
// covered.
// Where storage is not to be had (some browsers refuse it to files) a choice lasts for the page.
(() => {
  const stored = (name) => {
    try {
      return localStorage.getItem(name);
    } catch {
      return null;
    }
  };
  const system = matchMedia("(prefers-color-scheme: dark)");
  const show = () => {
    document.documentElement.dataset.theme = stored("theme") || (system.matches ? "dark" : "light");
  };
  show();
  system.addEventListener("change", show);
  document.documentElement.dataset.answers = stored("answers") === "shown" ? "shown" : "covered";
})();
