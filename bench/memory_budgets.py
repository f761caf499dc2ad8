"""Training within memory budgets: memory_budgets.py [--program PATH] [--device cuda] [--rows NAME …] [--budgets MIB …]

For each network its budgets, each trained for a few steps with nothing but --budget: whether it fits, how fast it is, what was
planned and what it took. One line of JSON a budget. The budgets of resnet50 and vit-small at 224 px are those in which
PyTorch trains when tuned by hand, and smaller ones.
"""
import argparse
import json
import pathlib
import subprocess
import tempfile
import time

ROWS = {  # name: options, budgets in MiB
    "resnet50": (["--model", "resnet50", "--image-size", "224", "--batch", "64", "--train-samples", "512"],
                 [250, 275, 300, 350, 434, 482, 574, 746, 900, 1094, 1400, 1766, 3056]),
    "vit-small": (["--model", "vit-small", "--image-size", "224", "--batch", "64", "--train-samples", "512"],
                  [180, 220, 240, 260, 320, 390, 438, 522, 660, 940, 1200, 1522, 2598]),
    "resnet18": (["--model", "resnet18", "--image-size", "32", "--batch", "96"],
                 [90, 105, 110, 116, 122, 128, 144, 160, 180, 200, 240, 280, 320]),
}
FIXED = ["--data", "synthetic", "--method", "triaccel", "--precision", "bf16", "--curvature", "off", "--batch-control", "micro",
         "--control-interval", "5", "--activation-profile-every", "10",  # as long runs do: plans have room for it
         "--quiet", "--json"]


def trained(program, options, steps):
    with tempfile.TemporaryDirectory() as folder:
        run = pathlib.Path(folder) / "run"
        start = time.perf_counter()
        done = subprocess.run([program, "train", *options, *FIXED, "--steps", str(steps), "--out", str(run)], capture_output=True, text=True)
        found = {"exit": done.returncode, "seconds": round(time.perf_counter() - start, 1)}
        if done.returncode != 0:
            return {**found, "error": done.stderr.strip()[:400]}
        summary = json.loads(done.stdout)
        lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        intervals = [line for line in lines if line["kind"] == "interval"]
        timed = intervals[1:]  # graphs are captured in the first
        return {**found,
                "samples_per_second": round(sum(one["interval_samples"] for one in timed) / sum(one["seconds"] for one in timed)),
                "samples_per_pass": intervals[-1]["micro_batch"],
                "predicted_mib": round(summary["predicted_bytes"] / 2**20, 1),
                "reserved_mib": round(summary["peak_reserved_bytes"] / 2**20, 1),
                "retries": summary["memory_retries"],
                "plan": next((line["message"] for line in lines if line["kind"] == "notice" and "to fit in" in line["message"]), "as asked"),
                "commit": summary["commit"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default="build/release/triaccel")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--rows", nargs="*", default=list(ROWS), choices=list(ROWS))
    parser.add_argument("--budgets", nargs="*", type=int, help="in MiB, instead of those of each row")
    parser.add_argument("--steps", type=int, default=15)
    arguments = parser.parse_args()
    for name in arguments.rows:
        options, budgets = ROWS[name]
        for budget in arguments.budgets or budgets:
            found = trained(arguments.program, [*options, "--device", arguments.device, "--budget", f"{budget}MiB"], arguments.steps)
            print(json.dumps({"network": name, "budget_mib": budget, **found}), flush=True)


if __name__ == "__main__":
    main()
