// The Python lines that reproduce what HeadLab shows, as text. Nothing is computed here.

/** @import { LabState } from "./numbers.js" */

const LISTED = 12; // blocked cells of an own mask that are named one by one; more are drawn as a picture of the mask

/**
 * The Python lines that reproduce what is shown.
 * @param {LabState} state @param {string[]} inputs how q, k and, if given, v are written as (1, T, d_model)
 * @param {string} note a comment on the names in `inputs`, or ""
 */
export function labCode(state, inputs, note) {
  const { queries, keys, features, heads, headDim } = state;
  const names = ["scaled_dot_product_attention", "split_heads"];
  if (state.mask === "causal") names.unshift("causal_mask");
  if (state.mask === "padding") names.unshift("padding_mask");
  const shape = (tokens) => `(1, ${tokens}, ${features}) -> (1, ${heads}, ${tokens}, ${headDim})`;
  const lines = ["import math", "import torch", `from mhalib import ${names.join(", ")}`, ""];
  if (note) lines.push(note);
  lines.push(`q_heads = split_heads(${inputs[0]}, ${heads})  # ${shape(queries)}`);
  lines.push(`k_heads = split_heads(${inputs[1]}, ${heads})  # ${shape(keys)}`);
  if (inputs[2]) lines.push(`v_heads = split_heads(${inputs[2]}, ${heads})  # ${shape(keys)}`);
  if (state.mask !== "none") lines.push(...labMaskCode(state));
  const root = { head_dim: `math.sqrt(${headDim})`, d_model: `math.sqrt(${features})`, none: "1" }[state.scale];
  const divisor = state.temperature === 1 ? root : `(${root} * ${state.temperature})`;
  lines.push(`scale = 1 / ${divisor}  # scale: ${state.scale}, temperature: ${state.temperature}`);
  const mask = state.mask === "none" ? "" : ", mask";
  lines.push(
    inputs[2]
      ? `output, weights = scaled_dot_product_attention(q_heads, k_heads, v_heads${mask}, scale=scale)`
      : `_, weights = scaled_dot_product_attention(q_heads, k_heads, k_heads${mask}, scale=scale)  # no values given`,
  );
  lines.push("entropy = torch.special.entr(weights).sum(-1) / math.log(2)  # bits, (1, num_heads, Tq)");
  return lines.join("\n") + "\n";
}

/** The lines that make the mask; an own one as a picture of it, or as its few blocked cells. */
function labMaskCode({ mask, queries, keys, validLen, allowed }) {
  if (mask === "causal") return [`mask = causal_mask(${queries}, ${keys})`];
  if (mask === "padding") return [`mask = padding_mask(torch.tensor([${validLen}]), ${keys})  # (1, 1, ${keys})`];
  const blocked = [];
  allowed.forEach((may, at) => may || blocked.push([Math.floor(at / keys), at % keys]));
  if (blocked.length <= LISTED) {
    const lines = [`mask = torch.ones(${queries}, ${keys}, dtype=torch.bool)`];
    if (blocked.length) {
      const [rows, columns] = [0, 1].map((axis) => blocked.map((cell) => cell[axis]).join(", "));
      lines.push(`mask[[${rows}], [${columns}]] = False`);
    }
    return lines;
  }
  const rows = Array.from({ length: queries }, (_, i) => allowed.subarray(i * keys, (i + 1) * keys).join(""));
  return ['rows = """', ...rows, '"""', 'mask = torch.tensor([[cell == "1" for cell in row] for row in rows.split()])'];
}
