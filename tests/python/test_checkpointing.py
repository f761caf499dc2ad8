"""Activation checkpointing (torch.utils.checkpoint) in models that attach() controls."""
import pytest
import torch
import triaccel
from test_attach import closure_of, images, same
from torch.utils.checkpoint import CheckpointError, checkpoint


class Blocks(torch.nn.Module):
    """Residual blocks with batch norm and dropout: recomputing them must change no buffer."""

    def __init__(self, reentrant=None):
        super().__init__()
        self.stem = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.blocks = torch.nn.ModuleList(
            torch.nn.Sequential(torch.nn.Conv2d(8, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU(),
                                torch.nn.Dropout(0.1)) for _ in range(3))
        self.head = torch.nn.Linear(8, 4)
        self.reentrant = reentrant  # None: no checkpointing
        self.calls = 0

    def block(self, number, x):
        self.calls += 1
        return x + self.blocks[number](x)

    def forward(self, x):
        x = self.stem(x)
        for number in range(len(self.blocks)):
            x = self.block(number, x) if self.reentrant is None else checkpoint(
                self.block, number, x, use_reentrant=self.reentrant)
        return self.head(x.mean((2, 3)))


def make(reentrant, **options):
    torch.manual_seed(3)
    model = Blocks(reentrant)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    return model, optimizer, triaccel.attach(model, optimizer, **options)


@pytest.mark.parametrize("precision", ["bf16", "fp32"])
def test_steps_are_the_same(precision):
    states = []
    for reentrant in (None, False):
        model, _, ta = make(reentrant, precision=precision)
        losses = [ta.step(images(seed=i), closure_of(model)).clone() for i in range(3)]
        states.append([*model.state_dict().values(), *losses])
    assert model.calls == 3 * 3 * 2  # each block once in forward, once in backward
    assert same(*states)


def test_own_passes_are_the_same():
    states = []
    for reentrant in (None, False):
        model, optimizer, ta = make(reentrant, precision="bf16")
        for i in range(3):
            with ta.precision():
                loss = closure_of(model)(images(seed=i))
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        states.append(list(model.state_dict().values()))
    assert model.calls == 3 * 3 * 2
    assert same(*states)


def test_recomputing_after_detach_is_an_error():
    model, _, ta = make(False, precision="fp32")
    with ta.precision():
        loss = closure_of(model)(images())
    ta.detach()
    with pytest.raises(CheckpointError):
        loss.backward()


def test_reentrant_checkpointing_is_refused_with_the_option_that_helps():
    model, optimizer, ta = make(True, precision="bf16")
    before = [value.clone() for value in model.state_dict().values()]
    with pytest.raises(RuntimeError, match="use_reentrant=False"):
        ta.step(images(), closure_of(model))
    assert same(before, list(model.state_dict().values()))


def test_reentrant_checkpointing_works_with_torchs_operators():
    model, _, ta = make(True, precision="off")
    assert ta.step(images(), closure_of(model)).isfinite()
