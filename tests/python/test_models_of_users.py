"""What users do with models and optimizers next to attach()."""
import collections
import gc

import numpy as np
import pytest
import torch
import triaccel
from torch.nn import functional as F


def small(seed=1):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))


def batch(samples=12):
    torch.manual_seed(5)
    return {"x": torch.randn(samples, 6), "y": torch.randint(3, (samples,))}


def closure_of(model):
    return lambda b: F.cross_entropy(model(b["x"]), b["y"])


def too_large_above(most, size, calls):
    calls.append(size)
    if size > most:
        raise torch.OutOfMemoryError("too many")


def test_models_without_float32_weights_are_refused():
    for model in (small().double(), small().bfloat16()):
        with pytest.raises(ValueError, match="float32"):
            triaccel.attach(model)


def test_weights_unfrozen_later_get_the_gradients_of_the_whole_batch():
    """Where a try ran out of memory, and where parts count other numbers."""
    gradients = []
    for most in (12, 3):
        model, calls = small(), []
        model[0].requires_grad_(False)
        ta = triaccel.attach(model, precision="fp32", budget="1GiB")
        model[0].requires_grad_(True)

        def closure(b):
            too_large_above(most if len(calls) != 3 else 0, len(b["y"]), calls)
            return (F.cross_entropy(model(b["x"]), b["y"], reduction="none") * b["w"]).sum(), b["w"].sum()

        ta.backward({**batch(), "w": torch.arange(12.0)}, closure)
        gradients.append([p.grad.clone() for p in model.parameters()])
    assert all(torch.allclose(a, b, rtol=1e-4, atol=1e-6) for a, b in zip(*gradients))


def test_layers_added_later_are_refused_with_what_to_do():
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    ta = triaccel.attach(model, optimizer)
    ta.step(batch(), closure_of(model))
    model.add_module("3", torch.nn.Linear(3, 3))
    optimizer.add_param_group({"params": model[3].parameters()})
    with pytest.raises(ValueError, match="attach it again"):
        ta.step(batch(), closure_of(model))
    ta.detach()
    triaccel.attach(model, optimizer).step(batch(), closure_of(model))


def test_a_model_is_free_again_when_its_session_is_gone():
    model = small()
    ta = triaccel.attach(model)
    with pytest.raises(ValueError, match="attached already"):
        triaccel.attach(model)
    del ta
    gc.collect()
    triaccel.attach(model).detach()


def test_rates_that_a_hook_sets_stay():
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    optimizer.register_step_post_hook(lambda *_: schedule.step())
    ta = triaccel.attach(model, optimizer)
    for _ in range(3):
        ta.step(batch(), closure_of(model))
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.0125)


class WithoutRate(torch.optim.Optimizer):
    def __init__(self, parameters):
        super().__init__(parameters, {"lr": None})

    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                p.data.add_(p.grad, alpha=-0.01)


def test_optimizers_may_have_no_rate():
    model = small()
    assert torch.isfinite(triaccel.attach(model, WithoutRate(model.parameters())).step(batch(), closure_of(model)))


def test_every_matrix_of_a_recurrent_layer_is_a_layer():
    model = torch.nn.LSTM(6, 5, batch_first=True)
    ta = triaccel.attach(model, triaccel.optim.SGD(model.parameters(), lr=0.1), curvature="fisher", curvature_every=1, control_interval=1)
    assert list(ta.plan["precision"]) == ["weight_ih_l0", "weight_hh_l0"]
    for _ in range(3):
        ta.step({"x": torch.randn(8, 4, 6)}, lambda b: model(b["x"])[0].square().mean())
    two = torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.LSTM(6, 5))
    assert list(triaccel.attach(two).plan["precision"]) == ["0", "1", "1.weight_hh_l0"]


def test_closures_may_take_things_out_of_their_part():
    model, calls, given = small(), [], batch()

    def popping(b):
        y = b.pop("y")
        too_large_above(6, len(y), calls)
        return F.cross_entropy(model(b["x"]), y)

    triaccel.attach(model, budget="1GiB").backward(given, popping)
    assert calls == [12, 6, 6] and "y" in given


class Encoding(collections.UserDict):
    """As tokenizers return them."""

    def __getattr__(self, name):
        if name == "data":
            raise AttributeError
        return self.data[name]


def test_mappings_of_other_types_are_split_wherever_they_are():
    model, calls, given = small(), [], batch()

    def closure(b):
        encoding, y = b
        too_large_above(6, len(y), calls)
        assert len(encoding.x) == len(y)
        return F.cross_entropy(model(encoding.x), y)

    triaccel.attach(model, budget="1GiB").backward((Encoding(x=given["x"]), given["y"]), closure)
    assert calls == [12, 6, 6]


def test_entries_of_samples_go_with_them():
    model, calls, seen, given = small(), [], [], batch()
    given |= {"name": [str(i) for i in range(12)], "weight": np.arange(12.0), "task": ["one", "two"]}

    def closure(b):
        too_large_above(6, len(b["y"]), calls)
        seen.append((b["name"], list(b["weight"]), b["task"]))
        return closure_of(model)(b)

    triaccel.attach(model, budget="1GiB").backward(given, closure)
    assert seen == [([str(i) for i in part], list(part), ["one", "two"]) for part in (range(6), range(6, 12))]


def test_what_has_no_kernels_for_16_bits_computes_in_32():
    model = small()
    ta = triaccel.attach(model, precision="bf16")
    with ta.precision():
        out = model(batch()["x"])
        assert torch.fft.rfft(out).dtype == torch.complex64
        assert torch.linalg.svd(out).S.dtype == torch.float32
        assert torch.quantile(out, 0.5).dtype == torch.float32
