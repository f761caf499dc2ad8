#!/usr/bin/env bash
# Question: how do FP32, AMP and Tri-Accel compare on the rows of the paper's tables, on one GPU?
# usage: bench/training/tables.sh accuracy|times DATA_ROOT OUT [SETS] [SEEDS]     e.g. accuracy ~/data out "cifar10 cifar100" "1 2"
#   accuracy: every model, set and seed in a process of its own, side by side under CUDA MPS; their times do not count
#   times:    the same rows again from OUT, one at a time, each timed over two more epochs alone on the GPU
# OUT/result.json gathers all rows that are done, also after an interruption; both parts go on where they were cut.
set -euo pipefail
part=$1 data=$2 out=$3
sets=${4:-cifar10 cifar100} seeds=${5:-1 2}
triaccel=${TRIACCEL:-build/release/triaccel}
epochs=${EPOCHS:-15} jobs=${JOBS:-6}
mkdir -p "$out"

gather() {
  python3 - "$out" <<'PYTHON'
import json, pathlib, sys
out = pathlib.Path(sys.argv[1])
rows = [row for path in sorted(out.glob("*/result.json")) for row in json.loads(path.read_text())]
lines = ",\n ".join(json.dumps(row) for row in rows)
(out / "result.json").write_text(f"[\n {lines}\n]\n" if rows else "[]\n")
PYTHON
}

# Chosen among on samples held out of the training set. EfficientNet-B0 starts badly above 0.05 by any method.
rates() { case $1 in efficientnet-b0) echo "0.01 0.02 0.05" ;; *) echo "0.05 0.1 0.2" ;; esac; }

row() {  # table model set seed [flags]
  local table=$1 model=$2 set=$3 seed=$4; shift 4
  # Seeds share a folder, and with it the choice of the rates.
  # shellcheck disable=SC2046
  "$triaccel" reproduce "$table" --models "$model" --sets "$set" --seeds "$seed" --data-root "$data" --epochs "$epochs" \
    --rates ${RATES:-$(rates "$model")} --grid-epochs "${GRID_EPOCHS:-5}" --out "$out/$table-$model-$set" "$@" \
    >>"$out/$table-$model-$set-$seed.log" 2>&1 || echo "failed: $table $model $set $seed (see its log)"
  gather
}

# Longest first. WANTED picks some: "table1:resnet18 table2:resnet18".
rows() {
  for set in $sets; do
    for row in ${WANTED:-table1:resnet18-cifar table1:efficientnet-b0 table1:resnet18 table2:resnet18}; do
      for seed in $seeds; do echo "${row%%:*} ${row##*:} $set $seed"; done
    done
  done
}

case $part in
  accuracy)
    export CUDA_MPS_PIPE_DIRECTORY=${CUDA_MPS_PIPE_DIRECTORY:-/tmp/mps} CUDA_MPS_LOG_DIRECTORY=${CUDA_MPS_LOG_DIRECTORY:-/tmp/mps-log}
    nvidia-cuda-mps-control -d 2>/dev/null || true
    while read -r table model set seed; do
      while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n || true; done
      row "$table" "$model" "$set" "$seed" --shared &
    done < <(rows)
    wait
    echo quit | nvidia-cuda-mps-control 2>/dev/null || true ;;
  times)
    while read -r table model set seed; do row "$table" "$model" "$set" "$seed" --timing-epochs 6; done < <(rows) ;;
  *) echo "tables.sh: '$part' is neither accuracy nor times" >&2; exit 2 ;;
esac
gather
