"""HeadView: any attention weights of any size, head by head.

In Python, in the order in which numbers pass:

- what the reader has: `inputs` makes parts of it, maps of one shape, with `structures` and `generated`
  (how weights are handed out), `check_rows` (whether they are weights), `axis_labels`, `labels` and `names` (what
  stands beside them), `patches` (the image under them), `cut` (some of their rows, or the mean over samples);
- what is shown of it: `combine` makes a map of heads, `pyramid` makes it smaller, `measures` and `likeness` say of each
  head what a number can say, `neuron` where a row comes from and what its scores are made of;
- how it travels: `codes` packs numbers, `metadata` says all else, `serve` answers the page, `page_budget` chooses for a
  page without a kernel;
- what it opens with, what the reader chose and takes away: `first_look`, `state`, `widget`;
- pictures where nothing runs, and files: `screen` says what is seen, `picture` draws it.

In the page, `view.js` brings all together: `source.js`, `sample.js`, `codes.js` and `combine.js` have the numbers;
`window.js`, `layout.js` and `grid.js` the places; `map.js`, `lines.js`, `text.js`, `overview.js`, `bars.js`,
`image.js`, `neuron.js` and `reasons.js` each draw one thing, with `draw.js`; `controls.js`, `find.js`,
`hidden_tokens.js`, `choose_heads.js`, `hover.js` and `linked.js` take what the reader does; `export.js` is the PNG, and
`records.js` says what passes between them.
"""
