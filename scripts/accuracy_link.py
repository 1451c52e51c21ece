#!/usr/bin/env python3
"""What the times of one source's A100 runs would read with another link inside the nodes.

    scripts/accuracy_link.py SOURCE BYTES_PER_SECOND

Rows that say "NVLink" alone get the usual node; this puts the stated bandwidth into their cases. The exam
is found as scripts/accuracy.sh finds it.
"""
import collections
import importlib.util
import os
import statistics
import sys


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    source, bandwidth = sys.argv[1], float(sys.argv[2])
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    path = os.environ.get("MESHWRIGHT_EXAM", "../shared/exam/score.py")
    spec = importlib.util.spec_from_file_location("score", path)
    score = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(score)
    rows = score.load(os.path.join(os.path.dirname(path), "../data/measured"), [source])
    items = [row for row in rows
             if row["case"] and row["time"] and "a100" in row["case"]["cluster"]["pools"][0]["chip"]]
    for item in items:
        for pool in item["case"]["cluster"]["pools"]:
            pool["intra_node"] = {"kind": "nvlink3", "bandwidth_bytes_per_second": bandwidth}
    binary = os.environ.get("MESHWRIGHT_BIN", "build/release/bin/meshwright")
    answers, _ = score.evaluate(binary, [item["case"] for item in items])
    by_degree = collections.defaultdict(list)
    for item in items:
        predicted = float(answers[item["case"]["id"]]["step_time_seconds"])
        by_degree[item["case"]["plan"]["tensor_parallel"]].append(predicted / item["time"])
    errors = sorted(abs(ratio - 1) for ratios in by_degree.values() for ratio in ratios)
    print(f"{len(errors)} runs, median {100 * score.quantile(errors, 0.5):.1f} %, "
          f"p90 {100 * score.quantile(errors, 0.9):.1f} %")
    for degree, ratios in sorted(by_degree.items()):
        print(f"tensor parallel {degree}: predicted / measured {statistics.median(ratios):.2f}, {len(ratios)} runs")


if __name__ == "__main__":
    main()
