"""Measures how long a call takes: the median over batches of calls. The device is synchronised
before and after each batch."""

import math
import statistics
import time

_BATCH_SECONDS = 1e-3  # long enough to neglect the clock and the launch of the first call
_LARGEST_BATCH = 1000
_FEWEST_BATCHES = 5
_MOST_BATCHES = 1000


def alone(bench, call, seconds=None):
    """Returns the time of a call on this rank."""
    _batch(bench, call, 1)  # a first call may load, compile or allocate
    calls = _calls(_batch(bench, call, 1))
    samples, end = [], time.perf_counter() + (seconds or bench.options.seconds_per_point)
    while len(samples) < _FEWEST_BATCHES or (time.perf_counter() < end and len(samples) < _MOST_BATCHES):
        samples.append(_batch(bench, call, calls) / calls)
    return statistics.median(samples)


def together(bench, call, everyone, fewest=_FEWEST_BATCHES):
    """Returns the time of a call that the ranks of `everyone` make at once, which is that of the
    slowest rank. A call may communicate within parts of that group. The number of calls is the same
    on all ranks, because they would otherwise wait for each other for ever."""
    def batch(count):
        bench.barrier(everyone)
        return _batch(bench, call, count)
    batch(1)
    once = bench.largest(batch(1), everyone)
    calls = _calls(once)
    count = int(min(_MOST_BATCHES, max(fewest, bench.options.seconds_per_point / (once * calls))))
    median = statistics.median([batch(calls) / calls for _ in range(count)])
    return bench.largest(median, everyone)


def _batch(bench, call, count):
    bench.synchronize()
    start = time.perf_counter()
    for _ in range(count):
        call()
    bench.synchronize()
    return max(time.perf_counter() - start, 1e-9)


def _calls(once):
    return min(_LARGEST_BATCH, math.ceil(_BATCH_SECONDS / once))
