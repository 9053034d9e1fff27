"""Around the examination: the report, the restored layer, the forms of a call, the refusals, the command line."""

import copy
import random
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

from layers_base import Layer
from layers_healthy import GPT, Blocked, CausalWindow, Dropout, ReturnsDict, TimeFirst, TwoLayers
from layers_sick import DropoutLeftOn, OnlyTheQueriesAreSplitWrong, OutputProjectionUnused, ScaledByTheWholeWidth
from layers_sick_masks import MaskInverted
from mhalib import MultiHeadAttention, reference
from mhalib.doctor import Report, adapt, examine
from mhalib.doctor.__main__ import main


def weights_of(layer):
    return {"q": layer.W_q, "k": layer.W_k, "v": layer.W_v, "o": layer.W_o}


# -------------------------------------------------------------------------------------------- the report


def test_a_finding_says_what_was_seen_and_what_to_know():
    report = examine(MaskInverted(32, 4), 32, 4)
    (finding,) = report.findings
    assert (finding.code, report.ok) == ("mask-inverted", False)
    assert any(c.isdigit() for c in finding.evidence) and "Notebook 04" in finding.lesson
    for part in (finding.code, finding.title, finding.evidence, finding.lesson):
        assert part in str(report)


def test_raise_for_findings_is_an_assertion_with_the_whole_report():
    examine(Layer(32, 4), 32, 4).raise_for_findings()
    with pytest.raises(AssertionError, match="mask-inverted"):
        examine(MaskInverted(32, 4), 32, 4).raise_for_findings()


def test_the_table_is_escaped():
    report = Report("<b>layer</b>")
    report.find("crash", "<script>alert(1)</script>")
    report.remark("window", "<i>")
    report.skip("masks", "<u>")
    html = report._repr_html_()
    for raw in ("<script", "<i>", "<u>", "<b>layer"):
        assert raw not in html
    assert "&lt;script&gt;" in html and "crash" in html


def test_a_message_of_the_layer_reaches_the_table_escaped():
    def attend(x, mask=None):
        raise RuntimeError("<img src=x onerror=alert(1)>")

    report = examine(attend, 32, 4)
    assert report.codes == ["crash"] and "<img" not in report._repr_html_() and "<img" in str(report)


def test_the_same_report_twice():
    for kind in (Layer, MaskInverted, OnlyTheQueriesAreSplitWrong, DropoutLeftOn):
        layer = kind(32, 4)
        first, second = examine(layer, 32, 4), examine(layer, 32, 4)
        if kind is DropoutLeftOn:  # its own numbers differ from call to call
            assert first.codes == second.codes == ["not-deterministic"]
        else:
            assert str(first) == str(second)


def test_what_could_not_be_examined_is_said():
    def said(attend, **options):
        return " ".join(examine(attend, 32, 4, **options).not_examined)

    layer = Layer(32, 4)
    assert "weights=" in said(layer) and "weights=" not in said(layer, weights=weights_of(layer))
    assert "dead parameters" in said(lambda x, mask=None: layer(x, mask))
    assert "dead parameters" not in said(lambda x, mask=None: layer(x, mask), module=layer)
    assert "masks: the layer takes none" in said(GPT(32, 4))
    assert "masks other than lengths" in said(adapt(reference.to_d2l(MultiHeadAttention(32, 4)), "d2l"))
    assert "from sample to sample" in said(adapt(layer, mask_rank=2))
    assert "6 tokens" not in said(GPT(32, 4, longest=5)) and "a longest T?" in said(GPT(32, 4, longest=5))
    assert "sequences of 5 tokens" in said(GPT(32, 4, longest=4))


def test_matters_of_taste_are_remarks():
    def remarks(attend, **options):
        return {remark.code for remark in examine(attend, 32, 4, **options).remarks}

    assert "empty-row-mean" in remarks(Layer(32, 4))
    assert "causal" in remarks(GPT(32, 4))
    assert "output-width" in remarks(nn.Sequential(MultiHeadAttention(32, 4), nn.Linear(32, 8)))
    assert not examine(MultiHeadAttention(32, 4), 32, 4).remarks


def test_a_stack_of_layers_and_a_window_are_named():
    def remarks(attend):
        return {remark.code for remark in examine(attend, 32, 4).remarks}

    assert "several-layers" in remarks(TwoLayers(32, 4))
    assert "window" in remarks(CausalWindow(32, 4)) & remarks(adapt(CausalWindow(32, 4), causal=True))


def test_a_layer_that_raises_for_some_numbers_only_gets_a_report():
    layer = Layer(32, 4)

    def attend(x, mask=None):
        if x.mean() > 0.05:
            raise RuntimeError("too large")
        return layer(x, mask)

    (finding,) = examine(adapt(attend, mask_name="mask"), 32, 4).findings
    assert finding.code == "crash" and "x (" in finding.evidence and "too large" in finding.evidence


