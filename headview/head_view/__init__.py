"""HeadView: any attention weights of any size, head by head.

In Python, in the order in which numbers pass:

- what the reader has: `given` makes parts of it, maps of one shape, with `structures`, `one_layer` and `steps` (how
  weights are handed out), `rows` (whether they are weights), `sides`, `labels` and `names` (what stands beside them),
  `patches` (the image under them), `cut` (some of their rows), `mean` (one for all samples);
- what is shown of it: `shown` combines heads into a map, `pyramid` makes it smaller, `facts` says of each head what a
  number can say, `neuron` where a row comes from;
- how it travels: `codes` packs numbers, `described` says all else, `serve` answers the page, `carried` chooses for a
  page without a kernel;
- what the reader chose and takes away: `chosen`, `widget`, `reading`;
- pictures where nothing runs: `screen` says what is seen, as `drawn` can say it; `picture`, with `overview`,
  `strokes` and `sheet`, draws it at once, `saved` into files.

In the page, `view.js` brings all together: `source.js`, `set.js`, `codes.js` and `shown.js` have the numbers;
`window.js`, `layout.js` and `grid.js` the places; `map.js`, `lines.js`, `across.js`, `text.js`, `overview.js`,
`bars.js`, `picture.js` and `neuron.js` each draw one thing, with `draw.js`; `controls.js`, `fold.js`, `find.js`,
`hide.js`, `choose.js`, `hover.js` and `linked.js` take what the reader does.
"""
