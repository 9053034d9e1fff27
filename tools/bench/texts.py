"""The words of BENCHMARKS.md, part by part. Each heading has one table, which README and picture read as well."""

HEAD = """# Benchmarks

Written by `make bench`; dated by the versions below, not by the clock.

{basis}

![{picture}](images/benchmarks.png)
"""

WIDGETS = """## {layers} layers × {heads} heads × {tokens} tokens

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
"""

LARGE = """## {billions} weights, HeadView of {layers} × {heads} × {tokens} in half precision

{huge}

{stand_in}Random, one key taking most of each row. HeadView runs in a process of its own. Python: constructor,
display bundle with its picture, state. First paint: headless Chromium, from the start of the navigation to the
frame in which the overview and the first tiles are drawn, the kernel's work for these included. Bytes: state,
picture and tiles. Memory: how far the process grows at most beside the weights, as a share of them. The target of
the first paint counts Python and page. The others are not run: theirs is what they weigh for each weight more,
measured on maps of {small} tokens, times the number of weights.

## One head of {long} tokens

{one}

A step of the wheel: zoom from all of the map to single weights and out again, and pan on the way. Work in the page:
all that the view does for the event, its frames and the tiles that arrive. With tiles from the kernel: the steps
that ask for some, the kernel's work for these added; the way between the two is left out, as in a notebook it
depends on the server. First paint: as above, Python and page together. `imshow`: matplotlib's Agg, `set_xlim`,
`set_ylim` and `draw` for five such windows; encoding and the way to the browser come on top. In brackets how many
times ours.
"""

CODES = """## Where one key takes nearly all, {layers} × {heads} × {tokens}

{codes}

Random maps in which one key takes .9 to .999 of each row. Up to two million weights travel in two bytes each, up to
four in one; of more, the tiles of single weights in two. Evenly spaced: 256 steps from 0 to 1, what the colours of an
image tell apart.
"""

CAPTURE = """## Maps of any model, BERT base with random weights and {tokens} tokens

{capture}

Milliseconds of one thread for a forward pass, medians of {turns} turns. In brackets how many times the pass without
maps. `capture` takes them from the fused kernel's inputs; `output_attentions` needs the model loaded as "eager".
"""

LAYER = """## The layer, d_model {d_model}, {layer_heads} heads, {batch} × {layer_tokens} tokens

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
"""

COURSE = """## The course

{course}

{opening}
"""

TARGETS = """## Targets

{targets}
"""
