"""Compiles and runs a program of bench/peers/promise with the formats of a JSON file; prints the values of its checked variables as JSON.
Usage: promise_trial.py PROGRAM.cc FORMATS.json [NAME=VALUE...]    (more measures, e.g. a reference of CADNA)"""

import json
import os
import re
import subprocess
import sys
import tempfile

CHECK = r"""
#include <cstdio>
#define PROMISE_CHECK_VAR(x) std::printf("%s %.17g\n", #x, double(x))
"""


def main():
    program, formats = sys.argv[1:3]
    with open(formats, encoding="utf-8") as file:
        formats = json.load(file)
    with open(program, encoding="utf-8") as file:
        parts = file.read().split("__PROMISE__")
    # Variables are numbered in the order of their declarations, as PROMISE numbers them.
    source = parts[0] + "".join(formats[str(at)] + part for at, part in enumerate(parts[1:]))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "main.cc")
        with open(path, "w", encoding="utf-8") as file:
            file.write(CHECK + source)
        binary = os.path.join(folder, "main")
        subprocess.run(["g++", "-std=c++17", "-O0", "-frounding-math", path, "-o", binary], check=True)
        out = subprocess.run([binary], check=True, capture_output=True, text=True).stdout
    measures = {name: float(value) for name, value in re.findall(r"^(\w+) (\S+)$", out, re.MULTILINE)}
    measures.update((name, float(value)) for name, value in (word.split("=") for word in sys.argv[3:]))
    print(json.dumps(measures))


main()
