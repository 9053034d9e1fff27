// Words of the glossary: a link each, which shows the beginning of its entry while one hovers over it, has reached it
// by the keyboard, or has tapped on it once. A second tap, a click or Enter leads to the entry; Escape, and a click
// elsewhere, close it, as those of every popover.
(() => {
  let waiting = 0; // a tip that is being left stays for a moment, so that the pointer can get onto it
  let isFirstTap = false;

  function show(link, tip) {
    clearTimeout(waiting);
    if (tip.matches(":popover-open")) return;
    tip.showPopover();
    const room = document.documentElement.clientWidth - 16;
    tip.style.maxWidth = `${Math.min(room, 360)}px`;
    const lines = link.getClientRects(); // a link may go on in the next line
    const word = lines[0];
    const { width, height } = tip.getBoundingClientRect();
    const bar = document.querySelector("header").getBoundingClientRect().bottom;
    const above = word.top - height - 6;
    tip.style.left = `${scrollX + Math.max(8, Math.min(word.left, room + 8 - width))}px`;
    tip.style.top = `${scrollY + (above > bar ? above : lines[lines.length - 1].bottom + 6)}px`;
  }

  for (const link of document.querySelectorAll("a.term")) {
    const tip = document.getElementById(link.getAttribute("aria-describedby"));
    const leave = () => {
      clearTimeout(waiting);
      waiting = setTimeout(() => tip.hidePopover(), 250);
    };
    const byMouse = (act) => ({ pointerType }) => pointerType === "mouse" && act();
    link.addEventListener("pointerenter", byMouse(() => show(link, tip)));
    link.addEventListener("pointerdown", ({ pointerType }) => {
      isFirstTap = pointerType !== "mouse" && !tip.matches(":popover-open");
    });
    link.addEventListener("focus", () => link.matches(":focus-visible") && show(link, tip));
    link.addEventListener("blur", leave);
    link.addEventListener("click", (event) => {
      if (!isFirstTap) return;
      event.preventDefault();
      show(link, tip);
    });
    tip.addEventListener("pointerenter", () => clearTimeout(waiting));
    for (const part of [link, tip]) part.addEventListener("pointerleave", byMouse(leave));
  }
})();
