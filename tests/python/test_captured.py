"""graphs="auto": whole steps with the optimizer inside. On a CPU nothing is captured, but the same steps run.

TRIACCEL_TEST_DEVICE=cuda runs everything on a GPU, where they are.
"""
import copy
import os
import sys
import warnings

import pytest
import torch
from torch.nn import functional as F

import triaccel
from triaccel.captured import MOST_SHAPES, CannotCapture, StaticBatches

DEVICE = torch.zeros(0, device=os.environ.get("TRIACCEL_TEST_DEVICE", "cpu")).device  # with its number
ON_GPU = DEVICE.type == "cuda"


@pytest.fixture(autouse=True)
def capture_everywhere(monkeypatch):
    monkeypatch.setattr(sys.modules["triaccel.attach"], "can_capture", lambda device: True)


def network():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, padding=1, bias=False), torch.nn.BatchNorm2d(8), torch.nn.ReLU(),
                                torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(8, 10))
    return model.to(DEVICE)


def batches(count, samples=8):
    torch.manual_seed(1)
    return [(torch.randn(samples, 3, 8, 8, device=DEVICE), torch.randint(10, (samples,), device=DEVICE))
            for _ in range(count)]


def loss_of(model):
    return lambda batch: F.cross_entropy(model(batch[0]), batch[1])


def optimizers(kind, model, **options):
    return getattr(triaccel.optim, kind)(model.parameters(), lr=0.05 if kind == "SGD" else 1e-2, **options)


def train_plainly(model, optimizer, data, scheduler=None):
    losses = []
    for batch in data:
        optimizer.zero_grad()
        loss = loss_of(model)(batch)
        loss.backward()
        optimizer.step()
        if scheduler is not None:
            scheduler.step()
        losses.append(loss.item())
    return losses


def assert_close(model, other, tolerance=1e-5):
    for (name, a), b in zip(model.state_dict().items(), other.state_dict().values()):
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance, msg=lambda text: f"{name}: {text}")


