"""The exercises of lesson 08: when heads do not matter, the rank of scores, one map out of many, a gradient."""

import functools

import torch

from mhacourse.exercise import Change, Choice, Exercise, Wrong
from mhacourse.inputs import draw
from mhacourse.remarks import Grows
from mhalib.attention import merge_heads, split_heads

heads_do_not_matter = Choice(
    task=(
        "One head and eight heads get the same random weights (with biases) and the same input of 10 tokens. In which "
        "of the five cases must their outputs agree? Give the letters of all such cases."
    ),
    answer="BDE",
    options={
        "A": "the single head's scores are now the sum of the eight heads' scores, but the softmax of a sum is not a "
        "sum of softmaxes.",
        "B": "the first token may attend only to itself, so every map gives it weight 1.",
        "C": "the single head still sums over 512 features before its softmax.",
        "D": "all values are just the bias, the same for every token, and any mixture of equal values is that value.",
        "E": "all scores of a row are equal in every head, so all maps are uniform.",
    },
    hints=(
        "Maps may differ as long as the mixtures do not.",
        "Ask of each case: is there only one key, are all values alike, or are all scores of a row alike?",
    ),
    see="When are they equal?",
)


rank_of_scores = Exercise(
    task=(
        "A layer has d_model 96, 6 heads and random weights, and its tokens are random. What is the rank of one "
        "head's scores for 200 tokens, and for 10?"
    ),
    answer=(16, 10),
    sizes={"d_model": 96, "num_heads": 6, "head_dim": 16, "the first T": 200, "the second T": 10},
    hints=(
        "S = q kᵀ, where q is (T, head_dim). What limits the rank of a product?",
        "The size in the middle limits it, and so does the number of rows. Take the smaller.",
    ),
    wrong={
        "One head of everything": Wrong(
            (96, 10),
            "96 is the rank for a single head of 96 features.",
            "Each of six heads has 96 / 6 features in the middle of its product.",
            also=((96, 96),),
        ),
        "The number of tokens": Wrong(
            (200, 10),
            "200 is the size of the score matrix.",
            "It is a product of (200, head_dim) and (head_dim, 200), so its rank cannot exceed head_dim.",
        ),
        "The bottleneck alone": Wrong(
            (16, 16),
            "a (10, 10) matrix cannot have rank 16.",
            "With fewer tokens than features, the number of tokens is the limit.",
        ),
        "One taken off": Wrong(
            (15, 9),
            "both are too low by one, as if the softmax took something away.",
            "The scores come before the softmax. A product of random matrices has the largest rank that its sizes "
            "allow.",
        ),
    },
    see="Thin and wide: the rank of a head",
)


def one_map_solution(maps):
    scores = maps.log()  # the scores of each head, up to a constant for each row
    return (scores.sum(1) / maps.shape[1] ** 0.5).softmax(-1)  # (B, h, T, T) -> (B, T, T)


def _one_map_by_sums(maps):
    B, num_heads, T, _ = maps.shape
    scores = torch.zeros(B, T, T)
    for head in range(num_heads):
        scores = scores + maps[:, head].log()
    scores = scores / num_heads**0.5
    return scores.softmax(-1)


def _one_map_by_products(maps):
    num_heads = maps.shape[1]
    product = maps.prod(1)  # (B, num_heads, T, T) -> (B, T, T)
    power = product ** (1 / num_heads**0.5)
    return power / power.sum(-1, keepdim=True)


def _maps():
    # Four heads, whose root is 2: products are squares, and the result is tidy.
    by_hand = [[[0.5, 0.5], [0.1, 0.9]], [[0.8, 0.2], [0.5, 0.5]], [[0.5, 0.5], [0.5, 0.5]], [[0.8, 0.2], [0.1, 0.9]]]
    sizes = [(2, 3, 5), (4, 2, 1), (3, 5, 4)]  # B, num_heads, T; one token keeps its axes
    return [(torch.tensor([by_hand]),)] + [(draw(i, B, h, T, T).softmax(-1),) for i, (B, h, T) in enumerate(sizes)]


