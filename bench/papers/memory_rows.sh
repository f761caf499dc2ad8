#!/usr/bin/env bash
# Question: how much memory and time does Tri-Accel take compared with FP32 and AMP at equal batch, probes and changes of precision included?
# usage: bench/papers/memory_rows.sh DATA_ROOT OUT [SET]     e.g. ~/data out cifar100; a minute and a half on an H200, two and a half with WHOLE=15
#   triaccel: as it decides by itself, over WHOLE epochs; lifted: layers 0, 1, 5 and 6 in FP32 from step 60 on, and all in BF16 again from step 120
# Prints peak reserved and allocated bytes less the resident data set, and reserved as a share of FP32's: the line is 80 %.
set -euo pipefail
data=$1 out=$2 set=${3:-cifar100}
triaccel=${TRIACCEL:-build/release/triaccel}
epochs=${EPOCHS:-2} whole=${WHOLE:-$epochs} batch=${BATCH:-96}
mkdir -p "$out"

run() {  # folder method epochs [flags]
  local folder=$1 method=$2 epochs=$3; shift 3
  grep -q '"status": "finished"' "$out/$folder/summary.json" 2>/dev/null && return
  rm -rf "${out:?}/$folder"
  "$triaccel" train --data "$set" --data-root "$data" --batch "$batch" --epochs "$epochs" \
    --weight-decay 5e-4 --method "$method" --out "$out/$folder" "$@" >"$out/$folder.log" 2>&1 || { echo "failed: $folder (see $out/$folder.log)"; return 1; }
}

lifting_plans() {  # plans.jsonl of a run -> plans that lift four layers for a while
  python3 - "$1" <<'PYTHON'
import json, pathlib, sys
first = json.loads(pathlib.Path(sys.argv[1]).read_text().splitlines()[0])
low = first["precisions"]
lifted = "".join("f" if i in (0, 1, 5, 6) else letter for i, letter in enumerate(low))
for step, precisions in ((0, low), (60, lifted), (120, low)):
    print(json.dumps(first | {"step": step, "precisions": precisions}))
PYTHON
}

for row in resnet18:imagenet:0.1 efficientnet-b0:imagenet:0.02 resnet18:cifar:0.1; do
  IFS=: read -r model stem rate <<<"$row"
  flags=(--model "$model" --stem "$stem" --lr "$rate")
  name=$model-$stem
  run "$name-fp32" fp32 "$epochs" "${flags[@]}"
  run "$name-amp" amp "$epochs" "${flags[@]}"
  run "$name-triaccel" triaccel "$whole" "${flags[@]}" --precision auto --batch-control off
  lifting_plans "$out/$name-triaccel/plans.jsonl" >"$out/$name-plans.jsonl"
  run "$name-lifted" triaccel "$epochs" "${flags[@]}" --batch-control off --replay "$out/$name-plans.jsonl"
done

python3 - "$out" <<'PYTHON'
import json, pathlib, sys
out = pathlib.Path(sys.argv[1])
print(f"{'run':34} {'reserved MB':>11} {'allocated MB':>12} {'of FP32':>8}  s/epoch  accuracy  control s  probes  changes")
for fp32 in sorted(out.glob("*-fp32/summary.json")):
    base = None
    for method in ("fp32", "amp", "triaccel", "lifted"):
        run = fp32.parent.name.removesuffix("fp32") + method
        s = json.loads((out / run / "summary.json").read_text())
        reserved = s["peak_reserved_bytes"] - s["data_bytes"]
        base = base or reserved
        print(f"{run:34} {reserved / 1e6:11.1f} {(s['peak_bytes'] - s['data_bytes']) / 1e6:12.1f} {reserved / base:8.1%}"
              f"  {s['seconds_per_epoch']:7.3f}  {s['accuracy']:8.2f}  {s['control_seconds']:9.3f}  {s['curvature_probes']:6}  {s['plan_changes']:7}")
PYTHON
