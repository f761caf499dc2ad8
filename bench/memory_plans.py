"""Memory that 'triaccel plan' predicts against that of runs with its options: memory_plans.py [--device cuda] [--program PATH]

For each network: the plans of a sweep, and the least one, each trained for a few steps. One line of JSON a plan.
"""
import argparse
import json
import pathlib
import subprocess
import tempfile

ROWS = [  # name, options
    ("lenet5, fp32", ["--model", "lenet5", "--method", "fp32", "--batch", "48"]),
    ("resnet18, fp32", ["--model", "resnet18", "--method", "fp32", "--batch", "48"]),
    ("resnet18, bf16", ["--model", "resnet18", "--method", "triaccel", "--precision", "bf16", "--batch", "96"]),
    ("efficientnet-b0, bf16", ["--model", "efficientnet-b0", "--method", "triaccel", "--precision", "bf16", "--batch", "32", "--lr", "0.001"]),
    ("densenet121, bf16", ["--model", "densenet121", "--method", "triaccel", "--precision", "bf16", "--batch", "32", "--lr", "0.001"]),
    ("vit-small, bf16", ["--model", "vit-small", "--method", "triaccel", "--precision", "bf16", "--batch", "16", "--lr", "0.001"]),
]
NUMERICAL_FAILURE = 7  # exit code
FIXED = ["--curvature", "off", "--batch-control", "off", "--kernels", "gemm"]  # of method triaccel


def output_of(command, failures=()):
    """What a command prints; None where it ends with one of the exit codes `failures`."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode in failures:
        return None
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default="build/release/triaccel")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--plans", type=int, default=6, help="most plans of a network")
    arguments = parser.parse_args()
    for name, options in ROWS:
        if "triaccel" in options:
            options = [*options, *FIXED]
        common = [*options, "--data", "synthetic", "--train-samples", "512", "--device", arguments.device]
        sweep = json.loads(output_of([arguments.program, "plan", *common, "--json", "--sweep"]))["sweep"]
        for plan in sweep[:: max(1, len(sweep) // arguments.plans)]:
            with tempfile.TemporaryDirectory() as folder:
                run = pathlib.Path(folder) / "run"
                command = [arguments.program, "train", *common, *plan["options"].split(), "--steps", "3", "--quiet", "--out", str(run)]
                if output_of(command, failures=[NUMERICAL_FAILURE]) is None:  # two samples are few for batch norm
                    print(json.dumps({"network": name, "options": plan["options"], "error": "diverged"}), flush=True)
                    continue
                summary = json.loads((run / "summary.json").read_text())
            measured = summary["peak_bytes" if arguments.device == "cpu" else "peak_reserved_bytes"]
            print(json.dumps({"network": name, "options": plan["options"], "lossiness": plan["lossiness"], "predicted_bytes": plan["bytes"],
                              "measured_bytes": measured, "error_percent": round(100 * (plan["bytes"] / measured - 1), 2)}), flush=True)


if __name__ == "__main__":
    main()
