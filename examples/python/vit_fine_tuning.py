"""Fine-tunes a vision transformer of timm in a memory budget: vit_fine_tuning.py [--pretrained] [--budget 2GB]

The images are made here, so that the script runs as it is; put your own DataLoader in their place.
"""
import argparse

import timm
import torch
import triaccel
from torch.nn import functional as F


def made_up_images(batches, batch, size, classes=4):
    for step in range(batches):
        generator = torch.Generator().manual_seed(step)
        labels = torch.randint(classes, (batch,), generator=generator)
        yield torch.randn(batch, 3, size, size, generator=generator) + labels.float().view(-1, 1, 1, 1), labels


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="vit_tiny_patch16_224")
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--pretrained", action="store_true", help="start from timm's weights, which are downloaded")
    parser.add_argument("--budget", help="such as 2GB; default: none")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int, default=64)
    arguments = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"

    model = timm.create_model(arguments.model, pretrained=arguments.pretrained, num_classes=4, img_size=arguments.image_size)
    model.to(device).train()
    optimizer = triaccel.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.05, state_bits=8)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, arguments.steps)
    ta = triaccel.attach(model, optimizer, budget=arguments.budget)
    for step, (images, labels) in enumerate(made_up_images(arguments.steps, arguments.batch, arguments.image_size), 1):
        batch = {"x": images.to(device), "y": labels.to(device)}
        loss = ta.step(batch, lambda b: F.cross_entropy(model(b["x"]), b["y"], label_smoothing=0.1))
        schedule.step()
        if step % 10 == 0 or step == arguments.steps:
            print(f"step {step}: loss {loss.item():.4f}, passes of {ta.plan['pass_size']} samples")
    memory = ta.report()["memory"]
    print(f"in use {memory['used'] / 2**20:.0f} MiB, budget {memory['budget'] / 2**20:.0f} MiB (0: none)")


if __name__ == "__main__":
    main()
