// How the pieces of the model reach the worker: as scripts that lie beside the page, or from the kernel.

import { node } from "../core.js";

const PATIENCE_MS = 30000; // with a kernel that does not answer

/** Where the files of the site are: beside `views.js`, for slides lie a folder lower. */
const site = () => document.querySelector('script[src$="views.js"]')?.getAttribute("src") ?? "";

function byScript(number) {
  const name = `live/${String(number).padStart(2, "0")}.js`;
  const script = node("script", { src: new URL(name, new URL(site(), document.baseURI)).href });
  const came = (about, text) => Object.assign(document.currentScript ?? {}, { piece: { ...about, text } });
  Object.assign(window, { mhalibPiece: came }); // which each of these scripts calls
  return new Promise((resolve, reject) => {
    script.onload = () => (script.piece ? resolve(script.piece) : reject(new Error(`the file ${name} is damaged`)));
    script.onerror = () => reject(new Error(`the file ${name} is not there`));
    document.head.append(script);
  }).finally(() => script.remove());
}

function byKernel(model, number) {
  let hear;
  return new Promise((resolve, reject) => {
    hear = (content, [bytes]) => content.number === number && resolve({ ...content, bytes });
    model.on("msg:custom", hear);
    model.send({ piece: number });
    setTimeout(() => reject(new Error("the kernel does not answer")), PATIENCE_MS);
  }).finally(() => model.off("msg:custom", hear));
}

/** Give all pieces to the worker, one after the other; `told(share)` after each. Rejects with what went wrong. */
export async function load(model, worker, told) {
  let first;
  for (let number = 0; number < (first?.count ?? 1); number++) {
    const piece = await (model.isStatic ? byScript(number) : byKernel(model, number));
    first ||= piece;
    if (piece.model !== first.model || piece.number !== number) throw new Error(`piece ${number} is of another model`);
    await new Promise((resolve, reject) => {
      worker.onerror = (event) => reject(new Error(event.message || "no worker could be started"));
      worker.onmessage = ({ data }) => (data.failed ? reject(new Error(`piece ${number} is damaged`)) : resolve(data));
      worker.postMessage(piece);
    });
    told((number + 1) / first.count);
  }
}
