"""attach(budget=...) alone: how activations are kept where a batch does not fit."""
import copy
import time
import warnings

import pytest
import torch
import triaccel
from test_attach import closure_of, images, same
from triaccel import _build

HAS_GPU = torch.cuda.is_available() and _build.CUDA_MAJOR is not None


class Deep(torch.nn.Module):
    """Batch norm, and activations of which backward needs much less than autograd saves: masks and positions."""

    def __init__(self):
        super().__init__()
        blocks = [torch.nn.Conv2d(3, 16, 3, padding=1)]
        for _ in range(4):
            blocks += [torch.nn.BatchNorm2d(16), torch.nn.ReLU(), torch.nn.MaxPool2d(3, stride=1, padding=1),
                       torch.nn.Dropout(0.1), torch.nn.Conv2d(16, 16, 3, padding=1)]
        self.features = torch.nn.Sequential(*blocks)
        self.head = torch.nn.Linear(16, 4)

    def forward(self, x):
        return self.head(self.features(x).mean((2, 3)))


def make_deep():
    torch.manual_seed(1)
    model = Deep()
    return model, triaccel.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


def memory_of(activations, batch):
    """(between steps, at the peak of a step)"""
    model, optimizer = make_deep()
    ta = triaccel.attach(model, optimizer, precision="off", activations=activations)
    for _ in range(2):
        ta.step(batch, closure_of(model))
    ta.report()
    ta.step(batch, closure_of(model))
    memory = ta.report()["memory"]
    ta.detach()
    return memory["used"], memory["peak"]


def train(ta, model, batch, steps, closure=None):
    return torch.stack([ta.step(batch, closure or closure_of(model)).clone() for _ in range(steps)])


def slow(model):
    """Every pass takes its time, however small: splitting costs more than keeping less."""
    def closure(b):
        time.sleep(0.1)
        return closure_of(model)(b)

    return closure


@pytest.fixture(scope="module")
def batch():
    return images(32)


def test_keeps_less_where_a_batch_with_batch_norm_does_not_fit(batch):
    """Batch norm then sees the whole batch: after the first step, losses are those of the plain loop."""
    (used, raw), (_, lossless) = memory_of("raw", batch), memory_of("lossless", batch)
    assert lossless < 0.75 * raw
    budget = (raw + lossless) // 2
    model, optimizer = make_deep()
    ta = triaccel.attach(model, optimizer, precision="off", budget=budget)
    with pytest.warns(RuntimeWarning, match="out of memory: passes of"):
        ta.step(batch, closure_of(model))
    assert ta.plan["activations"] == "raw"
    other, its = make_deep()
    other.load_state_dict(model.state_dict())
    its.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    random_state = torch.get_rng_state()
    with pytest.warns(RuntimeWarning, match="a batch of 32 does not fit whole: activations are kept 'lossless', with 32") as said:
        losses = [train(ta, model, batch, 1, slow(model))]
    assert said[0].filename == __file__
    assert ta.plan["activations"] == "lossless" and ta.plan["pass_size"] == 32
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        losses.append(train(ta, model, batch, 12))
    memory = ta.report()["memory"]
    assert memory["peak"] <= budget
    assert ta.plan["pass_size"] == 32
    saved = ta.state_dict()
    ta.detach()
    plain = triaccel.attach(other, its, precision="off")
    torch.set_rng_state(random_state)
    assert torch.equal(torch.cat(losses), train(plain, other, batch, 13))
    plain.detach()

    # It goes on as it was, in another process, too.
    again = triaccel.attach(model, optimizer, precision="off", budget=budget)
    again.load_state_dict(saved)
    assert again.plan["activations"] == "lossless" and again.plan["pass_size"] == 32
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train(again, model, batch, 3)
    again.detach()


