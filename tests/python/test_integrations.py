"""attach() inside other libraries, against those libraries alone."""
import pytest
import torch
import triaccel
from conftest import library

transformers = library("transformers")

WORDS, LENGTH = 32, 8


def llama():
    torch.manual_seed(0)
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=WORDS, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=2, max_position_embeddings=16))


def sentences(count=64):
    g = torch.Generator().manual_seed(1)
    start = torch.randint(WORDS, (count, 1), generator=g)
    ids = (start + torch.arange(LENGTH)) % WORDS
    return [{"input_ids": row, "labels": row} for row in ids]


def test_accelerate_after_prepare():
    accelerate = library("accelerate")
    losses = {}
    for attached in (False, True):
        accelerator = accelerate.Accelerator(cpu=True)
        model = llama()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        loader = torch.utils.data.DataLoader(sentences(), batch_size=16)
        model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
        ta = triaccel.attach(model, optimizer, precision="off") if attached else None
        losses[attached] = []
        for batch in loader:
            if ta is not None:
                losses[attached].append(ta.step(batch, lambda b: model(**b).loss).item())
                continue
            optimizer.zero_grad()
            loss = model(**batch).loss
            accelerator.backward(loss)
            optimizer.step()
            losses[attached].append(loss.item())
    assert losses[True] == losses[False]
    ta.detach()


def test_accelerate_hides_no_optimizer(recwarn):
    accelerate = library("accelerate")
    accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=2)
    model = llama()
    model, optimizer = accelerator.prepare(model, triaccel.optim.AdamW(model.parameters(), lr=1e-2))
    ta = triaccel.attach(model, optimizer, budget="4GB", curvature="fisher")
    assert not [one for one in recwarn if "allocates memory" in str(one.message)]
    batch = {key: torch.stack([s[key] for s in sentences(8)]) for key in ("input_ids", "labels")}
    before = [p.detach().clone() for p in model.parameters()]
    for _ in range(2):
        with accelerator.accumulate(model):
            ta.step(batch, lambda b: model(**b).loss)
        assert not any(torch.equal(a, b) for a, b in zip(model.parameters(), before))
        before = [p.detach().clone() for p in model.parameters()]
    ta.detach()


def test_low_rank_adapters():
    peft = library("peft")
    model = peft.get_peft_model(llama(), peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False))
    adapters = [p for p in model.parameters() if p.requires_grad]
    frozen = [p.detach().clone() for p in model.parameters() if not p.requires_grad]
    ta = triaccel.attach(model, triaccel.optim.AdamW(adapters, lr=1e-2), precision="bf16")
    batch = {key: torch.stack([s[key] for s in sentences()]) for key in ("input_ids", "labels")}
    losses = [ta.step(batch, lambda b: model(**b).loss).item() for _ in range(30)]
    assert losses[-1] < losses[0]
    assert all(torch.equal(a, b) for a, b in zip((p for p in model.parameters() if not p.requires_grad), frozen))
    ta.detach()


def lightning_module(lightning, manual=False):
    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.net = torch.nn.Sequential(torch.nn.Conv2d(1, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(),
                                           torch.nn.Linear(8 * 36, 4))
            self.automatic_optimization = not manual
            self.losses = []

        def training_step(self, batch, batch_idx):
            loss = torch.nn.functional.cross_entropy(self.net(batch[0]), batch[1])
            self.log("loss", loss)
            if manual:
                optimizer = self.optimizers()
                for _ in range(2):  # two updates by one batch
                    optimizer.zero_grad()
                    self.manual_backward(torch.nn.functional.cross_entropy(self.net(batch[0]), batch[1]))
                    optimizer.step()
            self.losses.append(loss.detach())
            return loss

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.05)

    return Module()


def fit_lightning(lightning, folder, callbacks=(), manual=False, **options):
    g = torch.Generator().manual_seed(1)
    y = torch.randint(4, (96,), generator=g)
    x = torch.randn(96, 1, 8, 8, generator=g) + y.float().view(-1, 1, 1, 1)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=12)
    module = lightning_module(lightning, manual)
    trainer = lightning.Trainer(max_epochs=2, accelerator="cpu", logger=False, enable_checkpointing=False,
                                enable_progress_bar=False, enable_model_summary=False, callbacks=list(callbacks),
                                default_root_dir=str(folder), **options)
    trainer.fit(module, loader)
    return module


@pytest.mark.parametrize("options", [{}, {"accumulate_grad_batches": 2}])
def test_lightning(tmp_path, options):
    lightning = library("lightning")
    from triaccel.integrations.lightning import TriaccelCallback

    plain = fit_lightning(lightning, tmp_path, **options)
    ours = fit_lightning(lightning, tmp_path, [TriaccelCallback(precision="off", activations="lossless")], **options)
    assert all(torch.equal(a, b) for a, b in zip(ours.parameters(), plain.parameters()))
    assert torch.equal(torch.stack(ours.losses[-16:]), torch.stack(plain.losses))  # one more: to measure activations


def test_lightning_in_bf16(tmp_path):
    lightning = library("lightning")
    from triaccel.integrations.lightning import TriaccelCallback

    class Watch(lightning.Callback):
        def on_train_batch_end(self, trainer, module, *rest):
            self.plan = ours.attached.plan
            self.report = ours.attached.report()

    ours, watch = TriaccelCallback(precision="bf16", activations="compressed", control_interval=3), Watch()
    plain = fit_lightning(lightning, tmp_path)
    module = fit_lightning(lightning, tmp_path, [ours, watch])
    assert set(watch.plan["precision"].values()) == {"bf16"}
    assert watch.report["step"] == 16 and watch.report["samples"] == 192
    assert not torch.equal(module.losses[-1], plain.losses[-1])
    assert module.losses[-1] < 1.1 * plain.losses[-1] < plain.losses[0]
    assert ours.attached is None  # detached at the end
    manual = fit_lightning(lightning, tmp_path, [TriaccelCallback(precision="bf16")], manual=True)
    assert manual.losses[-1] < module.losses[0]
    with pytest.raises(ValueError, match="precision at 32 bits"):
        fit_lightning(lightning, tmp_path, [TriaccelCallback()], precision="bf16-mixed")
