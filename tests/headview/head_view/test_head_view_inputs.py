"""What a view takes: every structure that holds attention weights, made into parts; and what is refused, and how."""

from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from headview import HeadView
from headview.head_view.inputs import as_parts
from mhalib.masks import causal_mask
from mhalib.reference import import_d2l
from tests.helpers.head_view_examples import some
from tests.helpers.refusals import accepted


def causal(*shape, before=0):
    return some(*shape, mask=torch.ones(shape[-2:], dtype=torch.bool).tril(before))


def shapes(parts):
    return {part.name: (part.samples, *part.shape) for part in parts}


def the(parts):
    assert len(parts) == 1 and parts[0].name == ""
    return parts[0]


class Maps(list):
    """What `capture` gathers, made by hand."""

    def __init__(self, maps, names, **known):
        super().__init__(maps)
        self.names, self.kinds, self.sums = names, ["self"] * len(maps), ["weights"] * len(maps)
        self.allowed, self.kv_heads = [None] * len(maps), [part.shape[1] for part in maps]
        self.scales, self.queries, self.keys, self.values = [0.5] * len(maps), None, None, None
        self.passes = [0] * len(maps)
        self.__dict__.update(known)


# ---------------------------------------------------------------- tensors, arrays, lists


def test_every_shape_that_libraries_return():
    for given, samples, shape in (
        (some(5, 7), 1, (1, 1, 5, 7)),
        (some(3, 5, 7), 1, (1, 3, 5, 7)),
        (some(1, 3, 5, 7), 1, (1, 3, 5, 7)),
        (some(2, 3, 5, 7), 1, (2, 3, 5, 7)),
        (some(2, 1, 3, 5, 7), 1, (2, 3, 5, 7)),
        (some(1, 2, 3, 5, 7), 1, (2, 3, 5, 7)),
        (some(2, 4, 3, 5, 7), 4, (2, 3, 5, 7)),
        (tuple(some(1, 3, 5, 5) for _ in range(2)), 1, (2, 3, 5, 5)),
        ([some(4, 3, 5, 5) for _ in range(2)], 4, (2, 3, 5, 5)),
        ([some(3, 5, 5) for _ in range(4)], 1, (4, 3, 5, 5)),
        ([some(5, 5).numpy() for _ in range(4)], 1, (4, 1, 5, 5)),
        (some(3, 1, 1), 1, (1, 3, 1, 1)),
    ):
        part = the(as_parts(given))
        assert (part.samples, part.shape) == (samples, shape)
        whole = np.stack([np.asarray(each) for each in given]) if isinstance(given, (list, tuple)) else given
        expected = np.asarray(whole).reshape(shape[0], samples, *shape[1:])
        np.testing.assert_array_equal(torch.stack(part.layers).numpy(), expected)
        assert part.layer_names == [f"layer {i}" for i in range(shape[0])]


def test_numpy_in_any_byte_order_read_only_or_reversed():
    for kind in (">f4", "f2", "f8", "longdouble"):
        given = some(2, 4, 4).numpy().astype(kind)[::-1]
        given.flags.writeable = False
        found = the(as_parts(given)).layers[0][0, 0].float().numpy()
        np.testing.assert_allclose(found, given[0].astype("f4"), atol=1e-3)


def test_layers_of_other_shapes_make_parts_of_their_own():
    parts = as_parts([some(4, 10, 10), some(4, 5, 5), some(4, 10, 10)])
    assert shapes(parts) == {"4 x 10 x 10": (1, 2, 4, 10, 10), "4 x 5 x 5": (1, 1, 4, 5, 5)}
    assert [part.layer_names for part in parts] == [["layer 0", "layer 2"], ["layer 1"]]
    labelled = as_parts([some(4, 10, 10), some(4, 5, 5)], list("abcde"))
    assert labelled[0].tokens == [[]] and labelled[1].tokens == [list("abcde")]
    batches = as_parts([some(1, 4, 5, 5), some(2, 4, 5, 5)])
    assert shapes(batches) == {"4 x 5 x 5": (1, 1, 4, 5, 5), "2 x 4 x 5 x 5": (2, 1, 4, 5, 5)}


