#!/usr/bin/env python3
"""Times one ResNet-18 training step in PyTorch, as its users write it, for comparison with ours.

Prints one JSON object per method: {"peer": …, "method": …, "ms": …, "ms_p10": …, "ms_p90": …, …}.
The step is forward, cross-entropy, backward and SGD with momentum, on one fixed random batch:
reading and augmenting data, which our own timing includes, is left out in the peer's favour.
"""
import argparse
import json
import statistics
import time

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        shortcut = x if self.downsample is None else self.downsample(x)
        x = self.relu(self.bn1(self.conv1(x)))
        return self.relu(self.bn2(self.conv2(x)) + shortcut)


def resnet18(stem, channels, classes):
    if stem == "imagenet":
        first = [nn.Conv2d(channels, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64),
                 nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    else:
        first = [nn.Conv2d(channels, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64),
                 nn.ReLU(inplace=True)]
    blocks, width = [], 64
    for stage, outputs in enumerate((64, 128, 256, 512)):
        for index in range(2):
            blocks.append(Block(width, outputs, 2 if stage > 0 and index == 0 else 1))
            width = outputs
    return nn.Sequential(*first, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(512, classes))


def time_steps(args, method):
    torch.manual_seed(1)
    device = torch.device(args.device)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    model = resnet18(args.stem, 3, 10).to(device)
    images = torch.randn(args.batch, 3, args.image_size, args.image_size, device=device)
    labels = torch.randint(0, 10, (args.batch,), device=device)
    if method.endswith("channels-last"):
        model = model.to(memory_format=torch.channels_last)
        images = images.contiguous(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
    amp = method.startswith("amp")
    kind = torch.float16 if device.type == "cuda" else torch.bfloat16
    scaler = torch.amp.GradScaler(device.type, enabled=amp and device.type == "cuda")
    loss_function = nn.CrossEntropyLoss()

    def step():
        optimizer.zero_grad()
        with torch.autocast(device.type, dtype=kind, enabled=amp):
            loss = loss_function(model(images), labels)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

    def wait():
        if device.type == "cuda":
            torch.cuda.synchronize()

    for _ in range(args.warmup):
        step()
    wait()
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    together = 10 if device.type == "cuda" else 1
    timings = []
    for _ in range(args.samples):
        start = time.perf_counter()
        for _ in range(together):
            step()
        wait()
        timings.append(1e3 * (time.perf_counter() - start) / together)
    timings.sort()
    result = {"peer": f"PyTorch {torch.__version__}", "method": method, "model": "resnet18",
              "stem": args.stem, "image_size": args.image_size, "batch": args.batch,
              "threads": torch.get_num_threads(), "ms": statistics.median(timings),
              "ms_p10": timings[int(0.1 * (len(timings) - 1) + 0.5)],
              "ms_p90": timings[int(0.9 * (len(timings) - 1) + 0.5)]}
    if device.type == "cuda":
        result["allocated_mb"] = torch.cuda.max_memory_allocated() / 1e6
        result["reserved_mb"] = torch.cuda.max_memory_reserved() / 1e6
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--stem", default="imagenet", choices=["imagenet", "cifar"])
    parser.add_argument("--batch", type=int, default=96)
    parser.add_argument("--image-size", type=int, default=32)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--samples", type=int, default=20)
    parser.add_argument("--methods", default="fp32,amp")
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    for method in args.methods.split(","):
        print(json.dumps(time_steps(args, method)), flush=True)


if __name__ == "__main__":
    main()
