"""triaccel.optim against torch.optim, on the CPU and, where there is one, on the GPU."""
import copy
import io
import pickle

import pytest
import torch
from torch import nn

import triaccel
from triaccel import _build

HAS_GPU = torch.cuda.is_available() and _build.CUDA_MAJOR is not None
DEVICES = ["cpu", "cuda"] if HAS_GPU else ["cpu"]
OURS = {"sgd": triaccel.optim.SGD, "adamw": triaccel.optim.AdamW}
TORCH = {"sgd": torch.optim.SGD, "adamw": torch.optim.AdamW}
CASES = [
    ("sgd", dict(lr=0.1)),
    ("sgd", dict(lr=0.1, momentum=0.9, weight_decay=5e-4)),
    ("sgd", dict(lr=0.05, momentum=0.9, weight_decay=1e-3, nesterov=True)),
    ("adamw", dict(lr=1e-2)),
    ("adamw", dict(lr=3e-3, betas=(0.8, 0.99), eps=1e-6, weight_decay=0.1)),
]


def make_model(device: str = "cpu") -> nn.Module:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 50), nn.ReLU(), nn.Linear(50, 5)
    )
    return model.to(device)


def fill_gradients(model: nn.Module, step: int) -> None:
    """The same gradients for equal models, whatever their weights: differences do not grow by themselves."""
    generator = torch.Generator().manual_seed(step)
    for p in model.parameters():
        p.grad = torch.randn(p.shape, generator=generator).to(p.device)


def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: range) -> None:
    for step in steps:
        fill_gradients(model, step)
        optimizer.step()


def assert_same(ours: nn.Module, theirs: nn.Module, rounding: float = 4e-7) -> None:
    for a, b in zip(ours.parameters(), theirs.parameters()):
        assert torch.allclose(a, b, rtol=rounding, atol=rounding)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind,options", CASES)
def test_follows_torch(kind, options, device):
    ours, theirs = make_model(device), make_model(device)
    before = [p.clone() for p in ours.parameters()]
    train(ours, OURS[kind](ours.parameters(), **options), range(20))
    train(theirs, TORCH[kind](theirs.parameters(), **options), range(20))
    assert_same(ours, theirs, 2e-6)
    assert all(not torch.equal(a, b) for a, b in zip(before, ours.parameters()))


@pytest.mark.parametrize("kind", OURS)
def test_groups_and_scheduler(kind):
    models, optimizers = [make_model(), make_model()], []
    for make, model in zip((OURS, TORCH), models):
        biases = [p for p in model.parameters() if p.dim() == 1]
        weights = [p for p in model.parameters() if p.dim() > 1]
        optimizer = make[kind]([dict(params=weights[:1], lr=0.02), dict(params=biases, weight_decay=0.0)], lr=0.01, weight_decay=0.1)
        optimizer.add_param_group(dict(params=weights[1:], lr=0.005))
        optimizers.append(optimizer)
        scheduler = torch.optim.lr_scheduler.OneCycleLR(
            optimizer, max_lr=[0.02, 0.01, 0.005], total_steps=30, cycle_momentum=kind == "adamw")
        for step in range(20):
            train(model, optimizer, range(step, step + 1))
            scheduler.step()
    assert_same(*models, 2e-6)
    for a, b in zip(optimizers[0].param_groups, optimizers[1].param_groups):
        assert a["lr"] == b["lr"] and a.get("betas") == b.get("betas")


@pytest.mark.parametrize("kind,options", CASES[1:4])
@pytest.mark.parametrize("into_torch", [True, False])
@pytest.mark.parametrize("device", DEVICES)
def test_state_dict_is_exchanged_with_torch(kind, options, into_torch, device):
    first, second = (OURS, TORCH) if into_torch else (TORCH, OURS)
    model, reference = make_model(device), make_model(device)
    before = first[kind](model.parameters(), **options)
    train(model, before, range(5))
    buffer = io.BytesIO()
    torch.save(before.state_dict(), buffer)
    buffer.seek(0)
    after = second[kind](model.parameters(), lr=123.0)
    after.load_state_dict(torch.load(buffer))
    assert after.param_groups[0]["lr"] == options["lr"]
    train(model, after, range(5, 12))
    train(reference, TORCH[kind](reference.parameters(), **options), range(12))
    assert_same(model, reference, 2e-6)


@pytest.mark.parametrize("kind", OURS)
@pytest.mark.parametrize("bits", [32, 8])
@pytest.mark.parametrize("how", ["deepcopy", "pickle", "state_dict"])
@pytest.mark.parametrize("device", DEVICES)
def test_resumes_to_the_last_bit(kind, bits, how, device):
    model = make_model(device)
    optimizer = OURS[kind](model.parameters(), lr=0.01, state_bits=bits)
    train(model, optimizer, range(4))
    if how == "state_dict":
        other = copy.deepcopy(model)
        resumed = OURS[kind](other.parameters(), lr=0.5, state_bits=bits)
        resumed.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    else:
        both = (model, optimizer)
        other, resumed = copy.deepcopy(both) if how == "deepcopy" else pickle.loads(pickle.dumps(both))
    for m, o in ((model, optimizer), (other, resumed)):
        train(m, o, range(4, 9))
    for a, b in zip(model.parameters(), other.parameters()):
        assert torch.equal(a, b) and a is not b