@pytest.mark.parametrize("batch_first", [False, True])
def test_what_torch_returns_is_taken_as_it_is_and_its_mean_over_heads_refused(batch_first):
    layer = nn.MultiheadAttention(8, 2, batch_first=batch_first).eval()
    for samples in (None, 1, 3, 5):  # 5: as many as tokens
        shape = (5, samples, 8) if samples else (5, 8)
        x = torch.randn(*shape).transpose(0, 1) if samples and batch_first else torch.randn(*shape)
        with torch.no_grad():
            pair, averaged = (layer(x, x, x, average_attn_weights=mean) for mean in (False, True))
        for given in (pair, tuple(part.numpy() for part in pair)):
            part = the(as_parts(given))
            assert (part.samples, part.shape) == (samples or 1, (1, 2, 5, 5))
            assert part.layers[0].equal(pair[1].view(part.layers[0].shape))
        for given in (averaged, tuple(part.numpy() for part in averaged)):
            with pytest.raises(ValueError, match="the mean over its heads; .*average_attn_weights=False"):
                as_parts(given)
    assert HeadView(pair).shape == [1, 2, 5, 5] and the(as_parts([pair, pair])).shape == (2, 2, 5, 5)
    assert the(as_parts({"a": pair, "b": pair})).layer_names == ["a", "b"]
    with pytest.raises(ValueError, match="5 maps, expected num_heads=2.*the mean over its heads"):
        as_parts(averaged[1], num_heads=2)
    folded = torch.randn(1, 6, 8), some(6, 6, 6)  # heads in the place of samples, beside an output
    assert the(as_parts(folded)).shape == (1, 6, 6, 6)


def test_d2l_folds_the_heads_into_the_batch():
    layer = import_d2l().MultiHeadAttention(8, 8, 8, 8, 4, 0.0).eval()
    x = torch.randn(2, 5, 8)
    layer(x, x, x, torch.tensor([3, 5]))
    part = the(as_parts(layer.attention.attention_weights, num_heads=4))
    assert (part.samples, part.shape) == (2, (1, 4, 5, 5))
    assert part.layers[0][0, ..., 3:].max() < 1e-6 < part.layers[0][1, ..., 3:].min()


# ---------------------------------------------------------------- dicts, captured maps, outputs


def test_a_dict_keeps_its_names():
    part = the(as_parts({"blocks.0.attn": some(2, 3, 5, 5), "blocks.1.attn": some(2, 3, 5, 5)}))
    assert part.layer_names == ["blocks.0.attn", "blocks.1.attn"] and part.samples == 2
    parts = as_parts({"stages.0.a": some(3, 8, 8), "stages.0.b": some(3, 8, 8), "stages.1.a": some(6, 4, 4), "x": None})
    assert shapes(parts) == {"stages.0": (1, 2, 3, 8, 8), "stages.1.a": (1, 1, 6, 4, 4)}
    lists = as_parts({"early": [some(2, 4, 4), None, some(2, 4, 4)], "late": [some(2, 4, 4)]})
    assert shapes(lists) == {"early": (1, 2, 2, 4, 4), "late": (1, 1, 2, 4, 4)}
    assert lists[0].layer_names == ["layer 0", "layer 2"]
    translator = {"encoder.0": some(2, 6, 6), "decoder.0.self": some(2, 4, 4), "decoder.0.x": some(2, 4, 6)}
    assert [part.name for part in as_parts(translator)] == ["encoder", "decoder.0.self", "decoder.0.x"]


