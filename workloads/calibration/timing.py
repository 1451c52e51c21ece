"""Measures how long a call takes: the median over batches of calls. The device is synchronised
before and after each batch.

The host needs some microseconds to start a kernel, and a small kernel is done before the next one
comes. Where the device has graphs, the calls are therefore recorded once and replayed, which the
host does not slow down, and the host's own time is measured apart."""

import math
import statistics
import time

_BATCH_SECONDS = 1e-3  # long enough to neglect the clock and the launch of the first call
_LARGEST_BATCH = 1000
_FEWEST_BATCHES = 5
_MOST_BATCHES = 1000
_RECORDED = 100  # calls of a graph, at most
_STARTED = 20  # calls that the host starts in a row, at most; fewer than the queue of any device holds
_STARTED_SECONDS = 0.02  # time that these may take on the device


def alone(bench, call, seconds=None):
    """Returns the time of a call on this rank."""
    _batch(bench, call, 1)  # a first call may load, compile or allocate
    return _median(bench, call, _calls(_batch(bench, call, 1)), seconds)


def _median(bench, call, calls, seconds=None):
    samples, end = [], time.perf_counter() + (seconds or bench.options.seconds_per_point)
    while len(samples) < _FEWEST_BATCHES or (time.perf_counter() < end and len(samples) < _MOST_BATCHES):
        samples.append(_batch(bench, call, calls) / calls)
    return statistics.median(samples)


def of_device(bench, call):
    """Returns the members of a row that was measured on this rank: `time_seconds` of a call and,
    except on the CPU, `host_seconds` that the host takes to start it, and `is_in_graph`, which is
    False if the calls could not be recorded: then time_seconds is the host's where that is
    longer."""
    _batch(bench, call, 1)
    calls = _calls(_batch(bench, call, 1))
    if bench.module is None:
        return {"time_seconds": _median(bench, call, calls)}
    host = _host(bench, call)
    time_seconds = _replayed(bench, call, min(calls, _RECORDED))
    is_in_graph = time_seconds is not None
    if not is_in_graph:
        time_seconds = _median(bench, call, calls)
    return {"time_seconds": time_seconds, "host_seconds": host, "is_in_graph": is_in_graph}


def _replayed(bench, call, calls):
    """Returns the time of a call in a graph of `calls`, or None if they cannot be recorded. If the
    host was slower than the device, more calls fit into a batch than it seemed, and the graph is
    recorded again with more."""
    graph = _record(bench, call, calls)
    if graph is None:
        return None
    _batch(bench, graph.replay, 1)
    fitting = min(_RECORDED, _calls(_batch(bench, graph.replay, 1) / calls))
    if fitting > calls:
        graph, calls = _record(bench, call, fitting), fitting
    return alone(bench, graph.replay) / calls


def _record(bench, call, calls):
    """Returns a graph of the calls, or None if there is none: the device has no graphs, its PyTorch is
    too old for them, or a call waits for the device."""
    if not bench.row.graph:
        return None
    graph = getattr(bench.module, bench.row.graph)()
    try:
        # Other threads, such as one that watches over collectives, may go on meanwhile.
        with bench.module.graph(graph, stream=bench.module.current_stream(), capture_error_mode="thread_local"):
            for _ in range(calls):
                call()
    except (RuntimeError, TypeError):
        bench.synchronize()
        return None
    return graph


def _host(bench, call):
    count = max(1, min(_STARTED, int(_STARTED_SECONDS / _batch(bench, call, 1))))
    samples = []
    for _ in range(_FEWEST_BATCHES):
        bench.synchronize()
        start = time.perf_counter()
        for _ in range(count):
            call()
        samples.append((time.perf_counter() - start) / count)
    bench.synchronize()
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