@pytest.mark.parametrize("kind", OURS)
def test_eight_bit_states(kind):
    """A quarter of the memory, weights close to those of 32 bits, float32 in the state dictionary, loadable by torch."""
    extra = dict(momentum=0.9) if kind == "sgd" else {}
    exact, small = make_model(), make_model()
    options = dict(lr=1e-3, weight_decay=0.0, **extra)
    optimizers = [OURS[kind](m.parameters(), state_bits=b, **options) for m, b in ((exact, 32), (small, 8))]
    start = [p.clone() for p in exact.parameters()]
    for m, o in zip((exact, small), optimizers):
        train(m, o, range(50))
    moved = sum((a - b).square().sum() for a, b in zip(exact.parameters(), start)).sqrt()
    apart = sum((a - b).square().sum() for a, b in zip(exact.parameters(), small.parameters())).sqrt()
    assert 0 < apart < 0.1 * moved
    assert optimizers[1].engine().state_bytes() < 0.27 * optimizers[0].engine().state_bytes()
    saved = optimizers[1].state_dict()
    weight = next(iter(small.parameters()))
    name = "momentum_buffer" if kind == "sgd" else "exp_avg_sq"
    assert saved["state"][0][name].dtype == torch.float32 and saved["state"][0][name].shape == weight.shape
    assert optimizers[1].state[weight][name].dtype == torch.uint8
    TORCH[kind](small.parameters(), **options).load_state_dict(saved)


@pytest.mark.parametrize("kind", OURS)
@pytest.mark.parametrize("device", DEVICES)
def test_states_in_host_memory(kind, device):
    """The same weights to the last bit, none of a GPU's memory, and a state dictionary that torch loads."""
    extra = dict(momentum=0.9) if kind == "sgd" else {}
    models = [make_model(device), make_model(device)]
    optimizers = [OURS[kind](m.parameters(), lr=1e-2, state_on_host=on_host, **extra) for m, on_host in zip(models, (False, True))]
    for m, o in zip(models, optimizers):
        train(m, o, range(5))
    for a, b in zip(*(m.parameters() for m in models)):
        assert torch.equal(a, b)
    plain, moved = (o.engine() for o in optimizers)
    assert plain.host_state_bytes() == 0
    where = (moved.host_state_bytes(), moved.state_bytes())
    assert where == ((plain.state_bytes(), 0) if device == "cuda" else (0, plain.state_bytes()))
    saved = copy.deepcopy(optimizers[1].state_dict())
    TORCH[kind](models[1].parameters(), lr=1e-2, **extra).load_state_dict(saved)
    resumed = OURS[kind](models[1].parameters(), lr=0.5, state_on_host=True, **extra)
    resumed.load_state_dict(saved)
    for m, o in ((models[0], optimizers[0]), (models[1], resumed)):
        train(m, o, range(5, 8))
    for a, b in zip(*(m.parameters() for m in models)):
        assert torch.equal(a, b)
    assert resumed.param_groups[0]["state_on_host"]


def test_states_in_host_memory_are_of_32_bits():
    with pytest.raises(ValueError, match="omit it or state_bits=8"):
        triaccel.optim.AdamW(make_model().parameters(), state_bits=8, state_on_host=True)


def test_parameters_without_gradients_count_their_own_steps():
    """As torch: a parameter that joins later starts AdamW's bias correction from its own first step."""
    models = [make_model(), make_model()]
    for make, model in zip((OURS, TORCH), models):
        optimizer = make["adamw"](model.parameters(), lr=1e-2)
        for step in range(12):
            fill_gradients(model, step)
            for i, p in enumerate(model.parameters()):
                if step < 2 * i or step % 5 == 4:
                    p.grad = None
            optimizer.step()
            if step == 0:
                assert len(optimizer.state) == 1
    assert_same(*models, 2e-6)


@pytest.mark.skipif(not HAS_GPU, reason="this machine has no CUDA device")
@pytest.mark.parametrize("bits", [32, 8])
def test_a_step_on_the_gpu_does_not_synchronize(bits):
    model = make_model("cuda")
    optimizer = triaccel.optim.AdamW(model.parameters(), state_bits=bits)
    train(model, optimizer, range(2))
    fill_gradients(model, 2)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        optimizer.param_groups[0]["lr"] = 0.5
        optimizer.step()
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.skipif(not HAS_GPU, reason="this machine has no CUDA device")
def test_model_moved_between_devices():
    models = [make_model(), make_model()]
    optimizers = [make["adamw"](model.parameters(), lr=1e-2) for make, model in zip((OURS, TORCH), models)]
    train(models[0], optimizers[0], range(3))
    models[0].cuda()  # torch's own optimizers do not follow
    train(models[0], optimizers[0], range(3, 6))
    train(models[1], optimizers[1], range(6))
    assert_same(models[0].cpu(), models[1], 2e-6)


