"""What each code means: a title, and what to know about it with the notebook that teaches it.

The one place for both kinds: `CATALOGUE` has the findings, what is wrong; `REMARKS` matters of taste and of design.
What was seen in a certain layer is said by the law that saw it.
"""

from typing import NamedTuple


class Entry(NamedTuple):
    """What is said of a code, whatever the layer."""

    title: str
    lesson: str


def entries(text: str) -> dict[str, Entry]:
    """Read entries: a code and its title in a line, and indented below it what to know."""
    found: dict[str, Entry] = {}
    for line in text.strip().splitlines():
        if line[0] != " ":
            code, title = line.split(": ", 1)
            found[code] = Entry(title, "")
        else:
            found[code] = Entry(title, f"{found[code].lesson} {line.strip()}".strip())
    return found


CATALOGUE = entries("""
shape: the output has the wrong shape
  One output per query: (B, T, d_model) in, (B, T, d_out) out. If the output is not the first that it returns:
  adapt(layer, output=1). Notebook 00.
crash: it raises an error on legal input
  Every batch size and length is legal. Is d_model what the layer takes? If it is called in another way, say so:
  adapt(layer, ...). If it fails only with a mask: that may be (T, T) or (B, T, T), and one per sample needs an axis for
  the heads, mask[:, None]. Notebooks 00 and 04.
not-finite: the output holds NaN or infinity
  As long as each query may see one key, every number is finite; look for 0/0 and inf - inf in the softmax. Notebook 02.
not-deterministic: two calls with the same input differ
  Dropout belongs to training: switch it off in eval(), and use self.training or nn.Dropout. Or does it keep something
  from call to call, such as a cache or a mask? Notebooks 04 and 16.
mutates-input: it changes the tensors that it was given
  An in-place operation such as `scores += mask` or `mask *= ...` reaches the caller's tensor; work on a copy.
  Notebook 04.
mixes-samples: one sample changes the output of another
  Samples of a batch know nothing of each other; check which axis is the batch, and how heads are folded into it and out
  again. If it takes (T, B, d_model): adapt(layer, batch_first=False). Notebooks 03 and 06.
no-mixing: no token sees any other token
  Attention goes over the axis of the tokens: the heads must stand before it, (B, num_heads, T, head_dim), when q meets
  k. Notebook 03.
mixes-tokens: the split into heads mixes the tokens
  Cut the features first, then swap: (B, T, h, hd), then transpose(1, 2); a single reshape to (B, h, T, hd) gives the
  right shape and the wrong numbers. Notebook 03.
mixes-tokens-on-merge: the merge of the heads mixes the tokens
  transpose(1, 2) before the reshape to (B, T, d_model), or a token gets what other tokens' heads have found.
  Notebook 05.
softmax-axis: the softmax goes over the wrong axis
  Each query spreads a weight of 1 over its keys: softmax(-1) on scores (B, h, Tq, Tk). Notebook 02.
softmax-twice: a softmax is applied to what is a share already
  The first softmax gives each query's shares; a second one, over numbers between 0 and 1, makes them nearly equal.
  Notebook 02.
no-softmax: its weights are no shares: there is no softmax
  Each query spreads a weight of 1 over its keys; raw scores, exponentials or sigmoids grow with the number of tokens.
  Notebook 02.
key-unused: the last key is never used
  Every token is a key for every query; look for a slice that ends one early, such as [:, :-1]. Notebook 02.
future-leak: an output depends on a later token
  A causal query t sees the keys 0 to t: torch.tril keeps the diagonal and what is below. Notebook 04.
mask-ignored: the mask changes nothing
  Hide keys before the softmax: scores.masked_fill(~mask, -inf). Notebook 04.
mask-leaks: hidden tokens still have an effect
  A hidden key must have a score of -inf (or very negative) before the softmax; zeros after it, 0/1 numbers added to the
  scores, or 1e-9 for -1e9 do not hide it. If it adds its mask to the scores on purpose: adapt(layer, mask='additive').
  Notebook 04.
open-mask-differs: a mask that hides nothing changes the output
  Hide by what the mask says, head after head from the same mask, and leave the rest of the scores as they are.
  Notebook 04.
mask-inverted: the mask is read the wrong way round
  Here True means may attend; nn.MultiheadAttention's True means blocked. Convert with ~mask, or, if that is its way,
  adapt(layer, mask='blocked'). Notebook 04.
mask-transposed: the mask is read with queries and keys swapped
  Rows are queries, columns are keys: mask[t, j] says whether query t may see key j. Notebook 04.
mask-order: a sample is given the mask of another sample
  For heads folded into the batch a mask is repeated as a, a, ..., b, b, ... (repeat_interleave); otherwise it needs a
  head axis, mask[:, None]. Notebook 04.
nan-on-empty-row: a query with no key gives NaN
  A softmax over nothing but -inf is 0/0; give such a row zeros, in the gradient too. Notebook 04.
dead-parameters: parameters that have no part in the output
  A parameter that no gradient reaches is never trained: is the projection called, and is its result used? Notebook 16.
groups-differ: shared keys and shared values are repeated in different orders
  Where heads share keys and values, head i of the queries needs both of the same group: repeat_interleave for both, or
  repeat for both. Notebook 12.
wrong-scale: the scores have another scale than 1/sqrt(head_dim)
  A dot product of head_dim numbers grows like sqrt(head_dim); that is what the scale takes back. Notebook 02.
positions-not-relative: it does not tell distances as it says
  Rotary angles, slopes and biases for each distance let a score depend on how far two tokens are apart, and on nothing
  else of where they stand; angles and the features of a pair must be laid out alike. Notebook 13.
heads-unused: it has another number of heads than stated
  Split into num_heads before the scores are computed; one softmax over all features is one head. Are all heads read,
  given weights of their own, and merged? Notebooks 03 and 06.
cache-differs: generating with its cache differs from the full pass
  A new token sees all keys so far and its own: tril(diagonal=k_len - q_len), its place follows the cached ones, and
  keys and values are joined in one order, the older first. Notebook 12.
input-ignored: an input has no part in the output
  Queries, keys and values may be three different tensors: is each projection given its own input, v_proj(value) and not
  v_proj(key)? Notebook 16.
""")

