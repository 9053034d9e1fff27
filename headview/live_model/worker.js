// The worker in which the model runs, so that the page never waits for it. It is made of the text of functions: a page
// opened from a disk may load no file for it.

import { bert } from "./bert.js";
import { wordPiece } from "./wordpiece.js";

/** What the worker does. A newer list of what is wanted takes the place of an older one, also while that runs. */
function serve(wordPiece, bert) {
  const parts = [];
  let model, cut, wanted = null, busy = false;

  /** Bytes of a piece, from characters of 15 bits each where it came as a script; see pack.py. */
  function bytesOf({ text, bytes }) {
    if (text === undefined) return bytes;
    const all = new Uint8Array(bytes);
    for (let i = 0, at = 0, held = 0, bits = 0; i < text.length; i++) {
      held = (held << 15) | (text.charCodeAt(i) - 0x3000);
      for (bits += 15; bits >= 8; held &= (1 << bits) - 1) all[at++] = held >> (bits -= 8);
    }
    return all;
  }
  async function take(piece) {
    const stream = new Blob([bytesOf(piece)]).stream().pipeThrough(new DecompressionStream("deflate"));
    parts[piece.number] = await new Response(stream).arrayBuffer();
    if (Object.keys(parts).length === piece.count) {
      model = bert(await new Blob(parts.splice(0)).arrayBuffer());
      cut = wordPiece(model.head.tokens);
    }
    self.postMessage({ taken: piece.number });
  }

  const { port1, port2 } = new MessageChannel(); // between two layers other messages come in
  const others = () => new Promise((go) => (port1.onmessage = go, port2.postMessage(0)));
  async function work() {
    busy = true;
    try {
      while (wanted?.length) {
        const list = wanted, { key, text, off } = list[0], { ids, ...said } = cut(text), from = performance.now();
        const found = await model.run(ids, new Set(off), async () => (await others(), list === wanted));
        if (!found || list !== wanted) continue;
        list.shift();
        self.postMessage({ key, ...said, ...found, ms: performance.now() - from });
      }
    } finally {
      busy = false;
    }
  }
  self.onmessage = ({ data }) => {
    const fail = (error) => self.postMessage({ failed: String(error), number: data.number });
    if (!data.wanted) return take(data).catch(fail);
    wanted = data.wanted;
    if (!busy) work().catch(fail);
  };
}

/** Start it. */
export function startWorker() {
  const text = `(${serve})(${wordPiece}, ${bert});`, address = URL.createObjectURL(new Blob([text]));
  const worker = new Worker(address);
  URL.revokeObjectURL(address);
  return worker;
}
