"""Asking a box: one place for all that is handed in and read out, and for what a box must be so that it can be read."""

from collections.abc import Callable

import torch
from torch import Tensor

from mhalib.arguments import check_size

MOST_AT_ONCE = 4096  # contexts of one question, which bounds the memory
ROOM = 1e3  # of rounding, times eps and the size of the numbers: what counts as equal


class Box:
    """A function of tokens, asked in one precision, answered in float64 for what is computed with the answers.

    Its arguments are those of `count_heads`.

    Raises:
        TypeError: f is no function, or returns no tensor, or another dtype.
        ValueError: f is no function of its tokens alone, mixes samples, is not affine on one token, or asks where
            a token stands; these experiments cannot read it, and the error says what it is and what to do.
    """

    def __init__(self, f: Callable, d_model: int, dtype: torch.dtype, seed: int):
        check_size("d_model", d_model)
        if not callable(f):
            raise TypeError(
                f"f must be a function of tokens (B, T, {d_model}), got {type(f).__name__}; hand over a layer or a "
                "lambda"
            )
        if dtype not in (torch.float64, torch.float32):
            raise ValueError(
                f"dtype must be torch.float64 or torch.float32, got {dtype}; rounding hides heads in others"
            )
        self.f, self.d_model, self.dtype = f, d_model, dtype
        self.eps = torch.finfo(dtype).eps
        self.generator = torch.Generator().manual_seed(seed)
        self._check()

    def draw(self, *shape: int) -> Tensor:
        """Return normal numbers that the box can hold exactly."""
        return torch.randn(*shape, generator=self.generator, dtype=torch.float64).to(self.dtype).double()

    @torch.no_grad()
    def ask(self, tokens: Tensor) -> Tensor:
        """Return what the box makes of tokens `(N, T, d_model)`, as float64; refuse what is no such thing."""
        return torch.cat([self._answer(part) for part in tokens.to(self.dtype).split(MOST_AT_ONCE)])

    def _answer(self, tokens: Tensor) -> Tensor:
        came = tuple(tokens.shape)
        try:
            out = self.f(tokens)
        except (RuntimeError, ValueError, TypeError, AssertionError) as error:
            raise ValueError(
                f"f stopped on tokens {came} of {self.dtype}: {error}; it must take any (B, T, {self.d_model}). A "
                "layer whose weights are float32 needs .double(), or dtype=torch.float32 here"
            ) from error
        if not isinstance(out, Tensor):
            hint = "wrap it: lambda x: f(x)[0]" if isinstance(out, (tuple, list)) else "wrap it so that it does"
            raise TypeError(f"f must return a tensor (B, T, {self.d_model}), got a {type(out).__name__}; {hint}")
        if tuple(out.shape) != came:
            raise ValueError(
                f"f must return the shape that it was given, {came}, got {tuple(out.shape)}; wrap it so that tokens "
                "are (B, T, d_model) on both sides"
            )
        if out.dtype != self.dtype:
            raise TypeError(
                f"f was given {self.dtype} and returned {out.dtype}; say dtype={out.dtype} if it computes so"
            )
        if not out.isfinite().all():
            raise ValueError(
                f"f returned NaN or infinity for {came} ordinary tokens; a mask that leaves a query without a key "
                "does so"
            )
        return out.detach().double().cpu()

    def added(self, c: Tensor, x: Tensor) -> Tensor:
        """Return what a token x beside c adds to what the box makes of c: `(N, d_model)`.

        c stands second and is read there, so that a causal box sees both; in any other box the order does not count.
        """
        return self.ask(torch.stack([x, c], 1))[:, 1] - self.ask(c[:, None])[:, 0]

    def _check(self) -> None:
        a, b, c = tokens = self.draw(3, 1, self.d_model)
        one = self.ask(tokens)
        size = one.abs().max().item()
        room = ROOM * self.eps * size
        if (self.ask(tokens) - one).abs().max() > room:
            raise ValueError(
                "f gives two answers to the same tokens; switch its dropout off (.eval()), and all else that is random"
            )
        if (self.ask(tokens[:1]) - one[:1]).abs().max() > room:
            raise ValueError(
                "one sample changes what f makes of another: f reads its first axis as tokens; with "
                "nn.MultiheadAttention say batch_first=True"
            )
        whole = self.ask(torch.stack([a + b, 0 * a]))
        bent = (one[0] + one[1] - whole[0] - whole[1]).abs().max().item()
        if bent > room:
            raise ValueError(
                f"f is not affine on one token: f(a) + f(b) and f(a + b) + f(0) differ by {bent:.2g}. With one key "
                "every weight is 1, so a layer of attention alone is affine: something bends its input or its "
                "output, a norm or a nonlinearity; hand over the layer without it"
            )
        twice = (self.ask(torch.cat([c, c])[None])[0, 1] - one[2, 0]).abs().max().item()
        turned = self.ask(torch.stack([torch.cat([a, b, c]), torch.cat([b, a, c])]))[:, 2]
        moved = max(twice, (turned[0] - turned[1]).abs().max().item())
        if moved > room:
            raise ValueError(
                f"it matters to f where a token is: the same tokens in another order, or one of them twice, change "
                f"the last answer by {moved:.2g}. It adds or turns positions, or its mask hides more than the future; "
                "hand over an f that puts every token at the same position, or the layer without positions"
            )
