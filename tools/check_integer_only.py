#!/usr/bin/env python3
"""Fails when an object file computes with floats or needs libm. Usage: check_integer_only.py [objdump=PATH] [nm=PATH] ARCHIVE_OR_OBJECT...

Moves are allowed: compilers use floating-point moves and stores to carry integer lanes.
"""
import re
import subprocess
import sys

ARM = re.compile(r"(f(add|sub|mul|nmul|div|madd|msub|nmadd|nmsub|mla|mls|cvt|rint|sqrt|cmp|ccmp|abs|neg|max|min|recp|rsqrt|scale|cadd|cmla)\w*"
                 r"|[su]cvtf|bf(cvt|dot|mmla|mlal)\w*)$")
X86 = re.compile(r"v?((add|sub|mul|div|max|min|sqrt|cmp\w*|rcp|rsqrt|round|hadd|hsub|addsub|dp|range|reduce|getexp|getmant|scalef|fixupimm|rndscale)"
                 r"(ss|sd|ps|pd|sh|ph)|u?comis[sdh]|cvt\w+|fn?m(add|sub)\w*|f(i?(add|sub|mul|div|com|ucom)\w*|sqrt|sin|cos|abs|chs|yl2x\w*|prem1?|rndint|scale|patan|ptan|2xm1))$")
LIBM = re.compile(r"\b(exp2?|log2?|log10|pow|sqrt|cbrt|sin|cos|tan|round|lround|ll?rint|rint|floor|ceil|trunc|fmod|ldexp|frexp|fma|nearbyint)[fl]?$")


def lines(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


tool = {}
arguments = []
for argument in sys.argv[1:]:
    if "=" in argument:
        name, path = argument.split("=", 1)
        tool[name] = path
    else:
        arguments.append(argument)
errors = []
instructions = 0
for path in arguments:
    function = "?"
    for line in lines(tool.get("objdump", "objdump"), "-d", "--no-show-raw-insn", path):
        if found := re.match(r"[0-9a-f]+ <(.*)>:", line):
            function = found[1]
        elif found := re.match(r"\s+[0-9a-f]+:\s+(?:(?:lock|rep\w*|notrack|data16|bnd)\s+)*([a-z]\w*)", line):
            instructions += 1
            name = found[1]
            if ARM.match(name) or X86.match(name):
                errors.append(f"{path}: {function}: {line.strip()}")
    for line in lines(tool.get("nm", "nm"), "-u", path):
        if LIBM.search(line):
            errors.append(f"{path}: needs {line.split()[-1]} of libm")
if not instructions:
    errors.append("nothing was disassembled")
print("\n".join(errors[:40]) or f"integers only: {instructions} instructions")
sys.exit(bool(errors))
