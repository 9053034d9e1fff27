"""The exercises of lesson 03: into heads, back, and folded into the batch."""

import torch

import mhalib
from mhacourse.exercise import Change, Exercise, Wrong
from mhacourse.inputs import draw, head_labels, labels
from mhacourse.remarks import Grows, in_float16, with_a_gradient

_SEES = "Cut the features, not the sentence: view(B, T, num_heads, head_dim) first, then transpose(1, 2)."

head_one = Exercise(
    task=(
        "The features of three tokens, with d_model 6, are labelled 10·token + feature. Split them into three heads, "
        "and write down head 1 as a list of rows."
    ),
    answer=[[2, 3], [12, 13], [22, 23]],
    hints=(
        "head_dim is 6 / 3 = 2, so each head holds two features of each of the three tokens.",
        "Head 0 holds features 0 and 1, and head 1 holds the next two.",
    ),
    wrong={
        "A slice of the sentence": Wrong(
            [[10, 11], [12, 13], [14, 15]],
            "all your numbers belong to token 1. That is what view(1, 3, 3, 2) returns.",
            _SEES,
        ),
        "Head 0 instead of head 1": Wrong(
            [[0, 1], [10, 11], [20, 21]],
            "this is the first head.",
            "Heads are counted from 0, like tokens and features.",
        ),
        "Every third feature": Wrong(
            [[1, 4], [11, 14], [21, 24]],
            "you dealt the features out to the heads in turn, like cards.",
            "That is legal in another layout. Here, a head holds neighbouring features.",
        ),
        "The last head": Wrong(
            [[4, 5], [14, 15], [24, 25]],
            "this is head 2.",
            "Heads are counted from 0, so of three heads, head 1 is the middle one.",
        ),
        "Two heads of three features": Wrong(
            [[3, 4, 5], [13, 14, 15], [23, 24, 25]],
            "you cut six features into two heads.",
            "There are three heads, so each has two features.",
        ),
        "Features 1 and 2": Wrong(
            [[1, 2], [11, 12], [21, 22]],
            "you begin at feature 1.",
            "Head 1 begins where head 0 ends. Head 0 has features 0 and 1, so 2 and 3 come next.",
        ),
        "Tokens counted from 1": Wrong(
            [[12, 13], [22, 23], [32, 33]],
            "your rows belong to tokens 1, 2 and 3.",
            "The three tokens are tokens 0, 1 and 2.",
        ),
        "A token, not a head": Wrong(
            [[10, 11, 12, 13, 14, 15]],
            "this is token 1 with all its features.",
            "A head holds every token, with two features of each.",
        ),
        "All heads": Wrong(
            [[[0, 1], [10, 11], [20, 21]], [[2, 3], [12, 13], [22, 23]], [[4, 5], [14, 15], [24, 25]]],
            "these are all three heads.",
            "The task asks for head 1 alone, the second of your three tables.",
        ),
        "Rows and columns exchanged": Wrong(
            [[2, 12, 22], [3, 13, 23]],
            "the numbers are right, but your rows are features.",
            "A head is (T, head_dim), with one row for each token.",
        ),
    },
    see="What a split must do",
)


def _split(x, num_heads):
    return mhalib.split_heads(x, num_heads)


def _split_by_steps(x, num_heads):
    B, T, d_model = x.shape
    head_dim = d_model // num_heads
    heads = x.reshape(B, T, num_heads, head_dim)  # (B, T, d_model) -> (B, T, num_heads, head_dim)
    heads = heads.transpose(1, 2)  # -> (B, num_heads, T, head_dim)
    return heads


