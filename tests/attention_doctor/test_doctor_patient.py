"""The layer on the table: whatever the doctor does with it, it comes back as it was."""

import random

import numpy as np
import pytest
import torch

from mhalib.doctor import adapt, examine
from tests.helpers.layers_base import Layer
from tests.helpers.layers_healthy import Dropout


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


def test_what_a_layer_prints_is_swallowed(capsys):
    layer = Layer(32, 4)

    def attend(x, mask=None):
        print("shape", x.shape)
        return layer(x, mask)

    assert examine(adapt(attend, mask_name="mask"), 32, 4).ok
    assert capsys.readouterr().out == ""


def test_a_layer_in_half_precision():
    assert examine(Layer(32, 4).to(torch.bfloat16), 32, 4).ok
