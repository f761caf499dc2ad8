#!/usr/bin/env python3
"""Fails when a CUDA source's device code has floats, or divisions, which the assembler makes of floats.
Usage: check_integer_only_cuda.py NVCC INCLUDE_FOLDER SOURCE.cu... [LIBRARY]

Reads the PTX of each source and, where there is cuobjdump, the machine code of the library.
"""
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys

PTX = re.compile(r"\.(f16|f16x2|bf16|bf16x2|tf32|f32|f64|e4m3|e5m2)\w*\b|^\s*(@\S+\s+)?(div|rem)\.")
SASS = re.compile(r"\b(FADD|FMUL|FFMA|FSETP|FMNMX|MUFU|DADD|DMUL|DFMA|HADD2|HMUL2|HFMA2|I2FP?|F2I|F2F)\b")
CONSTANT = re.compile(r"\bHFMA2[.\w]* R\d+, -RZ, RZ,")  # how the assembler loads some constants

nvcc, include, *files = sys.argv[1:]
sources = [file for file in files if file.endswith(".cu")]


def ptx(source):
    command = [nvcc, "-std=c++20", "-O3", "-arch=sm_90", "--expt-relaxed-constexpr", f"-I{include}", "-ptx", source, "-o", "-"]
    return source, subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


errors = []
instructions = 0
with concurrent.futures.ThreadPoolExecutor(2) as pool:
    for source, lines in pool.map(ptx, sources):
        for line in lines:
            instructions += line.endswith(";")
            if PTX.search(line):
                errors.append(f"{source}: {line.strip()}")
cuobjdump = shutil.which("cuobjdump", path=f"{pathlib.Path(nvcc).parent}:{os.environ.get('PATH', '')}")
if cuobjdump:
    for library in set(files) - set(sources):
        for line in subprocess.run([cuobjdump, "-sass", library], check=True, capture_output=True, text=True).stdout.splitlines():
            if SASS.search(line) and not CONSTANT.search(line):
                errors.append(f"{library}: {line.strip()}")
if not instructions:
    errors.append("no device code was found")
print("\n".join(errors[:40]) or f"integers only: {instructions} instructions of PTX")
sys.exit(bool(errors))
