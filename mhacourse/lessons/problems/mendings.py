"""Repairs that go wrong in any of these layers: somebody changes a line that was right instead of the broken one.

Each is a `Change` of the healthy layer, with one entry for each way in which the layers write that line. Mistakes that
are possible in only one layer are kept beside its problem. `Problem` finds out if the given mistake is still there.
"""

import ast
import contextlib
import inspect
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence

from torch import Tensor, nn

from mhacourse.exercise import Change, Wrong

_FOURTH_ROOTS = "q / q.shape[2] ** 0.25, k / k.shape[2] ** 0.25"
_OWN_CAUSAL = "scores.masked_fill(~self.tril[:T, :T], -torch.inf)"

# By name: what the slip does, why that is wrong, and which pieces of source it replaces.
SLIPS: dict[str, tuple[str, str, dict[str, str | tuple[str, ...]]]] = {
    "The softmax goes over the queries": (
        "each key shares out a weight of 1 among the queries.",
        "A query shares out its weight among the keys, so the weights must sum to 1 over the key axis.",
        {"softmax(-1)": "softmax(-2)", "softmax(1)": "softmax(2)"},
    ),
    "The softmax goes over the heads": (
        "the heads share out a weight of 1 for each pair of tokens.",
        "Each head has its own softmax over its keys.",
        {
            "weights = scores.softmax(-1)": "weights = scores.softmax(1)",
            "heads = scores.softmax(-1)": "heads = scores.softmax(1)",
            "** 0.5).softmax(-1)": "** 0.5).softmax(1)",
            "-torch.inf).softmax(-1)": "-torch.inf).softmax(1)",
            "softmax(1)": "softmax(-1)",
        },
    ),
    "Keys ask queries": (
        "q and k have changed places in the product, so each key shares out its weight among the queries.",
        "A row of scores belongs to a query: q comes first, and k is transposed.",
        {
            "q @ k.transpose(-2, -1)": "k @ q.transpose(-2, -1)",
            "q @ k.mT": "k @ q.mT",
            "bmm(q, k.mT)": "bmm(k, q.mT)",
        },
    ),
    "No softmax": (
        "the values are weighted by the raw scores.",
        "A query shares out a weight of 1 among its keys, and the softmax turns scores into such shares.",
        {
            "weights = scores.softmax(-1)": "weights = scores",
            "scores.softmax(-1) @ v": "scores @ v",
            "torch.bmm(scores.softmax(-1), v)": "torch.bmm(scores, v)",
            "** 0.5).softmax(-1)": "** 0.5)",
            "-torch.inf).softmax(-1)": "-torch.inf)",
            "scores.softmax(1)": "scores",
        },
    ),
    "No scale": (
        "the scores are not divided at all.",
        "Divide by the root of head_dim, because larger scores make the softmax sharper.",
        {
            " / q.shape[-1] ** 0.5": "",
            " * q.shape[-1] ** -0.5": "",
            " / self.head_dim**0.5": "",
            " / len(part) ** 0.5": "",
            _FOURTH_ROOTS: "q, k",
        },
    ),
    "The scale of the whole width": (
        "the scores are divided by the root of d_model.",
        "In one head, q and k have head_dim features, and their product grows only with that number.",
        {
            "q.shape[-1] **": "x.shape[-1] **",
            "self.head_dim**0.5": "self.d_model**0.5",
            "len(part) **": "self.d_model **",
            _FOURTH_ROOTS: "q / self.d_model ** 0.25, k / self.d_model ** 0.25",
        },
    ),
    "The scale of the number of heads": (
        "the scores are divided by the root of num_heads.",
        "Only the number of features in one head's q and k counts: head_dim.",
        {
            "q.shape[-1] **": "self.num_heads **",
            "self.head_dim**0.5": "self.num_heads**0.5",
            "len(part) **": "self.num_heads **",
            _FOURTH_ROOTS: "q / self.num_heads ** 0.25, k / self.num_heads ** 0.25",
        },
    ),
    "The scale is not the root": (
        "the scores end up divided by head_dim itself (as when you divide by the root twice) or by half of it.",
        "The spread of q @ k grows with the root of head_dim, and the scale undoes that.",
        {
            "q.shape[-1] ** 0.5": ("q.shape[-1]", "q.shape[-1] * 0.5"),
            "q.shape[-1] ** -0.5": ("q.shape[-1] ** -1", "q.shape[-1] * -0.5"),
            "self.head_dim**0.5": "self.head_dim",
            "len(part) ** 0.5": "len(part)",
            "** 0.25": "** 0.5",
        },
    ),
    "Multiplied by the scale": (
        "the scores are multiplied by the root of head_dim.",
        "The scores are too large already: divide by the root.",
        {
            "/ q.shape[-1] ** 0.5": "* q.shape[-1] ** 0.5",
            "* q.shape[-1] ** -0.5": "* q.shape[-1] ** 0.5",
            "/ self.head_dim**0.5": "* self.head_dim**0.5",
            "/ len(part) ** 0.5": "* len(part) ** 0.5",
        },
    ),
    "The mask is read the wrong way round": (
        "allowed keys are hidden, and forbidden keys are seen.",
        "True means may attend, here and in torch's fused function. masked_fill fills where it finds True, so give it "
        "~mask.",
        {
            "~mask": "mask",
            "~self.tril": "self.tril",
            "~allowed": "allowed",
            "mask == 0": "mask != 0",
            "mask.unsqueeze(-3)  #": "~mask.unsqueeze(-3)  #",
        },
    ),
    "The mask is transposed": (
        "the mask is read with queries and keys exchanged.",
        "Its rows are queries and its columns are keys, just as in the scores here.",
        {
            "mask.unsqueeze(-3)": "mask.mT.unsqueeze(-3)",
            "hidden.unsqueeze(-3)": "hidden.mT.unsqueeze(-3)",
            "mask.expand(": "mask.mT.expand(",
            "~allowed": "~allowed.mT",
        },
    ),
    "The mask is not used": (
        "the layer does what it would do without a mask.",
        "Does a line use the mask, and do you keep its result? masked_fill returns new scores and leaves the old ones "
        "unchanged.",
        {
            "scores = scores.masked_fill": "scores.masked_fill",
            ".masked_fill(~allowed, -1e9)": "",
            _OWN_CAUSAL: "scores",
            "scores.masked_fill(~self.tril[S - T : S, :S], -torch.inf)": "scores",
            "attn_mask=mask": "attn_mask=None",
        },
    ),
    "The mask has no axis for the heads": (
        "the samples' masks line up with the heads, not with the samples.",
        "(B, T, T) has to become (B, 1, T, T): unsqueeze(-3). Otherwise you get an error, unless B and num_heads "
        "happen to agree.",
        {
            "~mask.unsqueeze(-3)": ("~mask", "~mask.unsqueeze(0)"),
            "hidden.unsqueeze(-3)": ("hidden", "hidden.unsqueeze(0)"),
            "mask.unsqueeze(-3)  #": ("mask  #", "mask.unsqueeze(0)  #"),
        },
    ),
    "The mask's axis for the heads is in the wrong place": (
        "the axis of size 1 is not directly in front of the query and key axes.",
        "Scores are (B, num_heads, T, T), so a mask becomes (…, 1, T, T): unsqueeze(-3).",
        {"unsqueeze(-3)": ("unsqueeze(-2)", "unsqueeze(-1)")},
    ),
    "Hidden scores become 0": (
        "a hidden key gets the score 0, as with scores * mask, and that is a score like any other.",
        "exp(0) is 1, so the key keeps some weight. Only a score far below all others, -1e9 or -inf, gets the weight "
        "0.",
        {"-1e9": "0.0", "-torch.inf": "0.0"},
    ),
    "Hidden scores are not low enough": (
        "a hidden key gets a low score, but it is a score like any other.",
        "exp(-1) is .37, so the key keeps some weight. Only a score far below all others, -1e9 or -inf, gets the "
        "weight 0.",
        {"-1e9": ("-1.0", "-9.0"), "-torch.inf": ("-1.0", "-9.0")},
    ),
    "A hidden key wins": (
        "a hidden key gets the largest score of all.",
        "The minus sign is lost: a hidden key needs a score far below all others, -1e9.",
        {"-1e9": "1e9", "-torch.inf": ("1e9", "torch.inf")},
    ),
    "A token may not see itself": (
        "the causal mask hides the diagonal as well, so a token sees what came before it but not itself.",
        "The diagonal must stay: token t has to predict token t + 1, so it may see itself.",
        {
            _OWN_CAUSAL: (
                "scores.masked_fill(~self.tril[:T, :T].tril(-1), -torch.inf)",
                "scores.masked_fill(~self.tril[:T, :T].tril(-1), -1e9)",
                "scores.masked_fill(~self.tril[:T, :T].tril(-1) & (torch.arange(T * T).view(T, T) > 0), -torch.inf)",
            ),
            "~self.tril[S - T : S, :S]": (
                "~self.tril[S - T : S, :S].tril(S - T - 1)",
                "~self.tril[S - T : S, :S].tril(max(S - T - 1, 0))",
            ),
            "~allowed": ("~allowed.tril(-1)", "~allowed.tril(-1) & (torch.arange(T * T).view(T, T) > 0)"),
        },
    ),
    "Each token sees the next one": (
        "the causal mask begins one place too far to the right, so each token sees the one after it.",
        "Token t may see itself and what came before it. tril() without a number keeps these entries, and triu(1) "
        "marks the others.",
        {
            "~self.tril[:T, :T]": "torch.ones(T, T, dtype=torch.bool).triu(2)",
            "dtype=torch.bool).tril()\n        outs": "dtype=torch.bool).tril(1)\n        outs",
        },
    ),
    "The mask comes after the softmax": (
        "hidden keys take part in the softmax, and their weights are set to 0 only after it.",
        "The other weights then sum to less than 1. A hidden key must be ruled out before the softmax shares out the "
        "weight, so fill the scores.",
        {
            "scores.masked_fill(~self.tril[:T, :T], -torch.inf).softmax(-1)": (
                "scores.softmax(-1).masked_fill(~self.tril[:T, :T], 0)"
            ),
            "scores.masked_fill(~self.tril[S - T : S, :S], -torch.inf).softmax(-1)": (
                "scores.softmax(-1).masked_fill(~self.tril[S - T : S, :S], 0)"
            ),
        },
    ),
    "The heads are joined without a transpose": (
        "the merge does not move the heads behind the tokens, so each row holds pieces of several tokens.",
        "(B, num_heads, T, head_dim) has to become (B, T, num_heads, head_dim) first: transpose(1, 2), then join.",
        {
            "heads.transpose(1, 2).reshape": "heads.reshape",
            "heads.transpose(1, 2).flatten(2)": "heads.reshape(x.shape)",
            "(weights @ v).transpose(1, 2)": "(weights @ v)",
        },
    ),
    "Features before heads in the merge": (
        "in each row of the merge, feature 0 of all heads comes first, then feature 1.",
        "W_o expects all features of head 0, then all of head 1, so exchange only axes 1 and 2.",
        {
            "heads.transpose(1, 2).reshape": "heads.permute(0, 2, 3, 1).reshape",
            "heads.transpose(1, 2).flatten(2)": "heads.permute(0, 2, 3, 1).flatten(2)",
            "(weights @ v).transpose(1, 2)": "(weights @ v).permute(0, 2, 3, 1)",
        },
    ),
    "The merge exchanges the last two axes": (
        "the merge exchanges tokens and features, but leaves the heads where they are.",
        "The heads must come after the tokens: exchange axes 1 and 2, not the last two.",
        {
            "heads.transpose(1, 2).reshape": "heads.mT.reshape",
            "heads.transpose(1, 2).flatten(2)": "heads.mT.reshape(x.shape)",
            "(weights @ v).transpose(1, 2)": "(weights @ v).mT",
        },
    ),
    "The merge exchanges samples and heads": (
        "the merge exchanges axes 0 and 1, which mixes samples.",
        "The heads must come after the tokens: exchange axes 1 and 2.",
        {
            "heads.transpose(1, 2).reshape": "heads.transpose(0, 1).reshape",
            "heads.transpose(1, 2).flatten(2)": "heads.transpose(0, 1).reshape(x.shape)",
            "(weights @ v).transpose(1, 2)": "(weights @ v).transpose(0, 1)",
        },
    ),
    "The merge puts the tokens before the samples": (
        "the merge makes (T, B, num_heads, head_dim), and the reshape then mixes samples and tokens.",
        "The samples stay in front: exchange axes 1 and 2 of (B, num_heads, T, head_dim), and nothing else.",
        {
            "heads.transpose(1, 2).reshape": "heads.permute(2, 0, 1, 3).reshape",
            "heads.transpose(1, 2).flatten(2)": "heads.permute(2, 0, 1, 3).reshape(x.shape)",
            "(weights @ v).transpose(1, 2)": "(weights @ v).permute(2, 0, 1, 3)",
        },
    ),
    "The error that view raises": (
        "the transpose of the merge is right, but view cannot join axes that are no longer neighbours in memory.",
        "Keep the transpose, but write reshape or flatten(2).",
        {
            "heads.transpose(1, 2).reshape": "heads.transpose(1, 2).view",
            "heads.transpose(1, 2).flatten(2)": "heads.transpose(1, 2).view(x.shape)",
            "heads.reshape(B, T, -1)": "heads.view(B, T, -1)",
        },
    ),
    "The output projection is gone": (
        "the joined heads are returned as they are.",
        "The last projection mixes the heads. It works on one token at a time, so it cannot mix tokens.",
        {
            "self.W_o(": "(",
            "self.proj(": "(",
            "F.linear(heads.transpose(1, 2).flatten(2), self.weight_out)": "heads.transpose(1, 2).flatten(2)",
        },
    ),
}


