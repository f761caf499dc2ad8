"""Time of a step of a Python ResNet-18 under triaccel.attach(graphs="auto"): captured_steps.py STEM BATCH [--graphs off]

torchvision's network with the ImageNet or the CIFAR stem, 32 px, channels last, BF16, SGD with momentum and weight decay, batches
that lie on the GPU. The command line's steps for comparison: triaccel bench step --method triaccel --precision bf16
--batch-control off --curvature off --model resnet18 --stem STEM --image-size 32 --batch BATCH --device cuda --json.
"""
import argparse
import json
import statistics
import time

import torch
import torchvision
import triaccel
from torch.nn import functional as F


def network(stem):
    torch.manual_seed(0)
    model = torchvision.models.resnet18(num_classes=10)
    if stem == "cifar":
        model.conv1 = torch.nn.Conv2d(3, 64, 3, padding=1, bias=False)
        model.maxpool = torch.nn.Identity()
    return model.cuda().to(memory_format=torch.channels_last)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("stem", choices=["imagenet", "cifar"])
    parser.add_argument("batch", type=int)
    parser.add_argument("--graphs", default="auto", choices=["off", "auto"])
    parser.add_argument("--samples", type=int, default=20)
    arguments = parser.parse_args()
    model = network(arguments.stem)
    optimizer = triaccel.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4)
    ta = triaccel.attach(model, optimizer, precision="bf16", graphs=arguments.graphs)
    data = [(torch.randn(arguments.batch, 3, 32, 32, device="cuda").to(memory_format=torch.channels_last),
             torch.randint(10, (arguments.batch,), device="cuda")) for _ in range(4)]

    def run(steps):
        for i in range(steps):
            loss = ta.step(data[i % len(data)], lambda b: F.cross_entropy(model(b[0]), b[1]))
        return loss

    run(20)
    torch.cuda.synchronize()
    start = time.perf_counter()
    run(20)
    torch.cuda.synchronize()
    steps = max(10, int(0.1 / ((time.perf_counter() - start) / 20)))
    times = []
    for _ in range(arguments.samples):
        torch.cuda.synchronize()
        start = time.perf_counter()
        loss = run(steps)
        torch.cuda.synchronize()
        times.append(1e3 * (time.perf_counter() - start) / steps)
    print(json.dumps({"model": "resnet18", "stem": arguments.stem, "batch": arguments.batch, "graphs": arguments.graphs,
                      "ms": statistics.median(times), "ms_least": min(times), "loss": loss.item(),
                      "reserved_mb": torch.cuda.memory_reserved() / 1e6, "torch": torch.__version__,
                      "triaccel": triaccel.__version__}))


if __name__ == "__main__":
    main()
