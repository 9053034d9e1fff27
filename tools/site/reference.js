// The sources in the reference: kept together in reference_sources.js, compressed, and shown where one is unfolded.
/* global SOURCES */
(() => {
  let texts;
  const unpack = async () => {
    const bytes = Uint8Array.from(atob(SOURCES), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return JSON.parse(await new Response(stream).text());
  };
  for (const details of document.querySelectorAll("details[data-of]")) {
    details.addEventListener(
      "toggle",
      async () => {
        const code = document.createElement("pre");
        code.tabIndex = 0;
        details.append(code);
        try {
          texts ??= unpack();
          code.textContent = (await texts)[details.dataset.of];
        } catch {
          code.textContent = "This browser cannot unpack the sources; they stand in the repository.";
        }
      },
      { once: true },
    );
  }
})();
