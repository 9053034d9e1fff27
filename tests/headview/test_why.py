"""`why` on the course's model and on others: terms sum to the score, say who wrote them, and refuse what is no sum."""

import pytest
import torch
from torch import nn

from headview import HeadView, Sources, capture, why
from mhalib import merge_heads, split_heads
from mhalib.experiments import CausalModel
from tests.helpers.browser import until
from tests.helpers.small_models import inputs, model_of

pytestmark = pytest.mark.usefixtures("one_thread")

TOKENS = torch.tensor([[3, 1, 4, 1, 5, 2, 3, 1], [0, 2, 0, 1, 2, 3, 0, 2]])  # (B, T)
EXACT = {torch.float64: 1e-10, torch.float32: 1e-5}


def course_model(dtype=torch.float64, **options):
    return CausalModel(6, 8, 16, 4, seed=1, **options).to(dtype)


def scores_of(model, given, layer):
    """Return the scores of a layer by its own queries and keys, (B, h, Tq, Tk)."""
    with torch.no_grad(), capture(model, qkv=True) as maps:
        model(**given) if isinstance(given, dict) else model(given)
    return maps.queries[layer] @ maps.keys[layer].mT * maps.scales[layer]


def assert_sums(model, given, layer, dtype):
    """In every cell of the second sample the terms sum to the score."""
    scores, sources = scores_of(model, given, layer), Sources(model, given, sample=1)
    for head in range(scores.shape[1]):
        one = sources.why(layer=layer, head=head, query=0, key=0)
        terms = one.scale * torch.einsum("aqd,bkd->abqk", one.queries, one.keys)
        wrong = (terms.sum((0, 1)) - scores[1, head]).abs().max()
        assert wrong <= EXACT[dtype] * terms.abs().sum((0, 1)).max()
    return one


@pytest.mark.parametrize("dtype", EXACT)
@pytest.mark.parametrize("options", [{}, {"num_kv_heads": 2}, {"num_layers": 3}])
def test_terms_sum_to_the_score_in_the_models_of_the_course(dtype, options):
    one = assert_sums(course_model(dtype, **options), TOKENS, 1, dtype)
    assert one.names == ("token", "position", *(f"head 0.{i}" for i in range(4))) and one.frozen == ()


def test_a_model_in_float64_whose_norms_are_computed_in_float32_is_split_as_exactly_as_these_allow():
    model = model_of("llama").double()
    given = inputs(model)
    assert_sums(model, given, 1, torch.float32)
    with pytest.raises(AssertionError):
        assert_sums(model, given, 1, torch.float64)


def test_each_term_is_the_product_of_what_its_two_sources_brought():
    model = course_model()
    first, second = model.layers
    with torch.no_grad():
        token, place = model.token_embedding(TOKENS), model.position_embedding.weight
        _, maps = model(TOKENS, need_weights=True)
        v = split_heads(first.W_v(token + place), 4)
        alone = torch.zeros_like(v)
        alone[:, 2] = maps[0][:, 2] @ v[:, 2]
        brought = first.W_o(merge_heads(alone))  # by head 0.2, (B, T, d_model)
        q, k = split_heads(second.W_q(token), 4), split_heads(second.W_k(brought), 4)
        by_hand = (q @ k.mT / 2)[0, 3]
    split = why(model, TOKENS, layer=1, head=3, query=7, key=4)
    at = split.names.index("token"), split.names.index("head 0.2")
    assert split.terms[at].item() == pytest.approx(by_hand[7, 4].item(), abs=1e-12)
    lead = by_hand[7, 4] - by_hand[7, :8].mean()
    assert split.lead().terms[at].item() == pytest.approx(lead.item(), abs=1e-12)
    early = why(model, TOKENS, layer=1, head=3, query=4, key=4).lead()  # it sees five keys
    assert early.terms[at].item() == pytest.approx((by_hand[4, 4] - by_hand[4, :5].mean()).item(), abs=1e-12)


@pytest.mark.parametrize("how", [None, "eager"])
@pytest.mark.parametrize(
    ("family", "names", "frozen"),
    [
        ("gpt2", {"wte", "wpe", "h.0.mlp", "biases"}, {"h.1.ln_1"}),
        ("llama", {"embed_tokens", "layers.0.mlp"}, {"layers.1.input_layernorm"}),  # rotated, keys shared
        (
            "bert",
            {"word", "position", "token_type", "encoder.layer.0.intermediate", "biases"},
            {"embeddings.LayerNorm"},
        ),
    ],
)
def test_terms_sum_to_the_score_in_captured_models(family, names, frozen, how):
    model = model_of(family, how=how)
    for parameter in model.parameters():
        parameter.data = torch.randn_like(parameter) * 0.2
    one = assert_sums(model, inputs(model), 1, torch.float32)
    assert set(one.names) == names | {f"head 0.{i}" for i in range(4)}
    assert set(one.frozen) >= frozen and "norms kept as they were" in repr(one)


def test_torch_encoders_and_what_a_reader_sees():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 4, 32, norm_first=True, batch_first=True, dropout=0.1)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).double()
    x = torch.randn(2, 5, 16, dtype=torch.float64)
    split = why(model, x, layer=-1, head=1, query=4, key=0)
    assert model.training and split.names == ("input", *(f"head 0.{i}" for i in range(4)), "layers.0", "biases")
    assert split.score == pytest.approx(split.terms.sum().item()) and len(split.top(3)) == 3
    first, *lines = repr(split).splitlines()
    assert first == f"head 1.1, query 4, key 0: score {split.score:.2f}"
    told = sum(float(line[:8]) for line in lines[:-1])
    assert told == pytest.approx(split.score, abs=0.05) and "the other 44 terms" in lines[5]
    assert split.table(3).splitlines()[-1] == "and 4 more sources"


