"""Gradients that users ask autograd for, next to those that planned layers leave in grad."""
import pytest
import torch
import triaccel
from test_attach import Small, closure_of, images, make
from torch.nn import functional as F


def gradients(model):
    return [p.grad.clone() for p in model.parameters()]


def without_update(p):
    return torch.optim.SGD(p, lr=0.0)


def close(found, expected):
    return all(torch.allclose(a, b, rtol=1e-4, atol=1e-6) for a, b in zip(found, expected))


def stepped(precision, closure, batch=None):
    """The gradients that a step leaves, by layers in a planned precision or by PyTorch's own."""
    model, _ = make()
    model.eval()  # dropout draws other numbers where passes run again
    taken = []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    optimizer.register_step_pre_hook(lambda *_: taken.append(gradients(model)))
    triaccel.attach(model, optimizer, precision=precision).step(batch or images(), closure(model))
    return taken[0]


def adversarial(model):
    """FGSM: the gradient of the input is no one else's."""
    def closure(b):
        x = b["x"].clone().requires_grad_()
        toward, = torch.autograd.grad(F.cross_entropy(model(x), b["y"]), x)
        return F.cross_entropy(model(b["x"] + 0.1 * toward.sign()), b["y"])
    return closure


def test_of_inputs_alone_leave_those_of_weights_as_they_are():
    assert close(stepped("fp32", adversarial), stepped("off", adversarial))


def test_of_a_weight_are_returned_and_not_left():
    model, optimizer = make()
    model.eval()
    expected = torch.autograd.grad(closure_of(model)(images()), list(model.parameters()))
    ta = triaccel.attach(model, precision="fp32")
    with ta.precision():
        loss = closure_of(model)(images())
    found = torch.autograd.grad(loss, list(model.parameters()))
    assert close(found, expected)
    assert all(p.grad is None for p in model.parameters())


def test_of_some_weights_alone():
    model, _ = make()
    model.eval()
    ta = triaccel.attach(model, precision="fp32")
    with ta.precision():
        loss = closure_of(model)(images())
    loss.backward(inputs=[model.head.weight])
    assert [name for name, p in model.named_parameters() if p.grad is not None] == ["head.weight"]


@pytest.mark.parametrize("precision", ["bf16", "fp32"])
def test_pass_hooks_of_the_user_s(precision):
    doubled = {}
    for hooked in (False, True):
        model, _ = make()
        model.eval()
        ta = triaccel.attach(model, precision=precision)
        seen = []
        if hooked:
            model.head.weight.register_hook(lambda g: (seen.append(g), 2 * g)[1])
            model.features[0].weight.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.clone()))
        for _ in range(2):  # two passes add up
            with ta.precision():
                loss = closure_of(model)(images())
            loss.backward()
        doubled[hooked] = gradients(model)
        assert len(seen) == (4 if hooked else 0)
    names = [name for name, _ in Small().named_parameters()]
    for name, plain, hooked in zip(names, doubled[False], doubled[True]):
        factor = 2 if name == "head.weight" else 1
        assert torch.allclose(hooked, factor * plain, rtol=2e-2, atol=1e-4), name


def test_of_gradients_are_refused_where_they_would_be_wrong():
    model, _ = make(without_update)
    x = images()["x"].requires_grad_()
    ta = triaccel.attach(model, precision="fp32")
    with ta.precision():
        loss = closure_of(model)({"x": x, "y": images()["y"]})
    with pytest.raises(Exception, match='precision="off"'):
        torch.autograd.grad(loss, x, create_graph=True)
    plain = triaccel.attach(Small(), precision="off")
    with plain.precision():
        loss = closure_of(model)({"x": x, "y": images()["y"]})
    norm = torch.autograd.grad(loss, x, create_graph=True)[0].square().sum()
    norm.backward()
    assert model.head.weight.grad.abs().sum() > 0


def test_of_a_pass_that_counts_other_numbers_in_zeroth_order_are_those_of_the_whole():
    """(sum, count) per pass: the estimate is that of the sums over all counts, whatever the passes."""
    weights = []
    for pass_size in (12, 3):
        torch.manual_seed(3)
        model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2))
        x, y = torch.randn(12, 8), torch.randint(2, (12,))
        counts = torch.tensor([1.0, 0, 0, 9, 2, 2, 0, 0, 0, 5, 1, 1])

        def closure(b):
            losses = F.cross_entropy(model(b["x"]), b["y"], reduction="none")
            return (losses * b["counts"]).sum(), b["counts"].sum()

        zo = triaccel.zeroth_order(model, lr=0.05, epsilon=1e-2, pass_size=pass_size)
        for _ in range(5):
            zo.step({"x": x, "y": y, "counts": counts}, closure)
        weights.append([p.detach().clone() for p in model.parameters()])
    assert all(torch.allclose(a, b, rtol=1e-3, atol=1e-4) for a, b in zip(*weights))
