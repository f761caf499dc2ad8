#!/usr/bin/env python3
"""Fails when a file includes a module that its own module may not know. Usage: check_layers.py [ROOT], default triaccel"""
import pathlib
import re
import sys

MAY_INCLUDE = {
    "base": "",
    "core": "base",
    "kernels": "base core",
    "device": "base core kernels",
    "formats": "base core",
    "int8": "base",
    "int8_run": "base core formats checkpoint int8",
    "ops": "base core kernels device",
    "policies": "base core",
    "telemetry": "base core",
    "models": "base core ops",
    "layers": "base core kernels device ops",
    "saved": "base core kernels device ops",
    "signals": "base core device ops layers",
    "optim": "base core kernels device ops",
    "data": "base core formats device kernels ops",
    "distributed": "base core",
    "checkpoint": "base core formats",
    "step": "base core device ops signals layers saved optim data",
    "trainer": "base core formats device ops policies telemetry models signals layers saved optim data distributed checkpoint step int8 int8_run",
}
TORCH_FREE = {"base", "core", "formats", "kernels", "policies", "telemetry", "checkpoint", "int8", "int8_run"}
MAX_LINES = 500

root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "triaccel")
errors = []
for path in sorted(root.glob("*/**/*")):
    if path.suffix not in {".h", ".cpp", ".cu", ".cuh"}:
        continue
    module = path.relative_to(root).parts[0]
    if module not in MAY_INCLUDE:
        errors.append(f"{path}: module {module} has no place in the layers")
        continue
    allowed = set(MAY_INCLUDE[module].split()) | {module}
    lines = path.read_text().splitlines()
    if len(lines) > MAX_LINES:
        errors.append(f"{path}: {len(lines)} lines, at most {MAX_LINES}")
    for number, line in enumerate(lines, 1):
        if found := re.match(rf'\s*#include "{root.name}/(\w+)/', line):
            if found[1] not in allowed:
                errors.append(f"{path}:{number}: {module} may not include {found[1]}")
        if module in TORCH_FREE and re.match(r"\s*#include <(torch|ATen|c10)/", line):
            errors.append(f"{path}:{number}: {module} is kept free of torch headers")
        if path.suffix in {".cu", ".cuh"} and re.match(r"\s*#include <(torch|ATen|c10)/", line):
            errors.append(f"{path}:{number}: device code is kept free of torch headers")
print("\n".join(errors) or "layers ok")
sys.exit(bool(errors))
