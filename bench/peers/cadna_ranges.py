"""Ranges over seeds, as JSON, of the lines of cadna_programs on standard input.

For each program and type: "seeds", and for each result "digits" ([least, most]), "counts" (seeds by number of digits), "zeros"
(seeds in which it is a computed zero) and "texts" (the five most frequent printed forms with their counts), or "integer"
([least, most]); "instabilities" has [least, most] of each category.
"""

import collections
import json
import sys


def extent(values):
    return [min(values), max(values)]


def result(entries):
    if "integer" in entries[0]:
        return {"integer": extent([entry["integer"] for entry in entries])}
    return {
        "digits": extent([entry["digits"] for entry in entries]),
        "counts": dict(sorted(collections.Counter(entry["digits"] for entry in entries).items())),
        "zeros": sum(entry["zero"] for entry in entries),
        "texts": dict(collections.Counter(entry["text"] for entry in entries).most_common(5)),
    }


runs = collections.defaultdict(list)
for line in sys.stdin:
    run = json.loads(line)
    runs[run["program"], run["type"]].append(run)
ranges = []
for (program, kind), found in runs.items():
    names = [entry["name"] for entry in found[0]["results"]]
    ranges.append(
        {
            "program": program,
            "type": kind,
            "seeds": len(found),
            "results": {name: result([run["results"][i] for run in found]) for i, name in enumerate(names)},
            "instabilities": {name: extent([run["instabilities"][name] for run in found]) for name in found[0]["instabilities"]},
        }
    )
print("[\n" + ",\n".join(json.dumps(entry) for entry in ranges) + "\n]")
