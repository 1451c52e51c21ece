"""Where a rank measures: its device, its groups, and how the ranks agree on what comes next."""

import json
import math
import os
import platform

import torch
import torch.distributed as dist
from train import comm, devices
from train.exit_codes import ExitCode, classify
from train.ranks import Group

_NAME_LENGTH = 64  # of a node, in the tensor that carries the names of all


class PointFailed(Exception):
    """Raised on all ranks alike."""


class Bench:
    def __init__(self, rank, row, options, device, progress=lambda: None):
        self.rank, self.local_rank, self.row, self.options = rank.rank, rank.local_rank, row, options
        self.device, self.progress = device, progress
        self.module = devices.module_of(row)
        self.document = None  # rank 0's, of which every rank has a copy
        self.context_bytes = None  # what the runtime took before all else, where it is known
        self._groups = {}
        self.world = self.group(range(rank.world_size), is_whole=True)
        self.nodes = self._nodes()  # the ranks of each, in order

    def group(self, ranks, is_whole=False):
        """Every rank makes every group, in the same order; None for a rank that is not in it."""
        ranks = tuple(ranks)
        if ranks not in self._groups:
            handle = dist.new_group(ranks) if len(ranks) > 1 and not is_whole else None
            self._groups[ranks] = handle
        if self.rank not in ranks:
            return None
        return Group(ranks, ranks.index(self.rank), self._groups[ranks], self.row)

    def synchronize(self):
        devices.synchronize(self.module)

    def barrier(self, group):
        comm.all_reduce(torch.zeros(1, device=self.device), group)
        self.synchronize()

    def largest(self, value, group=None):
        value = torch.tensor(float(value), device=self.device)
        return comm.all_reduce(value, group or self.world, dist.ReduceOp.MAX).item()

    def tell(self, value):
        """What rank 0 has, which JSON can hold. By all_reduce: what else a backend has is not certain."""
        text = json.dumps(value).encode() if self.rank == 0 else b""
        size = comm.all_reduce(torch.tensor([len(text)], device=self.device), self.world).item()
        padded = torch.zeros(size, dtype=torch.int32)
        padded[:len(text)] = torch.tensor(list(text), dtype=torch.int32)
        return json.loads(bytes(comm.all_reduce(padded.to(self.device), self.world).tolist()))

    def alone(self, function):
        """What the function gives on rank 0; a PointFailed on all ranks where it raises."""
        found = error = None
        if self.rank == 0:
            try:
                found = function()
            except Exception as raised:
                error = f"{type(raised).__name__}: {raised}"
        found, error = self.tell([found, error])
        if error:
            raise PointFailed(error)
        return found

    def does_not_fit(self, error):
        return classify(error, self.row.name == "cpu") in (ExitCode.OUT_OF_DEVICE_MEMORY,
                                                           ExitCode.OUT_OF_HOST_MEMORY)

    def release_memory(self):
        """What the allocator keeps for itself would be missing elsewhere."""
        if hasattr(self.module, "empty_cache"):
            self.module.empty_cache()

    def dtype(self, precision):
        return {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[precision]

    def random(self, *shape, precision="fp32"):
        """Not zeros: with those a chip draws less power, and runs faster, than it will in use."""
        return torch.randn(*shape, device=self.device, dtype=self.dtype(precision))

    def runs(self, precision):
        """None, or why a GEMM does not run in it."""
        try:
            one = torch.ones(64, 64, device=self.device, dtype=self.dtype(precision))
            torch.mm(one, one)
            self.synchronize()
            return None
        except Exception as error:
            return f"{precision}: {error}"

    def _nodes(self):
        world = self.world.size
        # Several nodes of Slurm may share a machine.
        name = os.environ.get("SLURMD_NODENAME") or platform.node()
        names = torch.zeros(world, _NAME_LENGTH, dtype=torch.int64)
        text = name.encode()[:_NAME_LENGTH]
        names[self.rank, :len(text)] = torch.tensor(list(text))
        nodes = {}
        for rank, one in enumerate(comm.all_reduce(names.to(self.device), self.world).tolist()):
            nodes.setdefault(tuple(one), []).append(rank)
        return list(nodes.values())


def group_sizes(most):
    """2, 4, 8, ... and the most, which need be no power of two."""
    if most < 2:
        return []
    return sorted({2**power for power in range(1, int(math.log2(most)) + 1)} | {most})
