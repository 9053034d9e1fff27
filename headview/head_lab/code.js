// The Python lines that reproduce what HeadLab shows, as text. Nothing is computed here.

/** @import { LabState } from "./view.js" */

/**
 * The Python lines that reproduce what is shown.
 * @param {LabState} state @param {string[]} inputs how q, k and, if given, v are written as (1, T, d_model)
 */
export function labCode(state, inputs) {
  const { queries, keys, features, heads, headDim } = state;
  const makers = { causal: ["causal_mask"], padding: ["padding_mask"] }[state.mask] || [];
  const names = [...makers, "scaled_dot_product_attention", "split_heads"].join(", ");
  const shape = (tokens) => `(1, ${tokens}, ${features}) -> (1, ${heads}, ${tokens}, ${headDim})`;
  const split = inputs.map((input, i) =>
    `${"qkv"[i]}_heads = split_heads(${input}, ${heads})  # ${shape(i ? keys : queries)}`);
  const root = { head_dim: `math.sqrt(${headDim})`, d_model: `math.sqrt(${features})`, none: "1" }[state.scale];
  const divisor = state.temperature === 1 ? root : `(${root} * ${state.temperature})`;
  const mask = state.mask === "none" ? "" : ", mask";
  const [result, values, note] = inputs[2] ? ["output", "v", ""] : ["_", "k", "  # no values given"];
  return [
    "import math", "import torch", `from mhalib import ${names}`, "",
    ...split,
    ...labMaskCode(state),
    `scale = 1 / ${divisor}  # scale: ${state.scale}, temperature: ${state.temperature}`,
    `${result}, weights = scaled_dot_product_attention(q_heads, k_heads, ${values}_heads${mask}, scale=scale)${note}`,
    "entropy = torch.special.entr(weights).sum(-1) / math.log(2)  # bits, (1, num_heads, Tq)", "",
  ].join("\n");
}

/** The lines that make the mask; an own one as a picture of it. @param {LabState} state */
function labMaskCode({ mask, queries, keys, validLen, allowed }) {
  if (mask === "none") return [];
  if (mask === "causal") return [`mask = causal_mask(${queries}, ${keys})`];
  if (mask === "padding") return [`mask = padding_mask(torch.tensor([${validLen}]), ${keys})  # (1, 1, ${keys})`];
  const rows = Array.from({ length: queries }, (_, i) => allowed.subarray(i * keys, (i + 1) * keys).join(""));
  return ['rows = """', ...rows, '"""', 'mask = torch.tensor([[cell == "1" for cell in row] for row in rows.split()])'];
}
