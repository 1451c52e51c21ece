#!/usr/bin/env python3
"""Shows what the times of one source's runs would be if their cases said something else.

    scripts/accuracy_what_if.py SOURCE [--chip WORD] [--link BYTES_PER_SECOND] [--fact NAME=VALUE]...
                                [--by MEMBER]

--link: the bandwidth inside the nodes; without it, rows that only say "NVLink" get the usual node.
--fact: a fact of the framework's profile; --chip: only runs on chips whose id has WORD. Prints a
line for each value of MEMBER of the plan (tensor_parallel). The exam and the program are found as
scripts/accuracy.sh finds them.
"""
import argparse
import collections
import os
import statistics

import exam


def arguments():
    pair = lambda text: text.split("=", 1)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source")
    parser.add_argument("--chip", default="")
    parser.add_argument("--link", type=float)
    parser.add_argument("--fact", type=pair, action="append", default=[])
    parser.add_argument("--by", default="tensor_parallel")
    return parser.parse_args()


def change(case, asked):
    for pool in case["cluster"]["pools"]:
        if asked.link:
            pool["intra_node"] = {"kind": "nvlink3", "bandwidth_bytes_per_second": asked.link}
    if asked.fact:
        framework = case["workload"]["framework"]
        framework["facts"] = [*framework.get("facts", []), *({"name": n, "value": v} for n, v in asked.fact)]


def main():
    asked = arguments()
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    score, data = exam.load()
    items = [row for row in score.load(data, [asked.source])
             if row["case"] and row["time"] and asked.chip in row["case"]["cluster"]["pools"][0]["chip"]]
    for item in items:
        change(item["case"], asked)
    binary = os.environ.get("MESHWRIGHT_BIN", "build/release/bin/meshwright")
    answers, _ = score.evaluate(binary, [item["case"] for item in items])
    by_value = collections.defaultdict(list)
    for item in items:
        predicted = float(answers[item["case"]["id"]]["step_time_seconds"])
        by_value[item["case"]["plan"].get(asked.by)].append(predicted / item["time"])
    errors = sorted(abs(ratio - 1) for ratios in by_value.values() for ratio in ratios)
    print(f"{len(errors)} runs, median {100 * score.quantile(errors, 0.5):.1f} %, "
          f"p90 {100 * score.quantile(errors, 0.9):.1f} %")
    for value, ratios in sorted(by_value.items()):
        print(f"{asked.by} {value}: predicted / measured {statistics.median(ratios):.2f}, {len(ratios)} runs")


if __name__ == "__main__":
    main()