def test_captured_maps_bring_what_is_known():
    allowed, inside = [causal_mask(5), causal_mask(5)], [torch.randn(1, 4, 5, 8) for _ in range(2)]
    known = {"allowed": allowed, "kv_heads": [2, 2], "queries": inside, "keys": inside, "values": inside}
    layers = [causal(1, 4, 5, 5), causal(1, 4, 5, 5) / 2]
    part = the(as_parts(Maps(layers, ["h.0", "h.1"], sums=["weights", "part"], **known), list("abcde")))
    assert part.layer_names == ["h.0", "h.1"] and part.kind == "part" and part.kv_heads == [2, 2]
    assert part.allowed == allowed and part.scales == [0.5, 0.5] and part.values[1] is inside[1]
    assert part.tokens == part.key_tokens == [list("abcde")]
    plain = the(as_parts(Maps([some(1, 4, 5, 5)], ["a"])))
    assert plain.kv_heads is None and plain.queries is None and plain.kind == "weights"
    mixed = [torch.randn(1, 4, 5, 5), some(1, 4, 5, 5)]
    mixed = Maps(mixed, ["a", "b"], sums=["signed", "weights"], queries=inside, values=[inside[0], None])
    part = the(as_parts(mixed))
    assert part.kind == "signed" and part.queries == inside and part.values is None
    with pytest.raises(ValueError, match=r"6 labels, .* 5 queries; .*after generate\(\) tokens\[:-1\]"):
        as_parts(mixed, list("abcdef"))
    missed = "capture gathered no maps; .* Not shown: h.0; its own kernel. Or ask for the weights"
    with pytest.raises(ValueError, match=missed):
        as_parts(Maps([], [], missed={"h.0": "its own kernel"}))


def test_captured_translators_fall_into_their_parts():
    names = ["encoder.0.attn", "encoder.1.attn", "decoder.0.self_attn", "decoder.0.source_attn"]
    maps = [*[some(1, 2, 5, 5)] * 2, causal(1, 2, 5, 5), some(1, 2, 5, 5)]
    maps = Maps(maps, names, kinds=[*["self"] * 3, "cross"])
    parts = as_parts(maps, list("abcde"), list("vwxyz"))
    assert [part.name for part in parts] == ["encoder", "decoder", "cross"]
    assert [part.tokens[0][0] + part.key_tokens[0][0] for part in parts] == ["vv", "aa", "av"]
    alone = Maps([some(1, 2, 5, 5)], ["bert.encoder.layer.0"])  # an encoder by itself is no part
    assert the(as_parts(alone, list("abcde"))).tokens == [list("abcde")]
    missed = {"encoder.0.attn": "a band", "encoder.1.attn": "a band", "decoder.1.attn": "its kernel"}
    decoder = Maps([causal(1, 2, 5, 5)], ["decoder.0.attn"], missed=missed)
    said = "encoder; a band. Not shown: decoder.1.attn; its kernel. "
    assert HeadView(decoder).left_out == f"Not shown: {said}"
    view = HeadView(causal(1, 2, 5, 5), compare=decoder, names=("plain", "other"))
    assert view.left_out == f"Not shown of other: {said.replace('shown', 'shown of other')}"


def test_the_axes_of_a_tensor_may_have_names(monkeypatch):
    monkeypatch.setattr(torch.Tensor, "names", property(lambda x: (None,) * x.ndim), raising=False)  # as in torch 2.11
    assert HeadView(some(1, 2, 5, 5)).left_out == ""


def test_whole_outputs_by_their_parts():
    translated = SimpleNamespace(
        encoder_attentions=(some(1, 2, 7, 7),) * 3,
        decoder_attentions=(causal(1, 2, 5, 5),) * 2,
        cross_attentions=(some(1, 2, 5, 7),) * 2,
    )
    parts = as_parts(translated, list("abcde"), list("tuvwxyz"), layer_names=1)
    assert shapes(parts) == {"encoder": (1, 3, 2, 7, 7), "decoder": (1, 2, 2, 5, 5), "cross": (1, 2, 2, 5, 7)}
    assert [(part.tokens[0][0], part.key_tokens[0][0]) for part in parts] == [("t", "t"), ("a", "a"), ("a", "t")]
    assert parts[1].layer_names == ["layer 1", "layer 2"]
    with pytest.raises(ValueError, match=r"tokens has 1 x \[7\] labels, which fit no part.*key_tokens those of the so"):
        as_parts(translated, list("tuvwxyz"))
    looking = SimpleNamespace(attentions=(causal(1, 2, 5, 5),), cross_attentions=(some(1, 2, 5, 7),))
    assert [part.name for part in as_parts(looking)] == ["decoder", "cross"]
    plain = SimpleNamespace(attentions=(None, some(2, 3, 4, 4), some(2, 3, 4, 4)), cross_attentions=None)
    assert the(as_parts(plain)).layer_names == ["layer 1", "layer 2"]


