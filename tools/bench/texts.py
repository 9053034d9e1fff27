"""What `make bench` has the browser do, in JavaScript, and the page that it fills in."""

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

# What stands in BENCHMARKS.md.
PAGE = """# Benchmarks

Written by `make bench`; dated by the versions below, not by the clock.

{basis}

![{picture}](images/benchmarks.png)

## {layers} layers × {heads} heads × {tokens} tokens

{whole}

Medians of {runs} turns or more, since what is short is repeated. In brackets how many times ours. First paint:
headless Chromium, from the start of the navigation to the frame after the picture is drawn. The libraries of bertviz
and CircuitsVis come from the disk, which favours them; CircuitsVis (`attention_heads`) is weighed without its library
of 1.3 MB. HeadView, bertviz's model view and CircuitsVis draw all heads; bertviz's head view and both `interact` draw
one layer and weigh the same for the next. HeadView carries one byte a weight beyond two million weights, the page
deflated; bertviz and CircuitsVis carry all digits as text. In a live notebook HeadView sends its state once, and a
picture for readers without a kernel, which is all that a stored notebook keeps; its view is that of the page.

## A step of a slider, {step_heads} heads, T = {step_tokens}

{steps}

Compute + draw: all that the page does for the event. Until painted: from the event to the end of the frame that shows
it, with the wait of up to 17 ms for that frame. A new number of heads computes the scores again, as `interact` does at
every step, so it stands for ours in the brackets; temperature keeps them. `interact`: compute, draw and encode in
Python; the way to the browser and what it does come on top, so compute + draw is what compares.

## The layer, d_model {d_model}, {layer_heads} heads, {batch} × {layer_tokens} tokens

{layer}

Milliseconds of one thread, medians of {turns} turns. In brackets how many times ours. Float32, no mask, no bias.
d2l's layer makes its weights in any case, so both of its rows are the same call. Forward: `eval()` and `no_grad()`,
where torch's layer takes its fast path. Here "without weights" means torch's fused kernel for all but d2l. Factors
within some 5 % of 1 change sides from run to run: there, the two are equally fast.

## Pruned heads, {pruned_heads} heads at first

{pruning}

`prune_heads` on the layer alone, forward, same sizes as above; operations counted by torch. Masked: the same heads
switched off by a gate, which saves nothing.

## Longer texts, one sentence, causal

{lengths}

Taught: every map is made and kept. Fused: torch's kernel, which makes no map. {where}

## The course

{course}

{opening}

## Targets

{targets}
"""
