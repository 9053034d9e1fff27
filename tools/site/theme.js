// Before anything is painted: the theme that the reader chose, else that of the system.
// Where storage is not to be had (some browsers refuse it to files) the choice lasts for the page.
(() => {
  const stored = () => {
    try {
      return localStorage.getItem("theme");
    } catch {
      return null;
    }
  };
  const system = matchMedia("(prefers-color-scheme: dark)");
  const show = () => {
    document.documentElement.dataset.theme = stored() || (system.matches ? "dark" : "light");
  };
  show();
  system.addEventListener("change", show);
})();
