"""`survey`: what every head of a model does over thousands of texts, rather than in a single one.

`capture` sees the maps, a few texts at a time, and only measures of them are kept. Texts with the same number of tokens
go through the model together, so that nothing is padded and no query looks at padding. A survey runs as a sweep, with
one bar, a folder from which it can go on after a break, and processes or a cluster. `head_scatter` shows the results.
"""

import base64
import hashlib
import itertools
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from headview.capture import capture
from mhalib.arguments import as_torch_starts, check_size
from mhalib.heads import attention_distance, attention_entropy

# Shares of the weight, from 0 to 1, that a head can be labelled by; then what has other units.
SHARES = ("separators", "first token", "previous token", "next token", "itself", "same token", "induction")
OTHERS = ("entropy", "distance")  # in units of their own: no share of the weight, and no label
LABEL_FROM, NO_LABEL = 0.4, "mixed"  # the share of its weight from which a head has a label; what it has below
_KEPT = 3  # strongest texts of a head in a measure
_TOGETHER = 64  # texts of a run, each stored as one file
_AT_ONCE = 2**24  # weights of the texts that go through the model together, or those of one text
_MARK = re.compile(r"\[[A-Z]+\]|<[^<>\s]+>")  # [CLS], <s>, <|endoftext|>: tokens that stand for no word
_LEVELS = np.linspace(0, 1, 21)  # the quantiles that are kept of every measure


class Example(NamedTuple):
    """A text in which a head is strongest in a measure, and the cell of its map that contributes most."""

    text: int
    value: float
    tokens: list[str]
    query: int
    key: int
    weight: float


class _Text(NamedTuple):
    """A text as the model reads it."""

    number: int
    ids: list[int]
    tokens: list[str]


def survey(
    model: nn.Module | Callable[[], nn.Module],
    texts: Sequence,
    tokenizer: Any = None,
    *,
    measures: Mapping[str, Callable[[Tensor, list[str]], Tensor]] | None = None,
    run: Callable[[nn.Module, Tensor], Any] | None = None,
    layers: Any = None,
    folder: str | os.PathLike | None = None,
    workers: int = 1,
    progress: bool = True,
) -> "Survey":
    """Measure every head of a model on every text.

    In every text, each measure of a head is a mean over the queries that are words: its share of weight on separators
    (marks such as [CLS] or </s>), on the first token, on the previous and the next one, on the token itself, on the
    same token elsewhere, and on what followed it the last time (induction); its entropy in bits and its distance in
    tokens, all as `mhalib.heads` defines them. Where a learned sink takes a part of each row, these two are of what is
    left. NaN means that a text has no such case, such as no repeated token.

    Args:
        model: any module that `capture` can watch, or a function without arguments that makes it, such as
            `load_minilm`. Processes and clusters need the function; a module would be copied with its weights each run.
        texts: strings, or for each text a list of token ids.
        tokenizer: of Hugging Face, or a function of a text that returns `(ids, tokens)`. The model's own when left out.
        measures: your own, by name: functions of the weights of one text, `(layers, h, T, T)`, and of its tokens, that
            return `(layers, h)`.
        run: calls the model with ids `(B, T)`; `lambda model, ids: model(ids)` when left out.
        layers: which layers, as in `capture`.
        folder: where finished runs, of 64 texts each, are kept, as in `sweep`; the same call goes on from there.
        workers: how many processes. With 1, everything runs in this process, with as many threads as torch uses; a
            model that keeps all cores busy is not faster in several processes. A Dask cluster sets its own number.
        progress: show a bar over the runs.

    Raises:
        TypeError, ValueError: an argument is of the wrong kind; there are no texts, or a text is empty or longer than
            the model can read; there are no maps of self-attention, or not equally many heads in each layer. Raised
            before the first text is measured.
        SweepError: some runs failed; finished runs are kept in the folder.

    Needs memory for the maps of one batch, and 4 bytes per head, measure and text for the result. See notebook 18.
    """
    from mhalib.experiments.sweeps import joblib, sweep  # only now: capture needs torch alone

    check_size("workers", workers)
    own = dict(measures or {})
    names = [*SHARES, *OTHERS, *own]
    if len(set(names)) < len(names) or not all(map(callable, own.values())):
        raise ValueError(f"measures must be functions, under names that no other measure has, got {list(own)}")
    whole = model if isinstance(model, nn.Module) else _loaded(model)
    if whole is model and joblib.effective_n_jobs(workers) > 1:
        raise ValueError(
            "several processes need a function that makes the model, such as load_minilm, not the model itself, which "
            "would be copied for every run; give the function, or workers=1"
        )
    read = sorted(_read(whole, texts, tokenizer), key=lambda text: len(text.ids))
    reader = _Reader(model, run, own, layers, torch.get_num_threads())
    layer_names, num_heads = reader.probe(read[-1])
    known = [_fingerprint(whole), str(layers), names, [_source(each) for each in (run, *own.values())]]
    arms = {
        f"texts from {start}": {"texts": read[start : start + _TOGETHER], "known": known}
        for start in range(0, len(read), _TOGETHER)
    }
    rows = sweep(reader, arms, [0], folder=folder, workers=workers, progress=progress)
    values = np.full((len(read), len(names), len(layer_names), num_heads), np.nan, np.float32)
    cells = np.zeros((*values.shape[1:], 0, 5), np.float32)
    for row in rows:
        measured, best = (np.frombuffer(base64.b64decode(row[part]), "<f4") for part in ("values", "cells"))
        values[[text[0] for text in row["texts"]]] = measured.reshape(-1, *values.shape[1:])
        best = np.moveaxis(best.reshape(-1, *values.shape[1:], 5), 0, -2)
        cells = _strongest(np.concatenate([cells, best], -2))
    used = {int(number) for number in cells[..., 0].flat}
    tokens = {text.number: text.tokens for text in read if text.number in used}
    arrays = _summary(values) | {"codes": _codes(values), "cells": cells, "values": values}
    return Survey(names, layer_names, tokens, arrays)