def test_a_layer_that_runs_at_one_length_only_crashes_at_the_others():
    layer = Layer(32, 4)
    (finding,) = examine(lambda x: layer(x + torch.zeros(6, 32)), 32, 4).findings
    assert finding.code == "crash" and "it runs with 6 tokens" in finding.evidence


def test_weights_taken_for_the_output_are_noticed():
    layer = Layer(32, 4)

    def attend(x, mask=None):
        return torch.ones(len(x), x.shape[1], x.shape[1]), layer(x, mask)

    (finding,) = examine(adapt(attend, mask_name="mask"), 32, 4).findings
    assert finding.code == "shape" and "adapt(..., output=1)" in finding.evidence
    assert examine(adapt(attend, mask_name="mask", output=1), 32, 4).ok


def test_a_part_that_is_not_there_is_named():
    for output, words in (("hidden", "mapping with 'weights', 'out'"), (7, "no part 7")):
        (finding,) = examine(adapt(ReturnsDict(32, 4), output=output), 32, 4).findings
        assert finding.code == "crash" and words in finding.evidence


# ------------------------------------------------------------------------------------------- with weights


def test_with_weights_the_scale_is_named():
    layer = ScaledByTheWholeWidth(32, 4)
    assert examine(layer, 32, 4).ok  # from outside it cannot be seen
    (finding,) = examine(layer, 32, 4, weights=weights_of(layer)).findings
    assert finding.code == "wrong-scale" and "1/sqrt(d_model) = 0.1768" in finding.evidence


@pytest.mark.parametrize("options", [{}, {"bias": True}, {"num_kv_heads": 2}, {"num_kv_heads": 1}])
def test_with_weights_a_healthy_layer_stays_healthy(options):
    layer = MultiHeadAttention(32, 4, **options)
    for factor in (1, 5):
        with torch.no_grad():
            for parameter in layer.parameters():
                parameter *= factor
        report = examine(layer, 32, 4, weights=weights_of(layer))
        assert report.ok and report.not_examined == []
        assert ("grouped-heads" in [r.code for r in report.remarks]) == ("num_kv_heads" in options)


def test_with_weights_the_layout_is_a_remark():
    layer = reference.InterleavedAttention(32, 32, 4)
    q, k, v = layer.qkv.weight.chunk(3)
    report = examine(layer, 32, 4, weights={"q": q, "k": k, "v": v, "o": layer.out})
    assert report.ok and [r.code for r in report.remarks][:1] == ["layout"]


def test_weights_that_do_not_explain_the_layer_are_no_finding():
    layer, other = MultiHeadAttention(32, 4), MultiHeadAttention(32, 4)
    report = examine(layer, 32, 4, weights=weights_of(other))
    assert report.ok and "no known way" in " ".join(report.not_examined)


# ------------------------------------------------------------------------------------- as it was before


class Stateful(Dropout):
    """Counts and lists its calls, keeps its last weights, and cannot be copied if told so."""

    def __init__(self, d_model, num_heads, copyable):
        super().__init__(d_model, num_heads)
        self.copyable, self.last, self.log = copyable, None, []
        self.register_buffer("calls", torch.zeros(()))

    def __deepcopy__(self, memo):
        if not self.copyable:
            raise TypeError("cannot be copied")
        twin = Stateful(self.d_model, self.h, True)
        twin.load_state_dict(self.state_dict())
        return twin

    def weigh(self, scores):
        self.calls += 1
        self.log.append("call")
        self.last = super().weigh(scores)
        return self.last


@pytest.mark.parametrize("how", ["copied", "in place", "a function with module="])
def test_the_layer_comes_back_as_it_was(how, as_shipped):  # the checking of shapes draws random numbers itself
    layer = Stateful(32, 4, copyable=how == "copied")
    layer.W_q.eval()  # a mode per submodule
    layer.W_k.weight.requires_grad_(False)
    layer.W_v.weight.grad = torch.ones_like(layer.W_v.weight)
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    grad = layer.W_v.weight.grad
    states = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist(), torch.get_num_threads()

    if how == "a function with module=":
        report = examine(lambda x, mask=None: layer(x, mask), 32, 4, module=layer)
    else:
        report = examine(layer, 32, 4)

    assert report.ok, report
    assert all(torch.equal(value, before[name]) for name, value in layer.state_dict().items())
    assert layer.training and layer.drop.training and not layer.W_q.training
    assert not layer.W_k.weight.requires_grad and layer.W_v.weight.requires_grad
    assert layer.W_v.weight.grad is grad and torch.equal(grad, torch.ones_like(grad)) and layer.W_q.weight.grad is None
    assert layer.last is None and layer.calls == 0 and layer.log == []
    after = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist(), torch.get_num_threads()
    assert torch.equal(states[0], after[0]) and states[1:] == after[1:]


