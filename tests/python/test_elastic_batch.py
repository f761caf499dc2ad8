"""attach(batch="elastic"): several batches of a loader in one step."""
import pytest
import torch
import triaccel
from test_attach import closure_of, images, make
from triaccel.batch_parts import Batches

BUDGET = "2GB"


def test_a_step_over_several_batches_is_one_over_all_their_samples():
    torch.manual_seed(0)
    layers = [torch.nn.Linear(12, 8), torch.nn.Tanh(), torch.nn.Linear(8, 4)]
    model = torch.nn.Sequential(*layers)
    whole = torch.nn.Sequential(torch.nn.Linear(12, 8), torch.nn.Tanh(), torch.nn.Linear(8, 4))
    whole.load_state_dict(model.state_dict())
    parts = [{"x": torch.randn(n, 12), "y": torch.randint(4, (n,))} for n in (5, 8, 3)]
    joined = {key: torch.cat([part[key] for part in parts]) for key in ("x", "y")}
    seen = []

    def closure(part):
        seen.append(len(part["y"]))
        return closure_of(model)(part)

    ta = triaccel.attach(model, torch.optim.SGD(model.parameters(), lr=0.1), precision="off")
    plain = triaccel.attach(whole, torch.optim.SGD(whole.parameters(), lr=0.1), precision="off")
    loss = ta.step(Batches(parts), closure)
    assert seen == [5, 8, 3]  # never joined, never cut
    torch.testing.assert_close(loss, plain.step(joined, closure_of(whole)))
    for a, b in zip(model.parameters(), whole.parameters()):
        torch.testing.assert_close(a, b)


def test_grows_as_the_learning_rate_falls():
    model, optimizer = make(lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9))
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 if step < 20 else 0.1)
    ta = triaccel.attach(model, optimizer, budget=BUDGET, batch="elastic", control_interval=2)
    applied, sizes, samples = [], [], 0
    hook = optimizer.register_step_pre_hook(lambda o, *_: applied.append(o.param_groups[0]["lr"]))
    while len(sizes) < 120:
        for batches in ta.batches([images(8, seed=i) for i in range(16)]):
            ta.step(batches, closure_of(model))
            schedule.step()
            sizes.append(len(batches))
            samples += sum(len(batch["y"]) for batch in batches)
    hook.remove()
    assert set(sizes[:10]) == {1}
    assert max(sizes) > 1, ta.plan
    assert ta.report()["samples"] == samples
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.01)  # as the schedule says
    largest = sizes.index(max(sizes))
    assert applied[largest] > 0.0101  # a larger batch has a larger rate


def test_every_sample_of_the_loader_is_trained_once():
    model, optimizer = make()
    ta = triaccel.attach(model, optimizer, budget=BUDGET, batch="elastic")
    loader = [torch.full((4,), i) for i in range(7)]
    ta._loader_batch = 4
    ta._batches_per_step = lambda: 3
    assert [[int(batch[0]) for batch in group] for group in ta.batches(loader)] == [[0, 1, 2], [3, 4, 5], [6]]


def test_says_what_it_needs():
    model, optimizer = make()
    with pytest.raises(ValueError, match="needs a budget"):
        triaccel.attach(model, optimizer, batch="elastic")
    with pytest.raises(ValueError, match="'micro' or 'elastic'"):
        triaccel.attach(model, optimizer, batch="large")