@lru_cache(1)
def _loaded(make: Callable[[], nn.Module]) -> nn.Module:
    """Return the model that all runs of this process share."""
    if not callable(make) or not isinstance(model := make(), nn.Module):
        raise TypeError(f"model must be an nn.Module, or a function that makes one, got {type(make).__name__}")
    return model


def _read(model: nn.Module, texts: object, tokenizer: Any) -> list[_Text]:
    """Return all texts as the model reads them, or say which of them it cannot read."""
    if isinstance(texts, str) or not hasattr(texts, "__iter__"):
        raise TypeError(f"texts must be a list of strings or of token ids, got {texts!r:.60}; a single one is [text]")
    texts = list(texts)
    if not texts:
        raise ValueError("there are no texts; give at least one, better a few hundred")
    tokenizer = getattr(model, "tokenizer", None) if tokenizer is None else tokenizer
    cut = [_cut(text, tokenizer) for text in texts]
    empty = [i for i, (_, tokens, _) in enumerate(cut) if all(map(_MARK.fullmatch, tokens))]
    long = [i for i, (*_, more) in enumerate(cut) if more]
    for numbers, what in ((empty, "hold no words"), (long, "have more tokens than the model can read")):
        if numbers:
            few = ", ".join(map(str, numbers[:8])) + ", …" * (len(numbers) > 8)
            raise ValueError(f"{len(numbers)} of {len(texts)} texts {what}: number {few}; change or leave them out")
    return [_Text(i, ids, tokens) for i, (ids, tokens, _) in enumerate(cut)]


def _cut(text: object, tokenizer: Any) -> tuple[list[int], list[str], bool]:
    """Return the ids and the tokens of a text, and whether the tokenizer left a part of it out."""
    if not isinstance(text, str):
        ids = torch.as_tensor(text, device="cpu")
        if ids.ndim != 1 or ids.is_floating_point():
            raise TypeError(f"a text must be a string or a list of token ids, got {text!r:.60}")
        return ids.tolist(), [str(i) for i in ids.tolist()], False
    if hasattr(tokenizer, "convert_ids_to_tokens"):  # of transformers
        ids = list(tokenizer(text)["input_ids"])
        return ids, tokenizer.convert_ids_to_tokens(ids), False
    if hasattr(tokenizer, "encode"):  # of the package tokenizers
        encoding = tokenizer.encode(text)
        return encoding.ids, encoding.tokens, bool(encoding.overflowing)
    if not callable(tokenizer):
        raise TypeError("strings need a tokenizer: the model's, or a function of a text that returns ids and tokens")
    ids, tokens = tokenizer(text)
    return [int(i) for i in ids], [str(token) for token in tokens], False