def test_window_offsets_are_told_by_where_they_are_zero():
    for globals_ in (0, 2):
        places = torch.arange(12)[:, None] + torch.arange(-3, 4)
        inside = (places >= globals_) & (places < 12)
        offsets = some(1, 2, 12, 7 + globals_, mask=torch.cat([torch.ones(12, globals_).bool(), inside], 1))
        with pytest.raises(ValueError, match="look like those of Longformer.* 7 places of a window"):
            as_parts([offsets])
        assert the(as_parts([offsets], kind="weights")).shape == (1, 2, 12, 7 + globals_)
    ahead = causal(2, 4, 9, before=5)
    for honest in (some(2, 12, 7), causal(2, 12, 12), ahead, ahead.flip(-1, -2)):
        as_parts(honest)


# ---------------------------------------------------------------- generate()


def steps_of(whole: list, prompt: int, *, cached=True, fixed=0):
    """Return the maps of each layer as generate() hands them out, step by step."""

    def step(layer, begin, end):
        part = layer[:, :, begin if cached else 0 : end, :end]
        return nn.functional.pad(part, (0, max(fixed - end, 0)))

    ends = range(prompt, whole[0].shape[2] + 1)
    return tuple(tuple(step(layer, end - 1 if end > prompt else 0, end) for layer in whole) for end in ends)


def test_the_steps_of_generate_make_one_causal_map():
    for samples, options in ((1, {}), (3, {"cached": False}), (1, {"fixed": 9}), (3, {"fixed": 12})):
        whole = [causal(samples, 2, 9, 9) for _ in range(3)]
        steps = steps_of(whole, 5, **options)
        for given in (steps, SimpleNamespace(attentions=steps, sequences=None)):
            part = the(as_parts(given))
            assert part.shape == (3, 2, 9, 9) and all(map(torch.equal, part.layers, whole))
            assert all(torch.equal(allowed.squeeze(), causal_mask(9)) for allowed in part.allowed)
        one = [list("abcdefghi")] * samples
        assert the(as_parts(steps, one)).tokens == the(as_parts(steps, [[*each, "!"] for each in one])).tokens == one
    # After a prompt that was cached.
    whole = causal(1, 2, 4, 7, before=3)
    steps = ((whole[:, :, :2, :5],), (whole[:, :, 2:3, :6],), (whole[:, :, 3:],))
    part = the(as_parts(steps))
    assert part.layers[0].equal(whole) and part.allowed[0].squeeze().equal(causal_mask(4, 7))


def test_a_beam_search_follows_the_beams_that_were_kept():
    steps = tuple((some(4, 2, 1, end),) for end in range(1, 4))  # two samples, two beams each
    beams = torch.tensor([[0, 1, 0], [3, 2, -1]])
    output = SimpleNamespace(decoder_attentions=steps, beam_indices=beams)
    part = the(as_parts(output))
    assert part.samples == 2
    assert part.layers[0][0, :, 1, :2].equal(steps[1][0][1, :, 0]) and part.layers[0][1, :, 0, 0].equal(
        steps[0][0][3, :, 0, 0]
    )
    assert part.layers[0][1, :, 2].count_nonzero() == 0  # that answer had ended
    allowed = part.allowed[0].expand(part.layers[0].shape)
    assert not allowed[1, :, 2].any() and allowed[0, :, 2].all()


def test_a_translation_by_generate():
    encoder, decoder, cross = some(1, 2, 6, 6), causal(3, 2, 4, 4), some(3, 2, 4, 6)
    output = SimpleNamespace(
        encoder_attentions=(encoder,),
        decoder_attentions=steps_of([decoder], 1),
        cross_attentions=tuple((cross[:, :, i : i + 1],) for i in range(4)),
    )
    answers = [list("<abcd"), list("<efgh"), list("<ijkl")]  # the last one made is no query yet
    parts = {part.name: part for part in as_parts(output, answers, list("uvwxyz"))}
    assert parts["decoder"].layers[0].equal(decoder) and parts["cross"].layers[0].equal(cross)
    assert parts["decoder"].tokens == parts["cross"].tokens == [each[:4] for each in answers]
    assert parts["cross"].key_tokens == [list("uvwxyz")] * 3 and parts["encoder"].tokens == [list("uvwxyz")]
    assert the(as_parts(output.cross_attentions)).layers[0].equal(cross)  # told by the keys, which stay the same


