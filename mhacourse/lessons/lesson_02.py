"""The exercises of lesson 02: the scale, attention by hand, a softmax that does not overflow, cosines."""

import math

import torch
import torch.nn.functional as F

import mhalib
from mhacourse.exercise import Change, Exercise, Wrong
from mhacourse.inputs import draw
from mhacourse.remarks import SOFTMAX, Asked, Grows, in_float16, uses, with_a_gradient

spread = Exercise(
    task=(
        "Queries and keys have 256 independent features with mean 0 and variance 1. What is the standard deviation of "
        "q·k, before any scaling?"
    ),
    answer=16.0,
    sizes={"the number of features": 256},
    hints=(
        "q·k is a sum. How many products are added, and what is the variance of one of them?",
        "Each product has variance 1, and the variances of independent numbers add up.",
        "The standard deviation is the square root of the variance.",
    ),
    wrong={
        "The variance": Wrong(
            256.0,
            "256 is the variance.",
            "The typical size of a score is the square root of 256, and attention divides by that root.",
        ),
        "After the scale": Wrong(
            1.0, "1 is the spread after scaling.", "The question asks for the spread before any scaling."
        ),
        "Half instead of the root": Wrong(
            128.0,
            "128 is half of 256. In Python, ** comes before /, so 256**1/2 is 256 / 2.",
            "The square root is 256 ** 0.5, or math.sqrt(256).",
        ),
        "The root twice": Wrong(
            4.0,
            "4 is the square root of the square root of 256.",
            "256 is the variance, and its square root is the standard deviation.",
        ),
        "The root of 512": Wrong(
            math.sqrt(512),
            "that would be right for 512 products, or if each had a variance of 2.",
            "In a product, the two variances multiply (1 · 1 = 1), and 256 such products are added.",
        ),
        "64 features": Wrong(
            8.0, "8 is right for the lesson's 64 features.", "Here, queries and keys have 256 features."
        ),
        "The scale itself": Wrong(
            1 / 16,
            "1/16 is the factor by which attention multiplies the scores.",
            "The question asks for the spread that this factor compensates for.",
        ),
    },
    see="Why divide by the root of head_dim?",
)


def attend_solution(q, k, v):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])  # (B, h, Tq, hd) @ (B, h, hd, Tk) -> (B, h, Tq, Tk)
    return scores.softmax(-1) @ v  # (B, h, Tq, Tk) @ (B, h, Tk, hd) -> (B, h, Tq, hd)


def _attend_by_steps(q, k, v):
    B, num_heads, Tq, head_dim = q.shape
    scores = q @ k.transpose(-2, -1)  # -> (B, num_heads, Tq, Tk)
    scores = scores / math.sqrt(head_dim)  # (B, num_heads, Tq, Tk)
    weights = scores.softmax(-1)  # (B, num_heads, Tq, Tk)
    output = weights @ v  # -> (B, num_heads, Tq, head_dim)
    return output


def _attend_with_one_head(q, k, v):
    B, num_heads, Tq, head_dim = q.shape
    q, k, v = (x.transpose(1, 2).flatten(2) for x in (q, k, v))  # (B, num_heads, T, hd) -> (B, T, num_heads * hd)
    mixed = (q @ k.mT / math.sqrt(head_dim)).softmax(-1) @ v
    return mixed.unflatten(-1, (num_heads, head_dim)).transpose(1, 2)


def _cases():
    q = torch.tensor([[[[2.0, 0.0, 1.0, 0.0], [0.0, 2.0, 0.0, 1.0]]]])
    k = torch.tensor([[[[1.0, 0.0, 0.0, 1.0], [0.0, 1.0, 0.0, 0.0], [2.0, 0.0, 0.0, 1.0]]]])
    v = torch.tensor([[[[10.0, 11.0, 12.0, 13.0], [20.0, 21.0, 22.0, 23.0], [30.0, 31.0, 32.0, 33.0]]]])
    # All of one size, and k and the scores not symmetric: what stops elsewhere gives numbers here, and wrong ones.
    square = torch.tensor([[[[2.0, 0.0], [0.0, 1.0]]]]), torch.tensor([[[[1.0, 0.0], [2.0, 1.0]]]])
    values = torch.tensor([[[[10.0, 11.0], [20.0, 21.0]]]])
    return [
        (q, k, v),
        (*square, values),
        (draw(0, 2, 3, 4, 8), draw(1, 2, 3, 5, 8), draw(2, 2, 3, 5, 8)),
        (draw(6, 3, 2, 1, 5), draw(7, 3, 2, 4, 5), draw(8, 3, 2, 4, 5)),  # one query keeps its axis
        (draw(3, 4, 2, 7, 5), draw(4, 4, 2, 3, 5), draw(5, 4, 2, 3, 5)),
    ]


