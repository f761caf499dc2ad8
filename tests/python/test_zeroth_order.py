"""zeroth_order(): a user's own model and loss, without backpropagation."""
import pytest
import torch
import triaccel
from test_attach import Small, closure_of, images
from torch.nn import functional as F


def small(seed=1):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2))


def points(samples=64, seed=0):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(2, (samples,), generator=g)
    return {"x": torch.randn(samples, 8, generator=g) + (2.0 * y - 1).view(-1, 1), "y": y}


def losses(zo, model, steps):
    return [zo.step(points(seed=i % 4), lambda b: F.cross_entropy(model(b["x"]), b["y"])).item() for i in range(steps)]


def test_learns_without_backpropagation():
    model = small()
    found = losses(triaccel.zeroth_order(model, lr=0.02, directions=4), model, 200)
    assert sum(found[-4:]) < 0.5 * sum(found[:4])
    assert all(p.grad is None for p in model.parameters())


def test_is_the_same_for_the_same_seed():
    runs = []
    for _ in range(2):
        model = small()
        runs.append(losses(triaccel.zeroth_order(model, lr=0.02, seed=7), model, 20))
    assert runs[0] == runs[1]
    model = small()
    assert losses(triaccel.zeroth_order(model, lr=0.02, seed=8), model, 20) != runs[0]


def test_learns_faster_with_backpropagation_in_the_last_layer():
    model = small()
    alone = losses(triaccel.zeroth_order(model, lr=0.01), model, 40)
    model = small()
    elastic = losses(triaccel.zeroth_order(model, lr=0.01, backprop_layers=1, backprop_lr=0.1), model, 40)
    assert sum(elastic[-4:]) < sum(alone[-4:])


def test_an_error_leaves_everything_as_it_was():
    torch.manual_seed(2)
    model = Small()
    zo = triaccel.zeroth_order(model, backprop_layers=1)
    assert (zo.lr, triaccel.zeroth_order(Small()).lr) == (2e-5, 6e-5)
    zo.step(images(), closure_of(model))
    before = [t.clone() for t in model.state_dict().values()] + [torch.get_rng_state()]
    calls = []

    def fails(b):
        calls.append(model(b["x"]))
        if len(calls) == 2:
            raise KeyError("of the user's own")
        return F.cross_entropy(calls[-1], b["y"])

    with pytest.raises(KeyError):
        zo.step(images(), fails)
    after = [t.clone() for t in model.state_dict().values()] + [torch.get_rng_state()]
    assert all(torch.equal(a, b) for a, b in zip(after, before))


def test_says_what_is_wrong():
    with pytest.raises(ValueError, match="backprop_layers must be in"):
        triaccel.zeroth_order(small(), backprop_layers=2)
    with pytest.raises(ValueError, match="no parameters"):
        triaccel.zeroth_order(torch.nn.ReLU())
