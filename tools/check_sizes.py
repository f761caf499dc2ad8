#!/usr/bin/env python3
"""Fails when sources are laid out too coarsely or too finely. Usage: check_sizes.py [ROOT], default .

A file has at most 500 lines, the median stays under 150, a folder holds at most 40 sources, and at most 60 sources have 25 lines or fewer.
"""
import collections
import pathlib
import statistics
import sys

FOLDERS = ["triaccel", "cli", "apps", "python", "bench", "examples", "fuzz", "tests", "tools", "cmake"]
SUFFIXES = {".h", ".cpp", ".cu", ".cuh", ".py", ".cmake", ""}
MAX_LINES, MEDIAN_BELOW, MAX_FILES, TINY_LINES, MAX_TINY = 500, 150, 40, 25, 60

root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
sizes = {}
for path in (p for folder in FOLDERS for p in (root / folder).rglob("*")):
    if path.is_file() and path.suffix in SUFFIXES and not {"records", "corpus", "__pycache__"} & set(path.parts):
        try:
            sizes[path.relative_to(root)] = len(path.read_text().splitlines())
        except UnicodeDecodeError:
            pass  # a seed or a picture, not a source
errors = [f"{path}: {lines} lines, at most {MAX_LINES}" for path, lines in sorted(sizes.items()) if lines > MAX_LINES]
median = statistics.median(sizes.values()) if sizes else 0
if median >= MEDIAN_BELOW:
    errors.append(f"median {median:g} lines per file, must stay under {MEDIAN_BELOW}")
for folder, count in sorted(collections.Counter(path.parent for path in sizes).items()):
    if count > MAX_FILES:
        errors.append(f"{folder}: {count} sources in one folder, at most {MAX_FILES}; split it by concept")
tiny = sorted(path for path, lines in sizes.items() if lines <= TINY_LINES and path.parts[0] != "cmake")
if len(tiny) > MAX_TINY:
    errors.append(f"{len(tiny)} sources of {TINY_LINES} lines or fewer, at most {MAX_TINY}; merge some with their neighbours:")
    errors += [f"  {path}: {sizes[path]} lines" for path in tiny]
print("\n".join(errors) or f"sizes ok: {len(sizes)} files, median {median:g} lines, longest {max(sizes.values(), default=0)}, {len(tiny)} of {TINY_LINES} lines or fewer")
sys.exit(bool(errors))