one_map = Exercise(
    task=(
        "Write one_map(maps), where maps holds the maps of all heads, (B, num_heads, T, T). Return the map, (B, T, "
        "T), of a single head with the same W_q and W_k. There are at most eight heads, and no weight is below 0.001."
    ),
    answer=one_map_solution,
    plain=(_one_map_by_sums, _one_map_by_products),
    cases=_maps,
    axes=("sample", "query", "key"),
    hints=(
        "The single head's scores are the sum of the heads' scores, divided by the root of the number of heads.",
        "The logarithm of a map gives its scores, up to a constant for each row, and the softmax ignores that "
        "constant.",
        (
            "Take maps.log().sum(1), divide by num_heads ** 0.5, then softmax(-1). Or use a product, a power and a "
            "division."
        ),
    ),
    wrong={
        "The mean of the maps": Wrong(
            lambda maps: maps.mean(1),
            "that is the average of the heads.",
            "A single head does not average. It adds up the heads' scores, so its map is a product.",
        ),
        "Added, not multiplied": Wrong(
            Change(
                "maps.prod(1)  # (B, num_heads, T, T) -> (B, T, T)\n    power = product ** (1 / num_heads**0.5)",
                "1\n    power = (maps ** (1 / num_heads**0.5)).sum(1)",
            ),
            "you add up powers of the heads' maps.",
            "Scores add up, and a weight is the exponential of a score, so weights multiply: maps.prod(1).",
        ),
        "No root": Wrong(
            Change("scores / num_heads**0.5", "scores"),
            "you left out the power, so your map is sharper than the single head's.",
            "√d_model is √num_heads times √head_dim, so divide the summed scores by num_heads ** 0.5.",
        ),
        "The number of heads instead of its root": Wrong(
            Change("num_heads**0.5", "num_heads"),
            "you divide the summed scores by the number of heads, which gives the mean of the scores.",
            "The scales are roots, √d_model and √head_dim, and so is their ratio.",
        ),
        "Rows that do not sum to 1": Wrong(
            lambda maps: maps.prod(1) ** maps.shape[1] ** -0.5,
            "the product is right, but its rows do not sum to 1.",
            "Divide each row by its sum over the keys, or let the softmax do it.",
        ),
        "The formula of the scores": Wrong(
            lambda maps: maps.sum(1) / maps.shape[1] ** 0.5,
            "you added the maps and divided by the root of the number of heads.",
            "That is the formula for the scores. Take the logarithm of the maps first, and the softmax at the end.",
        ),
        "A product in a softmax": Wrong(
            Change("scores.softmax(-1)", "scores.exp().softmax(-1)"),
            "you put the product of the weights into a softmax.",
            "The softmax takes the exponential once more. Divide each row by its sum, or take the logarithm first.",
        ),
        "The maps taken for scores": Wrong(
            lambda maps: (maps.sum(1) / maps.shape[1] ** 0.5).softmax(-1),
            "you add the weights up, and put the sum into a softmax.",
            "Scores add up, weights do not. The logarithm of a weight is its score, up to a constant for the row.",
        ),
        "Maps as matrices": Wrong(
            lambda maps: functools.reduce(torch.matmul, maps.unbind(1)),
            "you multiplied the maps as matrices, one after the other.",
            "Scores add up cell by cell, so weights multiply cell by cell: maps.prod(1).",
        ),
    },
    see="What one head makes of eight",
    explanation="The map is a product, so the single head looks where all heads agree.",
    remarks=(Grows(lambda heads=3, samples=2, tokens=4: (draw(0, samples, heads, tokens, tokens).softmax(-1),)),),
)


def key_gradient_solution(x, dS, W_q):
    q = split_heads(x @ W_q, dS.shape[1])  # (B, T, d_model) -> (B, h, T, hd)
    dK = dS.mT @ q / q.shape[-1] ** 0.5  # (B, h, T, T) @ (B, h, T, hd) -> (B, h, T, hd)
    return (x.mT @ merge_heads(dK)).sum(0)  # (B, d_model, T) @ (B, T, d_model) -> (d_model, d_model)


