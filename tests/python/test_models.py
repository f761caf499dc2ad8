"""Seven models people use, unmodified, under attach(): the plain loop bit for bit, and BF16 that learns as FP32 does."""
import os

import pytest
import torch
import triaccel
from conftest import library
from torch.nn import functional as F
from triaccel import _C

timm = library("timm")
torchvision = library("torchvision")
transformers = library("transformers")

DEVICE = os.environ.get("TRIACCEL_TEST_DEVICE", "cpu")
if DEVICE != "cpu":  # bit for bit there as well; needs CUBLAS_WORKSPACE_CONFIG=:4096:8
    torch.use_deterministic_algorithms(True, warn_only=True)

THOROUGH = DEVICE != "cpu" or "TRIACCEL_TEST_THOROUGH" in os.environ  # all models in the long tests too

CLASSES, PIXELS, WORDS, LENGTH = 8, 32, 32, 12
SMALL = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=2)
DECODER = dict(vocab_size=WORDS, intermediate_size=48, num_key_value_heads=2, max_position_embeddings=32, **SMALL)


def image_classifier(model):
    return model, lambda b: F.cross_entropy(model(b["x"]), b["y"])


def language_model(model):
    return model, lambda b: model(input_ids=b["ids"], labels=b["ids"]).loss


def bert():
    config = transformers.BertConfig(vocab_size=WORDS, intermediate_size=48, max_position_embeddings=32, num_labels=CLASSES,
                                     **SMALL)
    model = transformers.BertForSequenceClassification(config)
    return model, lambda b: model(input_ids=b["ids"], labels=b["y"]).loss


def gpt2():
    config = transformers.GPT2Config(vocab_size=WORDS, n_positions=32, n_embd=32, n_layer=2, n_head=2)
    return language_model(transformers.GPT2LMHeadModel(config))


def mixtral():
    config = transformers.MixtralConfig(num_local_experts=4, num_experts_per_tok=2, **DECODER)
    return language_model(transformers.MixtralForCausalLM(config))


MODELS = {
    "vit": lambda: image_classifier(timm.create_model(
        "vit_tiny_patch16_224", img_size=PIXELS, patch_size=8, embed_dim=32, depth=2, num_heads=2, num_classes=CLASSES)),
    "convnext": lambda: image_classifier(timm.create_model(
        "convnext_atto", depths=(1, 1, 1, 1), dims=(8, 16, 24, 32), num_classes=CLASSES)),
    "resnet18": lambda: image_classifier(torchvision.models.resnet18(num_classes=CLASSES)),
    "llama": lambda: language_model(transformers.LlamaForCausalLM(transformers.LlamaConfig(**DECODER))),
    "gpt2": gpt2,
    "bert": bert,
    "mixtral": mixtral,
}


def batch(index, samples=16):
    """Images whose three channels tell the class, labels of which a fifth are random, and sentences that go up by 0, 1 or 2:
    what can be learnt is learnt soon, and the loss that remains is known."""
    g = torch.Generator().manual_seed(index)
    y = torch.randint(CLASSES, (samples,), generator=g)
    sign = 2.0 * ((y.view(-1, 1) >> torch.arange(3)) & 1) - 1
    x = 0.5 * torch.randn(samples, 3, PIXELS, PIXELS, generator=g) + sign.view(-1, 3, 1, 1)
    first = (WORDS // CLASSES) * y.view(-1, 1)
    ids = (first + torch.randint(3, (samples, LENGTH), generator=g).cumsum(1)) % WORDS
    noisy = torch.where(torch.rand(samples, generator=g) < 0.2, torch.randint(CLASSES, (samples,), generator=g), y)
    return {"x": x.to(DEVICE), "y": noisy.to(DEVICE), "ids": ids.to(DEVICE)}


def trained(name, steps, precision, attached, samples=16, test_samples=512):
    """The losses of some steps, the loss on other samples before and after, the weights and the plan."""
    torch.manual_seed(1)
    model, closure = MODELS[name]()
    model.to(DEVICE)
    test = batch(1_000_000, test_samples)

    def tested():
        model.eval()
        with torch.no_grad():
            loss = closure(test).item()
        model.train()
        return loss

    before = tested()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, fused=True)
    ta = triaccel.attach(model, optimizer, precision=precision) if attached else None
    losses = []
    for step in range(steps):
        b = batch(step, samples)
        for group in optimizer.param_groups:
            group["lr"] = 2e-3 * (1 - step / steps)
        if ta is not None:
            losses.append(ta.step(b, closure))
            continue
        optimizer.zero_grad()
        loss = closure(b)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach().clone())
    plan = ta.plan if ta is not None else None
    if ta is not None:
        ta.detach()
    return torch.stack(losses), (before, tested()), [t.detach().clone() for t in model.state_dict().values()], plan


FEW = dict(samples=4, test_samples=4)  # bit for bit however few they are


@pytest.mark.parametrize("name", MODELS)
def test_is_the_plain_loop_bit_for_bit(name):
    expected, _, weights, _ = trained(name, 10, "off", attached=False, **FEW)
    found, _, its_weights, _ = trained(name, 10, "off", attached=True, **FEW)
    assert torch.equal(found, expected)
    assert all(torch.equal(a, b) for a, b in zip(its_weights, weights))


@pytest.mark.parametrize("name", MODELS if THOROUGH else ["vit", "llama"])
def test_learns_in_16_bits_as_in_fp32(name):
    expected, (before, after), _, _ = trained(name, 200, "off", attached=True)
    found, (_, its_after), _, plan = trained(name, 200, "auto", attached=True)
    assert after < 0.5 * before
    assert its_after <= 1.01 * after
    assert "bf16" in plan["precision"].values()
    assert not torch.equal(found, expected)


@pytest.mark.skipif(DEVICE != "cpu", reason="reads the gauge of the CPU")
@pytest.mark.parametrize("name", ["vit", "convnext", "llama"] if THOROUGH else ["llama"])
def test_stays_in_its_budget(name):
    def run(budget):
        torch.manual_seed(1)
        model, closure = MODELS[name]()
        model.train()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
        ta = triaccel.attach(model, optimizer, precision="off", budget=budget) if budget else None
        peak = 0
        for step in range(200 if budget else 2):
            b = batch(step, 96)
            _C.reset_cpu_memory_peak()
            if ta is not None:
                ta.step(b, closure)
            else:
                optimizer.zero_grad()
                closure(b).backward()
                optimizer.step()
            peak = max(peak, _C.cpu_memory_peak())
        if ta is not None:
            assert ta.plan["pass_size"] < 96
            ta.detach()
        return peak

    without = run(None)
    budget = int(without / 1.6)
    with pytest.warns(RuntimeWarning, match="out of memory: passes of"):
        within = run(budget)
    assert within <= budget
    assert without >= 1.5 * within
