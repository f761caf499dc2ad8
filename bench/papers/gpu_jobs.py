#!/usr/bin/env python3
"""Rows of the papers' tables that need a GPU, as jobs for tools/run_jobs, and what a record keeps of their runs.

  gpu_jobs.py shared DATA_ROOT >JOBS.json    accuracy: runs may share the GPU; the most important first
  gpu_jobs.py alone DATA_ROOT >JOBS.json     times and reserved memory, one after the other; without the MPS server, which slows short kernels
  gpu_jobs.py excerpt RUNS >raw.log          of every metrics.jsonl below RUNS all but the intervals

The programs are those of build/release; TRIACCEL names another one. Results lie below runs/.
"""
import json
import os
import pathlib
import sys

PROGRAM = os.environ.get("TRIACCEL", "build/release/triaccel")
SEEDS = (1, 2, 3, 4, 5)
# At 64 px for ten epochs, two seeds, at one batch size, so that rows with and without compression differ in that alone.
RATIOS_64 = {"resnet18": 13, "resnet50": 12, "efficientnet-b0": 16, "vgg16-bn": 16, "densenet121": 14, "vit-small": 10.2}
TOO_HIGH_64 = {"vit-small": 14}  # what training lowers in time
AT_64 = {"resnet18": "--image-size 64", "efficientnet-b0": "--image-size 64"}  # the others are there by default
# Table 2: learning rate, and 70 % of what FP32 reserved (bench/records/2026-11-18_h200_elastic_runs_alone).
ABLATED = {"resnet18": (0.1, 268645171), "efficientnet-b0": (0.02, 287729254)}
CIFAR_STEM = 622434713  # likewise, of ResNet-18 with the CIFAR stem (2026-11-18_h200_cifar_stem_fp32_alone)
# Table 1: what might lift accuracy above FP32.
TRIED = {"weight-average": "--ema 0.999", "kept-rate": "--batch-rate none"}
# The paper's policy: thresholds chosen on held-out samples.
TUNED = "--policy paper --curvature hessian --tune=--tau-high=3e-5,3e-4,3e-3 --tune=--tau-low=1e-6,1e-5"
# 16x against ActNN's codec.
COMPARED = ("resnet18@224/64", "resnet18@32/128", "vit-small@224/32", "vgg16-bn@224/32", "efficientnet-b0@224/32", "densenet121@224/32",
            "resnet50@224/64")


def reproduce(arguments, out):
    return f"python3 bench/papers/reproduce.py {arguments} --triaccel {PROGRAM} --device cuda --out runs/{out}"


def compressed(root, network, seed, epochs, ratio, options=""):
    """A run with compressed activations; ratio None: without."""
    method = "raw" if ratio is None else "compressed"
    name = f"{network}-{epochs}-epochs-{method}{'' if ratio is None else f'-{ratio}'}-{seed}"
    options += "" if ratio is None else f" --activation-ratio {ratio}"
    return name, (f"python3 bench/memory_accuracy.py --program {PROGRAM} --data-root {root} --out runs/{name} --networks {network} "
                  f"--methods {method} --epochs {epochs} --seeds {seed} --jobs 1 -- {options}")


def at_64_px(root, network, seed, ratio):
    return compressed(root, network, seed, 10, ratio, f"--batch-control off {AT_64.get(network, '')}")


def table1(root, network, rate, method, out):
    """Five seeds on CIFAR-10; `method` with its own options."""
    return reproduce(f"tri_accel table1 --data-root {root} --sets cifar10 --models {network} --seeds 5 --epochs 15 --rates {rate} --decays 5e-4 "
                     f"--jobs 5 --methods {method}", out)


def large_images(root, data, more):
    return reproduce(f"tri_accel table1 --data-root {root} --models efficientnet-b0-224 --sets {data} --methods fp32,triaccel --epochs 2 "
                     f"--pretrain-epochs 3 --rates 0.02 --decays 5e-4 {more}", f"table1-224-{data}")


def shared_rows(root):
    """(name, command)."""
    for seed in (1, 2):
        for network, ratio in RATIOS_64.items():
            yield at_64_px(root, network, seed, ratio)
            yield at_64_px(root, network, seed, None)
        for network, ratio in TOO_HIGH_64.items():
            yield at_64_px(root, network, seed, ratio)
    for network, (rate, budget) in ABLATED.items():
        for seed in SEEDS:
            out = f"table2-{network}-{seed}"
            yield out, reproduce(f"tri_accel table2 --data-root {root} --sets cifar10 --models {network} --methods triaccel --seeds {seed}, "
                                 f"--epochs 15 --rates {rate} --decays 5e-4 --budget {budget} --jobs 3", out)
    yield "table1-resnet18-cifar", table1(root, "resnet18-cifar", 0.1, f"triaccel --budget {CIFAR_STEM}", "table1-resnet18-cifar")
    for network, (rate, budget) in ABLATED.items():
        for name, options in TRIED.items():
            yield f"{name}-{network}", table1(root, network, rate, f"triaccel --budget {budget} {options}", f"{name}-{network}")
        fp32 = f"weight-average-{network}-fp32"
        yield fp32, table1(root, network, rate, f"fp32 {TRIED['weight-average']}", fp32)
        yield f"table1-cifar100-{network}", reproduce(
            f"tri_accel table1 --data-root {root} --sets cifar100 --models {network} --methods fp32,amp --seeds 2 --epochs 15 --rates {rate} "
            "--decays 5e-4 --jobs 4", f"table1-cifar100-{network}")
    rate, budget = ABLATED["resnet18"]
    yield "thresholds-resnet18", table1(root, "resnet18", rate, f"triaccel --budget {budget} {TUNED}", "thresholds-resnet18")
    for seed in SEEDS:
        for network in ABLATED:
            yield compressed(root, network, seed, 15, "auto")
    for data in ("cifar10", "cifar100"):
        yield f"table1-224-{data}", large_images(root, data, "--seeds 1,2 --jobs 2")


def timed_rows(root):
    for row in COMPARED:
        yield f"fdsr-16x-{row.translate(str.maketrans('@/', '--'))}", reproduce(
            f"fdsr --rows {row} --codecs fp32,fdsr,actnn --trained , --sets synthetic --activation-ratio 16 --activation-adapt false "
            "--no-largest-batch", "fdsr-16x")
    for data in ("cifar10", "cifar100"):
        yield f"table1-224-{data}-timed", large_images(root, data, "--seeds 1, --timing-epochs 1")


def jobs(rows):
    rows = list(rows)
    return json.dumps([{"name": name, "command": command, "expected": len(rows) - i, "environment": {"OMP_NUM_THREADS": 2}}
                       for i, (name, command) in enumerate(rows)], indent=1)


def excerpt(folder):
    for path in sorted(folder.rglob("metrics.jsonl")):
        print(f"==== {path}")
        for line in path.read_text().splitlines():
            if json.loads(line)["kind"] != "interval":
                print(line)


def main(words):
    if len(words) != 2 or words[0] not in ("shared", "alone", "excerpt"):
        print(__doc__, file=sys.stderr)
        return 2
    if words[0] == "excerpt":
        excerpt(pathlib.Path(words[1]))
    else:
        print(jobs((shared_rows if words[0] == "shared" else timed_rows)(words[1])))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
