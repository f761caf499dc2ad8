#!/usr/bin/env python3
"""Compares our networks with torchvision's: names, shapes, initial weights, outputs and gradients, both ways.

usage: compare_torchvision.py [--program build/release/bench/model_outputs] [--models NAME ...]

Needs torch, torchvision (0.26 for torch 2.11) and safetensors. Weights travel as safetensors files: once from torchvision
into ours, once from ours into torchvision. Prints one JSON object; exit status 1 where something differs.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import torch
import torchvision
from safetensors.torch import load_file, save_file

OUTPUT_TOLERANCE = 1e-5  # of the largest logit
GRADIENT_TOLERANCE = 1e-4  # of the largest element of the same gradient
SPREAD_TOLERANCE = 0.05  # of the standard deviation of an initial weight with at least 4096 elements


def vision_transformer(image_size, patch_size):
    return torchvision.models.VisionTransformer(
        image_size=image_size, patch_size=patch_size, num_layers=12, num_heads=6, hidden_dim=384, mlp_dim=1536
    )


MODELS = {
    "resnet18": ({"name": "resnet18"}, torchvision.models.resnet18, 64),
    "resnet50": ({"name": "resnet50"}, torchvision.models.resnet50, 64),
    "vgg16-bn": ({"name": "vgg16-bn"}, torchvision.models.vgg16_bn, 64),
    "densenet121": ({"name": "densenet121"}, torchvision.models.densenet121, 64),
    "efficientnet-b0": ({"name": "efficientnet-b0"}, torchvision.models.efficientnet_b0, 64),
    "vit-small at 32": ({"name": "vit-small", "image_size": 32}, lambda: vision_transformer(32, 4), 32),
    "vit-small at 224": ({"name": "vit-small", "image_size": 224}, lambda: vision_transformer(224, 16), 224),
}


def randomise(model):
    """Moves every number away from its start: zeros and ones would hide a swapped or ignored tensor."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.02)
        for name, buffer in model.named_buffers():
            if name.endswith("running_mean"):
                buffer.normal_(0.0, 0.1)
            elif name.endswith("running_var"):
                buffer.uniform_(0.5, 1.5)


def answers_of(model, image):
    """The same passes as bench/model_outputs.cpp."""
    answers = {"eval": model.eval()(image).detach()}
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.train()
    logits = model(image)
    answers["train"] = logits.detach()
    logits.square().mean().backward()
    answers |= {f"gradient.{name}": parameter.grad for name, parameter in model.named_parameters()}
    answers |= {f"after.{name}": tensor.clone() for name, tensor in model.state_dict().items()}
    return answers


def part(answers, prefix):
    return {name.removeprefix(prefix): tensor for name, tensor in answers.items() if name.startswith(prefix)}


def shapes(state):
    return {name: list(tensor.shape) for name, tensor in state.items()}


def difference(ours, theirs):
    """The largest difference over the largest value."""
    ours, theirs = ours.double(), theirs.double()
    return float((ours - theirs).abs().max() / theirs.abs().max().clamp_min(1e-30))


def differences(ours, theirs):
    assert shapes(part(ours, "after.")) == shapes(part(theirs, "after."))
    largest = lambda prefix: max(
        difference(tensor, part(theirs, prefix)[name]) for name, tensor in part(ours, prefix).items()
    )
    return {
        "largest_logit": float(theirs["eval"].abs().max()),
        "eval": difference(ours["eval"], theirs["eval"]),
        "train": difference(ours["train"], theirs["train"]),
        "gradients": largest("gradient."),
        "state_after": largest("after."),
    }


def largest_spread_difference(ours, theirs):
    """Of the initial weights' standard deviations; tensors that start constant must start equal."""
    largest = 0.0
    for name, tensor in theirs.items():
        if tensor.unique().numel() == 1:
            assert torch.equal(ours[name], tensor), f"{name} starts with another constant"
        elif tensor.numel() >= 4096:
            largest = max(largest, abs(float(ours[name].std() / tensor.std()) - 1.0))
    return largest


def compare(program, folder, options, build, image_size):
    def ours(out, weights=None):
        files = [folder / "options.json", folder / "input.safetensors", *([weights] if weights else []), folder / out]
        subprocess.run([program, *files], check=True)
        return load_file(folder / out)

    torch.manual_seed(0)
    image = torch.randn(4, 3, image_size, image_size)
    save_file({"input": image}, folder / "input.safetensors")
    (folder / "options.json").write_text(json.dumps(options | {"classes": 1000}))

    theirs = build()
    initial = {name: tensor.clone() for name, tensor in theirs.state_dict().items()}
    randomise(theirs)
    save_file(theirs.state_dict(), folder / "weights.safetensors")
    from_theirs = ours("from_theirs.safetensors", folder / "weights.safetensors")
    to_ours = differences(from_theirs, answers_of(theirs, image))

    fresh = ours("fresh.safetensors")
    receiver = build()
    receiver.load_state_dict(part(fresh, "state."), strict=True)
    to_theirs = differences(fresh, answers_of(receiver, image))

    result = {
        "parameters": sum(parameter.numel() for parameter in theirs.parameters()),
        "same_names_and_shapes": shapes(part(fresh, "initial.")) == shapes(initial),
        "initial_spread": largest_spread_difference(part(fresh, "initial."), initial),
        "torchvision_weights_in_ours": to_ours,
        "our_weights_in_torchvision": to_theirs,
    }
    result["equal"] = (
        result["same_names_and_shapes"]
        and result["initial_spread"] < SPREAD_TOLERANCE
        and all(way[key] < OUTPUT_TOLERANCE for way in (to_ours, to_theirs) for key in ("eval", "train"))
        and all(way[key] < GRADIENT_TOLERANCE for way in (to_ours, to_theirs) for key in ("gradients", "state_after"))
    )
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/release/bench/model_outputs")
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS), help="these only")
    arguments = parser.parse_args()
    results = {}
    for name, (options, build, image_size) in MODELS.items():
        if name in arguments.models:
            with tempfile.TemporaryDirectory() as folder:
                results[name] = compare(arguments.program, pathlib.Path(folder), options, build, image_size)
            print(name, "equal" if results[name]["equal"] else "DIFFERS", file=sys.stderr)
    equal = all(result["equal"] for result in results.values())
    versions = {"torch": torch.__version__, "torchvision": torchvision.__version__}
    print(json.dumps({"equal": equal, **versions, "models": results}, indent=2))
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