attend = Exercise(
    task=(
        "Write attend(q, k, v), which returns the output of scaled dot-product attention for tensors of shape (B, "
        "num_heads, T, head_dim). Do not call the library's function."
    ),
    answer=attend_solution,
    cases=_cases,
    plain=(_attend_by_steps,),
    axes=("sample", "head", "query", "feature"),
    hints=(
        "There are three steps: scores, shares, and a weighted mean.",
        "scores = q @ k.transpose(-2, -1), divided by the square root of the number of features in one query.",
        "The softmax runs over the keys, the last axis of the scores. Multiply the resulting shares by v.",
    ),
    wrong={
        "No scale": Wrong(
            Change("scores / math.sqrt(head_dim)", "scores"),
            "you do not divide the scores by anything.",
            "Their spread grows with head_dim, and the softmax saturates, so divide by sqrt(q.shape[-1]).",
        ),
        "Divided by sqrt(d_model)": Wrong(
            Change("math.sqrt(head_dim)", "math.sqrt(num_heads * head_dim)"),
            "you divide the scores by the square root of num_heads * head_dim.",
            "Each head's score is a sum of only head_dim products, so divide by sqrt(q.shape[-1]).",
        ),
        "A fixed 8": Wrong(
            Change("math.sqrt(head_dim)", "8"),
            "you divide the scores by 8, whatever the size of a head. 8 is right for 64 features only.",
            "Take the size from the query: math.sqrt(q.shape[-1]).",
        ),
        "Divided by head_dim itself": Wrong(
            Change("math.sqrt(head_dim)", "head_dim"),
            "your scores end up divided by head_dim: you left out the root, or divided by it twice.",
            "head_dim is their variance, so divide once by its square root.",
        ),
        "The root rounded down": Wrong(
            Change("math.sqrt(head_dim)", "math.isqrt(head_dim)"),
            "you divide by the root rounded down to a whole number.",
            "int() and // drop the fraction, and most roots are not whole numbers. Use math.sqrt(q.shape[-1]) as it "
            "is.",
        ),
        "The root of a number of tokens": Wrong(
            Change("math.sqrt(head_dim)", "math.sqrt(k.shape[2])"),
            "you divide the scores by the square root of Tq or Tk.",
            "A dot product adds up features, not tokens, so use q.shape[-1].",
            also=(Change("math.sqrt(head_dim)", "math.sqrt(Tq)"),),
        ),
        "Softmax over the queries": Wrong(
            Change("scores.softmax(-1)", "scores.softmax(-2)"),
            "your columns sum to one, but your rows do not, because the queries compete for each key.",
            "Each query shares out its attention among the keys: softmax(-1).",
        ),
        "One softmax for the whole map": Wrong(
            Change("scores.softmax(-1)", "scores.flatten(2).softmax(-1).view(scores.shape)"),
            "your weights sum to one over the whole map, not over each row.",
            "Each query shares out a weight of 1 among the keys: softmax(-1), or a sum over the last axis alone.",
        ),
        "The lowest score wins": Wrong(
            Change("scores.softmax(-1)", "(-scores).softmax(-1)"),
            "a key with a low score gets a large weight, because your scores have the wrong sign.",
            "A large score means a good match. Take exp(scores), without a minus.",
        ),
        "Softmax over the heads or the samples": Wrong(
            Change("scores.softmax(-1)", "scores.softmax(1)"),
            "heads compete with each other, as they do in F.softmax without dim. With a single head, every weight is "
            "1.",
            "dim=1 is the last axis only if the tensor is a single map. Count from the end: softmax(-1).",
        ),
        "Scaled after the softmax": Wrong(
            lambda q, k, v: (q @ k.mT).softmax(-1) / math.sqrt(q.shape[-1]) @ v,
            "you divide the weights, so rows sum to 1/sqrt(head_dim).",
            "Divide the scores instead, before the softmax.",
        ),
        "No key after the query": Wrong(
            Change("scores.softmax(-1)", "(scores + torch.full_like(scores, -math.inf).triu(1)).softmax(-1)"),
            "you mask the scores of later keys, as a model that writes text does.",
            "The task asks for no mask: every query sees every key. Masks come in lesson 04.",
        ),
        "All heads as one": Wrong(
            _attend_with_one_head,
            "you merged the heads before the product, so all heads share one map.",
            "Each head has its own map: q @ k.transpose(-2, -1) works on the last two axes and leaves the others "
            "alone.",
        ),
    },
    see="All queries at once",
    explanation="mhalib.scaled_dot_product_attention does the same, but also applies a mask and checks its inputs.",
    remarks=(
        Asked(
            "The task asks you to do without the library's attention; your function calls {found}.",
            uses("scaled_dot_product_attention", mhalib.scaled_dot_product_attention, "multi_head_attention_forward"),
        ),
        Grows(lambda heads=3, samples=2, tokens=4: (draw(0, samples, heads, tokens, 2),) * 3),
        with_a_gradient,
        in_float16,
    ),
)