def test_closure_zero_grad_and_hooks():
    model = make_model()
    optimizer = triaccel.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    images, labels = torch.randn(16, 3, 6, 6), torch.randint(5, (16,))
    seen = []
    optimizer.register_step_post_hook(lambda *_: seen.append(1))

    def closure():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        return loss

    losses = [optimizer.step(closure).item() for _ in range(30)]
    assert losses[-1] < 0.5 * losses[0] and len(seen) == 30
    optimizer.zero_grad()
    assert all(p.grad is None for p in model.parameters())
    weights = [p.clone() for p in model.parameters()]
    optimizer.step()  # without any gradient
    assert all(torch.equal(a, b) for a, b in zip(weights, model.parameters()))


def test_gradients_of_other_types_and_strides():
    p, q = (nn.Parameter(torch.randn(4, 8, generator=torch.Generator().manual_seed(1))) for _ in range(2))
    gradient = torch.randn(8, 4).t()
    p.grad, q.grad = gradient, gradient.contiguous()
    version = p._version
    triaccel.optim.SGD([p], lr=0.1).step()
    torch.optim.SGD([q], lr=0.1).step()
    assert torch.allclose(p, q, rtol=1e-6, atol=1e-7) and p._version > version and p.grad is gradient
    p.grad = None
    p.grad_dtype = torch.bfloat16
    p.grad = gradient.bfloat16()
    before = p.detach().clone()
    triaccel.optim.SGD([p], lr=0.1).step()
    assert torch.allclose(p, before - 0.1 * gradient.bfloat16().float())


def test_channels_last_weights():
    models = [make_model().to(memory_format=torch.channels_last) for _ in range(2)]
    for make, model in zip((OURS, TORCH), models):
        train(model, make["adamw"](model.parameters(), lr=1e-2), range(5))
    assert_same(*models, 2e-6)


def test_non_finite_gradients_reach_the_weights_as_in_torch():
    p = nn.Parameter(torch.ones(3))
    p.grad = torch.tensor([1.0, float("nan"), float("inf")])
    triaccel.optim.AdamW([p]).step()
    assert p[0].isfinite() and p[1].isnan() and p[2].isnan()


def test_state_belongs_to_the_user():
    """Values written into state[p] count, tensors that replace it too."""
    p = nn.Parameter(torch.zeros(4))
    optimizer = triaccel.optim.SGD([p], lr=1.0, momentum=0.5)
    p.grad = torch.ones(4)
    optimizer.step()
    optimizer.state[p]["momentum_buffer"].zero_()
    optimizer.step()
    assert torch.equal(p, torch.full((4,), -2.0))
    optimizer.state[p]["momentum_buffer"] = torch.full((4,), 2.0)
    assert optimizer.state_dict()["state"][0]["momentum_buffer"][0] == 2
    optimizer.step()
    assert torch.equal(p, torch.full((4,), -4.0))


def test_each_mistake_is_one_sentence():
    p = nn.Parameter(torch.zeros(4))
    sgd, adamw = triaccel.optim.SGD, triaccel.optim.AdamW
    for make, said in [
        (lambda: sgd([p, nn.Parameter(torch.zeros(4, device="meta"))]), "on cpu and meta; use one optimizer per device"),
        (lambda: sgd([nn.Parameter(torch.zeros(4, dtype=torch.bfloat16))]), "must be torch.float32, got one of torch.bfloat16"),
        (lambda: sgd([p], momentum=1.0), r"momentum must be in \[0, 1\), got 1.0"),
        (lambda: sgd([p], nesterov=True), "nesterov needs a momentum"),
        (lambda: sgd([p], state_bits=16), "state_bits must be 8 or 32, got 16"),
        (lambda: sgd([p], lr=-1.0), "lr must not be negative"),
        (lambda: adamw([p], betas=(0.9, 1.0)), "betas must be in"),
        (lambda: adamw([p], eps=0.0), "eps must be positive"),
        (lambda: adamw([p], weight_decay=-1.0), "weight_decay must not be negative"),
    ]:
        with pytest.raises(ValueError, match=said):
            make()
    maximizing = torch.optim.SGD([p], maximize=True).state_dict()
    with pytest.raises(ValueError, match="SGD has no maximize, got maximize=True"):
        sgd([p]).load_state_dict(maximizing)
    optimizer = sgd([p])
    with pytest.raises(ValueError, match="one optimizer per device"):
        optimizer.add_param_group(dict(params=[nn.Parameter(torch.zeros(4, device="meta"))]))
    assert len(optimizer.param_groups) == 1
    sparse = nn.Embedding(5, 3, sparse=True)
    sparse(torch.tensor([1])).sum().backward()
    with pytest.raises(ValueError, match="is sparse"):
        sgd(sparse.parameters()).step()