split_heads = Exercise(
    task="Write split_heads(x, num_heads): (B, T, d_model) -> (B, num_heads, T, head_dim).",
    answer=mhalib.split_heads,
    cases=lambda: [
        (labels(2, 4), 2),
        (labels(3, 8), 4),
        (labels(5, 12, B=2), 3),
        (draw(0, 3, 1, 8), 4),  # labels are whole and not negative, these are; and one token keeps its axis
        (draw(1, 2, 3, 4), 1),  # so does one head
        (labels(2, 15, B=4), 3),
    ],
    plain=(_split_by_steps,),
    axes=("sample", "head", "token", "feature"),
    hints=(
        "There are two steps. Which axis do you cut into two, and which two axes change places?",
        "First comes (B, T, d_model) -> (B, T, num_heads, head_dim): you cut the last axis, and nothing moves.",
        "Then swap axes 1 and 2 with transpose.",
    ),
    wrong={
        "A view without a transpose": Wrong(
            Change("heads.transpose(1, 2)", "heads.reshape(heads.transpose(1, 2).shape)"),
            "head 0 holds the first tokens with all their features, not all tokens with their first features.",
            _SEES + " The shape is right either way, so no error stops you.",
        ),
        "The tokens are cut, not the features": Wrong(
            lambda x, h: torch.stack(x.chunk(h, dim=1), dim=1),
            "each head gets some of the tokens, with all their features.",
            "A head holds every token, with some of its features: cut the last axis.",
        ),
        "The transpose is missing": Wrong(
            Change("heads.transpose(1, 2)", "heads"),
            "the result is (B, T, num_heads, head_dim).",
            "The product q @ k.mT works on the last two axes, so tokens belong there: transpose(1, 2).",
        ),
        "Number and width exchanged": Wrong(
            Change("x.reshape(B, T, num_heads, head_dim)", "x.reshape(B, T, head_dim, num_heads)"),
            "you made head_dim heads of num_heads features each.",
            "Cut the last axis as (num_heads, head_dim). split(size) takes the size of a piece, chunk(n) the number "
            "of pieces.",
        ),
        "Heads that overlap": Wrong(
            lambda x, h: x.unfold(-1, x.shape[-1] // h, 1)[:, :, :h].transpose(1, 2),
            "head 1 begins one feature after head 0, so neighbouring heads share features.",
            "Head i begins at i * head_dim: x[:, :, i * head_dim : (i + 1) * head_dim].",
        ),
        "Heads before samples": Wrong(
            Change("return heads", "return heads.transpose(0, 1)"),
            "the result is (num_heads, B, T, head_dim), which is what torch.stack(x.chunk(num_heads, -1)) returns.",
            "Heads are on axis 1: torch.stack(..., dim=1).",
        ),
        "Features dealt out in turn": Wrong(
            Change("x.reshape(B, T, num_heads, head_dim)", "x.reshape(B, T, head_dim, num_heads).mT"),
            "head 0 holds features 0, h, 2h, …",
            "Weights trained in the usual layout do not fit this one, so cut the last axis as (num_heads, head_dim).",
        ),
        "Exchanged before the cut": Wrong(
            lambda x, h: x.transpose(1, 2).reshape(x.shape[0], h, x.shape[1], -1),
            "you swapped tokens and features first, and then cut them together.",
            "Cut the last axis first, then swap two axes.",
        ),
    },
    see="Why: a tensor is one long line",
    explanation=(
        "In the library's version, the last line does the work; the earlier lines reject inputs that cannot be split."
    ),
    remarks=(
        Grows(lambda heads=3, samples=2, tokens=4: (draw(0, samples, tokens, 2 * heads), heads)),
        in_float16,
        with_a_gradient,
    ),
)


def _merge_by_steps(x):
    B, num_heads, T, head_dim = x.shape
    tokens = x.transpose(1, 2)  # (B, num_heads, T, head_dim) -> (B, T, num_heads, head_dim)
    merged = tokens.reshape(B, T, num_heads * head_dim)  # -> (B, T, d_model)
    return merged


merge_heads = Exercise(
    task="Write merge_heads(x), the way back: (B, num_heads, T, head_dim) -> (B, T, d_model).",
    answer=mhalib.merge_heads,
    cases=lambda: [
        (head_labels(2, 3, 2),),
        (head_labels(4, 3, 5, B=2),),
        (draw(0, 3, 4, 1, 2),),  # not whole, some negative; and one token keeps its axis
        (head_labels(3, 4, 2, B=5),),
    ],
    plain=(_merge_by_steps,),
    axes=("sample", "token", "feature"),
    hints=(
        "Undo the two steps of the split in reverse order.",
        "transpose(1, 2) comes first. After that, the tensor is no longer contiguous.",
        "view raises an error on such a tensor; reshape and flatten do not.",
    ),
    wrong={
        "No transpose": Wrong(
            Change("x.transpose(1, 2)", "x.reshape(x.transpose(1, 2).shape)"),
            "row 0 holds head 0 of several tokens. The shape is right, but the tokens are mixed.",
            "First bring together what belongs to one token, with transpose(1, 2).",
        ),
        "The error that view raises": Wrong(
            lambda x: x.transpose(1, 2).view(x.shape[0], x.shape[2], -1),
            "the transpose is right, but view cannot join axes that are no longer neighbours in memory.",
            "Keep the transpose, but use reshape instead of view, or call contiguous() before view.",
        ),
        "Tokens joined with features": Wrong(
            lambda x: x.flatten(2),
            "the result is (B, num_heads, T * head_dim): each head stays separate, with its tokens in one row.",
            "First bring heads and features together with transpose(1, 2), then join the two with flatten(2).",
        ),
        "Features before heads": Wrong(
            lambda x: x.permute(0, 2, 3, 1).flatten(2),
            "in each row, feature 0 of all heads comes first, then feature 1.",
            "That does not undo split_heads, which puts heads before features: (B, T, num_heads, head_dim).",
        ),
        "The first sample alone": Wrong(
            lambda x: x[:1].transpose(1, 2).flatten(2),
            "only sample 0 is in your result.",
            "The batch is an axis like the others: leave it where it is.",
        ),
        "Added, not joined": Wrong(
            lambda x: x.sum(1),
            "you added or averaged the heads, so the result is (B, T, head_dim).",
            "Merging puts the heads side by side, and every number survives.",
            also=(lambda x: x.mean(1),),
        ),
        "Samples joined": Wrong(
            lambda x: torch.cat(list(x), dim=-1),
            "list(x) splits x into samples, so you joined samples, and their heads stayed apart.",
            "Split x into heads instead: x.unbind(1).",
        ),
    },
    see="The error you will meet",
    explanation=(
        "In the library's version, the last line does the work; the earlier lines reject inputs that cannot be merged."
    ),
    remarks=(
        Grows(lambda heads=3, samples=2, tokens=4: (draw(0, samples, heads, tokens, 2),)),
        with_a_gradient,
    ),
)


def fold_heads_solution(x, num_heads):
    B, T, d_model = x.shape
    heads = x.reshape(B, T, num_heads, -1).transpose(1, 2)  # (B, T, d_model) -> (B, num_heads, T, head_dim)
    return heads.flatten(0, 1)  # -> (B * num_heads, T, head_dim)


def _fold_by_steps(x, num_heads):
    B, T, d_model = x.shape
    head_dim = d_model // num_heads
    heads = x.reshape(B, T, num_heads, head_dim)  # (B, T, d_model) -> (B, T, num_heads, head_dim)
    heads = heads.transpose(1, 2)  # -> (B, num_heads, T, head_dim)
    folded = heads.reshape(B * num_heads, T, head_dim)  # -> (B * num_heads, T, head_dim)
    return folded


fold_heads = Exercise(
    task=(
        "Write fold_heads(x, num_heads), which folds heads into the batch as d2l does: (B, T, d_model) -> (B * "
        "num_heads, T, head_dim). All heads of sample 0 come first."
    ),
    answer=fold_heads_solution,
    # The first shows tokens apart, the second samples apart: both at once would fill a page.
    cases=lambda: [
        (labels(2, 6), 2),
        (labels(1, 6, B=2), 2),
        (labels(5, 8, B=3), 4),
        (draw(0, 1, 3, 4), 1),  # not whole, some negative; and one row keeps its axis
        (labels(2, 15, B=4), 3),
    ],
    plain=(_fold_by_steps,),
    axes=("row", "token", "feature"),
    hints=(
        "Split as before. Which axes hold samples and heads then?",
        "Two neighbouring axes become one with reshape, or with flatten(0, 1).",
        "In (B, num_heads, T, head_dim) the first two axes are samples and heads, in exactly the order you need.",
    ),
    wrong={
        "One view": Wrong(
            Change("heads.transpose(1, 2)", "heads.reshape(heads.transpose(1, 2).shape)"),
            "each row of the batch holds a slice of the sentence. FuxiCTR had this bug (issue 30).",
            "A view never moves a number. Split with a transpose, then fold.",
        ),
        "The first sample alone": Wrong(
            lambda x, h: torch.stack(x[0].chunk(h, -1)),
            "only sample 0 is in your result.",
            "Fold all samples, with the heads of sample 0 first. That gives B · num_heads rows.",
        ),
        "Heads first": Wrong(
            lambda x, h: _split(x, h).transpose(0, 1).flatten(0, 1),
            "head 0 of all samples comes first, which is what torch.cat(x.chunk(num_heads, -1)) returns.",
            "Masks in d2l's order would then reach the wrong samples (lesson 04), so fold in the order (B, num_heads).",
        ),
        "Number and width exchanged": Wrong(
            lambda x, h: fold_heads_solution(x, x.shape[-1] // h),
            "your heads have num_heads features each, so there are d_model / num_heads of them.",
            "num_heads says how many heads there are: cut the last axis into (num_heads, head_dim), in this order.",
        ),
        "Features before tokens": Wrong(
            Change("heads.transpose(1, 2)", "heads.permute(0, 2, 3, 1)"),
            "you put the features before the tokens, so the reshape cuts the numbers in the wrong order.",
            "Swap only the token and head axes: transpose(1, 2) gives (B, num_heads, T, head_dim).",
        ),
        "Features dealt out in turn": Wrong(
            Change("x.reshape(B, T, num_heads, head_dim)", "x.reshape(B, T, head_dim, num_heads).mT"),
            "head 0 holds features 0, h, 2h, …, dealt out like cards.",
            "A head holds neighbouring features: cut the last axis into (num_heads, head_dim), in this order.",
        ),
        "Heads folded into the tokens": Wrong(
            lambda x, h: x.reshape(x.shape[0], -1, x.shape[2] // h),
            "you turned the heads of a token into tokens: (B, T * num_heads, head_dim).",
            "Fold them into the samples: put heads next to samples with transpose(1, 2), then flatten(0, 1).",
            also=(
                Wrong(
                    lambda x, h: _split(x, h).flatten(1, 2),
                    "heads and tokens share an axis: (B, num_heads * T, head_dim).",
                    "Fold the heads into the samples, the axis before them: flatten(0, 1).",
                ),
            ),
        ),
        "The transpose left out, tokens folded": Wrong(
            lambda x, h: x.reshape(x.shape[0], x.shape[1], h, -1).flatten(0, 1),
            "samples and tokens share the first axis: (B * T, num_heads, head_dim).",
            "Without the transpose, the axis next to the samples holds tokens, not heads.",
        ),
        "Head 0 for all heads": Wrong(
            lambda x, h: x[..., : x.shape[-1] // h].repeat_interleave(h, 0),
            "there is a row for each head, but all rows of a sample hold the first head_dim features.",
            "Head 1 gets the next head_dim features, and so on.",
        ),
    },
    see="Two legal conventions",
    remarks=(Grows(lambda heads=3, samples=2, tokens=4: (draw(0, samples, tokens, 2 * heads), heads)),),
)
