"""Models under torch.compile, the user's own or that of attach(compile="auto")."""
import copy
import pickle

import pytest
import torch
import triaccel
from test_attach import closure_of, images, make, plain_losses
from triaccel.compiled import MOST_CHANGES, CompiledPrecision

counters = pytest.importorskip("torch._dynamo.utils").counters
ONCE = {"backend": "aot_eager", "dynamic": False}  # traced as for any backend, but nothing to wait for


@pytest.fixture(autouse=True)
def nothing_compiled():
    torch._dynamo.reset()
    counters.clear()


class Network(torch.nn.Module):
    """Without dropout: what is compiled draws other random numbers."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(48, 32)
        self.norm = torch.nn.LayerNorm(32)
        self.last = torch.nn.Linear(32, 4)

    def forward(self, x):
        return self.last(self.norm(torch.nn.functional.gelu(self.first(x.flatten(1)[:, :48]))))


def network():
    torch.manual_seed(0)
    model = Network()
    return model, torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


@pytest.mark.parametrize("wrap", [lambda model: torch.compile(model, **ONCE), lambda model: model.compile(**ONCE) or model])
def test_the_users_own_trains_as_without_attach(wrap):
    batches = [images(seed=i) for i in range(4)]
    plain, its_optimizer = make(lambda p: torch.optim.SGD(p, lr=0.05))
    expected = plain_losses(wrap(plain), its_optimizer, batches)
    torch._dynamo.reset()
    model, optimizer = make(lambda p: torch.optim.SGD(p, lr=0.05))
    compiled = wrap(model)
    ta = triaccel.attach(compiled, optimizer, precision="off")
    assert torch.equal(torch.stack([ta.step(b, closure_of(compiled)).clone() for b in batches]), torch.stack(expected))
    assert counters["stats"]["unique_graphs"] >= 1
    ta.detach()


def test_layers_have_their_precisions():
    model, optimizer = network()
    seen = {}
    hooks = [getattr(model, name).register_forward_hook(lambda m, a, out, name=name: seen.update({name: out.dtype}))
             for name in ("first", "last")]
    model.compile(**ONCE)
    ta = triaccel.attach(model, optimizer, precision="bf16")
    ta.step(images(), closure_of(model))
    assert seen == {"first": torch.bfloat16, "last": torch.bfloat16}
    assert all(parameter.dtype == torch.float32 for parameter in model.parameters())
    ta._compiled.follow({"first": "bf16", "last": "fp32"})
    ta.step(images(), closure_of(model))
    assert seen == {"first": torch.bfloat16, "last": torch.float32}
    assert counters["stats"]["unique_graphs"] == 2  # one for each plan
    for hook in hooks:
        hook.remove()
    ta._compiled.follow({"first": "bf16", "last": "fp32"})
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        with ta.precision():
            found = twin(images()["x"])
            assert found.dtype == torch.float32  # of the last layer
            assert torch.equal(found, model(images()["x"]))
    ta.detach()
    assert "forward" not in model.last.__dict__ and model.last(torch.zeros(1, 32)).dtype == torch.float32


def test_a_forward_function_of_the_users_own_stays():
    model, _ = network()

    def doubled(x, plain=model.last.forward):
        return 2 * plain(x)

    model.last.forward = doubled
    precision = CompiledPrecision(model, ["first", "last"], "cpu")
    precision.follow({"first": "bf16", "last": "fp32"})
    x = torch.ones(1, 32)
    expected = doubled(x)
    with precision.passes():
        assert torch.equal(model.last(x.bfloat16()), expected)
    precision.follow({"first": "bf16", "last": "bf16"})
    assert model.last.forward is doubled
    precision.end()
    assert model.last.forward is doubled


def test_plans_change_a_few_times_only():
    model, _ = network()
    precision = CompiledPrecision(model, ["first", "last"], "cpu")
    plans = [{"first": "bf16", "last": "bf16"}, {"first": "bf16", "last": "fp32"}]
    assert [precision.follow(plans[i % 2]) for i in range(MOST_CHANGES + 1)] == [True] * MOST_CHANGES + [False]
    precision.end()


def test_auto_compiles_what_agrees_with_an_eager_step():
    batches = [images(seed=i) for i in range(6)]
    plain, its_optimizer = network()
    expected = torch.stack(plain_losses(plain, its_optimizer, batches))
    model, optimizer = network()
    ta = triaccel.attach(model, optimizer, precision="fp32", compile="auto")
    found = torch.stack([ta.step(b, closure_of(model)).clone() for b in batches])
    assert model._compiled_call_impl is not None and counters["stats"]["unique_graphs"] >= 1
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert ta.report()["step"] == 6
    ta.detach()
    assert model._compiled_call_impl is None


class Treacherous(Network):
    def forward(self, x):
        return super().forward(x) * (3.0 if torch.compiler.is_compiling() else 1.0)


def broken_backend(graph, inputs):
    raise RuntimeError("this backend is broken")


@pytest.mark.parametrize("kind, backend, why", [(Treacherous, "aot_eager", "loss is|cosine"),
                                                (Network, broken_backend, "broken")])
def test_auto_leaves_what_does_not(kind, backend, why, monkeypatch):
    batches = [images(seed=i) for i in range(3)]

    def make_one():
        torch.manual_seed(0)
        model = kind()
        return model, torch.optim.SGD(model.parameters(), lr=0.05)

    plain, its_optimizer = make_one()
    expected = plain_losses(plain, its_optimizer, batches)
    model, optimizer = make_one()
    in_place = torch.nn.Module.compile
    monkeypatch.setattr(torch.nn.Module, "compile", lambda self, **options: in_place(self, backend=backend, **options))
    ta = triaccel.attach(model, optimizer, precision="off", compile="auto")
    with pytest.warns(RuntimeWarning, match=why):
        found = [ta.step(batches[0], closure_of(model)).clone()]
    found += [ta.step(b, closure_of(model)).clone() for b in batches[1:]]
    assert torch.equal(torch.stack(found), torch.stack(expected))
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), plain.parameters()))


def test_says_what_is_wrong():
    with pytest.raises(ValueError, match="'off' or 'auto'"):
        triaccel.attach(*network(), compile="always")
