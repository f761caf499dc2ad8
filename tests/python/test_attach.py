"""attach(): a training loop of the user's own under control, against the same loop without it."""
import copy

import pytest
import torch
import triaccel
from torch.nn import functional as F
from triaccel import _C

ON_GPU = torch.get_default_device().type == "cuda"  # TRIACCEL_TEST_DEFAULT_DEVICE=cuda
LARGE = 32768 if ON_GPU else 256  # samples; on a GPU activations are then many times the allocator's segments of 20 MiB


class Small(torch.nn.Module):
    """Convolutions with batch norm and dropout: buffers and random numbers take part."""

    def __init__(self):
        super().__init__()
        self.features = torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.MaxPool2d(4),
            torch.nn.Conv2d(8, 16, 3, padding=1), torch.nn.BatchNorm2d(16), torch.nn.ReLU(), torch.nn.Dropout(0.1))
        self.head = torch.nn.Linear(16 * 16, 4)

    def forward(self, x):
        return self.head(self.features(x).flatten(1))


def images(samples=16, seed=0):
    generator = torch.Generator(device=torch.get_default_device()).manual_seed(seed)
    y = torch.randint(4, (samples,), generator=generator)
    x = torch.randn(samples, 3, 16, 16, generator=generator) + y.float().view(-1, 1, 1, 1)
    return {"x": x, "y": y}


def make(optimizer=lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9), seed=1):
    torch.manual_seed(seed)
    model = Small()
    return model, optimizer(model.parameters())


def closure_of(model):
    return lambda b: F.cross_entropy(model(b["x"]), b["y"])


def random_state():
    """Of all generators: dropout on a GPU draws from that of the GPU."""
    return [torch.get_rng_state(), *torch.cuda.get_rng_state_all()]


def set_random_state(states):
    torch.set_rng_state(states[0])
    torch.cuda.set_rng_state_all(states[1:])


def everything(model, optimizer):
    """Every byte a step may change."""
    tensors = [t.clone() for t in model.state_dict().values()]
    for state in optimizer.state.values():
        tensors += [value.clone() if torch.is_tensor(value) else value for value in state.values()]
    return tensors + random_state()


def same(a, b):
    return len(a) == len(b) and all(torch.equal(x, y) if torch.is_tensor(x) else x == y for x, y in zip(a, b))


def plain_losses(model, optimizer, batches):
    losses = []
    for b in batches:
        optimizer.zero_grad()
        loss = closure_of(model)(b)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach().clone())
    return losses


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=1e-4),
    "adamw": lambda p: torch.optim.AdamW(p, lr=1e-3, fused=True),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=1e-3),
    "ours": lambda p: triaccel.optim.AdamW(p, lr=1e-3),
}


@pytest.mark.usefixtures("deterministic")
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_is_the_plain_loop_when_everything_is_off(name):
    batches = [images(seed=i) for i in range(10)]
    model, optimizer = make(OPTIMIZERS[name])
    torch.manual_seed(5)
    expected = plain_losses(model, optimizer, batches)
    other, its_optimizer = make(OPTIMIZERS[name])
    ta = triaccel.attach(other, its_optimizer, precision="off")
    torch.manual_seed(5)
    found = [ta.step(b, closure_of(other)) for b in batches]
    assert same(found, expected)
    assert same(everything(other, its_optimizer), everything(model, optimizer))


def test_learns_in_bf16_as_it_does_in_fp32():
    batches = [images(64, seed=i % 4) for i in range(60)]
    losses = {}
    for precision in ("off", "auto"):
        model, optimizer = make()
        ta = triaccel.attach(model, optimizer, precision=precision)
        losses[precision] = [ta.step(b, closure_of(model)).item() for b in batches]
        if precision == "auto":
            assert "bf16" in ta.plan["precision"].values()
    assert losses["auto"][-1] < 0.5 * losses["auto"][0]
    assert losses["auto"] != losses["off"]
    assert sum(losses["auto"][-10:]) == pytest.approx(sum(losses["off"][-10:]), rel=0.25)


def test_splits_a_batch_that_does_not_fit():
    model, optimizer = make(lambda p: triaccel.optim.SGD(p, lr=0.05))
    big = images(LARGE)
    ta = triaccel.attach(model, optimizer, precision="off")
    ta.step(big, closure_of(model))
    free = ta.report()["memory"]
    ta.detach()
    base = free["used"]
    budget = base + (free["peak"] - base) // 3
    ta = triaccel.attach(model, optimizer, precision="off", budget=budget)
    with pytest.warns(RuntimeWarning, match="out of memory: passes of"):
        ta.step(big, closure_of(model))
    for _ in range(20):
        ta.step(big, closure_of(model))
    memory = ta.report()["memory"]
    assert memory["peak"] <= memory["reserved"] <= budget
    assert ta.plan["pass_size"] < LARGE
    ta.detach()


