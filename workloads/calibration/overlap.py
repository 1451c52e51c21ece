"""Item `overlap`: how much matrix products and an all_reduce slow each other down if they run at
once."""

import math

import torch
import torch.distributed as dist

from . import gemm, timing
from .point import Point, Skip

_SIZES = tuple(2**power for power in (18, 20, 22, 24, 26, 28))
_MOST_CALLS = 10**4
_LONGEST_SECONDS = 0.4


def points(bench, _notes):
    node = bench.nodes[0]
    if len(node) < 2:
        raise Skip("one rank on the node")
    precision = bench.options.precisions[0]
    size = gemm.largest_size(bench, precision) // 4
    product = {"precision": precision, "pass": "forward", "count": 1, "m": size, "n": size, "k": size,
               "accumulates_fp32": False}
    group = bench.group(node)
    taken, before = 0.0, 1
    for size in _SIZES:
        if size > bench.options.max_bytes or taken * size / before > _LONGEST_SECONDS:
            return
        done = yield Point({"rank_count": len(node), "bytes": size},
                           lambda size=size: (gemm.prepare(bench, product), torch.zeros(size // 4,
                                                                                        device=bench.device), group),
                           _measure, tuple(node))
        if done is None:
            return
        taken, before = done["together_seconds"], size


def _measure(bench, prepared):
    multiply, tensor, group = prepared

    def communicate():
        return dist.all_reduce(tensor, group=group.handle, async_op=True)
    collective = timing.together(bench, lambda: communicate().wait(), group)
    # Chooses the number of products that takes about as long; it is the same on all ranks.
    once = timing.together(bench, multiply, group)
    count = min(_MOST_CALLS, max(1, math.ceil(collective / once)))

    def products():
        for _ in range(count):
            multiply()

    def both():
        request = communicate()
        products()
        request.wait()
    return {"gemm_alone_seconds": timing.together(bench, products, group),
            "collective_alone_seconds": collective,
            "together_seconds": timing.together(bench, both, group)}
