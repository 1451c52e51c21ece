"""How long a call takes: the median over batches of calls, with the device synchronised around each batch."""

import math
import statistics
import time

_BATCH_SECONDS = 1e-3  # so that neither the clock nor the launch of the first call counts
_LARGEST_BATCH = 1000
_FEWEST_BATCHES = 5
_MOST_BATCHES = 1000


def alone(bench, call, seconds=None):
    """Of a call on this rank."""
    _batch(bench, call, 1)  # what is loaded, compiled or allocated the first time
    calls = _calls(_batch(bench, call, 1))
    samples, end = [], time.perf_counter() + (seconds or bench.options.seconds_per_point)
    while len(samples) < _FEWEST_BATCHES or (time.perf_counter() < end and len(samples) < _MOST_BATCHES):
        samples.append(_batch(bench, call, calls) / calls)
    return statistics.median(samples)


def together(bench, call, everyone, fewest=_FEWEST_BATCHES):
    """Of a call that the ranks of `everyone` make at once: of the slowest of them. A call may communicate in parts
    of that group. The number of calls is the same on all ranks, or they would wait for one another for ever."""
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