# ---------------------------------------------------------------- kinds and masks


def test_scores_stand_where_a_mask_blocks_and_nan_and_empty_rows_stand():
    scores, mask = torch.randn(2, 4, 4), causal_mask(4)
    assert the(as_parts(scores, kind="signed", mask=mask)).allowed[0].squeeze().equal(mask)
    assert the(as_parts(scores.masked_fill(~mask, -torch.inf), kind="signed")).kind == "signed"
    as_parts(scores.exp(), kind="positive", mask=mask)
    weights = some(2, 4, 4)
    weights[0, 1], weights[1, 2], weights[1, 3, 0] = 0, torch.nan, -torch.nan
    assert the(as_parts(weights)).layers[0][0].isnan().sum() == 5
    mask = torch.ones(3, 3, dtype=torch.bool)
    mask[1] = False  # a row that a library averages is no leak
    assert the(as_parts(torch.full((3, 3), 1 / 3), mask=mask)).allowed[0].squeeze().equal(mask)


def test_masks_broadcast_over_layers_and_heads():
    for shape in ((5,), (5, 5), (3, 5, 5), (1, 1, 5, 5), (2, 3, 5, 5), (2, 1, 5, 5), (3, 1, 5)):
        mask = torch.ones(shape, dtype=torch.bool)
        mask[..., -1] = False
        weights = some(2, 3, 5, 5, mask=mask)
        for given in (mask, mask.numpy()):
            for allowed in the(as_parts(weights, mask=given)).allowed:
                assert allowed.expand(1, 3, 5, 5)[..., -1].logical_not().all() and allowed[..., 0].all()


def test_masks_add_to_what_is_known_and_name_their_part():
    known = torch.ones(1, 1, 4, 4, dtype=torch.bool).tril()
    own = torch.ones(4, 4, dtype=torch.bool).triu(-1)
    weights = torch.randn(1, 2, 4, 4).masked_fill(~(known & own), -torch.inf).softmax(-1)
    part = the(as_parts(Maps([weights], ["a"], allowed=[known]), mask=own))
    assert part.allowed[0].squeeze().equal(known[0, 0] & own)
    two = {"a": [some(2, 4, 4)], "b": [causal(2, 5, 5)]}
    assert [part.allowed[0] is None for part in as_parts(two, mask={"b": causal_mask(5)})] == [True, False]
    with pytest.raises(ValueError, match="mask is for one part, there are 'a', 'b'; give a dict such as {'a': mask}"):
        as_parts(two, mask=causal_mask(5))
    with pytest.raises(ValueError, match="mask has 'c', which is no part"):
        as_parts(two, mask={"c": causal_mask(5)})


def test_windows_are_seen():
    i, j = torch.arange(20)[:, None], torch.arange(20)
    bands = {5: (j <= i) & (j > i - 5), 7: (i - j).abs() <= 3, None: j <= i}
    layers = [some(1, 2, 20, 20, mask=band) for band in bands.values()]
    for mask in (None, torch.stack(list(bands.values()))[:, None]):
        assert the(as_parts(layers, mask=mask)).windows == list(bands)
    padded = torch.ones(20, 20, dtype=torch.bool)
    padded[:, :4] = False
    assert the(as_parts(some(20, 20, mask=padded), mask=padded)).windows == [None]
    for none in (some(3, 20, 20), torch.eye(20)):  # a head that looks at itself alone is no window
        assert the(as_parts(none)).windows == [None]


# ---------------------------------------------------------------- only some queries and keys