@pytest.mark.parametrize("kind,options", [("SGD", {"momentum": 0.9, "weight_decay": 1e-3}), ("AdamW", {})])
def test_trains_as_a_plain_loop(kind, options):
    model, other = network(), network()
    optimizer, plain = optimizers(kind, model, **options), optimizers(kind, other, **options)
    schedulers = [torch.optim.lr_scheduler.ExponentialLR(o, 0.9) for o in (optimizer, plain)]
    data = batches(12)
    expected = train_plainly(other, plain, data, schedulers[1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ta = triaccel.attach(model, optimizer, precision="off", graphs="auto")
        losses = []
        for batch in data:
            losses.append(ta.step(batch, loss_of(model)))
            schedulers[0].step()
    assert [loss.item() for loss in losses] == pytest.approx(expected, rel=1e-5)
    assert_close(model, other)
    states = [o.state_dict()["state"] for o in (optimizer, plain)]
    for a, b in zip(states[0].values(), states[1].values()):
        assert a.keys() == b.keys()
        for name in a:
            torch.testing.assert_close(a[name], b[name], rtol=1e-5, atol=1e-5)
    assert all(p.grad is None for p in model.parameters())


def test_the_closure_runs_for_new_shapes_only():
    model = network()
    ta = triaccel.attach(model, optimizers("SGD", model), graphs="auto")
    calls = []

    def closure(batch):
        calls.append(len(batch[0]))
        return loss_of(model)(batch)

    for batch in batches(4) + batches(1, samples=6) + batches(3):
        ta.step(batch, closure)
    assert set(calls) == {8, 6}
    if ON_GPU:
        assert calls == [8, 8, 8, 6, 6]  # plain, rehearsed and captured; rehearsed and captured


def test_losses_stay_what_they_were():
    model = network()
    ta = triaccel.attach(model, optimizers("SGD", model), graphs="auto")
    data = batches(5)
    kept = [ta.step(batch, loss_of(model)) for batch in data]
    assert len({loss.item() for loss in kept}) == len(kept)


def test_follows_changed_options_and_learning_rates():
    model, other = network(), network()
    optimizer, plain = optimizers("SGD", model, momentum=0.9), optimizers("SGD", other, momentum=0.9)
    ta = triaccel.attach(model, optimizer, precision="off", graphs="auto")
    for i, batch in enumerate(batches(9)):
        for o in (optimizer, plain):
            o.param_groups[0]["weight_decay"] = 0.1 if i >= 3 else 0.0
            o.param_groups[0]["lr"] = 0.01 if i >= 6 else 0.05
        ta.step(batch, loss_of(model))
        train_plainly(other, plain, [batch])
    assert_close(model, other)


def test_goes_on_after_loading_a_state():
    model = network()
    optimizer = optimizers("AdamW", model)
    ta = triaccel.attach(model, optimizer, precision="off", graphs="auto")
    data = batches(9)
    for batch in data[:3]:
        ta.step(batch, loss_of(model))
    saved = copy.deepcopy((model.state_dict(), optimizer.state_dict(), ta.state_dict()))
    for batch in data[3:6]:
        ta.step(batch, loss_of(model))
    expected = copy.deepcopy(model.state_dict())
    model.load_state_dict(saved[0])
    optimizer.load_state_dict(saved[1])
    ta.load_state_dict(saved[2])
    for batch in data[3:6]:
        ta.step(batch, loss_of(model))
    for name, value in model.state_dict().items():
        torch.testing.assert_close(value, expected[name], rtol=1e-5, atol=1e-5)
    assert {entry["step"].item() for entry in optimizer.state_dict()["state"].values()} == {6}


def test_steps_with_infinite_gradients_are_skipped():
    model = network()
    optimizer = optimizers("AdamW", model)
    ta = triaccel.attach(model, optimizer, graphs="auto", control_interval=2)
    data = batches(6)
    data[3][0][0, 0, 0, 0] = float("nan")
    before = None
    for i, batch in enumerate(data):
        if i == 3:
            before = [p.detach().clone() for p in model.parameters()]
        ta.step(batch, loss_of(model))
        if i == 3:
            assert all(torch.equal(a, b) for a, b in zip(before, model.parameters()))
    assert {entry["step"].item() for entry in optimizer.state_dict()["state"].values()} == {5}


def test_passes_shrink_in_a_budget_and_several_batches_make_a_step():
    model, other = network(), network()
    optimizer, plain = optimizers("SGD", model), optimizers("SGD", other)
    ta = triaccel.attach(model, optimizer, precision="off", graphs="auto", budget="2GB", batch="elastic")
    for group in ta.batches(batches(6)):
        ta.step(group, loss_of(model))
    train_plainly(other, plain, batches(6))
    assert_close(model, other)


def test_what_differs_is_said_and_trains_without():
    model = network()
    ta = triaccel.attach(model, optimizers("SGD", model), precision="off", graphs="auto")
    runs = []

    def moody(batch):  # another loss in every run
        runs.append(None)
        return loss_of(model)(batch) * 10 ** len(runs)

    with pytest.warns(RuntimeWarning, match="not captured in CUDA graphs: its loss is"):
        ta.step(batches(1)[0], moody)
    assert ta.backward(batches(1)[0], loss_of(model)).isfinite()  # as without graphs


def test_errors_of_the_captured_run_name_the_line():
    model, other = network(), network()
    ta = triaccel.attach(model, optimizers("SGD", model), precision="off", graphs="auto")
    runs = []

    def failing(batch):
        runs.append(None)
        if len(runs) == 2:
            raise RuntimeError("not twice")
        return loss_of(model)(batch)

    with pytest.warns(RuntimeWarning, match=r"test_captured\.py:\d+: raise RuntimeError\(\"not twice\"\): not twice"):
        ta.step(batches(1)[0], failing)
    train_plainly(other, optimizers("SGD", other), batches(1))
    assert_close(model, other)


@pytest.mark.skipif(not ON_GPU, reason="needs a GPU")
def test_waiting_for_the_device_names_the_line():
    model = network()
    ta = triaccel.attach(model, optimizers("SGD", model), graphs="auto")

    def reading(batch):
        loss = loss_of(model)(batch)
        return loss * (1 if loss.item() > 0 else 2)

    with pytest.warns(RuntimeWarning, match=r"test_captured\.py:\d+: return loss \* \(1 if loss\.item\(\)"):
        ta.step(batches(1)[0], reading)


@pytest.mark.skipif(not ON_GPU, reason="needs a GPU")
def test_fused_layers_train_as_planned():
    model, other = network().to(memory_format=torch.channels_last), network().to(memory_format=torch.channels_last)
    ta = triaccel.attach(model, optimizers("SGD", model), precision="bf16", graphs="auto")
    plain = triaccel.attach(other, optimizers("SGD", other), precision="bf16")
    data = batches(1) * 30
    losses = [[handle.step(batch, loss_of(m)).item() for batch in data] for handle, m in ((ta, model), (plain, other))]
    assert losses[0] == pytest.approx(losses[1], rel=0.02)
    assert losses[0][-1] < losses[0][0]


def test_what_cannot_be_captured_is_refused():
    model = network()
    with pytest.raises(ValueError, match="needs triaccel.optim.SGD or AdamW"):
        triaccel.attach(model, torch.optim.SGD(model.parameters(), lr=0.1), graphs="auto")
    with pytest.raises(ValueError, match="graphs is 'off' or 'auto'"):
        triaccel.attach(model, graphs="on")
    ta = triaccel.attach(model, optimizers("SGD", model), graphs="auto")
    with pytest.raises(ValueError, match="captures whole steps"):
        ta.backward(batches(1)[0], loss_of(model))


def test_batches_have_fixed_places():
    places = StaticBatches(DEVICE)
    first, second = batches(2)
    number, copied = places.place({"x": first[0], "kind": "a"}, 0)
    again, same = places.place({"x": second[0], "kind": "a"}, 0)
    assert again == number and same["x"].data_ptr() == copied["x"].data_ptr() and torch.equal(same["x"], second[0])
    assert places.place({"x": second[0], "kind": "b"}, 0)[0] != number
    assert places.place({"x": second[0], "kind": "a"}, 1)[0] != number
    for size in range(1, MOST_SHAPES + 1):
        places.place({"x": torch.zeros(size, device=DEVICE), "kind": "a"}, 0)
    assert places.place({"x": first[0], "kind": "a"}, 0)[0] != number
    with pytest.raises(CannotCapture, match="move the batch to"):
        places.place([torch.zeros(1, device="meta")], 0)


def test_compiled_models_are_captured_from_their_second_step_on():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4)).to(DEVICE)
    ta = triaccel.attach(model, optimizers("SGD", model, momentum=0.9), precision="bf16", compile="auto", graphs="auto")
    torch.manual_seed(1)
    batch = (torch.randn(32, 16, device=DEVICE), torch.randint(4, (32,), device=DEVICE))
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        losses = [ta.step(batch, loss_of(model)).item() for _ in range(12)]
    assert ta._captured is not None and ta._captured.engine is not None
    assert losses[-1] < losses[0]
