#!/usr/bin/env python3
"""Prints the table of docs/mixed-clusters/generations.md: the fastest mix of each generation.

    bench/generations.py MESHWRIGHT [FRAMEWORK [GB_PER_SECOND...]]

Llama-2-70B with 1,024 sequences of 4,096 tokens on 8 nodes of eight A800 and 8 nodes of sixteen
BI-V150; the bandwidth is that of a node to the other pool. The default is generic at 12.5, 5 and 3.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

MODEL = pathlib.Path(__file__).resolve().parents[1] / "examples/llama2-70b/config.json"
POOLS = [{"name": "nv", "chip": "nvidia-a800-sxm4-80gb", "node_count": 8, "devices_per_node": 8},
         {"name": "ix", "chip": "iluvatar-bi-v150", "node_count": 8, "devices_per_node": 16}]


def answer(program, framework, bandwidth):
    workload = {"sequence_length": 4096, "global_batch_size": 1024, "framework": {"name": framework}}
    cluster = {"name": "two pools", "pools": POOLS,
               "inter_pool": {"bandwidth_bytes_per_second_per_node": bandwidth * 1e9}}
    with tempfile.TemporaryDirectory() as name:
        files = {}
        for part, stated in (("workload", workload), ("cluster", cluster)):
            files[part] = pathlib.Path(name) / f"{part}.json"
            files[part].write_text(json.dumps(stated))
        # No history of this machine may move the figures.
        done = subprocess.run([program, "--db", f"{name}/none.db", "tune", "--no-record", "--model", MODEL,
                               "--workload", files["workload"], "--cluster", files["cluster"], "--output", "json"],
                              check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)


def main(arguments):
    if not arguments:
        sys.exit(__doc__.split("\n\n")[1].strip())
    framework = arguments[1] if len(arguments) > 1 else "generic"
    for bandwidth in map(float, arguments[2:] or ("12.5", "5", "3")):
        found = answer(arguments[0], framework, bandwidth)
        shares = "  ".join(f"{one['name']} {one['tokens_per_second']:,.0f} ({100 * one['efficiency_ratio']:.1f} %)"
                           for one in found["heterogeneous"]["generations"])
        print(f"{bandwidth:g} GB/s  {shares}  gap {found['search']['optimality_gap_ratio']:g}")


if __name__ == "__main__":
    main(sys.argv[1:])