def test_a_bias_that_is_no_part_of_the_split_is_said(static_page):
    said = "a position bias, is not included"
    biased = {"t5": [True, True, True, False, True, False], "bloom": [True, True], "llama": [False, False]}
    for family, layers in biased.items():  # of T5 two look across
        model = model_of(family)
        sources = Sources(model, inputs(model))
        found = [sources.why(layer=i, head=1, query=2, key=1) for i in range(len(layers))]
        assert [said in repr(one) for one in found] == layers, family
        if family != "t5":
            with capture(model) as maps:
                model(**inputs(model))
            page = static_page(HeadView(maps, why=sources))
            assert (said in page.locator(".reasons").inner_text()) == layers[0]


class Scaled(nn.Module):
    """Its stream goes through tanh between the layers, which is no sum."""

    def __init__(self):
        super().__init__()
        self.inner = course_model()

    def forward(self, x):
        first, second = self.inner.layers
        return second(torch.tanh(x + first(x)))


def test_what_cannot_be_split_is_refused():
    model, cell = course_model(), {"layer": 1, "head": 0, "query": 3, "key": 2}
    with pytest.raises(ValueError, match="no head of the layers below is a source of layer 1"):
        why(Scaled(), torch.randn(1, 5, 16, dtype=torch.float64), **cell)
    with pytest.raises(ValueError, match="no multiple of q·k that could be followed"):  # a soft cap
        why(model_of("gemma2"), inputs(model_of("gemma2")), **cell)
    with pytest.raises(ValueError, match=r"only within .* in torch.bfloat16; give the model in float32"):
        why(course_model(torch.bfloat16), TOKENS, **cell)
    with pytest.raises(ValueError, match="no attention was seen in Linear"):
        why(nn.Linear(3, 3), torch.zeros(2, 3), **cell)
    with pytest.raises(TypeError, match="give the model itself"):
        why("gpt2", TOKENS, **cell)
    with pytest.raises(TypeError, match=r"inputs hold no tensor, got 'hello'; give tokenizer"):
        why(model, "hello", **cell)
    for name, count in {"layer": 2, "head": 4, "query": 8, "key": 8}.items():
        with pytest.raises(ValueError, match=f"{name}={count} is out of range; give one from 0 to {count - 1}"):
            why(model, TOKENS, **cell | {name: count})
    with pytest.raises(TypeError, match="head must be a whole number, got None"):
        why(model, TOKENS, **cell | {"head": None})


# ---------------------------------------------------------------------------------------------- in HeadView


def view_of(model, sample=0, **options):
    with torch.no_grad():
        _, maps = model(TOKENS, need_weights=True)
    return HeadView([layer[sample] for layer in maps], list("dbebfcdb"), why=Sources(model, TOKENS), **options)


def test_head_view_carries_what_scores_are_made_of_and_refuses_those_of_others():
    model = course_model(torch.float32)
    view = view_of(model)
    assert view.reasons and "why 1 3" in view.blocks  # in a page that is made of its first state as well
    assert {f"why {layer} {head}" for layer in (0, 1) for head in range(4)} <= set(view.to_html().split('"'))
    assert "what the scores of" in view.to_html(6000)  # too little for all heads
    with pytest.raises(TypeError, match=r"give headview.Sources\(model, inputs\)"):
        HeadView(torch.eye(3), why=model)
    with pytest.raises(ValueError, match="why must be of the pass that the maps are from"):
        HeadView(torch.eye(3), why=Sources(model, TOKENS))


def test_bars_say_the_terms_of_the_cell_and_lead_to_the_layer_below(static_page):
    model = course_model(torch.float32)
    page = static_page(view_of(model, layer=1, head=2, query=6, key=3))
    split = Sources(model, TOKENS).why(layer=1, head=2, query=6, key=3)

    def lines():
        return [" ".join(line.split("\n")) for line in page.locator(".reasons .term").all_inner_texts()]

    def told(split):
        number = "{:+.2f}".format
        said = [f"{q} × {k} {number(value)}".replace("-", "−") for q, k, value in split.top(8)]
        return [*said, f"the other 28 {number(split.score - sum(x for *_, x in split.top(8)))}".replace("-", "−")]

    assert lines() == told(split.lead())
    page.get_by_role("checkbox", name="above the mean").uncheck()
    until(lambda: lines() == told(split), "the score itself")
    beside = Sources(model, TOKENS).why(layer=1, head=2, query=6, key=2)
    page.locator("canvas.focus").focus()
    page.keyboard.press("ArrowLeft")
    until(lambda: lines() == told(beside), "the cell to the left")
    source = next((q, k) for q, k, _ in beside.top(8) if "0." in k)
    page.locator(".reasons button.term", has_text=" × ".join(source)).first.click()
    until(lambda: f"layer 0 head {source[1][-1]}" in page.locator(".reasons .title").inner_text(), "its head")
    assert "query 2 “e”" in page.locator(".reasons .title").inner_text()
    page.get_by_role("button", name="More").click()
    page.get_by_role("checkbox", name="Why it looks there").uncheck()
    assert page.locator(".reasons").is_hidden()
