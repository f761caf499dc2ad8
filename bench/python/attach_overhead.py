"""What a step under triaccel.attach costs beyond the plain loop, everything off: attach_overhead.py [--device cuda] [--steps N]

ResNet-18 (torchvision), SGD with momentum, 32 px. Both loops alternate in blocks; medians over blocks, of wall-clock time and of
the process's CPU time. Where steps are bound by a host that others use too, run it several times and take the mean.
"""
import argparse
import json
import statistics
import time

import torch
import torchvision
import triaccel
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode


class Counter(TorchDispatchMode):
    """Counts operators."""

    def __init__(self):
        super().__init__()
        self.operators = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.operators += 1
        return func(*args, **(kwargs or {}))


def make(device):
    torch.manual_seed(0)
    model = torchvision.models.resnet18(num_classes=10).to(device)
    return model, torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=True)


def difference(times):
    """Median over blocks of what a step takes longer than the plain one before it."""
    return statistics.median(attached - plain for plain, attached in zip(times["plain"], times["attached"]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--blocks", type=int, default=5)
    parser.add_argument("--batch", type=int, default=96)
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    x = torch.randn(arguments.batch, 3, 32, 32, device=device)
    y = torch.randint(10, (arguments.batch,), device=device)
    batch = (x, y)
    model, optimizer = make(device)
    other, its_optimizer = make(device)
    ta = triaccel.attach(other, its_optimizer, precision="off")

    def plain():
        optimizer.zero_grad()
        loss = F.cross_entropy(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()

    def attached():
        ta.step(batch, lambda b: F.cross_entropy(other(b[0]), b[1]))

    def wait():
        if device.type == "cuda":
            torch.cuda.synchronize()

    with Counter() as counter:
        plain()
    wall, host = {"plain": [], "attached": []}, {"plain": [], "attached": []}
    for block in range(arguments.blocks + 1):
        for name, step in (("plain", plain), ("attached", attached)):
            wait()
            start, start_host = time.perf_counter(), time.process_time()
            for _ in range(arguments.steps):
                step()
            wait()
            if block > 0:  # the first one warms up
                wall[name].append((time.perf_counter() - start) / arguments.steps)
                host[name].append((time.process_time() - start_host) / arguments.steps)
    plain_s, extra = statistics.median(wall["plain"]), difference(wall)
    print(json.dumps({"device": str(device), "torch": torch.__version__, "triaccel": triaccel.__version__, "batch": arguments.batch,
                      "operators": counter.operators, "plain_ms": 1e3 * plain_s, "extra_us": 1e6 * extra,
                      "extra_percent": 100 * extra / plain_s, "extra_cpu_us": 1e6 * difference(host)}))


if __name__ == "__main__":
    main()
