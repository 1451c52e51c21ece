"""Item `collectives`: communication among the ranks of one node, as the reference step runs it. A
collective that the backend lacks is made from others."""

import torch
from train import comm

from . import timing
from .bench import group_sizes
from .point import Point, Skip

KINDS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "point_to_point")
_ELEMENT = 4  # bytes of fp32, in which gradients are summed and which every backend can sum
_LONGEST_SECONDS = 0.4  # limit for a call, which is repeated five times or more


def points(bench, _notes):
    node = bench.nodes[0]
    if len(node) < 2:
        raise Skip("one rank on the node")
    for count in group_sizes(len(node)):
        group = bench.group(node[:count])
        for kind in KINDS:
            if kind == "point_to_point" and count > 2:
                continue
            yield from sweep(bench, {"kind": kind, "rank_count": count}, group, node[:count])


def sweep(bench, row, group, everyone):
    """Yields the sizes of a row until they take too long. `group` is this rank's, one of the groups
    `everyone` that the ranks are divided into."""
    taken, before = 0.0, 1
    for size in sizes(bench.options.max_bytes):
        if taken * size / before > _LONGEST_SECONDS:
            return
        # All ranks have parts of the same size.
        size = size // (_ELEMENT * row["rank_count"]) * _ELEMENT * row["rank_count"]
        if size == 0:
            continue  # less than one element for each rank
        done = yield Point({**row, "bytes": size}, lambda size=size: _prepare(bench, row["kind"], group, size),
                           lambda bench, call: {"time_seconds": _time(bench, row["kind"], call, everyone)},
                           tuple(everyone))
        if done is None:
            return
        taken, before = done["time_seconds"], size


def sizes(most):
    """Returns 11 powers of 2, from 4 KiB to 1 GiB."""
    return [size for size in (2**(12 + round(1.8 * step)) for step in range(11)) if size <= most]


def _time(bench, kind, call, everyone):
    taken = timing.together(bench, call, bench.group(everyone))
    return taken / 2 if kind == "point_to_point" else taken  # the message goes there and back


def _prepare(bench, kind, group, size):
    count = size // _ELEMENT
    whole = torch.zeros(count, device=bench.device)  # with zeros the sums stay finite, however often they are summed
    part = torch.zeros(count // group.size, device=bench.device)
    if kind == "all_reduce":
        return lambda: comm.all_reduce(whole, group)
    if kind == "all_gather":
        return lambda: comm.all_gather(part, group, whole)
    if kind == "reduce_scatter":
        return lambda: comm.reduce_scatter(whole, group)
    if kind == "all_to_all":
        return lambda: comm.all_to_all(whole, group)
    return lambda: _there_and_back(whole, group)


def _there_and_back(tensor, group):
    """Sends the tensor there and back between the first two ranks; the others do nothing."""
    if group.rank == 0:
        comm.start_send(tensor, 1, group).wait()
        comm.start_receive(tensor, 1, group).wait()
    elif group.rank == 1:
        comm.start_receive(tensor, 0, group).wait()
        comm.start_send(tensor, 0, group).wait()
