// How HeadLab draws: where the panels stand, the images behind them, and one painter for the canvas.

/** Blue below zero, white at zero, orange above: outputs have a sign. `share` from 0 to 1, zero in the middle. */
function signedColour(share) {
  const end = share < 0.5 ? [0, 90, 160] : [200, 84, 0];
  return end.map((c) => 248 + (c - 248) * Math.abs(2 * share - 1));
}
const SIGNED_PIXELS = pixelTable(signedColour);

/**
 * Where everything stands on a canvas of this width: the head in focus, and all heads small beside or above it.
 * A panel is `{x, y, cell, wide, high, strip, stripWide}`: a map, and a strip for its output.
 */
function labPlan(state, width, hasOutput, labelWide, labelHigh) {
  const { queries, keys, heads, headDim } = state;
  const bars = 54; // entropy per query
  const focusAt = (left) => {
    const room = width - left - labelWide - bars - 8;
    const cell = Math.min(44, (room * (hasOutput ? 0.78 : 1)) / keys, 420 / queries);
    return { cell: cell >= 3 ? Math.floor(cell) : cell, room };
  };
  let beside = heads > 1 && width >= 620;
  // Small maps are named as well where their names are short and take little of their room.
  const names = { left: labelWide - 19, below: labelHigh - 7 };
  const overviewIn = (wide, high) => {
    const named = names.left <= 52 && names.below <= 52 && labOverview(state, wide, high, hasOutput, names);
    return named && named.cell >= 13 ? named : labOverview(state, wide, high, hasOutput);
  };
  let overview = heads > 1 ? overviewIn(beside ? width * 0.44 : width, beside ? 420 : 250) : null;
  let { cell, room } = focusAt(beside ? overview.wide + 24 : 0);
  if (beside && cell < 14 && cell * Math.max(keys, queries) < 300) {
    // Too little room for both side by side.
    beside = false;
    overview = overviewIn(width, 250);
    ({ cell, room } = focusAt(0));
  }
  const stripWide = hasOutput ? Math.max(24, Math.min(headDim * cell, room - cell * keys - 12, 150)) : 0;
  const x = labelWide + (beside ? overview.wide + 24 : 0);
  const y = 36 + (overview && !beside ? overview.high + 6 : 0);
  const focus = { x, y, cell, wide: cell * keys, high: cell * queries, stripWide, labelWide, bars: x + cell * keys + 8 };
  focus.strip = focus.bars + bars;
  const content = Math.max(y + focus.high + labelHigh + 8, overview ? overview.high : 0);
  return { width, focus, thumbs: overview ? overview.thumbs : [], legend: content + 4, high: content + (width < 420 ? 44 : 26) };
}

/** Small maps of all heads, in as many columns as make them largest; `names` is the room for labels beside and below each. */
function labOverview({ queries, keys, heads }, width, high, hasOutput, names = null) {
  const { left, below } = names || { left: 0, below: 0 };
  const [gap, caption, least] = [10, 25, 30];
  const side = hasOutput ? 1.22 : 1; // the strip of the output beside the map
  const most = Math.min(heads, Math.floor((width + gap) / (56 + left)));
  let best = { cell: 0, columns: most };
  for (let columns = 1; columns <= most; columns++) {
    const tall = high / Math.ceil(heads / columns) - caption - gap - below;
    const across = ((width - (columns - 1) * gap - 4) / columns - left) / side;
    if (tall < least && columns < most) continue; // rather a longer canvas than maps of a few pixels
    const cell = Math.min(across / keys, (tall < least ? across : tall) / queries, 26);
    if (cell > best.cell) best = { cell, columns };
  }
  const cell = best.cell >= 4 ? Math.floor(best.cell) : best.cell;
  const wide = keys * cell;
  const stepX = Math.max(wide * side + gap, 56) + left;
  const stepY = queries * cell + caption + gap + below;
  const thumbs = Array.from({ length: heads }, (_, h) => {
    const [x, y] = [(h % best.columns) * stepX + 3 + left, Math.floor(h / best.columns) * stepY + caption];
    return { x, y, cell, wide, high: queries * cell, strip: x + wide + 2, stripWide: hasOutput ? wide * (side - 1) - 2 : 0, step: stepX - gap - left, labelled: names !== null };
  });
  return { thumbs, cell, wide: Math.min(heads, best.columns) * stepX - gap + 6, high: Math.ceil(heads / best.columns) * stepY };
}