def stable_softmax_solution(scores):
    shifted = scores - scores.amax(-1, keepdim=True)  # only differences of scores matter
    powers = shifted.exp()
    return powers / powers.sum(-1, keepdim=True)


def _exp_and_sum(scores):
    return scores.exp() / scores.exp().sum(-1, keepdim=True)


stable_softmax = Exercise(
    task=(
        "Write stable_softmax(scores), a softmax over the last axis, with only exp and sum. It must survive scores of "
        "1000, and rows of very different magnitudes."
    ),
    answer=stable_softmax_solution,
    cases=lambda: [
        (torch.tensor([[0.0, 2.0], [1.0, 1.0]]),),
        (torch.tensor([[1000.0, 1001.0, 999.0], [0.0, 1.0, 2.0]]),),
        (torch.tensor([[-1000.0, -1001.0, -1000.0]]),),
        (torch.tensor([[-60.0, -61.0]]),),  # without a shift still right, with one to -120 no longer
        (torch.tensor([[0.0, 100.0]]),),
        (torch.tensor([[0.0, 1000.0]]),),
        (torch.tensor([[2.0], [-1.0]]),),  # one score keeps its axis
        (draw(0, 2, 3, 4),),
    ],
    axes=("query", "key"),
    hints=(
        "Adding the same number to all scores of a row changes nothing.",
        "Subtract the largest score of each row, so that no power is above 1.",
        "amax(-1, keepdim=True) keeps the reduced axis, so that the subtraction broadcasts.",
    ),
    wrong={
        "The recipe as it stands": Wrong(
            Change("scores - scores.amax(-1, keepdim=True)", "scores"),
            "this is right for small scores, but exp(1000) is infinite, and infinity divided by infinity is NaN.",
            "Subtract the largest score of each row first. The shares stay the same.",
            also=(
                Wrong(
                    lambda s: _exp_and_sum(s.double()).float(),
                    "float64 reaches further, but exp(1000) is still infinite, and infinity over infinity is NaN.",
                    "Subtract the largest score of each row first. The shares stay the same.",
                ),
            ),
        ),
        "One largest score for all rows": Wrong(
            Change("scores.amax(-1, keepdim=True)", "scores.amax()"),
            "you subtract the largest score of the whole tensor. A row whose scores are all far below it gets 0/0.",
            "Each row needs its own largest score: amax(-1, keepdim=True).",
        ),
        "Not the largest score subtracted": Wrong(
            Change("scores.amax(-1, keepdim=True)", "scores.mean(-1, keepdim=True)"),
            "you subtract the mean of each row, so a score far above it still overflows.",
            "Subtract the largest score, so that no power is above 1.",
        ),
        "Divided, not subtracted": Wrong(
            Change("scores - scores.amax(-1, keepdim=True)", "scores / scores.amax(-1, keepdim=True)"),
            "you divide each row by its largest score, or by the largest absolute one.",
            "A softmax depends only on differences, and dividing changes them. Subtract the largest score.",
            also=(Change("scores - scores.amax(-1, keepdim=True)", "scores / scores.abs().amax(-1, keepdim=True)"),),
        ),
        "NaN swept away": Wrong(
            lambda s: _exp_and_sum(s).nan_to_num(1.0),
            "exp(1000) still overflows, and nan_to_num puts the same number wherever a share became NaN.",
            "Subtract the largest score of each row first, and nothing overflows.",
            also=(lambda s: _exp_and_sum(s).nan_to_num(0.0),),
        ),
        "Scores cut off": Wrong(
            lambda s: _exp_and_sum(s.clamp(max=80)),
            "you clip scores at a limit, so all large ones get equal shares, and rows of scores far below 0 give 0/0.",
            "No clipping is needed: once you subtract the largest score of each row, only differences are left.",
            also=(
                Wrong(
                    lambda s: _exp_and_sum(s.clamp(-80, 80)),
                    "you clip scores at two limits, so all scores beyond a limit get equal shares.",
                    "Subtract the largest score of each row instead. Then only differences are left.",
                ),
            ),
        ),
        "A fixed number subtracted": Wrong(
            lambda s: _exp_and_sum(s - 1000),
            "you subtract the same number from every row. A row whose scores are all far below it gets 0/0.",
            "Each row needs its own largest score: amax(-1, keepdim=True).",
        ),
        "The largest without its sign": Wrong(
            Change("scores.amax(-1, keepdim=True)", "scores.abs().amax(-1, keepdim=True)"),
            "you subtract the largest absolute score. In a row of scores near -1000, it is about 1000, and all "
            "powers become 0.",
            "Take the largest score as it is, with its sign: amax(-1, keepdim=True).",
        ),
        "The logarithm": Wrong(
            lambda s: s.log_softmax(-1),
            "you return the logarithms of the shares.",
            "Shares lie between 0 and 1: take exp of the result, or leave out the logarithm.",
        ),
        "Shifted above the line only": Wrong(
            lambda s: (s - s.amax(-1, keepdim=True)).exp() / s.exp().sum(-1, keepdim=True),
            "you shifted the scores in the numerator, but not in the denominator.",
            "Shift the scores once, then use the shifted scores twice.",
        ),
        "Changed in place": Wrong(
            Change("scores - scores.amax(-1, keepdim=True)", "scores.sub_(scores.amax(-1, keepdim=True))"),
            "the result is right, but you changed the caller's scores.",
            "scores = scores - ... makes a new tensor; scores -= ... writes into the old one.",
        ),
    },
    see="Why a softmax?",
    remarks=(
        Asked("The task asks for only exp and sum; your function calls {found}.", uses(*SOFTMAX)),
        Grows(lambda rows=3, scores=4: (draw(0, rows, scores),)),
        with_a_gradient,
        in_float16,
    ),
)


