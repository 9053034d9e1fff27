"""What `make bench` has the browser do, in JavaScript."""

# Watches from before the page's first script: the frame after the one in which the picture is complete.
WATCH = """
const look = () => {
  if (!(() => { try { return %s } catch { return false } })()) return requestAnimationFrame(look);
  requestAnimationFrame(() => requestAnimationFrame(() => { window.paintedAt = performance.now(); }));
};
requestAnimationFrame(look);
"""

# One step of a slider: `work` is event + compute + draw on the page, between two callbacks of one frame that
# stand around the widget's own; `shown` is from the event until the browser has painted that frame.
STEPS = """async ([label, values, every]) => {
  const input = document.querySelector(`input[aria-label="${label}"]`), work = [], shown = [];
  for (const [n, value] of values.entries()) {
    await new Promise((done) => setTimeout(done, (n * 7) % 17)); // an event comes at any time within a frame
    let before, after;
    requestAnimationFrame(() => (before = performance.now()));
    const start = performance.now();
    input.value = value;
    input.dispatchEvent(new Event("input"));
    const sent = performance.now();
    await new Promise((done) => requestAnimationFrame(() => {
      after = performance.now();
      const painted = new MessageChannel();
      painted.port1.onmessage = done;
      painted.port2.postMessage(null);
    }));
    if ((n + 1) % every) continue;
    work.push(sent - start + after - before);
    shown.push(performance.now() - start);
  }
  return [work, shown];
}"""

# Stands for a notebook around a view, over the stand-in that a page without a kernel has: takes what the view asks for
# from `window.askKernel`, and adds up how long it is at work: in frames, in answers that arrive, in events of `MOVE`.
LIVE = """
const address = URL.createObjectURL(new Blob([%s], { type: "text/javascript" }));
const view = (await import(address)).default;
const bench = (window.bench = { work: 0, waiting: 0, asked: 0 });
bench.timed = (call) => (...all) => {
  const start = performance.now();
  try { return call(...all); } finally { bench.work += performance.now() - start; }
};
bench.frame = window.requestAnimationFrame.bind(window);
window.requestAnimationFrame = (call) => bench.frame(bench.timed(call));
const bytes = (text) => new DataView(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer);
const live = (model) => {
  const heard = [];
  return {
    ...model,
    isStatic: false,
    on: (events, call) => (events === "msg:custom" ? heard.push(call) : model.on(events, call)),
    send: async ({ ask }) => {
      bench.waiting++;
      bench.asked += ask.length;
      const made = await window.askKernel(ask);
      const answers = made.map(([block], i) => [ask[i], block]), data = made.map(([, text]) => bytes(text));
      bench.waiting--;
      heard.forEach((call) => bench.timed(call)({ answers }, data));
    },
  };
};
export default { render: ({ model, el }) => bench.timed(view.render)({ model: live(model), el }) };
"""

# One turn of the wheel over a place of the map. Returns the milliseconds that the view was at work for it, those
# until all that came into sight was painted, and how many blocks it asked for.
MOVE = """async ([turn, across, down]) => {
  const canvas = document.querySelector(".mha canvas.focus"), box = canvas.getBoundingClientRect();
  const painted = () => new Promise((done) => bench.frame(() => {
    const channel = new MessageChannel();
    channel.port1.onmessage = done;
    channel.port2.postMessage(null);
  }));
  const asked = bench.asked;
  const place = { clientX: box.x + across * box.width, clientY: box.y + down * box.height };
  await painted();
  bench.work = 0;
  const start = performance.now();
  const event = new WheelEvent("wheel", { ...turn, ...place, bubbles: true, cancelable: true });
  bench.timed(() => canvas.dispatchEvent(event))();
  await painted();
  while (bench.waiting) {
    await painted();
    if (!bench.waiting) await painted(); // draws what has come, and may ask for more
  }
  return [bench.work, performance.now() - start, bench.asked - asked];
}"""
