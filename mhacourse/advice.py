"""What common errors of torch and Python mean in an exercise: a table of what the message says, and the advice."""

_INNER = (
    "in a product A @ B the last size of A and the last but one of B must agree. Print both shapes: is one turned that "
    "should not be, or not turned that should (.mT, lesson 02), or has it another width than you think?"
)
_ONE_NUMBER = (
    "math's functions, float() and int() take one number, and this is a tensor of many: torch.exp, torch.sqrt, … "
    "take tensors."
)
_INTEGER = "a size must be an integer, and / makes a float even of two integers. Use //."

ADVICE = {
    "view size is not compatible": (
        "view cannot join axes that do not lie side by side in memory. "
        "Keep the transpose, and use reshape, or contiguous() before view (lesson 03)."
    ),
    "is invalid for input of size": (
        "the sizes you ask for do not multiply to the number of elements. Print x.shape; is one of yours fixed?"
    ),
    "must match the size of tensor": (
        "two shapes do not broadcast. Write both below each other, aligned at the right (lesson 04)."
    ),
    "shapes cannot be multiplied": _INNER,
    "Expected size for first two dimensions": _INNER,
    "got float": _INTEGER,
    "got (float": _INTEGER,
    "'torch.return_types.": (
        "max(dim) and min(dim) return a pair, numbers and places. amax and amin return the numbers alone."
    ),
    "Boolean value of Tensor": (
        "if, and, or, not, and chains such as a < b < c want a single True or False, and a tensor has many. "
        "Between tensors write &, |, ~, with brackets; in the place of an if, torch.where, .any() or .all()."
    ),
    "could not infer output dtype": (
        "booleans and integers have no mean. Make them numbers with a fraction first: .float().mean()."
    ),
    "must be Tensor, not": "torch's functions take tensors; for a single number there is the module math.",
    "converted to a Scalar": _ONE_NUMBER,
    "can be converted to Python scalars": _ONE_NUMBER,
    "values to unpack": (
        "as many names must stand on the left as there are parts on the right: print len(...). If that line cuts with "
        "chunk, split or unbind, look at its dim: without one they cut axis 0."
    ),
    "is out of bounds for dimension": (
        "a place is counted from 0, so the last is one less than the size. Which axis is meant?"
    ),
    "too many indices": "more places are given than there are axes. Print x.shape.",
    "must match the existing size": (
        "expand stretches only axes of size 1: put one there first, with [:, None] or unsqueeze."
    ),
    "does not require grad": (
        "no gradient flows from here: what it is asked of was not computed from a tensor that wants one."
    ),
    "unsupported operand type": "one side is not what you think. Print type(...) of both.",
    "loading state_dict": "weights fit a layer that is made alike: d_model, num_heads, and num_kv_heads if any.",
    "could not get source code": "code may be written in many ways: judge a layer by its outputs, layer(x).",
    "is not defined": "is the name spelled right, and has the cell that makes it been run?",
}


def advice_for(message: str) -> str | None:
    """Return the advice of the first row whose text is part of an error's message, or None."""
    return next((advice for part, advice in ADVICE.items() if part in message), None)
