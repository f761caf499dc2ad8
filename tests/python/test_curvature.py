"""attach(curvature=...): learning rates of layers from the curvature of the user's own loss."""
import math

import pytest
import torch
import triaccel
from torch.nn import functional as F

ALPHA = 0.01  # of the paper's rule


class Regression(torch.nn.Module):
    """Two layers in a row; the scale of the inputs makes the first one's curvature large."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(3, 4, bias=False)
        self.last = torch.nn.Linear(4, 2, bias=False)

    def forward(self, x):
        return self.last(torch.tanh(self.first(x)))


def problem():
    torch.manual_seed(0)
    model = Regression()
    batch = {"x": 5 * torch.randn(32, 3), "y": torch.randn(32, 2)}
    return model, batch, lambda b: F.mse_loss(model(b["x"]), b["y"])


def largest_eigenvalue(model, name, batch):
    weights = dict(model.named_parameters())

    def loss(weight):
        changed = {**weights, f"{name}.weight": weight.view_as(weights[f"{name}.weight"])}
        return F.mse_loss(torch.func.functional_call(model, changed, (batch["x"],)), batch["y"])

    hessian = torch.autograd.functional.hessian(loss, weights[f"{name}.weight"].detach().flatten())
    return torch.linalg.eigvalsh(hessian).abs().max().item()


def test_batch_norm_leaves_the_rate_of_the_weight_before_it():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4, bias=False), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2))
    batch = {"x": torch.randn(32, 3), "y": 100 * torch.randn(32, 2)}
    ta = triaccel.attach(model, triaccel.optim.SGD(model.parameters(), lr=10.0), precision="off", curvature="hessian",
                         curvature_every=1, control_interval=1)
    ta.step(batch, lambda b: 1e-6 * F.mse_loss(model(b["x"]), b["y"]))
    for _ in range(2):
        ta.step(batch, lambda b: F.mse_loss(model(b["x"]), b["y"]))
    assert ta.plan["learning_rate_scales"]["0"] == 1
    assert ta.plan["learning_rate_scales"]["2"] < 1


def test_rates_follow_the_hessian_by_the_papers_rule():
    model, batch, closure = problem()
    expected = {name: 1 / (1 + ALPHA * largest_eigenvalue(model, name, batch)) for name in ("first", "last")}
    optimizer = triaccel.optim.SGD(model.parameters(), lr=0.0)  # weights stay where the eigenvalues were computed
    ta = triaccel.attach(model, optimizer, precision="off", curvature="hessian", curvature_every=1, policy="paper",
                         control_interval=2)
    for _ in range(3):
        ta.step(batch, closure)
    scales = ta.plan["learning_rate_scales"]
    assert scales == pytest.approx(expected, rel=0.02)
    assert all(scale < 0.999 for scale in scales.values())


@pytest.mark.parametrize("kind", [triaccel.optim.SGD, triaccel.optim.AdamW])
def test_layers_move_by_their_scales(kind):
    moves = {}
    for curvature in ("off", "hessian"):
        model, batch, closure = problem()
        optimizer = kind(model.parameters(), lr=0.0)
        ta = triaccel.attach(model, optimizer, precision="off", curvature=curvature, curvature_every=1, policy="paper",
                             control_interval=1)
        for _ in range(2):
            ta.step(batch, closure)
        before = {name: p.detach().clone() for name, p in model.named_parameters()}
        optimizer.param_groups[0]["lr"] = 1e-3
        scales = ta.plan["learning_rate_scales"]
        ta.step(batch, closure)
        moves[curvature] = {name: p.detach() - before[name] for name, p in model.named_parameters()}
        ta.detach()
    atol = 1e-9 if torch.get_default_device().type == "cpu" else 1e-7  # a GPU rounds weights of 0.5 otherwise
    for name, move in moves["off"].items():
        torch.testing.assert_close(moves["hessian"][name], move * scales[name.removesuffix(".weight")], rtol=1e-3, atol=atol)


def test_caps_a_rate_that_diverges():
    losses = {}
    for curvature in ("off", "fisher"):
        model, batch, closure = problem()
        batch["x"] = 20 * batch["x"]
        optimizer = triaccel.optim.SGD(model.parameters(), lr=3.0)
        ta = triaccel.attach(model, optimizer, precision="off", curvature=curvature, curvature_every=1, control_interval=1)
        losses[curvature] = [ta.step(batch, closure).item() for _ in range(60)]
        ta.detach()
    assert math.isnan(losses["off"][-1])
    assert all(map(math.isfinite, losses["fisher"])) and min(losses["fisher"][-10:]) < losses["fisher"][0]


def test_leaves_weights_gradients_and_generators_alone():
    model, batch, closure = problem()
    plain, same_batch, plain_closure = problem()
    optimizer = triaccel.optim.SGD(model.parameters(), lr=1e-4)
    ta = triaccel.attach(model, optimizer, precision="off", curvature="fisher", curvature_every=1)
    reference = triaccel.attach(plain, triaccel.optim.SGD(plain.parameters(), lr=1e-4), precision="off")
    torch.manual_seed(3)
    found = [ta.step(batch, closure) for _ in range(3)]  # measured before all but the first
    state = torch.get_rng_state()
    torch.manual_seed(3)
    expected = [reference.step(same_batch, plain_closure) for _ in range(3)]
    assert all(map(torch.equal, found, expected)) and torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), plain.parameters()))


def test_needs_an_optimizer_with_rates_by_layer():
    model, _, _ = problem()
    with pytest.raises(ValueError, match="triaccel.optim"):
        triaccel.attach(model, torch.optim.SGD(model.parameters(), lr=0.1), curvature="fisher")
    with pytest.raises(ValueError, match="curvature is"):
        triaccel.attach(model, triaccel.optim.SGD(model.parameters()), curvature="round")