/** Crosses, or hatching where cells are too small for them, on the cells that are masked; one image for all heads. */
function labCrosses(image, { queries, keys, allowed }, cell, ratio) {
  Object.assign(image, { width: Math.ceil(keys * cell * ratio), height: Math.ceil(queries * cell * ratio) });
  const context = image.getContext("2d");
  const size = cell * ratio;
  const marks = new Path2D();
  const cells = new Path2D();
  for (let at = 0; at < allowed.length; at++) {
    if (allowed[at]) continue;
    const [x, y] = [(at % keys) * size, Math.floor(at / keys) * size];
    if (size < 8) {
      cells.rect(x, y, size, size);
      continue;
    }
    const inset = Math.max(size * 0.3, size / 2 - 6 * ratio);
    addCross(marks, x + size / 2, y + size / 2, size / 2 - inset);
  }
  if (size < 8) {
    context.clip(cells);
    for (let x = -image.height; x < image.width; x += 5 * ratio) {
      marks.moveTo(x, 0);
      marks.lineTo(x + image.height, image.height);
    }
  }
  context.strokeStyle = size < 8 ? "#8f8f8f" : CROSS_INK; // hatching of many lines would outshine the weights
  context.lineWidth = ratio;
  context.stroke(marks);
}

/**
 * Return what draws the canvas. `view` is shared with the one who calls: state, result, plan, cursor and colours of
 * the present step. `rows` and `columns` are the labels, already short.
 * @returns {{refresh: () => void, draw: () => void, widest: (labels: string[]) => number}}
 */
