#!/usr/bin/env python3
"""Puts measured curves into the collectives of chip files.

    bench/chips/collective_curves.py FOLDER

FOLDER/collectives_single_node.csv has the columns chip, library, version, op, n_ranks, bytes, latency_us (bytes as
nccl-tests counts them). Rows of a chip file that were fitted to it get its points; those transferred from another chip
do not. The source of a row says how far a curve through every second point is from the others (`chip_fits FOLDER
curves`, of a release build), and how far the formula, which stands for what lies beyond the points, is from them.
"""
import collections
import csv
import json
import math
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CHIPS = ROOT / "vendor_models/chips"
FILES = {"a100_sxm": "nvidia-a100-sxm4-80gb", "h100_sxm": "nvidia-h100-sxm5-80gb", "h200_sxm": "nvidia-h200-sxm5-141gb",
         "b200_sxm": "nvidia-b200-sxm-180gb", "b300_sxm": "nvidia-b300-sxm-288gb", "gb200": "nvidia-gb200-nvl72",
         "rtx_pro_6000_server": "nvidia-rtx-pro-6000-blackwell-server", "b60": "intel-arc-pro-b60"}
KINDS = {"all_reduce": "all_reduce", "all_gather": "all_gather", "reduce_scatter": "reduce_scatter",
         "alltoall": "all_to_all"}
ROW = re.compile(r'"kind": "(\w+)", "rank_count": (\d+), .*?"half_bytes": [\d.e+]+, (?P<curve>"curve": \[.*?\]\], )?')


def read(path):
    curves = collections.defaultdict(dict)
    with open(path, encoding="ascii") as file:
        for row in csv.DictReader(file):
            key = (row["chip"], KINDS[row["op"]], int(row["n_ranks"]))
            curves[key][int(row["bytes"])] = float(row["latency_us"]) * 1e-6
    return curves


def read_held_out(folder):
    errors = {}
    command = [ROOT / "build/release/bin/chip_fits", folder, "curves"]
    for line in subprocess.check_output(command, text=True).splitlines():
        chip, op, ranks, error = line.split(" ", 3)
        errors[(chip, KINDS[op], int(ranks))] = error
    return errors


ERROR = re.compile(r'("source": "[^"%;]*)(; [^"]*)?"')


def quantile(values, share):
    values = sorted(values)
    at = share * (len(values) - 1)
    low = math.floor(at)
    return values[low] + (values[min(low + 1, len(values) - 1)] - values[low]) * (at - low)


def with_error(line, held_out):
    """Returns medians and 90th percentiles; those of the formula (docs/cost_model/collectives.md)
    are at the row's own points."""
    row = json.loads(line.strip().rstrip(","))
    ranks = row["rank_count"]
    share = (2 if row["kind"] == "all_reduce" else 1) * (ranks - 1) / ranks
    errors = []
    for size, seconds in row["curve"]:
        moved = share * size
        expected = row["alpha_seconds"] + (moved + math.sqrt(moved * row["half_bytes"])) / row["bandwidth_bytes_per_second"]
        errors.append(100 * abs(expected / seconds - 1))
    formula = f"{quantile(errors, 0.5):.1f} / {quantile(errors, 0.9):.1f}"
    said = f"; a curve through every second size is {held_out} % off the others, the formula {formula} % off all"
    return ERROR.sub(lambda found: f'{found[1]}{said}"', line, count=1)


def put(line, chip, curves, held_out):
    found = ROW.search(line)
    if not found or '"provenance": "fitted"' not in line:
        return line
    key = (chip, found[1], int(found[2]))
    points = curves.get(key)
    if not points:
        return line
    text = ", ".join(f"[{size}, {seconds:.6g}]" for size, seconds in sorted(points.items()))
    end = found.end() if found["curve"] is None else found.start("curve")
    return with_error(f'{line[:end]}"curve": [{text}], {line[found.end():]}', held_out[key])


def main(folder):
    curves = read(pathlib.Path(folder) / "collectives_single_node.csv")
    held_out = read_held_out(folder)
    for chip, name in FILES.items():
        file = CHIPS / f"{name}.json"
        lines = file.read_text(encoding="utf-8").split("\n")
        file.write_text("\n".join(put(line, chip, curves, held_out) for line in lines), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
