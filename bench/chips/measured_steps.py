#!/usr/bin/env python3
"""Compares the estimates of the reference step with steps that were measured on a chip.

    measured_steps.py BIN [FILE]

FILE has a JSON object a line: `case`, as `meshwright evaluate` takes it, and `measured`:
`step_time_seconds` and `peak_memory_bytes`, or `failure`, the class of the step's failure. It is
nvidia-h100-sxm5-80gb.steps.jsonl beside this file if it is not given. Prints the rows of a table of
Markdown (docs/chips/measured.md).
"""

import json
import pathlib
import subprocess
import sys

GIB = 2**30


def main(binary, path):
    rows = [json.loads(line) for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines()]
    done = subprocess.run([binary, "evaluate", "--cases", "-"], text=True, stdout=subprocess.PIPE, check=True,
                          input="".join(json.dumps(row["case"]) + "\n" for row in rows))
    print("| case | measured, s | estimated, s | ratio | measured, GiB | estimated, GiB | ratio |")
    print("|---|---|---|---|---|---|---|")
    for row, line in zip(rows, done.stdout.splitlines()):
        measured, found = row["measured"], json.loads(line)
        name, time, peak = row["case"]["id"], found["step_time_seconds"], found["peak_memory_bytes"] / GIB
        if "failure" in measured:
            print(f"| {name} | out of memory | | | | {peak:.1f} ({'fits' if found['fits'] else 'does not fit'}) | |")
            continue
        took, used = measured["step_time_seconds"], measured["peak_memory_bytes"] / GIB
        print(f"| {name} | {took:.3f} | {time:.3f} | {took / time:.2f} | {used:.1f} | {peak:.1f} | {used / peak:.2f} |")


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    main(sys.argv[1], (sys.argv[2:] or [pathlib.Path(__file__).with_name("nvidia-h100-sxm5-80gb.steps.jsonl")])[0])
