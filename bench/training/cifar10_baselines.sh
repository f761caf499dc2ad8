#!/usr/bin/env bash
# Question: do FP32 and AMP reach on CIFAR-10 what PyTorch reaches (ResNet-18, ImageNet stem, batch 96, 30 epochs: 86 %)?
# usage: bench/training/cifar10_baselines.sh DATA_ROOT OUT [SEED...]     writes OUT/result.json and one log a run
# The runs of one seed share the GPU, so their times are not comparable with a run that has it alone.
set -euo pipefail
data=$1 out=$2; shift 2
seeds=("${@:-1}")
triaccel=${TRIACCEL:-build/release/triaccel}
mkdir -p "$out"
for seed in "${seeds[@]}"; do
  for method in fp32 amp; do
    "$triaccel" train --model resnet18 --stem imagenet --data cifar10 --data-root "$data" --batch 96 --epochs 30 \
      --method "$method" --seed "$seed" --optimizer sgd --lr 0.1 --weight-decay 5e-4 --control-interval 100 \
      --json --out "$out/$method-$seed" >"$out/$method-$seed.json" 2>"$out/$method-$seed.log" &
  done
done
wait
python3 - "$out" <<'PYTHON'
import json, pathlib, sys
out = pathlib.Path(sys.argv[1])
rows = []
for path in sorted(out.glob("*.json")):
    if path.name == "result.json":
        continue
    lines = path.read_text().splitlines()
    if not lines:
        sys.exit(f"{path}: no summary; see {path.with_suffix('.log')}")
    run = json.loads(lines[-1])
    rows.append({"model": run["model"], "stem": "imagenet", "data": run["data"], "method": run["method"],
                 "seed": run["seed"], "epochs": run["epochs"], "accuracy": run["accuracy"], "loss": run["loss"],
                 "seconds_per_epoch": run["seconds_per_epoch"], "peak_allocated_mb": run["peak_bytes"] / 1e6,
                 "peak_reserved_mb": run["peak_reserved_bytes"] / 1e6, "data_mb": run["data_bytes"] / 1e6,
                 "skipped_steps": run["skipped_steps"], "commit": run["commit"], "device": run["device"]})
(out / "result.json").write_text(json.dumps(rows, indent=1) + "\n")
for row in rows:
    print(f"{row['method']:<5} seed {row['seed']}  {row['accuracy']:.2f} %  {row['seconds_per_epoch']:.2f} s/epoch (shared GPU)")
PYTHON
