"""PROMISE and `zellige tune command` on the programs beside this file: sets of formats, and numbers of runs.
Usage: promise.py FOLDER ZELLIGE    (FOLDER has PROMISE in venv/bin, and gets runs.jsonl)"""

import ast
import json
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
# Programs with their checked variable, and the digits that are asked for.
CASES = [("one", "x", [7, 8]), ("integral", "s", [4, 7, 10]), ("sum", "r", [3, 6, 8, 12])]
BYTES = {"float": 4, "double": 8}
CONFIGURATION = """\
path: ./
files: main.cc
run: main
nbDigits: {digits}
compile:
  - g++ -std=c++17 -O0 -frounding-math main.cc -o main -I$CADNA_PATH/include -L$CADNA_PATH/lib -lcadnaC
output: result
"""


def promise(folder, program, digits):
    """The formats that PROMISE finds, none if it refuses, and how often it compiles."""
    work = os.path.join(folder, "work")
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    shutil.copy(program, os.path.join(work, "main.cc"))
    with open(os.path.join(work, "promise.yml"), "w", encoding="utf-8") as file:
        file.write(CONFIGURATION.format(digits=digits))
    # Its exit status says nothing: 1 where it has found a result, 0 where it has stopped early.
    command = [os.path.join(folder, "venv", "bin", "promise"), "--precs=sd", "--verbosity", "1"]
    path = os.pathsep.join([os.path.join(folder, "venv", "bin"), os.environ["PATH"]])
    done = subprocess.run(command, cwd=work, env={**os.environ, "PATH": path}, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    found = re.findall(r"^\{.*\}$", done.stdout, re.MULTILINE)
    runs = re.findall(r"(\d+) compilations", done.stdout)
    if not found:
        return None, None, (done.stdout.strip().splitlines() or ["it printed nothing"])[-1]
    sets = ast.literal_eval(found[-1])
    formats = {str(at): kind for kind, variables in sets.items() for at in variables}
    return dict(sorted(formats.items())), int(runs[-1]), None


def zellige(folder, command, program, variable, digits):
    """The formats that zellige finds, and its number of trials."""
    with open(program, encoding="utf-8") as file:
        count = file.read().count("__PROMISE__")
    formats = [{"name": name, "cost": cost} for name, cost in BYTES.items()]
    items = os.path.join(folder, "items.json")
    with open(items, "w", encoding="utf-8") as file:
        json.dump({"unit": "bytes", "items": [{"name": str(at), "formats": formats} for at in range(count)]}, file)
    trial = f"'{sys.executable}' '{HERE}/promise_trial.py' '{program}' {{}}"
    # As PROMISE judges: the relative difference from the reference is below 10^-digits.
    accept = f"abs({variable} - REF.{variable}) < 1e-{digits} * abs(REF.{variable})"
    done = subprocess.run([command, "tune", "command", items, "--trial", trial, "--accept", accept, "--json", "-"],
                          stdout=subprocess.PIPE, text=True, check=True)
    result = json.loads(done.stdout)["results"][0]
    return result["trials"][result["best"]]["formats"], len(result["trials"])


def main():
    folder, command = sys.argv[1:]
    lost = []
    print("| program | digits | PROMISE: double | bytes | runs, of them CADNA | zellige: double | bytes | runs |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    with open(os.path.join(folder, "runs.jsonl"), "w", encoding="utf-8") as lines:
        for name, variable, wanted in CASES:
            program = os.path.join(HERE, "promise", f"{name}.cc")
            for digits in wanted:
                theirs, their_runs, refused = promise(folder, program, digits)
                ours, our_runs = zellige(folder, command, program, variable, digits)
                line = {"program": name, "digits": digits, "promise": theirs, "promise_runs": their_runs, "refused": refused,
                        "zellige": ours, "zellige_runs": our_runs}
                print(json.dumps(line), file=lines, flush=True)
                double = lambda formats: " ".join(at for at, kind in formats.items() if kind == "double") or "none"
                size = lambda formats: sum(BYTES[kind] for kind in formats.values())
                left = "refused | | " if theirs is None else f"{double(theirs)} | {size(theirs)} | {their_runs}, 1"
                print(f"| {name} | {digits} | {left} | {double(ours)} | {size(ours)} | {our_runs} |", flush=True)
                if theirs is not None and (size(ours) > size(theirs) or our_runs > their_runs):
                    lost.append(f"{name} {digits}")
    if lost:
        sys.exit(f"larger sets or more runs than PROMISE: {', '.join(lost)}")


main()
