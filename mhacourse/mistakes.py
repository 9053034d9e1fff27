"""The rules of the error model: a mistake is a small edit of a right answer.

After R. Singh, S. Gulwani and A. Solar-Lezama, *Automated feedback generation for introductory programming assignments*
(PLDI 2013). A rule is a record: what it looks for in the source of a right answer, what it puts there, and what the
function then does. To add one, put it into RULES. How patterns are read is said in `rule_patterns`, what is made of
them in `edits`, how the edit that a learner has made is found, in `search`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, permutations
from numbers import Real


@dataclass(frozen=True)
class Rule:
    """One kind of mistake.

    Args:
        find: Python code with capital letters for its parts. `A` to `E` are any expressions, `I` and `J` whole numbers,
            `N` a number, `V` a variable, `S` a variable that holds a size, `F` and `G` the names of functions,
            `*R`, `*Q` further arguments, `**K`, `**L` those with names; `...` is the body of a loop. Beside
            expressions and statements there are slices, `[B:C]`, and `given P`: an argument, before the first line.
        put: what stands there instead, with the parts in braces, `{X}` for one of `each`.
        says: what the edited function does, to follow "your function does what ours would do".
        cost: 1 for what happens most often; among the edits that fit, the cheapest is told.
        each: what `{X}` is in turn: texts; or `names`, the variables of the function; `axes`, those of the result or
            of the argument.
        only: for a letter, what it may be: names; for an argument its kind, `boolean`, `number`, ….
        alike: what is said where all places that fit are changed in this way; the same as `says` where empty.
        why: what to think of, where the edit does not say it.
    """

    find: str
    put: str
    says: str
    cost: Real = 1
    each: Sequence[str] | str = ("",)
    only: Mapping[str, Sequence[str]] = field(default_factory=dict, hash=False)
    alike: str = ""
    why: str = ""


# What a letter may be.
ALONG = (
    "softmax log_softmax sum mean amax amin argmax argmin cumsum cumprod prod any all norm std var flip roll cat stack "
    "chunk split unbind unsqueeze squeeze repeat_interleave sort argsort topk median logsumexp tril triu diagonal diff"
).split()
SUMS = "sum mean amax amin argmax argmin prod any all".split()
CUTS = "view reshape".split()
TURNS = "transpose permute swapaxes movedim".split()
STEPS = "softmax exp log sqrt abs square sum mean float cumsum tril triu roll flip sigmoid norm prod".split()
MORE = "abs exp log square sqrt relu".split()
FIXED = ("1", "2", "3", "4", "8", "64")

# What {X} is in turn: the likelier first, where two are the same.
AXES = ("-2", "-1", "0", "1", "2", "-3", "3", "-4")
PAIRS = [f"{i}, {j}" for i, j in (*combinations(range(4), 2), (-1, -2), (-1, -3), (-2, -3))]
ORDERS = [", ".join(map(str, p)) for n in (3, 4) for p in permutations(range(n))]
ENDS = {
    "[:1]": "only the first {} of", "[-1:]": "only the last {} of", "[1:]": "the first {} left out of",
    "[:-1]": "the last {} left out of",
}  # fmt: skip

# What stands for the reader's question.
NAME_AXES = "Write the shape of what comes in beside the line, and name its axes: along which are numbers put together?"
NO_MOVE = (
    "reshape and view count the numbers out again in their order; only transpose and permute exchange axes (lesson 03)."
)
IN_ORDER = "Say the steps aloud in their order: which one works on what the other one made?"
BY_HAND = "Work out the first and the last entry by hand."
MIDDLE = "Write both shapes beside the product: the two sizes in the middle must mean the same."

_OVER = "with {F} over {X_}, not over {I_}"
_EVERYWHERE = "with dim={X} in the place of dim={I}, wherever it stands"

AXIS_RULES = (
    Rule("A.F(I, **K)", "{A}.{F}({X}, {K})", _OVER, 1, AXES, {"F": ALONG}, _EVERYWHERE, NAME_AXES),
    Rule("A.F(**K, dim=I)", "{A}.{F}({K}, dim={X})", _OVER, 1, AXES, {"F": ALONG}, _EVERYWHERE, NAME_AXES),
    Rule("A.F(B, I, **K)", "{A}.{F}({B}, {X}, {K})", _OVER, 1, AXES, {"F": ALONG}, _EVERYWHERE, NAME_AXES),
    Rule("A.F(B, **K, dim=I)", "{A}.{F}({B}, {K}, dim={X})", _OVER, 1, AXES, {"F": ALONG}, _EVERYWHERE, NAME_AXES),
    Rule("torch.F(A)", "torch.{F}({A}, {X})", "with {F} along dim={X}", 1, AXES, {"F": ("cat", "stack")},
         why=NAME_AXES),
    Rule("A.F((I, J), **K)", "{A}.{F}({X}, {K})", "with {F} over {X_} alone", 1, AXES, {"F": ALONG}, "", NAME_AXES),
    Rule("A.F((I, J), **K)", "{A}.{F}(({X}), {K})", "with {F} over ({X}), not ({I}, {J})", 1, PAIRS, {"F": ALONG}),
    Rule("A.F(I, **K)", "{A}.{F}()", "with {F} over everything, not over {I_} alone", 1, only={"F": SUMS}),
    Rule("A.F(**K, dim=I)", "{A}.{F}()", "with {F} over everything, not over {I_} alone", 1, only={"F": SUMS}),
    Rule("A.F((I, J), **K)", "{A}.{F}()", "with {F} over everything", 1, only={"F": SUMS}),
    Rule("A.F(I, **K)", "{A}.{F}(({X}), {K})", "with {F} over two axes at once, ({X})", 1.1, PAIRS, {"F": SUMS}),
    Rule("A.softmax(I)", "{A}.flatten().softmax(0).view({A}.shape)",
         "with one softmax over everything: all of it sums to 1"),
    Rule("A.softmax(I)", "{A}.flatten(-2).softmax(-1).view({A}.shape)", "with one softmax over each whole map"),
    Rule(
        "A.F(*R, **K, keepdim=True)", "{A}.{F}({R}, {K})", "without keepdim=True in {F}",
        why="Without keepdim=True what was one number for each row lies along the columns (lesson 04).",
    ),
    Rule("A.F(*R)", "{A}.{F}({R}, keepdim=True)", "with keepdim=True in {F}, so that an axis of size 1 stays",
         only={"F": SUMS}),
)  # fmt: skip

TURN_RULES = (
    Rule(
        "A.transpose(I, J)", "{A}.reshape({A}.transpose({I}, {J}).shape)",
        "with a reshape in the place of {A}.transpose({I}, {J}): the shape is right, the numbers stay where they were",
        alike="with a reshape in the place of every transpose({I}, {J})", why=NO_MOVE,
    ),
    Rule("A.transpose(I, J)", "{A}", "without transpose({I}, {J})"),
    Rule("A.transpose(I, J)", "{A}.transpose({X})", "with transpose({X}) in the place of transpose({I}, {J})", 1,
         PAIRS),
    Rule(
        "A.permute(*R)", "{A}.reshape({A}.permute({R}).shape)",
        "with a reshape in the place of {A}.permute({R}): the shape is right, the numbers stay where they were",
        alike="with a reshape in the place of every permute({R})", why=NO_MOVE,
    ),
    Rule("A.permute(*R)", "{A}", "without permute({R})"),
    Rule("A.permute(*R)", "{A}.permute({X})", "with permute({X}) in the place of permute({R})", 1, ORDERS),
    Rule("A.mT", "{A}", "without .mT: {A} is not turned", why=MIDDLE),
    Rule("A.T", "{A}", "without .T: {A} is not turned", why=MIDDLE),
    Rule("A.mT", "{A}.reshape({A}.mT.shape)", "with a reshape in the place of .mT", why=NO_MOVE),
    Rule("A.T", "{A}.reshape({A}.T.shape)", "with a reshape in the place of .T", why=NO_MOVE),
    Rule("A.mT", "{A}.permute(*range({A}.ndim)[::-1])", "with .T, which turns all axes", why=MIDDLE),
    Rule("A.transpose(I, J)", "{A}.permute(*range({A}.ndim)[::-1])", "with .T, which turns all axes", 1.1),
    Rule("A @ B", "{A}.mT @ {B}", "with {A} turned (.mT) before the product with {B}", 1.4, why=MIDDLE),
    Rule("A @ B", "{A} @ {B}.mT", "with {B} turned (.mT) before the product with {A}", 1.4, why=MIDDLE),
    Rule("A @ B", "({A} @ {B}).mT", "with the product {A} @ {B} turned", 1.4),
)  # fmt: skip

STEP_RULES = (
    Rule("A.F(*R, **K)", "{A}", "without {F}({R})", only={"F": ["!", *TURNS, "tolist", "item"]}),
    Rule("math.F(A)", "{A}", "without math.{F}"),
    Rule("F(A)", "{A}", "without {F}", only={"F": ["!", "range", "list", "len", "tuple", "enumerate", "zip"]}),
    Rule("A / B", "{A}", "without the division by {B}"),
    Rule("A // B", "{A}", "without the division by {B}"),
    Rule("A * B", "{A}", "without the factor {B}"),
    Rule("A * B", "{B}", "without the factor {A}"),
    Rule("A @ B", "{A}", "without the product with {B}"),
    Rule("A @ B", "{B}", "without the product with {A}"),
    Rule("A - B", "{A}", "without subtracting {B}"),
    Rule("A - B", "{B}", "with {B} alone, subtracted from nothing", 1.2),
    Rule("A + B", "{A}", "without adding {B}"),
    Rule("A + B", "{B}", "without adding {A}"),
    Rule("A & B", "{A}", "without the condition {B}"),
    Rule("A & B", "{B}", "without the condition {A}"),
    Rule("A | B", "{A}", "without the condition {B}"),
    Rule("A | B", "{B}", "without the condition {A}"),
    Rule("A and B", "{A}", "without the condition {B}"),
    Rule("A and B", "{B}", "without the condition {A}"),
    Rule("A ** B", "{A}", "without the power {B}"),
    Rule("A ** 0.5", "{A} ** 2", "with the square of {A} in the place of its root"),
    Rule("A ** 0.5", "{A} ** 1 / 2", "with half of {A} in the place of its root: ** comes before /"),
    Rule("A ** -0.5", "{A} ** -1", "without the root of {A}"),
    Rule("math.sqrt(A)", "{A} ** 1 / 2", "with half of {A} in the place of its root"),
    Rule("~A", "{A}", "without ~: the condition the other way round",
         why="Try one entry by hand: shall True stay, or go?"),
    Rule("not A", "{A}", "with the condition the other way round"),
    Rule("-A", "{A}", "without the minus before {A}"),
    Rule("A = B", "pass", "without the line {A} = {B}", 1.2),
    Rule("A += B", "pass", "without the line {A} += {B}", 1.2),
    Rule("A -= B", "pass", "without the line {A} -= {B}", 1.2),
    Rule("if A: ...", "pass", "without what is done if {A}", 1.2),
    Rule("if A: ...", "if True: ...", "as if {A} always held", 1.2),
    Rule("if A: ...", "if not {A}: ...", "with the condition {A} the other way round", 1.1),
    Rule("A if B else C", "{C} if {B} else {A}", "with the condition {B} the other way round", 1.1),
    Rule("A if B else C", "{A}", "as if {B} always held", 1.2),
    Rule("A if B else C", "{C}", "as if {B} never held", 1.2),
    Rule("A.F(*R, **K)", "{A}.{F}({R}, {K}).{F}({R}, {K})", "with {F} twice", 1.5, only={"F": STEPS}),
    Rule("A / B", "({A} / {B}) / {B}", "with the division by {B} done twice", 1.5),
    Rule("A * B", "({A} * {B}) * {B}", "with the factor {B} twice", 1.5),
    Rule("A.F(*R, **K).G(*Q, **L)", "{A}.{G}({Q}, {L}).{F}({R}, {K})", "with {G} before {F}, not behind it", 1.3,
         why=IN_ORDER),
    *(
        Rule(f"(A {sign} B).F(*R, **K)", f"({{A}}.{{F}}({{R}}, {{K}}) {sign} {{B}})",
             f"with {sign} {{B}} after {{F}}, not before",
             1.3, why=IN_ORDER)
        for sign in "/*-+@"
    ),
    *(
        Rule(f"A.F(*R, **K) {sign} B", f"({{A}} {sign} {{B}}).{{F}}({{R}}, {{K}})",
             f"with {sign} {{B}} before {{F}}, not after",
             1.3, why=IN_ORDER)
        for sign in "/*-+@"
    ),
    Rule("(A / B) @ C", "({A} @ {C}) / {B}", "with / {B} after the product, not before", 1.3, why=IN_ORDER),
    Rule("A.norm(*R, **K)", "{A}.norm({R}, {K}) ** 2", "with the square of the length in the place of the length"),
    Rule("A.norm(*R, **K)", "{A}.abs().sum({R}, {K})",
         "with the sum of the absolute values in the place of the length"),
    Rule("A.norm(*R, **K)", "{A}.{X}({R}, {K})", "with {X} in the place of the length", 1, ("sum", "mean", "amax",
         "std")),
    Rule("V", "{V}.{X}()", "with {X} of {V}", 1.9, ("abs", "exp", "log")),
    Rule("A.F(*R, **K)", "{A}.{X}().{F}({R}, {K})", "with {X} before {F}", 1.8, MORE, {"F": [*ALONG, "norm"]}),
)  # fmt: skip

EXCHANGED = {  # what people mix up
    "sum": "mean amax prod cumsum any norm", "mean": "sum amax median std", "amax": "amin argmax sum mean",
    "amin": "amax argmin",
    "argmax": "argmin amax", "argmin": "argmax", "prod": "sum mean", "cumsum": "sum cumprod", "any": "all",
    "all": "any",
    "softmax": "log_softmax", "exp": "exp2 log relu", "log": "log2 log10 exp", "sqrt": "square",
    "abs": "square relu",
    "square": "abs sqrt", "tril": "triu", "triu": "tril", "stack": "cat hstack", "cat": "stack", "zeros": "ones",
    "ones": "zeros",
    "zeros_like": "ones_like", "ones_like": "zeros_like", "floor": "ceil round", "ceil": "floor",
    "median": "mean",
    "std": "var", "var": "std", "repeat_interleave": "tile", "max": "min sum", "min": "max", "roll": "flip", "eq": "ne",
    "logsumexp": "sum", "isin": "eq", "outer": "inner", "diagonal": "diag",
}  # fmt: skip
BUILT_IN = ("sum", "min", "max", "abs", "any", "all")  # that Python itself has, too
_INSTEAD = "with {X} in the place of {F}"
EXCHANGE_RULES = (
    *(
        Rule(find, put, _INSTEAD, 1.4, others.split(), {"F": (name,)})
        for name, others in EXCHANGED.items()
        for find, put in (("A.F(*R, **K)", "{A}.{X}({R}, {K})"), ("F(*R, **K)", "{X}({R}, {K})"))
        if find.startswith("A") or name in BUILT_IN
    ),
    Rule("A.softmax(*R, **K)", "{A}.sigmoid()", "with sigmoid in the place of softmax", 1.4),
    Rule("A / B", "{A} * {B}", "multiplied by {B}, not divided", 1.2),
    Rule("A / B", "{A} // {B}", "with // in the place of / before {B}", 1.2),
    Rule("A / B", "{A} - {B}", "with - in the place of / before {B}", 1.2),
    Rule("A * B", "{A} / {B}", "divided by {B}, not multiplied", 1.2),
    Rule("A * B", "{A} @ {B}", "with @ in the place of * before {B}", 1.2),
    Rule("A * B", "{A} + {B}", "with + in the place of * before {B}", 1.2),
    Rule("A @ B", "{A} * {B}", "with * in the place of @: number by number, not a product of matrices", 1.2),
    Rule("A - B", "{A} + {B}", "with + in the place of - before {B}", 1.2),
    Rule("A - B", "{A} / {B}", "with / in the place of - before {B}", 1.2),
    Rule("A + B", "{A} {X} {B}", "with {X} in the place of + before {B}", 1.2, "-*"),
    Rule("A // B", "{A} {X} {B}", "with {X} in the place of // before {B}", 1.2, "%*"),
    Rule("A % B", "{A} // {B}", "with // in the place of % before {B}", 1.2),
    Rule("A & B", "{A} | {B}", "with | (or) in the place of & (and)", 1.2),
    Rule("A | B", "{A} & {B}", "with & (and) in the place of | (or)", 1.2),
    Rule("A and B", "{A} or {B}", "with or in the place of and", 1.2),
    Rule("A < B", "{A} {X} {B}", "with {X} in the place of < between {A} and {B}", 1.2, ("<=", ">", ">="), why=BY_HAND),
    Rule("A <= B", "{A} {X} {B}", "with {X} in the place of <= between {A} and {B}", 1.2, ("<", ">=", ">"),
         why=BY_HAND),
    Rule("A > B", "{A} {X} {B}", "with {X} in the place of > between {A} and {B}", 1.2, (">=", "<", "<="), why=BY_HAND),
    Rule("A >= B", "{A} {X} {B}", "with {X} in the place of >= between {A} and {B}", 1.2, (">", "<=", "<"),
         why=BY_HAND),
    Rule("A == B", "{A} {X} {B}", "with {X} in the place of == between {A} and {B}", 1.2, ("!=", "<=", ">="),
         why=BY_HAND),
    Rule("A != B", "{A} == {B}", "with == in the place of != between {A} and {B}", 1.2, why=BY_HAND),
    *(
        Rule(f"A {sign} B", f"{{B}} {sign} {{A}}", f"with the two sides of {sign} exchanged: {{B}} {sign} {{A}}", 1.2)
        for sign in ("-", "/", "@", "//", "**", "%")
    ),
    Rule("A += B", "{A} = {B}", "with the last {B} alone, nothing added up", 1.2),
    Rule("A += B", "{A} -= {B}", "with -= in the place of +=", 1.2),
    Rule("A.masked_fill(B, C)", "{A}.masked_fill(~{B}, {C})", "with the mask {B} the other way round in masked_fill"),
    *(
        Rule(f"A.masked_fill(B, {low})", "{A}.masked_fill({B}, {X})",
             "with {X} as the score of what is hidden, not minus infinity", 1, ("0.0", "-1.0", "1.0", "-9.0",
             "torch.inf"),
             why="A hidden score of 0 still gets a share: e to the power of 0 is 1. Only minus infinity gets none.")
        for low in ("-math.inf", "-torch.inf", "-inf", "float('-inf')")
    ),
    Rule("A.masked_fill(B, C)", "{A}.masked_fill({B}, {X})", "filled with {X}, not with {C}", 1.1,
         ("0.0", "-1.0", "1.0", "-9.0", "torch.inf")),
    Rule("A.masked_fill(B, C)", "{A} * {B}", "with a product with the mask in the place of masked_fill", 1.2),
    Rule("A.masked_fill(B, C)", "{A} * ~{B}", "with a product with the mask in the place of masked_fill", 1.2),
    Rule("torch.where(A, B, C)", "torch.where({A}, {C}, {B})", "with the condition of where the other way round"),
    Rule("A.F(B, C)", "{A}.{F}({C}, {B})", "with {B} and {C} exchanged in {F}", 1.3, only={"F": ["!", *TURNS]}),
    Rule("F(A, B, *R)", "{F}({B}, {A}, {R})", "with {A} and {B} exchanged in {F}", 1.3, only={"F": ["!", "max",
         "min"]}),
    Rule("torch.F(A, B, *R, **K)", "torch.{F}({B}, {A}, {R}, {K})", "with {A} and {B} exchanged in {F}", 1.3),
    *(
        Rule(f"A.F({', '.join(letters)})", f"{{A}}.{{F}}({', '.join('{' + letter + '}' for letter in order)})",
             "with {F}(" + ", ".join("{" + letter + "}" for letter in order) + ")"
             + " in the place of {F}(" + ", ".join("{" + letter + "}" for letter in letters) + ")", 1.3,
             only={"F": CUTS}, why=NO_MOVE)
        for letters in ("BCD", "BCDE") for order in permutations(letters) if "".join(order) != letters
    ),
    Rule("A.F(B, C, D, E)", "{A}.{F}({B}, {C}, {E}, {D}).mT",
         "with the features dealt out to the heads in turn, like cards", 1.2,
         only={"F": CUTS}, why="Neighbours stay together when the slower of two sizes is written first."),
    Rule("A.chunk(B, I)", "dealt({A}, {B}, {I})", "with the numbers dealt out to the parts in turn, like cards", 1.2),
    Rule("A.chunk(B, dim=I)", "dealt({A}, {B}, {I})", "with the numbers dealt out to the parts in turn, like cards",
         1.2),
    Rule("A.repeat_interleave(B, I)", "tiled({A}, {B}, {I})",
         "with repeat in the place of repeat_interleave: all once, then all again", 1.1),
    Rule("A.repeat_interleave(B, dim=I)", "tiled({A}, {B}, {I})",
         "with repeat in the place of repeat_interleave: all once, then all again", 1.1),
    Rule("A.repeat(B, *R)", "{A}.repeat_interleave({B}, 0)", "with repeat_interleave in the place of repeat", 1.2),
    *(
        Rule(f"{b[0]}{', '.join(letters)}{b[1]}", f"{b[0]}{', '.join('{' + letter + '}' for letter in order)}{b[1]}",
             "with the order (" + ", ".join("{" + letter + "}" for letter in order) + ")", 1.2)
        for b in ("[]", "()") for letters in ("AB",
        "ABC") for order in permutations(letters) if "".join(order) != letters
    ),
)  # fmt: skip

COUNT_RULES = (
    *(
        Rule("for A in B: ...", f"for {{A}} in list({{B}}){part}: ...",
             f"with {words.format('round')} the loop over {{B}}", 1.25, why=BY_HAND)
        for part, words in ENDS.items()
    ),
    Rule("for A in B: ...", "for {A} in list({B})[::-1]: ...", "with the loop over {B} from the last to the first",
         1.2),
    *(
        Rule("[A for B in C]", f"[{{A}} for {{B}} in list({{C}}){part}]",
             f"with {words.format('one')} {{C}}", 1.25, why=BY_HAND)
        for part, words in ENDS.items()
    ),
    Rule("[A for B in C]", "[{A} for {B} in list({C})[::-1]]", "with {C} from the last to the first", 1.2),
    Rule("[A for B in C if D]", "[{A} for {B} in {C}]", "without the condition {D}"),
    *(
        Rule("range(A)", f"range({put})", f"with range({put}) in the place of range({{A}})", 1.3, why=BY_HAND)
        for put in ("{A} - 1", "{A} + 1", "1, {A}", "1, {A} + 1")
    ),
    *(
        Rule("range(A, B)", f"range({put})", f"with range({put}) in the place of range({{A}}, {{B}})", 1.3, why=BY_HAND)
        for put in ("{A} - 1, {B}", "{A} + 1, {B}", "{A}, {B} - 1", "{A}, {B} + 1", "{B}", "{A} - 1, {B} - 1",
        "{A} + 1, {B} + 1")
    ),
    *(
        Rule("[B:C]", f"[{put}]", f"with the part [{put}], not [{{B}}:{{C}}]", 1.3, why=BY_HAND)
        for put in ("{B} + 1:{C}", "{B} - 1:{C}", "{B}:{C} + 1", "{B}:{C} - 1", ":{C}", "{B}:", "{B} + 1:{C} + 1",
        "{B} - 1:{C} - 1")
    ),
    *(Rule("[B:]", f"[{put}]", f"with the part [{put}], not [{{B}}:]", 1.3, why=BY_HAND) for put in ("{B} + 1:",
    "{B} - 1:", ":{B}", ":-{B}")),
    *(Rule("[:C]", f"[{put}]", f"with the part [{put}], not [:{{C}}]", 1.3, why=BY_HAND) for put in (":{C} + 1",
    ":{C} - 1", "{C}:", "1:{C}")),
    Rule("[::C]", "[:]", "without the step [::{C}]", 1.3),
    Rule("A.shape[I]", "{A}.shape[{X}]", "with the size of {X_} in the place of that of {I_} of {A}", 1.4, AXES),
    Rule("A.shape[I]", "{X}", "with a fixed {X} in the place of {A}.shape[{I}]", 1.9, FIXED),
    Rule("A[V]", "{A}[{X}]", "with [{X}] in the place of [{V}]", 1.5, ("{V} - 1", "{V} + 1", "0", "-1", ":, {V}",
         ":, :, {V}", "..., {V}")),
    Rule("A[:, V]", "{A}[{X}]", "with [{X}] in the place of [:, {V}]", 1.5, ("{V}", ":, :, {V}", "..., {V}",
         ":, {V} - 1", ":, {V} + 1")),
    Rule("A[B, C]", "{A}[{C}, {B}]", "with [{C}, {B}] in the place of [{B}, {C}]", 1.4),
    Rule("A[B, C, D]", "{A}[{X}]", "with [{X}] in the place of [{B}, {C}, {D}]", 1.4, ("{B}, {D}, {C}",
         "{C}, {B}, {D}", "{D}, {C}, {B}")),
    Rule("A[B]", "{A}", "without the choice [{B}]", 1.5),
    Rule("N", "({X})", "with {X} in the place of {N}", 1.6, ("{N} + 1", "{N} - 1", "-{N}", "0", "1", "2 * {N}",
         "{N} / 2", "1 - {N}")),
    Rule("S", "({X})", "with {X} in the place of {S}", 1.7, ("{S} - 1", "{S} + 1", "2 * {S}", "{S} // 2")),
    Rule("S", "{X}", "with a fixed {X} in the place of {S}", 2.2, FIXED),
    Rule("True", "False", "with False in the place of True", 1.6),
    Rule("False", "True", "with True in the place of False", 1.6),
    Rule("V", "{X}", "with {X} in the place of {V}", 1.8, "names"),
    Rule("return A", "return {X}", "giving back {X}, which is on the way to the result", 1.5, "names"),
    Rule("return A, B", "return {A}", "giving back the first result alone", 1.1),
    Rule("return A, B", "return {B}", "giving back the second result alone", 1.1),
)  # fmt: skip

# A whole argument changed before the first line.
GIVEN_RULES = (
    Rule("given P", "{P} = ~{P}", "with {P} the other way round", 1, only={"P": "boolean"}),
    Rule("given P", "{P} = torch.ones_like({P})", "with a {P} that is True everywhere, so that {P} is ignored", 1.2,
         only={"P": "boolean"}),
    Rule("given P", "{P} = {P}.transpose({X})", "with {P} turned, its axes {X} exchanged", 1.3, PAIRS, {"P": "tensor"}),
    Rule("given P", "{P} = {P}.narrow({X}, 0, 1).expand_as({P})",
         "with the first entry along axis {X} of {P} used for all", 1.5, "axes", {"P": "tensor"}),
    Rule("given P", "{P} = {P}.flip({X})", "with axis {X} of {P} from the last to the first", 1.6, "axes",
         {"P": "tensor"}),
    Rule("given P", "{P} = {P}.roll(1, {X})", "with axis {X} of {P} shifted by one", 1.7, "axes", {"P": "tensor"}),
    Rule("given P", "{P} = {P}.roll(-1, {X})", "with axis {X} of {P} shifted back by one", 1.7, "axes",
         {"P": "tensor"}),
    Rule("given P", "{P} = {P}.softmax({X})", "with a softmax of {P} over axis {X} first", 1.6, "axes",
         {"P": "floating"}),
    Rule("given P", "{P} = torch.zeros_like({P})", "as if {P} were 0", 1.6, only={"P": "floating"}),
    Rule("given P", "{P} = -{P}", "with the sign of {P} turned", 1.5, only={"P": "floating"}),
    Rule("given P", "{P} = {P}.{X}()", "with {X} of {P} first", 1.7, "log exp abs sigmoid".split(), {"P": "floating"}),
    Rule("given P", "{P} = {P} + 1", "with one more than {P}", 1.4, only={"P": "whole number"}),
    Rule("given P", "{P} = {P} - 1", "with one less than {P}", 1.4, only={"P": "whole number"}),
    Rule("given P", "{P} = {X}", "as if {P} were {X}, whatever it is", 1.5, ("1", "2", "8"), {"P": "number"}),
    Rule("given P", "{P} = 2 * {P}", "with twice {P}", 1.6, only={"P": "number"}),
    Rule("given P", "{P} = -{P}", "with the sign of {P} turned", 1.7, only={"P": "number"}),
    Rule("given P", "{P} = {X}", "with {X} in the place of {P}", 1.4, ("1 / {P}", "{P} ** 2", "{P} ** 0.5"),
         {"P": "fraction"}),
    Rule("given P", "{P} = {P}[::-1]", "with {P} from the last to the first", 1.4, only={"P": "list"}),
    Rule("given P", "{P}, {X} = {X}, {P}", "with {P} and {X} exchanged", 1.2, "names"),
    Rule("given P", "{P} = {X}", "with {X} in the place of {P} as well", 1.3, "names"),
)  # fmt: skip

# A whole result changed afterwards.
RESULT_RULES = (
    Rule("return A", "return opposite({A})", "and then takes the opposite: True for False, 1 - x for x", 1),
    Rule("return A", "return -{A}", "and then turns the sign", 1.1),
    Rule("return A", "return {A}.permute({X})", "but with its axes in the order ({X_})", 1, "orders"),
    Rule("return A", "return {A}.permute({X}).reshape({A}.shape)",
         "but turned to the order ({X_}), and then reshaped", 1.5, "orders", why=NO_MOVE),
    Rule("return A", "return counted_out({A}, ({X}))", "but with a reshape where axes should be exchanged", 1.5,
         "orders", why=NO_MOVE),
    Rule("return A", "return {A}.select({X}, 0)", "for the first {X_one} alone; the axis of {X_all} is gone", 1.1,
         "axes"),
    Rule("return A", "return {A}.select({X}, -1)", "for the last {X_one} alone; the axis of {X_all} is gone", 1.2,
         "axes"),
    Rule("return A", "return {A}.narrow({X}, 0, 1)", "for the first {X_one} alone", 1.1, "axes"),
    Rule("return A", "return {A}.narrow({X}, 0, 1).expand_as({A})",
         "but with the first {X_one} given for all {X_all}", 1.2, "axes"),
    Rule("return A", "return only({A}, {X}, 0)", "for the first {X_one} only; the other {X_all} stay 0", 1.2, "axes"),
    Rule("return A", "return only({A}, {X}, -1)", "for the last {X_one} only; the other {X_all} stay 0", 1.2, "axes"),
    Rule("return A", "return without({A}, {X}, 0)", "but with the first {X_one} left 0", 1.3, "axes"),
    Rule("return A", "return without({A}, {X}, -1)", "but with the last {X_one} left 0", 1.3, "axes"),
    Rule("return A", "return {A}.narrow({X}, 1, {A}.shape[{X}] - 1)", "but without the first {X_one}", 1.2, "axes"),
    Rule("return A", "return {A}.narrow({X}, 0, {A}.shape[{X}] - 1)", "but without the last {X_one}", 1.2, "axes"),
    Rule("return A", "return {A}.mean({X})", "and then takes the mean over the {X_all}", 1.1, "axes"),
    Rule("return A", "return {A}.sum({X})", "and then sums over the {X_all}", 1.1, "axes"),
    Rule("return A", "return {A}.amax({X})", "and then keeps the largest of the {X_all}", 1.3, "axes"),
    Rule("return A", "return {A}.mean({X}, keepdim=True).expand_as({A})",
         "but with the mean of all {X_all} in the place of each", 1.3, "axes"),
    Rule("return A", "return {A}.unsqueeze({X})", "with one axis too many, of size 1, before the {X_all}", 1.2, "axes"),
    Rule("return A", "return {A}.unsqueeze(-1)", "with one axis too many, of size 1, at the end", 1.2),
    Rule("return A", "return {A}.squeeze({X})", "with the axis of {X_all} lost where it has size 1", 1.4, "axes"),
    Rule("return A", "return {A}.flip({X})", "but with the {X_all} from the last to the first", 1.2, "axes"),
    Rule("return A", "return {A}.roll(1, {X})", "but with each {X_one} at the next one's place", 1.3, "axes"),
    Rule("return A", "return {A}.roll(-1, {X})", "but with each {X_one} at the place before", 1.3, "axes"),
    Rule("return A", "return {A}.cumsum({X})", "and then adds up along the {X_all}", 1.4, "axes"),
    Rule("return A", "return {A}.softmax({X})", "and then takes a softmax over the {X_all}", 1.2, "axes"),
    Rule("return A", "return {A} / {A}.sum({X}, keepdim=True)", "and then divides by the sum over the {X_all}", 1.3,
         "axes"),
    Rule("return A", "return {A} - {A}.mean({X}, keepdim=True)", "and then subtracts the mean over the {X_all}", 1.4,
         "axes"),
    Rule("return A", "return {A} / {A}.shape[{X}]", "and then divides by the number of {X_all}", 1.4, "axes"),
    Rule("return A", "return {A} * {A}.shape[{X}]", "and then multiplies by the number of {X_all}", 1.4, "axes"),
    Rule("return A", "return {A}.flatten({X}, {X} + 1)", "with the {X_all} and the next axis joined into one", 1.1,
         "axes"),
    Rule("return A", "return {A}.flatten()", "and then makes one long row of it", 1.2),
    *(
        Rule("return A", f"return {put}", says, 1.4)
        for put, says in {
            "{A}.exp()": "and then takes e to the power of it", "{A}.float().log()": "and then takes the logarithm",
            "{A}.square()": "and then squares it",
            "{A}.sqrt()": "and then takes the root", "{A}.abs()": "without the signs", "2 * {A}": "and then doubles it",
            "{A} / 2": "and then halves it",
            "{A}.relu()": "with 0 for what is negative", "100 * {A}": "in percent", "{A} + 1": "and then adds 1",
            "{A} - 1": "and then subtracts 1",
            "{A}.round()": "and then rounds it", "1 / {A}": "turned upside down (1/x)",
        }.items()
    ),
    Rule("return A", "return pair({A})[::-1]", "with the two results exchanged", 1),
    Rule("return A", "return pair({A})[{X}]", "giving back one result alone, number {X} (from 0)", 1.1, ("0", "1")),
    Rule("return A", "return torch.cat(tuple(pair({A})), -1)", "with the results joined along the last axis", 1.2),
)  # fmt: skip

RULES = (*AXIS_RULES, *TURN_RULES, *STEP_RULES, *EXCHANGE_RULES, *COUNT_RULES)
WHOLE = (*GIVEN_RULES, *RESULT_RULES)
