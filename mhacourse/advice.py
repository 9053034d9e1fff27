"""What common errors of torch and Python mean in an exercise: a table from part of a message to the advice."""

_INNER = (
    "in a product A @ B, the last size of A must equal the second-to-last size of B. Print both shapes: is one of them "
    "transposed by mistake, or must one still be transposed (.mT, lesson 02)? Or is a width not what you think?"
)
_ONE_NUMBER = (
    "math's functions, float() and int() accept one number, but this is a tensor of many. Use torch.exp, torch.sqrt, "
    "…, which accept tensors."
)
_INTEGER = "a size must be an integer, and / returns a float even for two integers. Use //."

ADVICE = {
    "view size is not compatible": (
        "view cannot join axes that are not side by side in memory. "
        "Keep the transpose, and use reshape, or contiguous() before view (lesson 03)."
    ),
    "is invalid for input of size": (
        "the sizes you ask for do not multiply to the number of elements. Print x.shape: is one of yours hard-coded?"
    ),
    "must match the size of tensor": (
        "two shapes do not broadcast. Write one below the other, aligned at the right (lesson 04)."
    ),
    "shapes cannot be multiplied": _INNER,
    "Expected size for first two dimensions": _INNER,
    "got float": _INTEGER,
    "got (float": _INTEGER,
    "'torch.return_types.": (
        "max(dim) and min(dim) return a pair, values and indices. amax and amin return only the values."
    ),
    "Boolean value of Tensor": (
        "if, and, or, not, and chains such as a < b < c need a single True or False, but a tensor has many. "
        "Between tensors write &, | or ~, with brackets; instead of an if, use torch.where, .any() or .all()."
    ),
    "could not infer output dtype": (
        "torch computes no mean of booleans or integers. Convert them first: .float().mean()."
    ),
    "must be Tensor, not": "torch's functions accept tensors; for a single number, use the math module.",
    "converted to a Scalar": _ONE_NUMBER,
    "can be converted to Python scalars": _ONE_NUMBER,
    "values to unpack": (
        "the left needs as many names as there are parts on the right: print len(...). If that line calls chunk, split "
        "or unbind, look at its dim: without dim, they cut along axis 0."
    ),
    "is out of bounds for dimension": (
        "an index counts from 0, so the last one is the size minus 1. Which axis do you mean?"
    ),
    "too many indices": "there are more indices than axes. Print x.shape.",
    "must match the existing size": (
        "expand stretches only axes of size 1: put one there first, with [:, None] or unsqueeze."
    ),
    "does not require grad": (
        "no gradient flows from here: this result was not computed from a tensor that requires one."
    ),
    "unsupported operand type": "one side is not what you think. Print type(...) of both.",
    "loading state_dict": "weights fit only a layer of the same d_model, num_heads and, if it has one, num_kv_heads.",
    "could not get source code": "there are many ways to write the code: judge a layer by its outputs, layer(x).",
    "is not defined": "is the name spelled right, and have you run the cell that defines it?",
}


def advice_for(message: str) -> str | None:
    """Return the advice of the first row whose text is part of an error's message, or None."""
    return next((advice for part, advice in ADVICE.items() if part in message), None)
