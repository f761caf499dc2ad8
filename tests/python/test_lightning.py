"""TriaccelCallback in fits of modules of all kinds, against the same fits without it."""
import pickle

import pytest
import torch
from conftest import library

lightning = library("lightning")
from triaccel.integrations.lightning import TriaccelCallback  # noqa: E402

BATCHES = 8


class Module(lightning.LightningModule):
    def __init__(self, width=8):
        super().__init__()
        torch.manual_seed(0)
        self.net = torch.nn.Sequential(torch.nn.Conv2d(1, width, 3), torch.nn.BatchNorm2d(width), torch.nn.ReLU(), torch.nn.Dropout(),
                                       torch.nn.Flatten(), torch.nn.Linear(width * 36, 4))
        self.runs = 0

    def loss(self, batch):
        self.runs += 1
        return torch.nn.functional.cross_entropy(self.net(batch[0]), batch[1])

    def training_step(self, batch, batch_idx):
        return self.loss(batch)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05)


class WithoutIndex(Module):
    def training_step(self, batch):
        return self.loss(batch)


class SkipsBatch(Module):
    def training_step(self, batch, batch_idx):
        loss = self.loss(batch)
        return {"loss": loss} if batch_idx > 0 else None


class EndsEpoch(Module):
    def on_train_batch_start(self, batch, batch_idx):
        return -1 if batch_idx == 3 else None


class Detection(Module):
    def training_step(self, batch, batch_idx):
        return self.loss((torch.stack(batch["images"]), torch.cat([labels[:1] for labels in batch["labels"]])))


class Combined(Module):
    def training_step(self, batch, batch_idx):
        return self.loss(batch["a"]) + self.loss(batch["b"])


class TakesIterator(Module):
    def training_step(self, dataloader_iter):
        return self.loss(next(dataloader_iter)[0])


class Manual(Module):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch, batch_idx):
        optimizer = self.optimizers()
        optimizer.zero_grad()
        self.manual_backward(self.loss(batch))
        optimizer.step()


def with_boxes(items):
    """Images have one to three labels each."""
    return {"images": [x for x, _ in items], "labels": [y.repeat(1 + k % 3) for k, (_, y) in enumerate(items)]}


def batches_for(kind):
    g = torch.Generator().manual_seed(1)
    y = torch.randint(4, (12 * BATCHES,), generator=g)
    x = torch.randn(len(y), 1, 8, 8, generator=g) + y.float().view(-1, 1, 1, 1)

    def loader(size=12):
        return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=size,
                                           collate_fn=with_boxes if kind is Detection else None)

    return lightning.pytorch.utilities.CombinedLoader({"a": loader(), "b": loader(6)}, "min_size") if kind is Combined else loader()


class Steps(lightning.Callback):
    def __init__(self, ours):
        self.ours, self.last = ours, 0

    def on_train_epoch_end(self, trainer, module):
        self.last = self.ours.attached.report()["step"]


def fit(folder, module, ours=None):
    """How many steps the callback has seen."""
    watch = [ours, Steps(ours)] if ours is not None else []
    trainer = lightning.Trainer(max_epochs=2, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
                                enable_model_summary=False, callbacks=watch, default_root_dir=str(folder))
    torch.manual_seed(2)  # of dropout
    trainer.fit(module, batches_for(type(module)))
    return watch[1].last if watch else None


@pytest.mark.parametrize("activations, kind, measured", [
    ("lossless", WithoutIndex, 1), ("lossless", SkipsBatch, 2), ("lossless", EndsEpoch, 1),
    ("raw", EndsEpoch, 0), ("raw", Detection, 0), ("raw", Combined, 0), ("raw", TakesIterator, 0)])
def test_trains_as_without(tmp_path, activations, kind, measured):
    plain, module = kind(), kind()
    fit(tmp_path, plain)
    fit(tmp_path, module, TriaccelCallback(precision="fp32", activations=activations))
    assert module.runs == plain.runs + measured
    for name, value in plain.state_dict().items():
        assert torch.allclose(module.state_dict()[name], value, rtol=1e-4, atol=1e-5), name


def test_manual_optimization_keeps_activations_raw(tmp_path):
    ours, module = TriaccelCallback(activations="lossless"), Manual()
    with pytest.raises(ValueError, match="with manual optimization would update weights; use automatic optimization"):
        fit(tmp_path, module, ours)
    assert ours.attached is None and module.runs == 0


def test_lossless_activations_need_samples(tmp_path):
    with pytest.raises(ValueError, match="different first dimensions"):
        fit(tmp_path, Combined(), TriaccelCallback(activations="lossless"))


def test_state_is_of_its_module(tmp_path):
    ours, module = TriaccelCallback(precision="bf16"), Module()
    assert fit(tmp_path, module, ours) == 2 * BATCHES
    pickle.dumps(ours)  # trainers go to other processes
    assert fit(tmp_path, module, ours) == 4 * BATCHES  # goes on
    assert fit(tmp_path, Module(width=6), ours) == 2 * BATCHES  # another fold
    ours.load_state_dict(ours.state_dict())  # as from a checkpoint
    assert fit(tmp_path, Module(width=6), ours) == 4 * BATCHES