def test_it_comes_back_even_when_it_raises():
    layer = Stateful(32, 4, copyable=False)
    layer.score = None  # not callable
    assert examine(layer, 32, 4).codes == ["crash"]
    assert layer.training and layer.score is None


def test_what_a_layer_prints_is_swallowed(capsys):
    layer = Layer(32, 4)

    def attend(x, mask=None):
        print("shape", x.shape)
        return layer(x, mask)

    assert examine(adapt(attend, mask_name="mask"), 32, 4).ok
    assert capsys.readouterr().out == ""


def test_a_compiled_layer_is_not_compiled_anew_for_every_shape():
    compiled = []

    def backend(graph, inputs):
        compiled.append(graph)
        return graph.forward

    layer = torch.compile(Layer(32, 4), backend=backend)
    assert examine(layer, 32, 4).ok and compiled == []
    layer(torch.randn(2, 3, 32))
    assert compiled != []  # afterwards it is compiled again


def test_dropout_of_a_layer_inside_a_function_needs_module():
    layer = Dropout(32, 4)
    attend = lambda x, mask=None: layer(x, mask)  # noqa: E731 - what people write
    assert examine(attend, 32, 4).codes == ["not-deterministic"]
    assert examine(attend, 32, 4, module=layer).ok and layer.training


def test_dead_parameters_are_named():
    (finding,) = examine(OutputProjectionUnused(32, 4), 32, 4).findings
    assert "W_o.weight" in finding.evidence


def test_a_layer_in_half_precision():
    assert examine(Layer(32, 4).to(torch.bfloat16), 32, 4).ok


# ------------------------------------------------------------------------------------------------ adapt


def test_a_wrong_statement_about_the_mask_is_found():
    assert examine(adapt(Blocked(32, 4), mask="blocked"), 32, 4).ok
    assert examine(adapt(Blocked(32, 4)), 32, 4).codes == ["mask-inverted"]


def test_a_part_of_the_result_is_picked():
    assert examine(adapt(ReturnsDict(32, 4), output="out"), 32, 4).ok
    layer = Layer(32, 4)
    assert examine(adapt(lambda x, mask=None: (None, layer(x, mask)), mask_name="mask", output=1), 32, 4).ok
    assert examine(adapt(lambda x: "no tensor"), 32, 4).codes == ["crash"]


def test_lengths_are_found_by_their_name():
    layer = Layer(32, 4)

    def attend(x, valid_lens=None):
        mask = None if valid_lens is None else (torch.arange(x.shape[1]) < valid_lens[:, None])[:, None]
        return layer(x, mask)

    assert examine(adapt(attend, mask="lengths", mask_rank=1), 32, 4).ok


def test_time_first_has_to_be_said():
    assert examine(adapt(TimeFirst(32, 4), batch_first=False), 32, 4).ok
    assert not examine(TimeFirst(32, 4), 32, 4).ok


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: examine(Layer(32, 4), 0, 4), ValueError, "d_model must be a positive integer"),
        (lambda: examine(Layer(32, 4), 32, 5), ValueError, "choose num_heads from 1, 2, 4"),
        (lambda: examine(torch.ones(3), 32, 4), TypeError, "expected a module or a function"),
        (lambda: examine(Layer, 32, 4), TypeError, "got the class Layer"),
        (lambda: examine(Layer(32, 4).to("meta"), 32, 4), ValueError, "meta device"),
        (lambda: examine(adapt(nn.LazyLinear(32), mask=None), 32, 4), ValueError, "lazy layer once"),
        (lambda: examine(Layer(32, 4), 32, 4, module="layer"), TypeError, "module must be an nn.Module"),
        (lambda: examine(lambda q, k, v: q, 32, 4), TypeError, "adapt"),
        (lambda: examine(lambda x, attn_mask=None: x, 32, 4), TypeError, "mask_name='attn_mask'"),
        (lambda: examine(lambda x, other=None: x, 32, 4), TypeError, "which argument"),
        (lambda: examine(lambda x, freqs, mask=None: x, 32, 4), TypeError, "lambda x, mask=None: layer(x, ..., mask)"),
        (lambda: examine(lambda x, key_padding_mask=None: x, 32, 4), TypeError, "mask='lengths', mask_rank=1"),
        (lambda: examine(lambda x, cache=None, attn_mask=None: x, 32, 4), TypeError, "mask_name='attn_mask', mask="),
        (lambda: adapt(Layer(32, 4), "keras"), ValueError, "'plain', 'qkv', 'torch', 'd2l'"),
        (lambda: adapt(Layer(32, 4), mask="True"), ValueError, "'allowed', 'blocked'"),
        (lambda: adapt(Layer(32, 4), mask_rank=5), ValueError, "mask_rank must be one of"),
        (lambda: adapt(lambda x: x, "torch"), TypeError, "nn.MultiheadAttention"),
        (lambda: examine(Layer(32, 4), 32, 4, weights={"q": 1}), ValueError, '"q"'),
        (lambda: examine(Layer(32, 4), 32, 4, weights=dict.fromkeys("qkv", 1)), TypeError, "nn.Linear"),
        (lambda: examine(Layer(32, 4), 32, 4, weights=dict.fromkeys("qkv", torch.ones(32, 31))), ValueError, ".T"),
    ],
)
def test_bad_arguments_are_refused_before_anything_runs(call, error, words, as_shipped):
    with pytest.raises(error) as caught:
        call()
    assert words in str(caught.value)


