"""Accuracy in half of FP32's memory: memory_accuracy.py --data-root DIR [--program PATH] [--jobs 6] [--seeds 1 2 3 4 5]

FP32 without a budget; Tri-Accel in half of the memory that FP32 reserved, data set included; Tri-Accel without a budget, with
activations as they are and compressed; FP32 with compressed activations; and the paper's policy in 400 MiB. The first two
networks train at 32 px, the others at 64. One line of JSON a run; runs share the GPU, so times do not count when there are
several jobs.
"""
import argparse
import concurrent.futures
import json
import pathlib
import subprocess
import time

NETWORKS = {
    "resnet18": ["--lr", "0.1"],
    "efficientnet-b0": ["--lr", "0.02"],
    "resnet50": ["--lr", "0.05", "--image-size", "64"],
    "vgg16-bn": ["--lr", "0.02", "--image-size", "64"],
    "densenet121": ["--lr", "0.05", "--image-size", "64"],
    "vit-small": ["--optimizer", "adamw", "--lr", "5e-4", "--image-size", "64"],
}
DECAYS = {"vit-small": "0.05"}
METHODS = {
    "fp32": ["--method", "fp32"],
    "half": ["--method", "triaccel"],  # and --budget
    "raw": ["--method", "triaccel"],
    "compressed": ["--method", "triaccel", "--activations", "compressed"],
    "fp32-compressed": ["--method", "fp32", "--activations", "compressed"],
    "paper": ["--method", "triaccel", "--policy", "paper", "--curvature", "hessian", "--budget", "400MiB"],
}


def trained(arguments, network, method, seed, more=()):
    out = pathlib.Path(arguments.out) / f"{network}-{method}-{seed}"
    command = [arguments.program, "train", "--model", network, "--data", arguments.data, "--data-root", arguments.data_root,
               "--batch", "96", "--epochs", str(arguments.epochs), "--weight-decay", DECAYS.get(network, "5e-4"), "--seed", str(seed),
               *NETWORKS[network], *METHODS[method], *more, *arguments.options, "--out", str(out), "--quiet", "--json"]
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True)
    row = {"network": network, "method": method, "seed": seed, "epochs": arguments.epochs, "exit": done.returncode,
           "seconds": round(time.perf_counter() - start, 1)}
    if done.returncode != 0:
        row["error"] = done.stderr.strip()[-400:]
    else:
        summary = json.loads(done.stdout.splitlines()[-1])
        lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
        row |= {key: summary[key] for key in ("accuracy", "best_accuracy", "seconds_per_epoch", "control_seconds",
                                              "graph_captures", "graph_capture_seconds", "batch_final", "steps",
                                              "peak_reserved_bytes", "predicted_bytes", "data_bytes", "memory_retries",
                                              "commit")}
        saved = [line["saved"] for line in lines if line["kind"] == "interval" and line.get("saved")]
        if saved:
            row["held_ratio"] = round(sum(one["fp32_bytes"] for one in saved) / sum(one["held_bytes"] for one in saved), 2)
        row["plan"] = next((line["message"] for line in lines if line["kind"] == "notice" and "to fit in" in line["message"]), "as asked")
    print(json.dumps(row | {"options": " ".join(more)}), flush=True)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default="build/release/triaccel")
    parser.add_argument("--data", default="cifar10")
    parser.add_argument("--data-root", required=True)
    parser.add_argument("--out", default="runs/memory_accuracy")
    parser.add_argument("--epochs", type=float, default=15)
    parser.add_argument("--seeds", type=int, nargs="*", default=[1, 2, 3, 4, 5])
    parser.add_argument("--fp32-peak", type=int, help="bytes that FP32 reserved, of an earlier run (default: FP32 is trained first)")
    parser.add_argument("--jobs", type=int, default=6)
    parser.add_argument("--networks", nargs="*", default=["resnet18", "efficientnet-b0"], choices=list(NETWORKS))
    parser.add_argument("--methods", nargs="*", default=["fp32", "half", "compressed"], choices=list(METHODS))
    parser.add_argument("options", nargs="*", help="further options of every run, after --")
    arguments = parser.parse_args()
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        first = {}  # its peak is what the budget is half of
        if "half" in arguments.methods and not arguments.fp32_peak:
            first = {network: pool.submit(trained, arguments, network, "fp32", 1) for network in arguments.networks}
        for seed in arguments.seeds:
            for network in arguments.networks:
                for method in arguments.methods:
                    if method == "half":
                        peak = arguments.fp32_peak or first[network].result()["peak_reserved_bytes"]
                        pool.submit(trained, arguments, network, method, seed, ["--budget", str(peak // 2)])
                    elif not (method == "fp32" and seed == 1 and first):
                        pool.submit(trained, arguments, network, method, seed)


if __name__ == "__main__":
    main()