REMARKS = entries("""
needs-mask: it cannot be called without a mask
  mask=None for *nothing is hidden* spares the caller a mask of ones. Notebook 04.
output-width: another number of features goes out than comes in
  W_o says how many features go out; a residual connection needs as many as come in. Notebook 05.
causal: it hides later tokens by itself
  A query t sees the keys 0 to t, whatever mask comes on top. Notebook 04.
window: each token sees its neighbourhood only
  A sliding window is a mask; what lies outside of it reaches a token by way of further layers. Notebook 04.
positions: it tells places apart
  Attention alone treats tokens as a set; something here adds where they stand. Notebooks 13 and 16.
mask-rank: it takes one form of a mask only
  One mask for all samples is (T, T), one for each (B, T, T); an axis for the heads, mask[:, None], lets the second
  broadcast, too. Notebook 04.
several-layers: it behaves like several layers one after another
  In a stack a hidden token is reached by way of a third one, and the mask of each layer may still be right.
mask-unread: it takes a mask, or a context, and never reads it
  So some keep the signature of others; a caller is not told that it changes nothing. Notebook 04.
empty-row-refused: it refuses a query that may see no key
  Zeros would do as well, and spare the caller a special case. Notebook 04.
empty-row-nan: a query with no key gives NaN, and nothing else does
  So nn.MultiheadAttention and scaled_dot_product_attention may answer where nothing was asked for; zeros spare the
  caller a special case. Notebook 04.
empty-row-inf: a query with no key gives NaN, since the mask that is added holds -inf
  A softmax over nothing but -inf is 0/0; the dtype's lowest number gives an average instead. Notebook 04.
empty-row-mean: a query with no key gets an average over hidden keys
  What -1e9 does in place of -inf: all scores of the row are alike. Zeros say that nothing was found. Notebook 04.
grouped-heads: several heads of queries share a head of keys and values
  Grouped or multi-query attention: fewer keys and values to keep. Notebook 12.
unusual-scale: the scores have another scale than 1/sqrt(head_dim)
  Some do this on purpose, and say so: T5 has the scale in its weights, muP divides by head_dim. Notebook 02.
""")
