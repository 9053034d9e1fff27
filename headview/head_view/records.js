// The records that pass between the modules of HeadView, for readers and for the type checker; nothing runs here.
// What a function returns is described where it is made.

/**
 * @typedef {object} View what the functions of HeadView share, beside the traits
 * @property {any} model @property {Weights} w @property {HTMLElement} root @property {(text: string) => void} say
 * @property {() => void} redraw draws at the next frame @property {ReturnType<import("./source.js").makeBlocks>} blocks
 * @property {Map<string, Source>} sources maps in use, by their specs
 * @property {{queries: number, keys: number}} size of the shown map
 * @property {Set<number>[]} found queries and keys that were searched for
 * @property {ReturnType<import("../core.js").tooltip>} tip
 * @property {ReturnType<import("./controls.js").makeControls>} controls
 * @property {{box: HTMLElement, show: (scene: Scene) => void}[]} under panels below the picture
 * @property {string} form what `layout` is for
 * @property {Order} order of the heads @property {any} [sorted] the last one by facts
 * @property {any} picture what `draw` of a mode returned: `frames`, where maps or lines are; `win`, what of them is in
 *   sight, lines may be less than the window; `cellsOf(x, y)`, rows and columns in so many pixels of a drag
 * @property {string} [unknown] what is to be said of labels that no token has
 * @property {Isolated | null} isolated the token that stands alone
 * @property {any} page from `makePage`
 * @property {any} layout from `layout` @property {any} kept drawings that frames share, while layout and theme last
 * @property {Map<string, HTMLCanvasElement>} images coloured tiles
 * @property {Map<number, HTMLCanvasElement>} photos pictures under tokens, by part
 * @property {number | null} feature of the neuron view that was walked to
 * @property {Map<string, any>} neurons what it shows, the last one
 *
 * @typedef {View & Shown} Scene what a frame draws
 *
 * @typedef {object} Shown the traits in a frame, and what follows from them
 * @property {View} view
 * @property {number} layer @property {number} head @property {number} query @property {number} key
 * @property {[number, number][]} overlay
 * @property {number} least @property {string} heads @property {string} direction @property {number} strength
 * @property {string} mode @property {string} scale @property {string} combine
 * @property {string} side that of what shows one side only
 * @property {[number, number]} cursor its row and column @property {Look} look
 * @property {any} shown from `shownMaps` @property {Win} win @property {any} paint colours of the theme
 * @property {{rows: string[], columns: string[]}} names
 *
 * @typedef {[number, number, number, number]} Win the window: first query, end, first key, end
 * @typedef {{axis: number, place: number}} Isolated a row (axis 0) or column (1)
 * @typedef {{colours?: string, dark: boolean}} Look the colour map that a reader has chosen, on which page
 * @typedef {{cells: Float32Array, rows: number, columns: number}} Tile
 * @typedef {ReturnType<import("./grid.js").overviewGrid>} Grid
 *
 * @typedef {ReturnType<import("./sample.js").readSet>} Weights one sample of one part
 * @typedef {ReturnType<import("./source.js").localSource>} Source one map that can be drawn at any size
 * @typedef {ReturnType<import("./order.js").headOrder>} Order of the heads in the overview
 *
 * @typedef {object} WholePart the maps of all heads
 * @property {number} layers @property {number} heads @property {number} queries @property {number} keys
 * @property {(side: string) => Uint8Array | Uint16Array | Float32Array} codes (layers, heads, queries, keys)
 * @property {(side: string) => Float32Array} tops what the largest code of each head stands for, (layers, heads)
 * @property {number} levels one of LEVELS @property {boolean} signed
 *
 * @typedef {object} Spec what is asked for as one map; Python reads it as well
 * @property {number} part @property {number} sample @property {string} side "a", "b" or "difference"
 * @property {number[][]} heads [layer, head], one or more @property {string} combine "maximum" or "mean"
 * @property {string} values "weights", "values" or "rollout" @property {string[]} hidden labels
 * @property {boolean} renormalise @property {boolean} words
 *
 * @typedef {object} Scale how numbers become colours
 * @property {string} kind "fixed", "maximum", "log" or "root" @property {number} top the number of the last colour
 * @property {boolean} signed from -top to top, with its own colours
 */