def test_a_padding_mask_is_made_of_lengths_as_the_refusal_says():
    layer = MultiHeadAttention(32, 4)

    def padded(x, hidden):  # (B, T), True = hidden
        return layer(x, mask=~hidden[:, None])

    def from_lengths(x, lens):
        return padded(x, torch.arange(x.shape[1]) >= lens[:, None])

    assert examine(adapt(from_lengths, mask="lengths", mask_rank=1), 32, 4).ok


def test_a_whole_model_is_told_from_a_layer():
    model = nn.Sequential(nn.Embedding(9, 32), nn.Linear(32, 32))
    (finding,) = examine(adapt(model, mask=None), 32, 4).findings
    assert finding.code == "crash" and "token ids; hand over an attention layer of the model" in finding.evidence


# --------------------------------------------------------------------------------------- command line

FACTORIES = """
import torch
from torch import nn
from mhalib import MultiHeadAttention
from mhalib.doctor import adapt

def healthy(): return MultiHeadAttention(32, 4)
def torch_layer(): return nn.MultiheadAttention(32, 4)
def inverted():
    layer = MultiHeadAttention(32, 4)
    return lambda x, mask=None: layer(x, mask=None if mask is None else ~mask)
def broken(): raise RuntimeError("no weights here")
value = 3
"""


@pytest.fixture
def factories(tmp_path, monkeypatch):
    (tmp_path / "some_layers.py").write_text(FACTORIES)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    yield "some_layers"
    sys.modules.pop("some_layers", None)


SIZES = ["--d-model", "32", "--num-heads", "4"]


@pytest.mark.parametrize(
    ("factory", "options", "code", "words"),
    [
        ("healthy", [], 0, "no finding"),
        ("torch_layer", [], 0, "no finding"),
        ("torch_layer", ["--convention", "torch", "--mask", "none"], 0, "masks: the layer takes none"),
        ("inverted", [], 1, "mask-inverted"),
        ("broken", [], 2, "no weights here"),
        ("value", [], 2, "no function that makes a layer"),
        ("missing", [], 2, "has no missing; what can be called in it: "),
        ("MultiHeadAttention", [], 2, "expected a function that needs no arguments"),
        ("healthy", ["--mask-rank", "1"], 2, "mask_rank must be one of"),
    ],
)
def test_the_command_line(factories, capsys, factory, options, code, words):
    assert main([f"{factories}:{factory}", *SIZES, *options]) == code
    printed = capsys.readouterr()
    assert words in (printed.err if code == 2 else printed.out)


def test_the_command_line_without_a_colon(capsys):
    assert main(["some_layers", *SIZES]) == 2
    assert "expected package.module:factory" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["mylayer.py:make", "nosuchmodule:make", "nosuch.module:make"])
def test_the_command_line_says_where_it_looked_for_a_module(tmp_path, monkeypatch, capsys, name):
    monkeypatch.chdir(tmp_path)
    assert main([name, *SIZES]) == 2
    said = capsys.readouterr().err
    assert f"no module {name.split('.')[0].split(':')[0]} in {tmp_path}" in said and "leave .py out" in said


def test_the_command_line_names_a_module_that_a_module_misses(tmp_path, monkeypatch, capsys):
    (tmp_path / "needy.py").write_text("import nosuchmodule\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    assert main(["needy:make", *SIZES]) == 2
    assert "No module named 'nosuchmodule'" in capsys.readouterr().err


def test_as_a_command(tmp_path):
    (tmp_path / "some_layers.py").write_text(FACTORIES)
    command = [sys.executable, "-m", "mhalib.doctor", "some_layers:inverted", *SIZES]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1 and "mask-inverted" in done.stdout, done.stderr
    assert subprocess.run(command[:3], cwd=tmp_path, capture_output=True).returncode == 2


def test_reports_are_not_shared():
    layer = MaskInverted(32, 4)
    report = examine(layer, 32, 4)
    assert copy.deepcopy(report).codes == report.codes and Report().findings == []
