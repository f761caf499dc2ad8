#!/usr/bin/env python3
"""Fails unless triaccel-int8 is one small file that needs at most the C library. Usage: check_int8_program.py READELF PROGRAM"""
import pathlib
import re
import subprocess
import sys

MOST_BYTES = 2_000_000
ALLOWED = re.compile(r"(libc|libm|ld-linux-[\w-]+)\.so\.\d+")

readelf, program = sys.argv[1:]
errors = []
size = pathlib.Path(program).stat().st_size
if size >= MOST_BYTES:
    errors.append(f"{program}: {size} bytes, must stay under {MOST_BYTES}")
dynamic = subprocess.run([readelf, "-d", program], check=True, capture_output=True, text=True).stdout
needed = re.findall(r"\(NEEDED\).*\[(.+)\]", dynamic)
errors += [f"{program}: needs {library}" for library in needed if not ALLOWED.fullmatch(library)]
sections = subprocess.run([readelf, "-S", "-W", program], check=True, capture_output=True, text=True).stdout
if " .symtab " in sections:
    errors.append(f"{program}: is not stripped")
print("\n".join(errors) or f"{program}: {size} bytes, needs {', '.join(needed) or 'no library'}")
sys.exit(bool(errors))