def _fingerprint(model: nn.Module) -> str:
    """Return what tells this model from another, or from itself after a step of training; some weights of each part."""
    found = hashlib.sha256(type(model).__qualname__.encode())
    for name, x in model.state_dict().items():
        few = x.detach().flatten()[:: max(1, x.numel() // 64)].to("cpu", torch.float64)
        found.update(f"{name} {tuple(x.shape)}".encode() + few.numpy().tobytes())
    return found.hexdigest()[:24]


def _source(function: Callable | None) -> str:
    code = getattr(function, "__code__", None)
    told = [each for each in code.co_consts if not hasattr(each, "co_code")] if code else ""
    return f"{code and code.co_code.hex()} {told}"


@dataclass
class _Reader:
    """Measures the texts of one run; made here, used here or in another process."""

    make: nn.Module | Callable[[], nn.Module]
    run: Callable[[nn.Module, Tensor], Any] | None
    own: dict[str, Callable]
    layers: Any
    threads: int

    def probe(self, text: _Text) -> tuple[list[str], int]:
        """Return the names of the layers and how many heads each has, from the longest text; or say what is wrong."""
        try:
            names, weights, rows = self._maps([text])
        except Exception as error:  # no map, a text that is too long, whatever a model says that reads something else
            raise ValueError(
                f"the model cannot be measured on text {text.number}, the longest, of {len(text.ids)} tokens: {error}; "
                "if it reads no ids (B, T), say how to call it, such as run=lambda model, ids: model.encoder(ids)"
            ) from error
        self._measured(weights[0], rows[0], text)
        return names, weights.shape[2]

    def __call__(self, seed: int, texts: list, known: list) -> dict[str, str]:
        from mhalib.experiments.training import torch_threads

        found = []
        with torch_threads(self.threads if isinstance(self.make, nn.Module) else 1):
            for _, alike in itertools.groupby(itertools.starmap(_Text, texts), lambda text: len(text.ids)):
                alike, start, room = list(alike), 0, 1  # the first one tells how many there is room for
                while some := alike[start : start + room]:
                    _, weights, rows = self._maps(some)
                    found += map(self._measured, weights, rows, some)
                    start, room = start + len(some), max(1, _AT_ONCE // weights[0].numel())
        values, cells = (np.stack(each) for each in zip(*found, strict=True))
        parts = {"values": values, "cells": np.moveaxis(_strongest(np.moveaxis(cells, 0, -2)), -2, 0)}
        # A sweep stores texts and numbers.
        return {name: base64.b64encode(part.astype("<f4").tobytes()).decode() for name, part in parts.items()}

    def _maps(self, texts: list[_Text]) -> tuple[list[str], Tensor, Tensor]:
        """Return the names of the layers, the weights of texts of one length, (B, layers, h, T, T), and their rows.

        Where a sink takes a part of each row, the rows are what is left of it as a whole.
        """
        model = self.make if isinstance(self.make, nn.Module) else _loaded(self.make)
        ids = torch.tensor([text.ids for text in texts], device=next(model.parameters(), torch.empty(0)).device)
        with torch.no_grad(), capture(model, layers=self.layers, progress=False) as maps:
            self.run(model, ids) if self.run else model(ids)
        (count, size), kinds = ids.shape, maps.kinds
        own = [i for i, m in enumerate(maps) if kinds[i] == "self" and (len(m), *m.shape[2:]) == (count, size, size)]
        if len({maps[i].shape[1] for i in own}) != 1:
            raise ValueError(
                f"a survey needs maps of self-attention over all {size} tokens with equally many heads in each layer, "
                f"got {[tuple(m.shape) for m in maps][:4]}; choose with layers=…"
            )
        weights = torch.stack([_single(maps[i]) for i in own], 1)
        part = any(maps.sums[i] == "part" for i in own)
        return [maps.names[i] for i in own], weights, weights / weights.sum(-1, keepdim=True) if part else weights

    @as_torch_starts()
    def _measured(self, weights: Tensor, rows: Tensor, text: _Text) -> tuple[np.ndarray, np.ndarray]:
        """Return all measures of a text, (measures, layers, h), and the cells that say most, each as 5 numbers."""
        words = torch.tensor([not _MARK.fullmatch(token) for token in text.tokens])
        targets = _targets(torch.tensor(text.ids), ~words) & words[:, None]  # (shares, T, T)
        having = targets.any(-1).sum(-1)  # queries that have such a key, (shares,)
        flat = weights.flatten(2)  # (layers, h, T * T)
        shares = flat @ targets.flatten(1).float().T / having  # (layers, h, shares); 0 / 0 is NaN, as it should be
        spread, far = attention_entropy(rows)[..., words], attention_distance(rows)[..., words]
        found = [*shares.movedim(-1, 0), spread.mean(-1), far.mean(-1)]
        best = [(flat * target.flatten()).argmax(-1) for target in targets]  # (layers, h) each
        size = len(text.ids)
        for each in (spread, far):  # the query that is most so, and where it looks most
            query = words.nonzero()[:, 0][each.argmax(-1)]  # (layers, h)
            row = weights.gather(2, query[..., None, None].expand(*query.shape, 1, size))[:, :, 0]
            best.append(query * size + row.argmax(-1))
        for name, measure in self.own.items():
            given, shape = torch.as_tensor(measure(weights, text.tokens)), weights.shape[:2]
            if given.shape != shape:
                raise ValueError(f"the measure {name!r} must give {tuple(shape)} numbers, got {tuple(given.shape)}")
            found.append(given.float())
            best.append((flat * words.repeat_interleave(size)).argmax(-1))
        values, places = torch.stack(found), torch.stack(best)  # (measures, layers, h) each
        weight = flat.gather(-1, places.movedim(0, -1)).movedim(-1, 0)
        number = torch.full_like(values, text.number).masked_fill(values.isnan(), -1)
        cells = torch.stack([number, values.nan_to_num(-1), places // size, places % size, weight], -1)
        return values.numpy(), cells.numpy()


def _single(weights: Tensor) -> Tensor:
    """Return weights in float32, as rows that sum to 1 where rounding to half precision is all that they lack."""
    whole, lost = weights.float(), torch.finfo(weights.dtype).eps
    if whole is weights:
        return whole
    total = whole.sum(-1, keepdim=True)
    return torch.where((total - 1).abs() <= lost, whole / total, whole)


def _targets(ids: Tensor, marks: Tensor) -> Tensor:
    """Return for each of SHARES which keys each query is measured on, (shares, T, T)."""
    places = torch.arange(len(ids))
    offsets = places - places[:, None]  # of the key from the query
    first, same = places == 0, ids == ids[:, None]
    behind = (same & (offsets < 0)).roll(1, -1)  # the last key is never earlier
    found = [marks, first, offsets == -1, offsets == 1, offsets == 0, same & (offsets != 0), behind]
    return torch.stack([keys.expand(len(ids), len(ids)) for keys in found])


class Survey:
    """What every head does over many texts; `survey` makes it.

    Attributes:
        names, layers: the names of the measures; the names of the layers.
        num_heads, num_texts: how many heads a layer has; how many texts were read.
        mean: for each measure, by name, the mean over the texts, `(layers, h)`; NaN where no text has the measure.
        labels: `(layers, h)` of str: the share that is largest in the mean over all texts, "mixed" if none reaches .4.
        labels_by_text: `(texts, layers, h)` of str, the same for each text by itself.
        cells, tokens: what `strongest` reads: `(measures, layers, h, 3, 5)`, with text, value, query, key and weight
            (-1 for no text), and the tokens of these texts by number.

    Taught in notebook 18.
    """

    def __init__(
        self, names: list[str], layers: list[str], tokens: dict[int, list[str]], arrays: dict[str, np.ndarray]
    ):
        self.names, self.layers, self.tokens, self.cells, self._arrays = names, layers, tokens, arrays["cells"], arrays
        self.num_texts, _, self.num_heads = arrays["codes"].shape
        self.mean = dict(zip(names, arrays["mean"], strict=True))
        words = np.array([*SHARES, NO_LABEL])
        self.labels, self.labels_by_text = words[_codes(arrays["mean"])], words[arrays["codes"]]

    def __repr__(self) -> str:
        layers, heads = self.labels.shape
        return f"Survey of {layers} layers of {heads} heads over {self.num_texts:,} texts: {', '.join(self.names)}"

    @property
    def measures(self) -> dict[str, np.ndarray]:
        """For each measure, by name, its values in all texts, `(texts, layers, h)`; NaN where a text has none."""
        if "values" not in self._arrays:
            raise ValueError("this survey was saved without the numbers of its texts; save it with texts=True")
        return dict(zip(self.names, self._arrays["values"].swapaxes(0, 1), strict=True))

    def interval(self, measure: str, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Return the ends of Student's t-interval around each head's mean, `(layers, h)` each.

        It says how certain the mean over texts like these is; `quantile` says how far single texts scatter.
        """
        from scipy import stats

        i = self._number(measure)
        mean, error, count = (self._arrays[part][i] for part in ("mean", "error", "count"))
        reach = stats.t.ppf((1 + level) / 2, np.maximum(count - 1, 1)) * error
        return mean - reach, mean + reach

    def quantile(self, measure: str, share: float) -> np.ndarray:
        """Return what a measure is at most in this share of texts, `(layers, h)`, interpolated between steps of .05."""
        found = self._arrays["quantiles"][:, self._number(measure)].astype(np.float32)
        low = int(np.clip(share * 20, 0, 19))
        return found[low] + (share * 20 - low) * (found[low + 1] - found[low])

    def strongest(self, layer: int, head: int, measure: str) -> list[Example]:
        """Return the three texts in which a head is strongest in a measure, the strongest first."""
        i = self._number(measure)
        if not (0 <= layer < len(self.layers) and 0 <= head < self.num_heads):
            raise ValueError(f"there is no layer {layer} with a head {head}; there are {self.labels.shape}")
        rows = [row.tolist() for row in self.cells[i, layer, head] if row[0] >= 0]
        return [Example(int(t), value, self.tokens[int(t)], int(q), int(k), w) for t, value, q, k, w in rows]

    def label(self, layer: int, head: int, text: int | None = None) -> str:
        """Return the label of a head, from all texts or from the text with this number."""
        return str((self.labels if text is None else self.labels_by_text[text])[layer, head])

    def save(self, path: str | os.PathLike, texts: bool = True) -> None:
        """Write the survey to an .npz file; without the numbers of single `texts`, the file is small."""
        about = json.dumps({"names": self.names, "layers": self.layers, "tokens": self.tokens})
        arrays = {name: part for name, part in self._arrays.items() if texts or name != "values"}
        with open(path, "wb") as file:  # numpy would put .npz behind any other name
            np.savez_compressed(file, **arrays, about=about)

    @classmethod
    def load(cls, path: str | os.PathLike) -> "Survey":
        """Return a survey that was saved; nothing in the file is run. Any other file raises a ValueError."""
        with np.load(path, allow_pickle=False) as file:
            arrays = dict(file) if isinstance(file, np.lib.npyio.NpzFile) else {}
        if not {"about", "codes", "cells"} <= set(arrays):
            raise ValueError(f"{path} is not a survey; give a file that Survey.save wrote")
        about = json.loads(str(arrays.pop("about")))
        tokens = {int(number): tokens for number, tokens in about["tokens"].items()}
        return cls(about["names"], about["layers"], tokens, arrays)

    def _number(self, measure: str) -> int:
        if measure not in self.names:
            raise ValueError(f"there is no measure {measure!r}; there are {', '.join(self.names)}")
        return self.names.index(measure)


def _summary(values: np.ndarray) -> dict[str, np.ndarray]:
    """Return how many texts have each measure, (measures, layers, h), its mean, the error of that, its quantiles."""
    known = ~np.isnan(values)
    count = known.sum(0)
    with np.errstate(invalid="ignore", divide="ignore"):  # 0 / 0 is NaN, as it should be
        mean = np.where(known, values, 0).sum(0, dtype=np.float64) / count
        squares = np.where(known, (values - mean) ** 2, 0).sum(0, dtype=np.float64)
        error = np.where(count > 1, np.sqrt(squares / (count - 1) / count), np.nan)
    some = np.where(count > 0, values, 0)  # of a measure that no text has, NaN is put back below
    quantiles = np.where(count > 0, np.nanquantile(some, _LEVELS, axis=0), np.nan)
    found = {"count": count, "mean": mean, "error": error, "quantiles": quantiles}
    kinds = {"count": np.int32, "mean": np.float32, "error": np.float32, "quantiles": np.float16}
    return {name: part.astype(kinds[name]) for name, part in found.items()}


def _codes(values: np.ndarray) -> np.ndarray:
    """Return the number of the largest share of each head, (..., layers, h), -1 where none is large enough."""
    shares = np.nan_to_num(values[..., : len(SHARES), :, :], nan=-1.0)
    return np.where(shares.max(-3) >= LABEL_FROM, shares.argmax(-3), -1).astype(np.int8)


def _strongest(cells: np.ndarray) -> np.ndarray:
    """Return the few cells (..., n, 5) with the largest values, the largest first."""
    order = np.argsort(np.where(cells[..., 0] < 0, np.inf, -cells[..., 1]), -1, kind="stable")[..., :_KEPT]
    return np.take_along_axis(cells, order[..., None], -2)