def test_gradients_of_parts_add_up():
    model, _ = make()
    model.eval()  # batch statistics would differ
    batch = images(24)
    weights = torch.rand(24)
    batch["w"] = weights

    def weighted(b):
        return (F.cross_entropy(model(b["x"]), b["y"], reduction="none") * b["w"]).sum(), b["w"].sum()

    total, count = weighted(batch)
    (total / count).backward()
    expected = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    ta = triaccel.attach(model, precision="off")
    ta._session.backward([24], lambda first, n: weighted(batch))  # a plan with one pass
    model.zero_grad()
    calls = []

    def parts(b):
        calls.append(len(b["y"]))
        if len(b["y"]) > 5:
            raise torch.OutOfMemoryError("out of memory: a device with room for five")
        return weighted(b)

    with pytest.warns(RuntimeWarning):
        loss = ta.backward(batch, parts)
    assert max(calls[-5:]) <= 5
    torch.testing.assert_close(loss, (total / count).detach())
    for parameter, gradient in zip(model.parameters(), expected):
        torch.testing.assert_close(parameter.grad, gradient, rtol=1e-4, atol=1e-6)
    before = [p.grad.clone() for p in model.parameters()]
    ta.backward(batch, weighted)  # accumulates, as torch does
    for parameter, gradient in zip(model.parameters(), before):
        torch.testing.assert_close(parameter.grad, 2 * gradient, rtol=1e-4, atol=1e-6)
    ta.detach()


@pytest.mark.parametrize("name", ["adamw", "ours"])
@pytest.mark.parametrize("precision", ["off", "auto"])
def test_every_allocation_may_fail_once(name, precision):
    model, optimizer = make(OPTIMIZERS[name])
    model.features[-1].p = 0.3
    ta = triaccel.attach(model, optimizer, precision=precision)
    batch = images(2)  # batch norm: passes of two are the smallest
    whole = closure_of(model)
    for first in (True, False):  # the optimizer's state does not exist, then it does
        torch.manual_seed(3)
        before, failures, allocation = everything(model, optimizer), 0, 0
        while True:
            _C.fail_cpu_allocation(allocation)
            try:
                ta.step(batch, whole)
            except torch.OutOfMemoryError:
                failures += 1
                _C.fail_cpu_allocation(-1)
                assert same(everything(model, optimizer), before), (first, allocation)
                assert all(p.grad is None for p in model.parameters())
                allocation += 1
                continue
            finally:
                _C.fail_cpu_allocation(-1)
            break
        assert failures > (0 if ON_GPU else 20)  # a step on a GPU takes little host memory
        assert not same(everything(model, optimizer), before)
    ta.detach()


def test_an_error_of_the_closure_changes_nothing():
    model, optimizer = make()
    ta = triaccel.attach(model, optimizer, precision="auto")
    ta.step(images(), closure_of(model))
    before = everything(model, optimizer)

    def fails(b):
        model(b["x"])
        raise KeyError("of the user's own")

    with pytest.raises(KeyError, match="user's own"):
        ta.step(images(), fails)
    assert same(everything(model, optimizer), before)
    ta.detach()


def test_says_what_is_wrong():
    model, optimizer = make()
    ta = triaccel.attach(model, optimizer, precision="off")
    before = everything(model, optimizer)
    wrong = [
        (images(), lambda b: None, "must return the batch's mean loss"),
        (images(), lambda b: model(b["x"]), "must return the batch's mean loss"),
        (images(), lambda b: torch.tensor(1.0), "does not depend on parameters"),
        ({"x": torch.zeros(3, 2), "y": torch.zeros(4)}, closure_of(model), "different first dimensions"),
        ({"x": 3}, closure_of(model), "no tensor with samples"),
        ({"x": torch.zeros(0, 3)}, closure_of(model), "no samples"),
    ]
    for batch, closure, message in wrong:
        with pytest.raises(ValueError, match=message):
            ta.step(batch, closure)
        assert same(everything(model, optimizer), before), message
    with pytest.raises(ValueError, match="attached already"):
        triaccel.attach(model, optimizer)
    ta.detach()
    with pytest.raises(RuntimeError, match="detached"):
        ta.step(images(), closure_of(model))
    with pytest.raises(ValueError, match="not the model's"):
        triaccel.attach(Small(), optimizer)
    two = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2, device="meta"))
    with pytest.raises(ValueError, match="several devices"):
        triaccel.attach(two)
    with pytest.raises(ValueError, match="budget"):
        triaccel.attach(model, optimizer, budget="lots")
    with pytest.raises(ValueError, match="did you mean"):
        triaccel.attach(model, optimizer, precision="bf61")
    with pytest.raises(ValueError, match="did you mean 'lossless'"):
        triaccel.attach(model, optimizer, activations="losless")
    with pytest.raises(TypeError, match="torch.nn.Module"):
        triaccel.attach(lambda x: x)
    triaccel.attach(model, optimizer).detach()  # none of it left anything behind


