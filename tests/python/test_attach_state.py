"""What attach() keeps from one step, session or report to the next, and what it leaves alone."""
import io

import pytest
import torch
import triaccel
from test_attach import closure_of, everything, images, make, random_state, same, set_random_state


def trained(ta, model, first, last, samples=16, each=lambda: None):
    losses = []
    for i in range(first, last):
        losses.append(ta.step(images(samples, seed=i), closure_of(model)).clone())
        each()
    return losses


def resumed(options, steps, make_optimizer=None):
    """Losses and plans of a run that goes on, and of one that another session resumes half-way, for as many steps."""
    arguments = () if make_optimizer is None else (make_optimizer,)
    model, optimizer = make(*arguments)
    ta = triaccel.attach(model, optimizer, **options)
    trained(ta, model, 0, steps)
    file = io.BytesIO()
    torch.save((model.state_dict(), optimizer.state_dict(), ta.state_dict(), random_state()), file)
    expected = trained(ta, model, steps, 2 * steps), ta.plan
    ta.detach()
    other, its_optimizer = make(*arguments, seed=9)
    ta = triaccel.attach(other, its_optimizer, **options)
    file.seek(0)
    saved = torch.load(file)
    other.load_state_dict(saved[0])
    its_optimizer.load_state_dict(saved[1])
    ta.load_state_dict(saved[2])
    set_random_state(saved[3])
    found = trained(ta, other, steps, 2 * steps), ta.plan
    ta.detach()
    return expected, found


@pytest.mark.usefixtures("deterministic")
@pytest.mark.parametrize("steps", [20, 23])  # after a decision, and between two
def test_rates_by_curvature_are_lowered_once(steps):
    options = {"precision": "off", "curvature": "fisher", "curvature_every": 5, "policy": "paper"}
    (losses, plan), (found, found_plan) = resumed(options, steps, lambda p: triaccel.optim.SGD(p, lr=0.05, momentum=0.9))
    assert min(plan["learning_rate_scales"].values()) < 1
    assert found_plan == plan
    assert same(found, losses)


@pytest.mark.usefixtures("deterministic")
@pytest.mark.parametrize("activations, steps", [("lossless", 20), ("compressed", 20), ("compressed", 25), ("compressed", 30)])
def test_goes_on_with_planned_activations(activations, steps):
    (losses, plan), (found, found_plan) = resumed({"precision": "off", "activations": activations}, steps)
    assert found_plan == plan
    assert same(found, losses)


def test_an_elastic_batch_goes_on_from_its_size():
    options = {"budget": "2GB", "batch": "elastic", "control_interval": 2}
    model, optimizer = make(lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9))
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 if step < 20 else 0.1)
    ta = triaccel.attach(model, optimizer, **options)
    for _ in range(8):
        for batches in ta.batches([images(8, seed=i) for i in range(16)]):
            ta.step(batches, closure_of(model))
            schedule.step()
    grown, state = ta.plan["batch_size"], ta.state_dict()
    assert grown > 8
    ta.detach()
    ta = triaccel.attach(model, optimizer, **options)
    ta.load_state_dict(state)
    assert ta.plan["batch_size"] == grown
    sizes = [len(batches) for batches in ta.batches([images(8, seed=i) for i in range(16)])]
    assert sizes[0] == grown // 8
    ta.detach()


def test_a_state_may_come_from_a_session_that_kept_activations():
    model, optimizer = make()
    ta = triaccel.attach(model, optimizer, activations="lossless")
    trained(ta, model, 0, 12)
    state = ta.state_dict()
    ta.detach()
    for activations in ("raw", "offloaded"):
        ta = triaccel.attach(model, optimizer, activations=activations)
        ta.load_state_dict(state)
        with ta.activations():  # before anything is known of them
            closure_of(model)(images()).backward()
        trained(ta, model, 12, 14)
        ta.detach()