def _key_gradient_by_steps(x, dS, W_q):
    B, T, d_model = x.shape
    num_heads = dS.shape[1]
    head_dim = d_model // num_heads
    q = x @ W_q  # -> (B, T, d_model)
    q = q.reshape(B, T, num_heads, head_dim)
    q = q.transpose(1, 2)  # -> (B, num_heads, T, head_dim)
    dK = dS.transpose(2, 3) @ q
    dK = dK / head_dim**0.5
    dK = dK.transpose(1, 2)  # -> (B, T, num_heads, head_dim)
    dK = dK.reshape(B, T, d_model)
    of_samples = x.transpose(1, 2) @ dK  # -> (B, d_model, d_model)
    return of_samples.sum(0)


def _heads_added(x, dS, W_q):
    dK = dS.sum(1).mT @ (x @ W_q) / (W_q.shape[1] // dS.shape[1]) ** 0.5
    return (x.mT @ dK).sum(0)


def _key_cases():
    x, W_q = torch.tensor([[[1.0, 2], [3, 0]]]), torch.tensor([[2.0, 1], [0, 3]])
    dS = torch.tensor([[[[2.0, -1], [1, 0]], [[-1, 1], [3, 2]]]])
    sizes = [(2, 3, 5, 12), (3, 2, 4, 10), (2, 1, 3, 2)]  # B, num_heads, T, d_model
    return [(x, dS, W_q)] + [
        (draw(10 + i, B, T, d), draw(20 + i, B, h, T, T), draw(30 + i, d, d)) for i, (B, h, T, d) in enumerate(sizes)
    ]


key_gradient = Exercise(
    task=(
        "Write key_gradient(x, dS, W_q). The layer computes q = x @ W_q and k = x @ W_k, and dS, (B, num_heads, T, "
        "T), is the gradient of its scores. Return the gradient of W_k, (d_model, d_model)."
    ),
    answer=key_gradient_solution,
    plain=(_key_gradient_by_steps,),
    cases=_key_cases,
    axes=("feature of x", "feature of k"),
    hints=(
        "S[i, j] = q[i] · k[j] / √head_dim. What gradient does k[j] get from it, summed over the queries i?",
        "k[j] gets the sum over i of dS[i, j] q[i] / √head_dim, which is dS.mT @ q / √head_dim, head by head.",
        "From there, proceed as for W_q: merge the heads, put x.mT in front, and sum over the batch.",
    ),
    wrong={
        "dS not transposed": Wrong(
            Change("dS.transpose(2, 3)", "dS"),
            "you multiplied dS and q without transposing dS.",
            "A key collects gradient from all queries that look at it, so sum over the rows of dS: dS.mT @ q.",
        ),
        "The mean of the samples": Wrong(
            Change("of_samples.sum(0)", "of_samples.mean(0)"),
            "you average over the samples.",
            "If the loss is a mean, dS already includes that. Gradients of one weight add up: sum(0).",
        ),
        "The root of the whole width": Wrong(
            Change("head_dim**0.5", "d_model**0.5"),
            "you divide by the root of d_model.",
            "The scale belongs to the scores of one head, which are sums of head_dim products.",
        ),
        "As nn.Linear stores it": Wrong(
            Change("return of_samples.sum(0)", "return of_samples.sum(0).mT"),
            "this is right, but transposed.",
            "Here k = x @ W_k: rows are features of x, and columns features of k. nn.Linear stores the transpose.",
        ),
        "The gradient of k": Wrong(
            Change("return of_samples.sum(0)", "return dK"),
            "that is the gradient of k, token by token.",
            "Since k = x @ W_k, go one step further back: put x.mT in front, and sum over the batch.",
        ),
        "The heads' gradients added": Wrong(
            _heads_added,
            "you added up the gradients of all heads' scores first.",
            "Each head's keys get their gradient from that head's scores alone: split q, and multiply head by head.",
        ),
    },
    see="The gradients, on paper",
    remarks=(
        Grows(
            lambda heads=3, samples=2: (
                draw(0, samples, 4, 2 * heads),
                draw(1, samples, heads, 4, 4),
                draw(2, 2 * heads, 2 * heads),
            )
        ),
    ),
)
