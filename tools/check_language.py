#!/usr/bin/env python3
"""Fails where our sources, documents and messages use words of our own instead of the field's. Usage: check_language.py [ROOT], default .

Records and the changelog tell history and are not checked; neither are links to records.
"""
import collections
import pathlib
import re
import sys

# What not to write, as a regular expression, and the standard term. Only what is wrong in every sense stands here.
TERMS = {
    r"settl(e|es|ed|ing)": "materialize (a deferred tensor); stabilize (a value); decide",
    r"stairs?": "step schedule",
    r"narrow[ _-]?products?": "skinny GEMM",
    r"patch[ _-]?matri(x|ces)": "im2col",
    r"image[ _-]?convolutions?": "stem convolution",
    r"one[ _-]piece": "flat buffer; contiguous",
    r"listened([ _-]to)?": "has_gradient_hooks",
    r"unheard|untold": "pending",
    r"(deal|deals|dealt|dealing) (it |them |bits )?out": "reallocate, distribute",
    r"anew": "again",
    r"beside": "concurrently; on a side stream; next to; compared with",
    r"by[ _]the[ _]loss[ _]alone": "zeroth-order estimate; without backpropagation",
    r"(go|goes|going|went|gone)[ _]back[ _]to": "roll back to; restore; return to",
    r"held in a (half|third|quarter|fifth|tenth)": "compressed by a factor of …",
    r"code[ _-]?room": "encode buffer",
    r"coded[ _](state|update|tensor)s?": "quantized state or update; encoded tensor",
    r"by a guess": "presumably; not measured",
}
FOLDERS = ["triaccel", "cli", "apps", "python", "tests", "bench", "examples", "fuzz", "tools", "cmake", "docs"]
SUFFIXES = {".h", ".cpp", ".cu", ".cuh", ".py", ".sh", ".cmake", ".md", ".txt", ".in", ".json", ""}
SKIPPED = {"records", "corpus", "build", ".venv", "runs", "__pycache__"}
HISTORY = {"CHANGELOG.md", "check_language.py"}
PATTERN = re.compile("|".join(f"(?P<t{i}>(?<![a-z]){word}(?![a-z]))" for i, word in enumerate(TERMS)), re.IGNORECASE)
SUGGESTIONS = list(TERMS.values())

root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
paths = [p for folder in FOLDERS for p in (root / folder).rglob("*")] + list(root.glob("*.md")) + [root / "Makefile", root / "CMakeLists.txt"]
errors, per_folder, files = [], collections.Counter(), 0
for path in sorted(set(paths)):
    place = path.relative_to(root)
    if not path.is_file() or path.suffix not in SUFFIXES or path.name in HISTORY or SKIPPED & set(place.parts):
        continue
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        continue  # a seed, not a text
    files += 1
    for number, line in enumerate(lines, 1):
        for found in PATTERN.finditer(re.sub(r"bench/records/[\w./-]+", "", line)):
            errors.append(f"{place}:{number}: '{found[0]}': write {SUGGESTIONS[int(found.lastgroup[1:])]}")
            per_folder["/".join(place.parts[:2]) if place.parts[0] == "triaccel" else place.parts[0]] += 1
if errors:
    print("\n".join(errors))
    print("by folder: " + ", ".join(f"{folder} {count}" for folder, count in per_folder.most_common()))
else:
    print(f"language ok: {files} files")
sys.exit(bool(errors))
