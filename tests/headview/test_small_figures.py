"""ScoreBars and ArrowView: what they compute, in Python and under the hand of a reader, is what attention computes."""

import pytest
import torch
import torch.nn.functional as F

from headview import ArrowView, ScoreBars
from mhalib import scaled_dot_product_attention, split_heads
from mhalib.experiments import sentence_features
from tests.helpers.refusals import accepted

WORDS = "The painter painted the old bridge while the old baker baked bread".split()


def scores_of(num_heads):
    heads = split_heads(sentence_features(WORDS, 0), num_heads)  # (1, num_heads, T, head_dim)
    return (heads @ heads.mT / heads.shape[-1] ** 0.5)[0], scaled_dot_product_attention(heads, heads, heads)[1][0]


def bars():
    scores, _ = scores_of(2)
    return ScoreBars({"spelling": scores[0], "place": scores[1]}, WORDS, query=3)


def numbers(locator):
    return torch.tensor([float(text.replace("−", "-")) for text in locator.all_inner_texts()])


def test_the_bars_weigh_as_two_heads_and_one_do():
    two, one = scores_of(2)[1], scores_of(1)[1]
    assert torch.allclose(bars().weights(), torch.stack([two[0, 3], two[1, 3], one[0, 3]]), atol=1e-5)


def test_a_bar_that_is_dragged_moves_the_weights_of_its_head_and_of_the_one(static_page):
    page = static_page(bars())
    weights = page.locator(".weight")
    before = numbers(weights).view(-1, 3).mT
    assert torch.allclose(before, bars().weights(), atol=0.0051)
    box = page.get_by_role("slider", name="spelling, bridge").bounding_box()
    page.mouse.move(box["x"] + 2, box["y"] + 5)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"], box["y"] + 5, steps=4)
    page.mouse.up()
    page.wait_for_function("(old) => document.querySelectorAll('.weight')[15].innerText !== old", arg="0.00")
    after = numbers(weights).view(-1, 3).mT
    assert after[0, 5] > 0.5 and after[2, 5] > before[2, 5] and torch.equal(after[1], before[1])
    page.get_by_role("button", name="Reset").click()
    page.wait_for_function("(old) => document.querySelectorAll('.weight')[15].innerText === old", arg="0.00")
    assert torch.equal(numbers(weights).view(-1, 3).mT, before)
    page.get_by_role("button", name="painter", exact=True).click()
    page.wait_for_function("() => document.querySelector('.controls').innerText.includes('painter')")
    assert numbers(weights).view(-1, 3).mT[0].argmax() == 1


def test_the_arrows_weigh_as_attention_does_with_and_without_the_scale(static_page):
    view = ArrowView()
    q, k = torch.tensor([view.query]), torch.tensor(view.places)
    for scaled in (True, False):
        view.scaled = scaled
        values = torch.tensor(view.values)[:, None]  # (keys, 1)
        wanted = F.scaled_dot_product_attention(q[None], k[None], values[None], scale=None if scaled else 1.0)
        assert torch.allclose(view.weights() @ values, wanted[0, 0], atol=1e-5)
        page = static_page(view)
        assert abs(float(page.locator(".mixture").inner_html()) - wanted.item()) < 0.0051
        assert torch.allclose(numbers(page.locator(".bar .number")), view.weights(), atol=0.0051)


def test_an_arrow_follows_the_hand_and_the_keys(static_page):
    page = static_page(ArrowView())
    query = page.locator("circle[aria-label^=query]")
    box = query.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] - 120, box["y"] + 60, steps=5)
    page.mouse.up()
    page.wait_for_function("() => !document.querySelector('circle[aria-label^=query]').ariaLabel.includes('1.60')")
    weights = numbers(page.locator(".bar .number"))
    assert weights.argmax() == 3  # west
    before = query.get_attribute("aria-label")
    query.focus()
    page.keyboard.press("ArrowUp")
    page.wait_for_function("(old) => document.querySelector('circle[aria-label^=query]').ariaLabel !== old", arg=before)


def test_what_they_cannot_show_is_refused():
    eye = torch.eye(2)
    failures = accepted(
        {
            "a dict of 2 or 3 heads": lambda: ScoreBars({"a": eye}, "ab"),
            "2 to 40 words, got 1": lambda: ScoreBars({"a": eye, "b": eye}, ["a"]),
            "TypeError: the scores of 'b' must be a tensor": lambda: ScoreBars({"a": eye, "b": [[1]]}, "ab"),
            "of shape (3, 3), a row for each word, got (2, 2)": lambda: ScoreBars({"a": eye, "b": eye}, "abc"),
            "of shape (2, 2)": lambda: ScoreBars({"a": eye, "b": eye / 0}, "ab"),
            "keys must be a dict of 2 to 8 names": lambda: ArrowView({"a": (1, 1)}, (1,)),
            "values must be 2 numbers": lambda: ArrowView({"a": (1, 1), "b": (1, 2)}, (1,)),
            "b must be two numbers from -3 to 3": lambda: ArrowView({"a": (1, 1), "b": (1, 4)}, (1, 2)),
            "query must be two numbers from -3 to 3": lambda: ArrowView(query=(1, 2, 3)),
        }
    )
    assert failures == []


@pytest.mark.parametrize("make", [bars, ArrowView])
def test_their_pictures_say_what_they_show(make):
    assert "eights" in make().figure().alt
