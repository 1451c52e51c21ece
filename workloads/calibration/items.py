"""Runs the items: keeps the rows that the file has, notes what fails, and continues with the
rest."""

import json
import os
import sys
import time
import traceback

from . import (attention, chip, collectives, document, elementwise, flags, gemm, grouped_gemm, host_link, memory,
               network, overlap, step, sustained)
from .bench import PointFailed
from .point import LeftOut, Skip

MODULES = {"device": chip, "memory": memory, "gemm": gemm, "sustained_gemm": sustained, "grouped_gemm": grouped_gemm,
           "attention": attention, "elementwise": elementwise, "collectives": collectives, "network": network,
           "host_link": host_link, "overlap": overlap, "step": step}
_SAVE_SECONDS = 2  # seconds between two writes of the file within an item, which a killed run may lose
_UNFINISHED = "the run ended before it was done"
_PARENT = os.getppid()
_NONE, _NO_MEMORY, _LEFT_OUT, _OTHER = 0, 1, 2, 3


def run_all(bench, modules=None):
    options, items = bench.options, bench.document["items"]
    modules = modules or MODULES
    for name in document.ITEMS:
        if name in flags.asked(options):
            _run_item(bench, name, modules[name])
        elif name in options.skip and not items[name]["rows"]:
            items[name] = {**items[name], "status": "skipped", "reason": "--skip"}
    _save(bench)


def _run_item(bench, name, module):
    if bench.options.again:
        bench.document["items"][name] = document.skipped("")
    item = bench.document["items"][name]
    before, start = item["seconds"], time.perf_counter()
    item["status"], item["reason"] = "failed", _UNFINISHED
    notes = []
    try:
        _go_through(bench, item, module.points(bench, notes), notes)
        item["status"], item["reason"] = "measured", "; ".join(notes)
    except Skip as why:
        item["status"], item["reason"] = "skipped", str(why)
    except Exception as error:
        item["reason"] = str(error) if isinstance(error, PointFailed) else f"{type(error).__name__}: {error}"
        if not isinstance(error, PointFailed):
            traceback.print_exc()
    bench.release_memory()
    taken = time.perf_counter() - start
    item["seconds"] = before + taken
    _save(bench)
    if bench.rank == 0:
        why = f" ({item['reason']})" if item["reason"] else ""
        print(f"microbench: {name}: {item['status']}{why}, {len(item['rows'])} rows, {taken:.1f} s", file=sys.stderr,
              flush=True)


def _go_through(bench, item, points, notes):
    rows, names, kept, saved = item["rows"], None, {}, time.monotonic()
    row = None
    while True:
        try:
            point = points.send(row)
        except StopIteration:
            return
        if names is None:  # all rows of an item have the same members
            names = tuple(point.row)
            kept = {_key(old, names): old for old in rows}
        row = kept.get(_key(point.row, names))
        if row is None:
            row, why = _measured(bench, point)
            if row is None:
                notes.append(why)
            else:
                rows.append(row)
                kept[_key(row, names)] = row
        if time.monotonic() - saved > _SAVE_SECONDS:
            _save(bench)
            saved = time.monotonic()


def _key(row, names):
    return json.dumps([row.get(name) for name in names], sort_keys=True)


def _measured(bench, point):
    """Returns (finished row, ""), or (None, reason) if a rank has too little memory or leaves the
    point out. The ranks agree on that before they meet in a collective, so that none waits for one
    that cannot take part."""
    takes_part, prepared, found = bench.rank in point.ranks, None, {}

    def attempt(function):
        nonlocal error, severity
        try:
            return function() if takes_part else None
        except Exception as raised:
            kind = "" if isinstance(raised, LeftOut) else f"{type(raised).__name__}: "
            error = f"{json.dumps(point.row)}: {kind}{raised}"
            severity = (_LEFT_OUT if isinstance(raised, LeftOut) else
                        _NO_MEMORY if bench.does_not_fit(raised) else _OTHER)
            return None
    error, severity = f"{json.dumps(point.row)}: on another rank, whose standard error tells", _NONE
    prepared = attempt(point.prepare)
    if bench.largest(severity) == _NONE:
        found = attempt(lambda: point.measure(bench, prepared))
    prepared = None
    worst = bench.largest(severity)
    if severity in (_LEFT_OUT, _OTHER) and bench.rank != 0:
        print(f"microbench: rank {bench.rank}: {error}", file=sys.stderr)
    if worst != _NONE:
        bench.release_memory()
    bench.progress()
    found, error = bench.tell([found, error])
    if worst == _OTHER:
        raise PointFailed(error)
    if worst == _NO_MEMORY:
        return None, f"does not fit in memory: {json.dumps(point.row)}"
    return (None, error) if worst == _LEFT_OUT else ({**point.row, **found}, "")


def _save(bench):
    if bench.rank == 0:
        if bench.options.is_started and os.getppid() != _PARENT:
            os._exit(1)  # the process that started us was killed, and another run may already use the file
        document.save(bench.options.output, bench.document)