def test_a_budget_lasts_as_long_as_its_session():
    model, optimizer = make()
    ta = triaccel.attach(model, optimizer, budget="1GiB")
    other, its_optimizer = make()
    second = triaccel.attach(other, its_optimizer)
    assert ta.report()["memory"]["budget"] == 1 << 30
    second.detach()
    assert ta.report()["memory"]["budget"] == 1 << 30
    late = triaccel.attach(other, its_optimizer, budget="2GiB")
    assert ta.report()["memory"]["budget"] == 2 << 30  # the last one's
    late.detach()
    assert ta.report()["memory"]["budget"] == 1 << 30
    late = triaccel.attach(other, its_optimizer, budget="2GiB")
    ta.detach()
    assert late.report()["memory"]["budget"] == 2 << 30
    late.detach()
    last = triaccel.attach(model, optimizer)
    assert last.report()["memory"]["budget"] == 0
    last.detach()


@pytest.mark.usefixtures("deterministic")
def test_reports_take_nothing_from_decisions():
    plans, losses = [], []
    for asks in (False, True):
        model, optimizer = make(lambda p: triaccel.optim.SGD(p, lr=0.05, momentum=0.9))
        ta = triaccel.attach(model, optimizer, precision="off", curvature="fisher", curvature_every=5, policy="paper")
        losses.append(trained(ta, model, 0, 30, each=ta.report if asks else lambda: None))
        plans.append(ta.plan)
        ta.detach()
    assert min(plans[0]["learning_rate_scales"].values()) < 1
    assert plans[0] == plans[1]
    assert same(*losses)


def test_callbacks_see_whole_intervals():
    reports = []
    model, optimizer = make()
    ta = triaccel.attach(model, optimizer, control_interval=5, callbacks=[reports.append])
    losses = trained(ta, model, 0, 5, each=ta.report)
    assert reports[0]["samples_in_interval"] == 80
    assert reports[0]["loss"] == pytest.approx(sum(loss.item() for loss in losses) / 5, rel=1e-5)
    ta.detach()


def test_measurements_leave_gradients_that_wait():
    model, optimizer = make()
    ta = triaccel.attach(model, precision="off", activations="compressed")
    batch = images(32)
    ta.profile(batch, closure_of(model))
    with ta.activations():
        closure_of(model)(batch).backward()
    before = [parameter.grad.clone() for parameter in model.parameters()]
    ta.load_state_dict(ta.state_dict())
    ta.profile(batch, closure_of(model))  # of a new session: everything is measured again
    assert same([parameter.grad for parameter in model.parameters()], before)
    ta.memory_plan(batch, closure_of(model))
    assert same([parameter.grad for parameter in model.parameters()], before)
    ta.detach()


@pytest.mark.parametrize("first", [True, False])  # the optimizer's state does not exist, or does
def test_an_error_before_the_update_changes_nothing(first):
    model, optimizer = make(lambda p: torch.optim.AdamW(p, lr=1e-3, fused=True))
    ta = triaccel.attach(model, optimizer)
    if not first:
        trained(ta, model, 0, 2)
    before = everything(model, optimizer)

    def fails(*_):
        raise ValueError("of a hook")

    hook = optimizer.register_step_pre_hook(fails)
    with pytest.raises(ValueError, match="of a hook"):
        ta.step(images(seed=5), closure_of(model))
    assert same(everything(model, optimizer), before)
    hook.remove()
    ta.step(images(seed=5), closure_of(model))
    assert not same(everything(model, optimizer), before)
    ta.detach()


def test_a_part_in_which_nothing_counts():
    gradients = []
    for split in (False, True):
        model, _ = make()
        model.eval()  # parts then see what the whole batch does
        ta = triaccel.attach(model, precision="off")
        batch = images(8)
        batch["y"][:4] = -100

        def closure(b):
            if split and len(b["y"]) > 4:
                raise torch.OutOfMemoryError("out of memory: a device with room for four")
            sum_ = torch.nn.functional.cross_entropy(model(b["x"]), b["y"], reduction="sum")
            return sum_, (b["y"] != -100).sum()

        if split:
            with pytest.warns(RuntimeWarning):
                ta.backward(batch, closure)
        else:
            ta.backward(batch, closure)
        gradients.append([parameter.grad for parameter in model.parameters()])
        assert ta.report()["nonfinite_losses"] == 0
        ta.detach()
    for whole, parts in zip(*gradients):
        torch.testing.assert_close(parts, whole)