def test_a_cut_takes_everything_beside_the_weights_along():
    weights, tokens = causal(2, 3, 6, 6), ["Ġa", "b", "Ġc", "Ġd", "e", "f"]
    part = the(as_parts(weights, tokens, mask=causal_mask(6), queries=slice(3, None), keys=[0, 3, 4]))
    assert part.layers[1].equal(weights[1:, :, 3:][..., [0, 3, 4]])
    assert part.allowed[0].squeeze().equal(causal_mask(6)[3:][:, [0, 3, 4]])
    assert part.tokens == [["d", "e", "f"]] and part.key_tokens == [["a", "d", "e"]]
    assert part.words == [([0, 0, 0], [0, 1, 1])] and part.kind == "part"
    rows_only = the(as_parts(weights, queries=range(0, 6, 2)))
    assert rows_only.kind == "weights" and rows_only.layers[0].data_ptr() == weights.data_ptr()
    assert the(as_parts(-weights, kind="signed", keys=[0])).kind == "signed"
    assert rows_only.tokens == [["0", "2", "4"]]  # their own numbers
    assert the(as_parts(weights, queries=[-1])).layers[0].equal(weights[:1, :, -1:])
    inside = [torch.randn(1, 3, 6, 4)]
    maps = Maps([weights[:1]], ["a"], queries=inside, keys=inside, values=inside)
    cut = the(as_parts(maps, queries=[1], keys=slice(2)))
    assert cut.queries[0].equal(inside[0][:, :, 1:2]) and cut.values[0].equal(inside[0][:, :, :2])


# ---------------------------------------------------------------- what is refused


def test_what_cannot_be_shown_is_refused_with_what_to_do(as_shipped):
    halved = some(2, 3, 4, 4)
    halved[1, 1, 2] /= 2
    several, mask = [some(2, 4, 3, 3)], causal_mask(3)
    calls = {
        "floating, got torch.int64": torch.ones(3, 3, dtype=torch.long),
        "tensor or a numpy array, got str": "weights",
        "need_weights=True": (torch.randn(1, 3, 8), None),
        "output_attentions=True": [None, None],
        "weights is a tokenizer": SimpleNamespace(convert_ids_to_tokens=None),
        "what a tokenizer returned, dict": {"input_ids": torch.ones(1, 3)},
        "the whole output of a model": [SimpleNamespace(attentions=())],
        "empty list": [],
        "empty dict": {},
        "none empty, got (0, 3)": torch.ones(0, 3),
        "none empty, got (2, 3, 0, 0)": torch.ones(2, 3, 0, 0),
        "got (2, 2, 2, 2, 3, 3)": some(2, 2, 2, 2, 3, 3),
        "on the meta device": torch.ones(3, 3, device="meta"),
        "to_dense": torch.eye(3).to_sparse(),
        "sums to 3; apply": torch.ones(2, 3, 3),
        "row [1, 2] of layer 1 of the weights": halved,
        "row [1, 2] of sample 1 of layer 0": [halved],
        "row [1, 2] of layer 1 of the b weights": {"a": some(2, 3, 4, 4), "b": list(halved)},
        "between -1 and 2": torch.tensor([[-1.0, 2.0]]),
        "sums to inf": torch.full((2, 2), torch.inf),
    }
    calls = {words: partial(as_parts, given) for words, given in calls.items()}
    calls |= {
        "8 maps, expected num_heads=3": partial(as_parts, some(8, 3, 3), num_heads=3),
        "5 labels, the weights have 3 queries": partial(as_parts, some(3, 3), list("abcde")),
        "key_tokens has 3 labels": partial(as_parts, some(3, 4), list("abc"), list("abc")),
        "list of strings": partial(as_parts, some(3, 3), "abc"),
        "ids of tokens": partial(as_parts, some(3, 3), torch.arange(3)),
        "[tokens] * 2": partial(as_parts, several, list("abc")),
        "for 3 samples, the weights hold 2": partial(as_parts, several, [list("abc")] * 3),
        "padding too": partial(as_parts, several, [list("abc"), list("de")]),
        "words has 2 numbers for 3 tokens": partial(as_parts, some(3, 3), list("abc"), words=[0, 1]),
        "mask must be boolean": partial(as_parts, some(3, 3), mask=torch.ones(3, 3)),
        "mask (4, 4) does not fit": partial(as_parts, some(3, 3), mask=causal_mask(4)),
        "True must mean may attend": partial(as_parts, some(3, 3), mask=~mask),
        "3 names, the weights have 2 heads": partial(as_parts, some(2, 3, 3), head_names=list("abc")),
        "layer_names must be a list": partial(as_parts, some(2, 3, 3), layer_names="ab"),
        "axes must be two names": partial(as_parts, some(2, 3, 3), axes="qk"),
    }
    assert accepted(calls) == []
