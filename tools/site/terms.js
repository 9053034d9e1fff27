// Words of the glossary: a link each, which shows the beginning of its entry while one hovers over it, has reached it
// by the keyboard, or has tapped on it once. A second tap, a click or Enter leads to the entry; Escape closes.
(() => {
  let open = null; // the link whose tip is in sight
  let waiting = 0; // a tip that is being left stays for a moment, so that the pointer can get onto it
  let tapped = null; // what was in sight before a finger came down; null for other pointers

  const tipOf = (link) => document.getElementById(link.getAttribute("aria-describedby"));

  function show(link) {
    clearTimeout(waiting);
    if (open === link) return;
    hide();
    open = link;
    const tip = tipOf(link);
    tip.hidden = false;
    const room = document.documentElement.clientWidth - 16;
    const lines = link.getClientRects(); // a link may go on in the next line
    const word = lines[0];
    tip.style.maxWidth = `${Math.min(room, 360)}px`;
    const { width, height } = tip.getBoundingClientRect();
    const left = Math.max(8, Math.min(word.left, room + 8 - width));
    const bar = document.querySelector("header")?.getBoundingClientRect().bottom ?? 0;
    const fits = word.top - height - 6 > bar;
    const top = fits ? word.top - height - 6 : lines[lines.length - 1].bottom + 6;
    tip.style.left = `${left + scrollX}px`;
    tip.style.top = `${top + scrollY}px`;
  }

  function hide() {
    clearTimeout(waiting);
    if (open) tipOf(open).hidden = true;
    open = null;
  }

  const leave = () => {
    clearTimeout(waiting);
    waiting = setTimeout(hide, 250);
  };

  for (const link of document.querySelectorAll("a.term")) {
    link.addEventListener("pointerenter", ({ pointerType }) => pointerType === "mouse" && show(link));
    link.addEventListener("pointerleave", ({ pointerType }) => pointerType === "mouse" && leave());
    link.addEventListener("pointerdown", ({ pointerType }) => {
      tapped = pointerType === "mouse" ? null : { was: open };
    });
    link.addEventListener("focus", () => link.matches(":focus-visible") && show(link));
    link.addEventListener("blur", leave);
    link.addEventListener("click", (event) => {
      const first = tapped && tapped.was !== link;
      tapped = null;
      if (!first) return;
      event.preventDefault();
      show(link);
    });
  }
  for (const tip of document.querySelectorAll(".tip")) {
    document.body.append(tip); // its place is counted from the page, whatever the columns do
    tip.addEventListener("pointerenter", () => clearTimeout(waiting));
    tip.addEventListener("pointerleave", ({ pointerType }) => pointerType === "mouse" && leave());
  }
  document.addEventListener("keydown", ({ key }) => key === "Escape" && hide());
  document.addEventListener("pointerdown", ({ target }) => target.closest?.("a.term, .tip") || hide());
  addEventListener("resize", hide);
})();