def test_an_error_in_a_trial_leaves_everything_as_it_was(batch):
    (_, raw), (_, lossless) = memory_of("raw", batch), memory_of("lossless", batch)
    model, optimizer = make_deep()
    ta = triaccel.attach(model, optimizer, precision="off", budget=(raw + lossless) // 2)
    with pytest.warns(RuntimeWarning):
        ta.step(batch, closure_of(model))
    before = [t.clone() for t in model.state_dict().values()] + [torch.get_rng_state()]

    def fails(_):
        raise KeyError("of the user's own")

    with pytest.raises(KeyError):
        ta.step(batch, fails)
    assert same(before, [t.clone() for t in model.state_dict().values()] + [torch.get_rng_state()])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        train(ta, model, batch, 2)  # goes on
    ta.detach()


def test_splits_where_that_changes_nothing_and_is_faster():
    """Without batch norm smaller passes give the same gradient."""
    torch.manual_seed(3)
    hidden = [layer for _ in range(8) for layer in (torch.nn.Linear(64, 64), torch.nn.Tanh())]
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(768, 64), *hidden, torch.nn.Linear(64, 4))
    optimizer = triaccel.optim.SGD(model.parameters(), lr=0.01)
    big = images(1024)
    ta = triaccel.attach(model, optimizer, precision="off", activations="raw")
    ta.step(big, closure_of(model))
    memory = ta.report()["memory"]
    ta.detach()
    ta = triaccel.attach(model, optimizer, precision="off", budget=(memory["used"] + memory["peak"]) // 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        train(ta, model, big, 12)
    assert ta.plan["pass_size"] < 1024
    assert ta.report()["memory"]["peak"] <= (memory["used"] + memory["peak"]) // 2
    ta.detach()


def test_stays_raw_where_everything_fits(batch):
    model, optimizer = make_deep()
    ta = triaccel.attach(model, optimizer, precision="off", budget="8GB")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        losses = train(ta, model, batch, 12)
    assert ta.plan["activations"] == "raw" and ta.plan["pass_size"] == 32
    ta.detach()
    other, its = make_deep()
    plain = triaccel.attach(other, its, precision="off")
    assert torch.equal(losses, train(plain, other, batch, 12))
    assert plain.plan["activations"] == "raw"
    plain.detach()


def test_nothing_fits(batch):
    (used, _) = memory_of("raw", batch)
    model, optimizer = make_deep()
    ta = triaccel.attach(model, optimizer, precision="off", budget=used + 100_000)
    before = [t.clone() for t in model.state_dict().values()]
    for _ in range(2):
        with pytest.raises(torch.OutOfMemoryError) as error, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ta.step(batch, closure_of(model))
        assert "not even passes of 2 samples fit in" in str(error.value) and "Raise the budget" in str(error.value)
    assert same(before, [t.clone() for t in model.state_dict().values()])
    ta.detach()


@pytest.mark.skipif(not HAS_GPU, reason="this machine has no GPU")
def test_keeps_a_budget_on_a_gpu():
    """Of which activations take most: in half of what they need, steps keep less of them or take smaller parts."""
    big = {name: values.cuda() for name, values in images(256).items()}
    big["x"] = torch.nn.functional.interpolate(big["x"], scale_factor=4.0)

    def attached(**options):
        model, _ = make_deep()
        model.cuda()
        optimizer = triaccel.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        torch.cuda.empty_cache()
        return triaccel.attach(model, optimizer, precision="off", **options), model

    ta, model = attached()
    plain = train(ta, model, big, 3)
    memory = ta.report()["memory"]
    ta.detach()
    del ta, model
    budget = (memory["used"] + memory["peak"]) // 2
    ta, model = attached(budget=budget)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        losses = train(ta, model, big, 25)
    assert ta.plan["activations"] != "raw" or ta.plan["pass_size"] < 256
    assert ta.report()["memory"]["reserved"] <= budget
    assert torch.isfinite(losses).all() and losses[-1] < plain[0]
    ta.detach()
