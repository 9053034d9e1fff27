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
