"""Passes that the user's own loop runs, with the precision and the activations that attach() plans."""
import pytest
import torch
import triaccel
from test_attach import closure_of, images, make, random_state, same


def own_step(ta, model, optimizer, batch, *contexts):
    with ta.precision():
        loss = closure_of(model)(batch)
    loss.backward()
    ta.end_step(loss, len(batch["y"]))
    optimizer.step()
    optimizer.zero_grad()
    return loss.detach()


@pytest.mark.usefixtures("deterministic")
@pytest.mark.parametrize("precision", ["bf16", "fp32", "off"])
def test_compute_as_steps_do(precision):
    batches = [images(seed=i) for i in range(5)]
    model, optimizer = make()
    ta = triaccel.attach(model, optimizer, precision=precision)
    expected = [ta.step(b, closure_of(model)).clone() for b in batches]
    other, its_optimizer = make()
    own = triaccel.attach(other, precision=precision)
    found = [own_step(own, other, its_optimizer, b) for b in batches]
    assert all(torch.equal(a, b) for a, b in zip(found, expected))
    assert all(torch.equal(a, b) for a, b in zip(other.parameters(), model.parameters()))
    report = own.report()
    assert report["step"] == 5 and report["samples"] == 5 * 16
    assert report["loss"] == pytest.approx(sum(loss.item() for loss in expected) / 5, rel=1e-5)


def test_decide_as_steps_do():
    reports = []
    model, optimizer = make()
    ta = triaccel.attach(model, control_interval=2, callbacks=[reports.append])
    for i in range(6):
        own_step(ta, model, optimizer, images(seed=i))
    assert [report["step"] for report in reports] == [2, 4, 6]
    assert all(report["gradient_norm"] > 0 for report in reports)  # of gradients that it has not computed itself


@pytest.mark.usefixtures("deterministic")
@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("activations", ["lossless", "offloaded", "compressed"])
def test_keep_activations_as_planned(activations, later):
    batch = images(512)  # so that they are worth host memory
    gradients = {}
    for kept in ("raw", activations):
        model, _ = make()
        ta = triaccel.attach(model, precision="off", activations=kept)
        before = random_state()
        ta.profile(batch, closure_of(model))
        assert same(random_state(), before)  # it trains nothing
        with ta.activations():
            loss = closure_of(model)(batch)
            if not later:
                loss.backward()
        if later:
            loss.backward()
        gradients[kept] = [parameter.grad for parameter in model.parameters()]
        ta.end_step(loss, 512)
        report = ta.report()
        ta.detach()
    assert report["activation_bytes_held"] < (0.8 if activations == "lossless" else 0.25) * report["activation_bytes"]
    pairs = list(zip(gradients["raw"], gradients[activations]))
    if activations != "compressed":
        assert all(torch.equal(a, b) for a, b in pairs)
    else:
        error = sum((a - b).square().sum() for a, b in pairs) / sum(a.square().sum() for a, _ in pairs)
        assert 0 < error < 0.05


def test_leave_everything_as_it_was_after_an_error():
    model, _ = make()
    ta = triaccel.attach(model, activations="lossless")
    with pytest.raises(ZeroDivisionError):
        with ta.activations(), ta.precision():
            1 / 0
    with ta.activations(), ta.precision():
        closure_of(model)(images()).backward()
    with pytest.raises(Exception, match="entered already"):
        with ta.precision(), ta.precision():
            pass


def test_compress_further_where_gradients_hardly_notice():
    device, held = torch.get_default_device(), {}
    with torch.device("cpu"):  # what the noise allows depends on the numbers, which a GPU would draw otherwise
        batch = {name: values.to(device) for name, values in images(512).items()}
    for ratio in (10.2, "auto"):
        with torch.device("cpu"):
            model, optimizer = make()
        model.to(device)
        model.features[-1].p = 0.5  # much noise in the gradients, whichever masks are drawn
        ta = triaccel.attach(model, optimizer, precision="off", activations="compressed", activation_ratio=ratio, control_interval=2)
        for _ in range(5):
            ta.step(batch, closure_of(model))
        held[ratio] = ta.report()["activation_bytes_held"]
        ta.detach()
    assert held["auto"] < held[10.2]


@pytest.mark.parametrize("ratio", ["high", 0, 33])
def test_refuse_another_ratio(ratio):
    with pytest.raises(ValueError, match="'auto' or a number from 1 to 32"):
        triaccel.attach(make()[0], activation_ratio=ratio)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no CUDA device")
def test_one_block_around_several_updates_reads_every_weight_as_it_is():
    def trained(around_all):
        model, optimizer = make()
        model.cuda()
        ta = triaccel.attach(model, precision="bf16")
        batches = [{key: value.cuda() for key, value in images(seed=i).items()} for i in range(6)]

        def updates(some):
            for b in some:
                loss = closure_of(model)(b)
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()

        for some in ([batches[:3], batches[3:]] if around_all else [[b] for b in batches]):
            with ta.precision():
                updates(some)
        return [p.detach() for p in model.parameters()]

    torch.manual_seed(1)
    expected = trained(around_all=False)
    torch.manual_seed(1)
    assert all(torch.allclose(a, b, rtol=1e-2, atol=1e-3) for a, b in zip(trained(around_all=True), expected))
