"""A survey says of every text what `mhalib.heads` says of its maps, goes on where it stopped, and is seen as points."""

import numpy as np
import pytest
import torch
from joblib import parallel_config
from torch import nn

from headview import HeadScatter, Survey, capture, survey
from headview.surveys import SHARES
from mhalib import MultiHeadAttention
from mhalib.experiments import SweepError
from mhalib.heads import (
    attention_distance,
    attention_entropy,
    induction_score,
    key_score,
    offset_score,
    same_token_score,
)
from mhalib.pretrained import STORED_SURVEY, many_sentences
from mhalib.pretrained.minilm import MINILM
from tests.helpers.refusals import accepted

WORDS = "[CLS] the old painter painted bridge and baker [SEP]".split()
TEXTS = ["the painter painted the old bridge", "the old painter and the old baker", "painter", "the the the the"]


def spelled(text):
    tokens = ["[CLS]", *text.split(), "[SEP]"]
    return [WORDS.index(token) for token in tokens], tokens


class Small(nn.Module):
    """Two layers of two heads over at most ten tokens."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.words, self.places = nn.Embedding(len(WORDS), 8), nn.Embedding(10, 8)
        self.layers = nn.ModuleList([MultiHeadAttention(8, 2), MultiHeadAttention(8, 2)])
        self.calls = 0

    def forward(self, ids):
        self.calls += 1
        x = 3 * (self.words(ids) + self.places(torch.arange(ids.shape[1])))
        for layer in self.layers:
            x = x + layer(x)
        return x


def found(texts=TEXTS, model=None, **options):
    return survey(model or Small(), texts, spelled, progress=False, **options)


def test_each_text_has_the_measures_of_its_maps():
    full = found(TEXTS * 3, measures={"last": lambda weights, tokens: weights[..., -1].mean(-1)})
    for number, text in enumerate(TEXTS):
        ids = torch.tensor(spelled(text)[0])
        model = Small()
        with torch.no_grad(), capture(model) as maps:
            model(ids[None])
        weights, words = torch.cat([*maps]), (ids > 0) & (ids < len(WORDS) - 1)  # (layers, h, T, T)
        told = {
            "separators": key_score(weights, ~words, words),
            "first token": key_score(weights, torch.arange(len(ids)) == 0, words),
            "previous token": offset_score(weights, -1, words),
            "next token": offset_score(weights, 1, words),
            "itself": offset_score(weights, 0, words),
            "entropy": attention_entropy(weights)[..., words].mean(-1),
            "distance": attention_distance(weights)[..., words].mean(-1),
            "last": weights[..., -1].mean(-1),
        }
        if len(set(text.split())) < len(text.split()):
            told["same token"], told["induction"] = (
                score(weights, ids, words) for score in (same_token_score, induction_score)
            )
        for name, wanted in told.items():
            for copy in range(number, 3 * len(TEXTS), len(TEXTS)):
                np.testing.assert_allclose(full.measures[name][copy], wanted, atol=1e-5, err_msg=f"{name}: {text}")
        shares = {name: told[name] for name in SHARES if name in told}
        best = max(shares, key=lambda name: shares[name][1, 0])
        assert full.label(1, 0, text=number) == (best if shares[best][1, 0] >= 0.4 else "mixed")
    assert np.isnan(full.measures["induction"][2]).all()  # a single word has none
    best = full.strongest(1, 1, "previous token")[0]
    assert best.value == full.measures["previous token"][:, 1, 1].max() and best.key == best.query - 1
    assert best.tokens == spelled(TEXTS[best.text % 4])[1]


class Sink(nn.Module):
    """Attention of equal words to each other, with a sink that takes half of each row and holds nothing."""

    def __init__(self, sink=True):
        super().__init__()
        self.layer, self.sink = nn.Linear(len(WORDS), len(WORDS), bias=False), sink
        nn.init.eye_(self.layer.weight)

    def forward(self, ids):
        x = self.layer(torch.nn.functional.one_hot(ids, len(WORDS)).to(self.layer.weight.dtype))[:, None]
        scores = 2 * x @ x.mT
        if self.sink:
            scores = torch.cat([scores, scores.logsumexp(-1, keepdim=True)], -1)
        return scores.softmax(-1)[..., : ids.shape[1]] @ x


def test_weights_in_half_precision_and_rows_with_a_sink_are_measured_too():
    full, half, sunk = found(model=Sink(False)), found(model=Sink(False).bfloat16()), found(model=Sink())
    for name in ("entropy", "distance", "same token", "separators"):
        np.testing.assert_allclose(half.mean[name], full.mean[name], rtol=0.02)
    for name in ("entropy", "distance"):  # of what the sink leaves
        np.testing.assert_allclose(sunk.mean[name], full.mean[name], rtol=1e-5)
    np.testing.assert_allclose(sunk.mean["separators"], full.mean["separators"] / 2, rtol=1e-5)


def test_means_have_intervals_and_a_file_keeps_them(tmp_path):
    rng = np.random.default_rng(0)
    full = found([" ".join(rng.choice(WORDS[1:-1], rng.integers(2, 9))) for _ in range(200)])
    values, (low, high) = full.measures["entropy"], full.interval("entropy")
    reach = 1.972 * values.std(0, ddof=1) / 200**0.5
    np.testing.assert_allclose(np.stack([low, high]), values.mean(0) + np.stack([-reach, reach]), rtol=1e-3)
    np.testing.assert_allclose(full.quantile("entropy", 0.5), np.median(values, 0), atol=2e-3)
    for texts in (True, False):
        full.save(tmp_path / "kept", texts=texts)
        again = Survey.load(tmp_path / "kept")
        assert (again.labels_by_text == full.labels_by_text).all() and again.label(0, 1) == full.label(0, 1)
        assert again.strongest(0, 1, "same token") == full.strongest(0, 1, "same token")
        assert (again.interval("distance")[0] == full.interval("distance")[0]).all()
    with pytest.raises(ValueError, match="without the numbers of its texts"):
        again.measures  # noqa: B018
    (tmp_path / "other").write_bytes(b"no survey")
    with pytest.raises(ValueError):
        Survey.load(tmp_path / "other")


def test_an_interrupted_survey_goes_on_where_it_stopped(tmp_path):
    texts, model, many = [TEXTS[i % 2] for i in range(150)], Small(), []

    def breaks(weights, tokens):
        many.append(tokens)
        if len(many) == 100:  # in the second of three runs
            raise KeyboardInterrupt
        return weights[..., -1].mean(-1)

    with pytest.raises(KeyboardInterrupt):
        found(texts, model, folder=tmp_path, measures={"own": breaks})
    assert len([*tmp_path.glob("*.json")]) == 1
    before = len(many)
    full = found(texts, model, folder=tmp_path, measures={"own": breaks})
    assert len(many) - before == 150 - 64 + 1  # and the longest, which is tried first
    assert full.num_texts == 150 and not np.isnan(full.measures["own"]).any()
    calls = model.calls
    assert np.array_equal(found(texts, model, folder=tmp_path, measures={"own": breaks}).mean["own"], full.mean["own"])
    assert model.calls == calls + 1


@pytest.mark.slow
def test_processes_find_what_one_does():
    alone, several = found(TEXTS * 40), found(TEXTS * 40, model=Small, workers=2)
    np.testing.assert_allclose(several.mean["entropy"], alone.mean["entropy"], atol=1e-6)
    assert (several.labels_by_text == alone.labels_by_text).all()


@pytest.mark.slow
def test_a_dask_cluster_finds_what_one_process_does():
    distributed = pytest.importorskip("distributed")
    sizes = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
    with distributed.LocalCluster(**sizes) as cluster, distributed.Client(cluster), parallel_config(backend="dask"):
        several = found(TEXTS * 40, model=Small, workers=2)
    for name, values in found(TEXTS * 40).measures.items():
        np.testing.assert_allclose(several.measures[name], values, atol=1e-6)


def test_what_cannot_be_surveyed_is_said_before_anything_is_measured(as_shipped):
    model, plain = Small(), nn.Sequential(nn.Embedding(9, 4), nn.Linear(4, 4))
    failures = accepted(
        {
            "there are no texts": lambda: found([]),
            "TypeError: texts must be a list of strings": lambda: found("the old"),
            "1 of 3 texts hold no words: number 1;": lambda: found(["the", " ", "old"], model),
            "the longest, of 13 tokens": lambda: found(["the old", "the " * 11], model),
            "no attention was seen": lambda: found(model=plain),
            "if it reads no ids (B, T), say how to call it, such as run=": lambda: found(model=nn.Conv2d(1, 1, 1)),
            "TypeError: model must be an nn.Module": lambda: survey(3, TEXTS, spelled),
            "TypeError: strings need a tokenizer": lambda: survey(model, TEXTS),
            "a function that makes the model": lambda: found(model=model, workers=2),
            "under names that no other measure has": lambda: found(measures={"entropy": len}),
            "'one' must give (2, 2) numbers, got ()": lambda: found(measures={"one": lambda w, t: w.sum()}),
            "TypeError: survey must be what headview.survey returned": lambda: HeadScatter(model),
            "no measure 'x'": lambda: found().interval("x"),
            "no layer 2 with a head 0": lambda: found().strongest(2, 0, "entropy"),
        }
    )
    assert failures == [] and issubclass(SweepError, RuntimeError)
    assert model.calls <= 1  # the longest text, which failed


def test_the_stored_survey_is_of_the_pinned_weights_and_of_as_many_sentences():
    assert MINILM.sha256["model.safetensors"][:12] in STORED_SURVEY.name and STORED_SURVEY.stat().st_size < 200_000
    assert Survey.load(STORED_SURVEY).labels_by_text.shape == (2002, 6, 12)
    sentences = many_sentences(300)
    assert len(set(sentences)) == 300 and sentences == many_sentences(300) != many_sentences(300, seed=1)
    with pytest.raises(ValueError, match="at most 4000"):
        many_sentences(5000)


def test_axes_end_where_the_heads_do_and_say_so(static_page):
    full = found(TEXTS)
    full.mean["separators"] = np.array([[0.021, 0.03], [0.052, 0.058]])
    view = HeadScatter(full, x="separators", y="entropy")
    assert dict(zip(view.names, view.ends, strict=True))["separators"] == pytest.approx([0.02, 0.04, 0.06])
    assert view.figure().axes[0].get_xlim() == pytest.approx((0.02, 0.06))
    page = static_page(view)
    across = [float(circle.get_attribute("cx")) for circle in page.locator("circle.head").all()]
    assert min(across) < 60 and max(across) > 350  # of 42 to 380
    assert "separators, 0.02 to 0.06" in page.locator("svg.plane text.name").all_text_contents()


def test_a_click_on_a_point_shows_the_texts_of_its_head(static_page):
    full = found(TEXTS)
    page = static_page(HeadScatter(full, x="separators", y="same token"), width=900)
    circle = page.locator("circle.head").nth(2)  # layer 1, head 0
    box = circle.bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_function("() => document.querySelector('.title').innerText.startsWith('layer 1, head 0')")
    best = full.strongest(1, 0, "separators")[0]
    shown = page.locator(".example").first
    assert shown.locator(".token").all_inner_texts() == best.tokens
    assert shown.locator(".query").inner_text() == best.tokens[best.query]
    assert f"{best.value:.2f} in this text; {best.weight:.2f} of" in shown.inner_text()
    mean = f"{full.mean['separators'][1, 0]:.2f}"
    assert mean in page.locator(".means span.on").nth(1).inner_text()
    page.locator("svg.plane").focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function("() => document.querySelector('.title').innerText.startsWith('layer 1, head 1')")
    page.get_by_label("Up", exact=True).select_option("distance")
    page.wait_for_function("() => document.querySelector('svg.plane').textContent.includes('distance')")
