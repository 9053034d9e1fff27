// The slide show. Widgets keep their keys: what is typed in one must not turn the page.
/* global Reveal, RevealNotes */
Reveal.initialize({
  plugins: [RevealNotes],
  hash: true,
  slideNumber: "c/t",
  transition: "none",
  controls: false, // keys, clicker and swipe turn the slides; arrows would lie over the widgets
  // Slides are as large as the window and scroll where they must: scaled by CSS, as is usual here, a canvas is blurred
  // and takes the pointer to be elsewhere.
  disableLayout: true,
  keyboardCondition: () => !document.activeElement?.closest(".mhalib-view"),
});
// Whoever has guessed is done with the question: the next key turns the slide again.
document.addEventListener("mhalib-predicted", () => document.activeElement?.blur());
// Code that is wider than its slide is set smaller, down to three quarters; what is still wider scrolls.
function fitCode() {
  for (const pre of Reveal.getCurrentSlide()?.querySelectorAll("pre") ?? []) {
    pre.style.fontSize = "";
    const share = (0.99 * pre.clientWidth) / pre.scrollWidth;
    if (share < 0.99) pre.style.fontSize = `${1.1 * Math.max(0.75, share)}rem`;
  }
}
Reveal.on("ready", fitCode);
Reveal.on("slidechanged", fitCode);
addEventListener("resize", fitCode);
// What comes at a key is seen, also where the slide is longer than the window.
Reveal.on("fragmentshown", ({ fragment }) => fragment.scrollIntoView({ block: "nearest" }));