def cosine_attention_solution(q, k, v, scale):
    q = q / q.norm(dim=-1, keepdim=True)  # every query has length 1
    k = k / k.norm(dim=-1, keepdim=True)
    return (scale * q @ k.mT).softmax(-1) @ v  # (T, hd) @ (hd, T) -> (T, T), then @ (T, hd)


def _cosines(q, k, v, scale, normed):
    return (scale * normed(q) @ normed(k).mT).softmax(-1) @ v


cosine_attention = Exercise(
    task=(
        "Write cosine_attention(q, k, v, scale), which compares only angles. q is (Tq, head_dim), and k and v are "
        "(Tk, head_dim). Give queries and keys length 1, and multiply their dot products by scale."
    ),
    answer=cosine_attention_solution,
    cases=lambda: [
        # Lengths of 5 and 10, cosines of 1, .6 and 0.
        (
            torch.tensor([[3.0, 4.0]]),
            torch.tensor([[3.0, 4.0], [5.0, 0.0], [-8.0, 6.0]]),
            torch.tensor([[10.0, 11.0], [20.0, 21.0], [30.0, 31.0]]),
            2.0,
        ),
        (3 * draw(0, 5, 8), draw(1, 4, 8), draw(2, 4, 8), 4.0),
        (2 * draw(3, 3, 5), 3 * draw(4, 7, 5), draw(5, 7, 5), 6.0),
    ],
    axes=("query", "feature"),
    hints=(
        "The length of a vector is the square root of the sum of its squared features.",
        "torch.nn.functional.normalize(q, dim=-1) divides each query by its length.",
        "A cosine is at most 1, so you need not divide by a root. Multiply by scale alone.",
    ),
    wrong={
        "Still divided by the root": Wrong(
            Change("scale * q @ k.mT", "scale * q @ k.mT / math.sqrt(q.shape[-1])"),
            "you divide the cosines by sqrt(head_dim) as well.",
            "The root corrects for the lengths of the vectors, and vectors of length 1 need no correction.",
        ),
        "One of the two": Wrong(
            lambda q, k, v, scale: (scale * q @ (k / k.norm(dim=-1, keepdim=True)).mT).softmax(-1) @ v,
            "the keys have length 1, but the queries keep theirs.",
            "Both need length 1.",
            also=(
                Wrong(
                    lambda q, k, v, scale: (scale * (q / q.norm(dim=-1, keepdim=True)) @ k.mT).softmax(-1) @ v,
                    "the queries have length 1, but the keys keep theirs.",
                    "Both need length 1.",
                ),
            ),
        ),
        "Lengths over the tokens": Wrong(
            Change(".norm(dim=-1, keepdim=True)", ".norm(dim=-2, keepdim=True)"),
            "you normalise each feature over the whole sentence, so every token now affects all others.",
            "A token is a vector of features, so take its length over the features: dim=-1.",
        ),
        "Divided by scale": Wrong(
            Change("(scale * q @ k.mT)", "(q @ k.mT / scale)"),
            "you divide the cosines by scale.",
            "Cosines are small already, so multiply them by scale.",
        ),
        "One length for all": Wrong(
            Change(".norm(dim=-1, keepdim=True)", ".norm()"),
            "norm() without an axis gives one length for the whole tensor.",
            "Each token has its own length: norm(dim=-1, keepdim=True).",
        ),
        "The scale forgotten": Wrong(
            Change("scale * q", "q"),
            "no key can have more than e² times the weight of another, whatever scale is.",
            "Multiply the cosines by scale before the softmax.",
        ),
        "The scale after the softmax": Wrong(
            Change("(scale * q @ k.mT)", "scale * (q @ k.mT)"),
            "you multiply the weights by scale, so rows sum to scale.",
            "Multiply the cosines instead, before the softmax: (scale * cosines).softmax(-1).",
        ),
        "A fixed scale": Wrong(
            Change("scale * q", "8 * q"),
            "you multiply the cosines by 8, whatever scale is.",
            "8 is right for the lesson's 64 features. Use the scale you are given.",
        ),
        "The values as well": Wrong(
            Change("    return", "    v = v / v.norm(dim=-1, keepdim=True)\n    return"),
            "you give the values length 1, too.",
            "Normalise only what you compare, queries and keys. Values are passed on unchanged.",
        ),
        "The square of the length": Wrong(
            Change(".norm(dim=-1, keepdim=True)", ".square().sum(-1, keepdim=True)"),
            "you divide each vector by the square of its length.",
            "The length is the square root of the sum of the squares: norm(dim=-1, keepdim=True).",
        ),
        "Sums instead of lengths": Wrong(
            Change(".norm(dim=-1, keepdim=True)", ".abs().sum(-1, keepdim=True)"),
            "you divide each vector by the sum of the absolute values of its features.",
            "The length is the square root of the sum of the squares: norm(dim=-1, keepdim=True).",
        ),
        "Centred as well": Wrong(
            lambda *x: _cosines(*x, lambda y: F.layer_norm(y, y.shape[-1:])),
            "you also subtract each vector's mean over its features, as a layer norm does.",
            "That changes the vector's direction. Only divide it by its length: norm(dim=-1, keepdim=True).",
            also=(
                lambda *x: _cosines(*x, lambda y: (y - y.mean(-1, keepdim=True)) / y.std(-1, keepdim=True)),
                lambda *x: _cosines(*x, lambda y: F.normalize(y - y.mean(-1, keepdim=True), dim=-1)),
            ),
        ),
    },
    see="Why a dot product?",
    explanation=(
        "For vectors of length sqrt(head_dim), scale = sqrt(head_dim) gives the usual attention again. So for 64 "
        "features, a scale of 8 restores the entropy."
    ),
    remarks=(
        Grows(lambda tokens=4: (*(draw(i, tokens, 4) for i in range(3)), 5.0)),
        with_a_gradient,
    ),
)
