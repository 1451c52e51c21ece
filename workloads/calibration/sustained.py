"""Item `sustained_gemm`: the time of a product after all devices have been busy for seconds,
compared with a first burst on one device. It shows the effect of power and heat, and how much
devices differ."""

import time

import torch
from train import comm

from . import gemm, timing
from .point import Point

_REST_SECONDS = 2  # before the burst, so that what was measured before has cooled down
_BURST_SECONDS = 0.02  # long enough to measure, and too short for the power limit
_CHECK_SECONDS = 0.1  # seconds of work that are queued between two looks at the clock


def points(bench, notes):
    for precision in bench.options.precisions:
        why = bench.alone(lambda precision=precision: bench.runs(precision))
        if why:
            notes.append(why)
            continue
        size = gemm.largest_size(bench, precision) // 2
        row = {"precision": precision, "m": size, "n": size, "k": size, "rank_count": bench.world.size}
        yield Point(row, lambda row=row: gemm.prepare(
            bench, {**row, "pass": "forward", "count": 1, "accumulates_fp32": False}), _measure, bench.world.ranks)


def _measure(bench, call):
    # Rank 0 measures while the others wait for its result.
    burst = bench.alone(lambda: _burst(bench, call))
    bench.barrier(bench.world)
    mine = _sustained(bench, call, max(1, round(_CHECK_SECONDS / burst)))
    return {"burst_time_seconds": burst, "time_seconds": _mean(bench, mine),
            "slowest_time_seconds": bench.largest(mine)}


def _burst(bench, call):
    seconds = min(_BURST_SECONDS, bench.options.sustained_seconds)
    timing.alone(bench, call, seconds)  # loads the kernel
    time.sleep(min(_REST_SECONDS, bench.options.sustained_seconds))
    return timing.alone(bench, call, seconds)


def _sustained(bench, call, calls):
    """Returns the time of a call in the second half of the run. By then the device runs as it does
    for hours."""
    start = middle = time.perf_counter()
    half, counted, done = bench.options.sustained_seconds / 2, 0, False
    while not done:
        for _ in range(calls):
            call()
        bench.synchronize()
        bench.progress()
        now = time.perf_counter()
        if now - start < half:
            middle = now
        else:
            counted += calls
            done = now - start >= 2 * half
    return (now - middle) / counted


def _mean(bench, value):
    total = comm.all_reduce(torch.tensor(value, device=bench.device), bench.world)
    return total.item() / bench.world.size