def everywhere(healthy: type[nn.Module], but: tuple[str, ...] = (), by_hand: Sequence[Change] = ()) -> dict[str, Wrong]:
    """Return the entries of `SLIPS` that apply to a line of this layer, except those named in `but`.

    Args:
        healthy: the layer.
        but: the names that are left out.
        by_hand: changes that rewrite the layer by hand; slips in that version count as well.
    """
    source, found = inspect.getsource(healthy), {}
    ways = [[], [*by_hand]] if by_hand else [[]]
    for name, (what, why, pieces) in SLIPS.items():
        made = []
        for way in ways if name not in but else ():
            text = source
            for change in way:
                text = text.replace(change.before, change.after)
            here = next(((piece, after) for piece, after in pieces.items() if piece in text), None)
            if here:
                piece, after = here
                made += [[*way, Change(piece, one)] for one in ((after,) if isinstance(after, str) else after)]
        if made:
            found[name] = Wrong(made[0], what, why, also=tuple(made[1:]))
    return found


def dropped(source: str) -> str:
    """Return the line of some source that calls a tensor method and drops the result; else nothing."""
    with contextlib.suppress(SyntaxError):
        for node in ast.walk(ast.parse(textwrap.dedent(source))):
            method = getattr(getattr(getattr(node, "value", None), "func", None), "attr", "_")
            if isinstance(node, ast.Expr) and hasattr(Tensor, method) and not method.endswith("_"):
                return "" if re.match(r"self\.|.*\bout=", line := ast.unparse(node)) else line
    return ""


def because(reasons: Mapping[str, str]) -> Callable[[Sequence[str]], str]:
    """Return a function that explains why a layer behaves as before: a lost result, or a pattern in its source."""

    def why(sources: Sequence[str]) -> str:
        if line := next(filter(None, map(dropped, sources)), ""):
            return f"{line} makes a new tensor, but nothing keeps it."
        return next(words for pattern, words in reasons.items() if re.search(pattern, "".join(sources)))

    return why