def test_retries_leak_nothing():
    model, optimizer = make(lambda p: triaccel.optim.SGD(p, lr=1e-3))
    ta = triaccel.attach(model, optimizer, precision="off")
    batch = images(4)
    failing = {"calls": 0}

    def sometimes(b):
        failing["calls"] += 1
        if failing["calls"] % 2 and len(b["y"]) == 4:
            raise torch.OutOfMemoryError("out of memory, now and then")
        return closure_of(model)(b)

    used = []
    with pytest.warns(RuntimeWarning):
        for step in range(1000):
            ta.step(batch, sometimes)
            if step in (9, 999):
                used.append(ta.report()["memory"]["used"])
    assert used[0] == used[1]
    ta.detach()


@pytest.mark.usefixtures("deterministic")
def test_goes_on_from_its_state():
    model, optimizer = make()
    ta = triaccel.attach(model, optimizer, precision="auto")
    for i in range(20):
        ta.step(images(seed=i), closure_of(model))
    saved = copy.deepcopy((model.state_dict(), optimizer.state_dict(), ta.state_dict(), random_state()))
    expected = [ta.step(images(seed=20 + i), closure_of(model)) for i in range(20)]
    ta.detach()
    other, its_optimizer = make(seed=9)
    ta = triaccel.attach(other, its_optimizer, precision="auto")
    other.load_state_dict(saved[0])
    its_optimizer.load_state_dict(saved[1])
    ta.load_state_dict(saved[2])
    set_random_state(saved[3])
    assert same([ta.step(images(seed=20 + i), closure_of(other)) for i in range(20)], expected)
    ta.detach()


def test_callbacks_get_reports():
    reports = []
    model, optimizer = make()
    ta = triaccel.attach(model, optimizer, control_interval=5, callbacks=[reports.append])
    for i in range(10):
        ta.step(images(seed=i), closure_of(model))
    assert [r["step"] for r in reports] == [5, 10]
    assert reports[0]["samples_in_interval"] == 80 and reports[0]["loss"] > 0 and reports[0]["gradient_norm"] > 0
    ta.detach()


def test_evaluates_in_the_plans_precision():
    model, optimizer = make()
    ta = triaccel.attach(model, optimizer, precision="bf16")
    ta.step(images(), closure_of(model))
    model.eval()
    with torch.no_grad():
        whole = model(images()["x"])
        with ta.precision():
            planned = model(images()["x"])
        again = model(images()["x"])
    assert planned.dtype == torch.bfloat16
    assert torch.equal(whole, again)
    torch.testing.assert_close(planned.float(), whole, rtol=0.1, atol=0.1)
    ta.detach()
    copy.deepcopy(model)


def test_memory_plan_predicts_the_peak_of_steps():
    model, optimizer = make(lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, fused=True))
    samples = LARGE if ON_GPU else 32
    batch = images(samples)
    ta = triaccel.attach(model, optimizer, precision="off")
    ta.step(batch, closure_of(model))
    before = everything(model, optimizer)
    found = ta.memory_plan(batch, closure_of(model))
    assert same(everything(model, optimizer), before)
    assert found["batch"] == samples and found["least_bytes"] == min(plan["bytes"] for plan in found["plans"])
    whole = next(plan for plan in found["plans"] if plan["pass_size"] == samples)
    assert whole["lossiness"] == "exact" and whole["samples_per_second"] > 0
    torch.cuda.empty_cache()
    ta.report()  # resets the peak
    ta.step(batch, closure_of(model))
    # On a GPU: reserved, in segments of up to 20 MiB, with workspaces that cuDNN chooses for every size.
    assert whole["bytes"] == pytest.approx(ta.report()["memory"]["reserved"], rel=0.1 if ON_GPU else 0.03)
    with pytest.raises(ValueError, match="at least 8 samples"):
        ta.memory_plan(images(2), closure_of(model))
