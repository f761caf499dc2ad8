#!/usr/bin/env python3
"""Fails when a source file is over 500 lines or the median is 150 or more. Usage: check_sizes.py [ROOT], default ."""
import pathlib
import statistics
import sys

FOLDERS = ["triaccel", "cli", "python", "bench", "examples", "fuzz", "tests", "tools", "cmake"]
SUFFIXES = {".h", ".cpp", ".cu", ".cuh", ".py", ".cmake", ""}
MAX_LINES, MEDIAN_BELOW = 500, 150

root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
sizes = {}
for path in (p for folder in FOLDERS for p in (root / folder).rglob("*")):
    if path.is_file() and path.suffix in SUFFIXES and "records" not in path.parts and "corpus" not in path.parts:
        try:
            sizes[path] = len(path.read_text().splitlines())
        except UnicodeDecodeError:
            pass  # a seed or a picture, not a source
errors = [f"{path}: {lines} lines, at most {MAX_LINES}" for path, lines in sorted(sizes.items()) if lines > MAX_LINES]
median = statistics.median(sizes.values()) if sizes else 0
if median >= MEDIAN_BELOW:
    errors.append(f"median {median:g} lines a file, must stay under {MEDIAN_BELOW}")
print("\n".join(errors) or f"sizes ok: {len(sizes)} files, median {median:g} lines, longest {max(sizes.values(), default=0)}")
sys.exit(bool(errors))