function labPainter(canvas, view, rows, columns) {
  const [queries, keys] = [rows.length, columns.length];
  const [maps, strips, crosses, smallCrosses] = [0, 0, 0, 0].map(() => node("canvas"));
  let [largest, marked] = [0, ""]; // of the outputs of all heads; what the crosses were made for
  const columnsWide = widest(columns);

  /** Turn new numbers into images, one pixel a cell. */
  function refresh() {
    const { state, result } = view;
    const { heads, allowed } = state;
    paintPixels(maps, keys, heads * queries, (pixels) => {
      let at = 0;
      for (let h = 0; h < heads; h++) {
        for (let cell = 0; cell < allowed.length; cell++, at++) {
          pixels[at] = allowed[cell] ? WEIGHT_PIXELS[Math.round(result.weights[at] * 255)] : MASKED_PIXEL;
        }
      }
    });
    if (!result.output) return;
    largest = 1e-12;
    for (const x of result.output) largest = Math.max(largest, Math.abs(x));
    paintPixels(strips, state.headDim, heads * queries, (pixels) => {
      const scale = 127.5 / largest;
      for (let at = 0; at < pixels.length; at++) pixels[at] = SIGNED_PIXELS[Math.round(127.5 + result.output[at] * scale)];
    });
  }

  /** Crosses are the same for all heads; they change with the mask and with the size of a cell. */
  function mark() {
    const { state, plan } = view;
    if (state.mask === "none") return;
    const ratio = sharpness();
    const own = state.mask === "own" ? state.allowed.join("") : state.validLen;
    const wanted = [plan.focus.cell, plan.thumbs[0]?.cell, ratio, state.mask, own].join();
    if (marked === wanted) return;
    marked = wanted;
    labCrosses(crosses, state, plan.focus.cell, ratio);
    if (plan.thumbs.length) labCrosses(smallCrosses, state, plan.thumbs[0].cell, ratio);
  }

  function widest(labels) {
    const context = canvas.getContext("2d");
    context.font = LABEL_FONT;
    return Math.min(96, Math.ceil(Math.max(...labels.map((text) => context.measureText(text).width))));
  }

  function draw() {
    mark();
    const context = sizeCanvas(canvas, view.plan.width, view.plan.high);
    context.fillStyle = view.colours.paper;
    context.fillRect(0, 0, view.plan.width, view.plan.high);
    view.plan.thumbs.forEach((panel, h) => drawThumb(context, panel, h));
    drawFocus(context, view.plan.focus);
    drawLegend(context);
  }

  /** The map of one head and the strip of its output, without any text. */
  function drawMap(context, panel, h, marks) {
    context.imageSmoothingEnabled = panel.cell < 1; // an average where there are more cells than pixels
    context.drawImage(maps, 0, h * queries, keys, queries, panel.x, panel.y, panel.wide, panel.high);
    if (view.state.mask !== "none") context.drawImage(marks, panel.x, panel.y, panel.wide, panel.high);
    context.strokeStyle = view.colours.line;
    context.lineWidth = 1;
    context.strokeRect(panel.x - 0.5, panel.y - 0.5, panel.wide + 1, panel.high + 1);
    if (!panel.stripWide) return;
    context.imageSmoothingEnabled = panel.stripWide < view.state.headDim;
    context.drawImage(strips, 0, h * queries, view.state.headDim, queries, panel.strip, panel.y, panel.stripWide, panel.high);
    context.strokeRect(panel.strip - 0.5, panel.y - 0.5, panel.stripWide + 1, panel.high + 1);
  }

  /** Name the rows and columns of a map, as many as can be read; those of the cursor in bold. */
  function drawLabels(context, { x, y, cell, high }, cursor, small) {
    const every = Math.ceil(13 / cell);
    const seen = (i, here) => i === here || (i % every === 0 && Math.abs(i - here) * cell >= 13);
    rows.forEach((label, i) => {
      if (seen(i, cursor.row)) write(context, label, x - 5, y + (i + 0.5) * cell + 4, { align: "right", bold: i === cursor.row, small, most: 96 });
    });
    columns.forEach((label, j) => {
      if (!seen(j, cursor.column)) return;
      const look = { align: columnsWide <= cell - 4 ? "center" : "right", bold: j === cursor.column, small, most: 96 };
      if (look.align === "center") return write(context, label, x + (j + 0.5) * cell, y + high + 14, look);
      context.save();
      context.translate(x + (j + 0.5) * cell + 4, y + high + 5);
      context.rotate(-Math.PI / 2);
      write(context, label, 0, 0, look);
      context.restore();
    });
  }

  function drawThumb(context, panel, h) {
    const { bits, most } = labHeadNumbers(view.state, view.result, h);
    const chosen = h === view.state.head;
    drawMap(context, panel, h, smallCrosses);
    if (panel.labelled) drawLabels(context, panel, { row: -Infinity, column: -Infinity }, true);
    write(context, panel.step > 120 ? `head ${h} · ${bits.toFixed(2)} bits` : `${h} · ${bits.toFixed(2)}`,
      panel.x, panel.y - 12, { bold: chosen, small: true });
    bar(context, panel.x, panel.y - 8, Math.min(panel.step, panel.wide + panel.stripWide), 3, most ? bits / most : 0);
    if (!chosen) return;
    context.strokeStyle = view.colours.accent;
    context.lineWidth = 3;
    const wide = panel.stripWide ? panel.strip + panel.stripWide - panel.x : panel.wide;
    context.strokeRect(panel.x - 2, panel.y - 2, wide + 4, panel.high + 4);
  }

  function drawFocus(context, panel) {
    const { x, y, cell, wide, high, bars, strip, stripWide, labelWide } = panel;
    const h = view.state.head;
    drawMap(context, panel, h, crosses);
    if (cell >= 34) {
      for (let at = 0; at < queries * keys; at++) {
        if (!view.state.allowed[at]) continue;
        const weight = view.result.weights[h * queries * keys + at];
        const [left, top] = [x + (at % keys + 0.5) * cell, y + (Math.floor(at / keys) + 0.5) * cell];
        write(context, weight.toFixed(2), left, top + 4, { align: "center", colour: weightColour(weight).ink, small: true });
      }
    }
    drawLabels(context, panel, view.cursor, false);
    const thick = Math.max(1, Math.min(8, cell - 1));
    view.result.most.forEach((most, i) => {
      bar(context, bars, y + (i + 0.5) * cell - thick / 2, 40, thick, most ? view.result.entropy[h * queries + i] / most : 0);
    });
    write(context, `head ${h}`, x, y - 22, { bold: true });
    write(context, "keys →", x, y - 6, { small: true, colour: view.colours.soft });
    write(context, "entropy", bars, y - 6, { small: true, colour: view.colours.soft });
    if (stripWide) write(context, "output", strip, y - 6, { small: true, colour: view.colours.soft });
    context.save();
    context.translate(x - labelWide + 10, y + high / 2);
    context.rotate(-Math.PI / 2);
    write(context, "queries", 0, 0, { align: "center", small: true, colour: view.colours.soft });
    context.restore();
    // The cursor: white in black, so that it is seen on every colour.
    const step = stripWide / view.state.headDim;
    const onMap = view.cursor.column < keys;
    const left = onMap ? x + view.cursor.column * cell : strip + (view.cursor.column - keys) * step;
    strokeOnAnything(context, 4, 2, () =>
      context.strokeRect(left, y + view.cursor.row * cell, onMap ? cell : step, cell));
  }

  function drawLegend(context) {
    const scaleBar = (x, y, from, to, colour) => {
      write(context, from, x, y + 15, { small: true });
      const start = x + context.measureText(from).width + 6;
      for (let i = 0; i < 90; i++) {
        context.fillStyle = `rgb(${colour(i / 89)})`;
        context.fillRect(start + i, y + 6, 1.5, 10);
      }
      write(context, to, start + 96, y + 15, { small: true });
    };
    const { legend, width } = view.plan;
    scaleBar(2, legend, "weight 0", "1", shadeOf);
    if (!view.result.output) return;
    const end = largest.toPrecision(2);
    const [x, y] = width < 420 ? [2, legend + 18] : [190, legend];
    scaleBar(x, y, `output −${end}`, `+${end}`, signedColour);
  }

  function write(context, words, x, y, { align = "left", bold = false, small = false, colour = view.colours.ink, most = undefined } = {}) {
    context.font = `${bold ? "bold " : ""}${small ? SMALL_FONT : LABEL_FONT}`;
    context.textAlign = align;
    context.fillStyle = colour;
    context.fillText(words, x, y, most);
  }

  function bar(context, x, y, wide, high, share) {
    context.fillStyle = view.colours.field;
    context.fillRect(x, y, wide, high);
    context.fillStyle = view.colours.accent;
    context.fillRect(x, y, wide * Math.min(1, share), high);
  }

  return { refresh, draw, widest };
}
