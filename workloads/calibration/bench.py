"""The place where a rank measures: its device, its groups, and how the ranks agree on the next
step."""

import json
import math
import os
import platform

import torch
import torch.distributed as dist
from train import comm, devices
from train.exit_codes import ExitCode, classify
from train.ranks import Group

_NAME_LENGTH = 64  # characters of a node's name, in the tensor that carries all names


class PointFailed(Exception):
    """A measurement failed. Raised on all ranks alike."""


class Bench:
    def __init__(self, rank, row, options, device, progress=lambda: None):
        self.rank, self.local_rank, self.row, self.options = rank.rank, rank.local_rank, row, options
        self.device, self.progress = device, progress
        self.module = devices.module_of(row)
        self.document = None  # rank 0's document, of which every rank has a copy
        self.context_bytes = None  # memory that the runtime took first, if known
        self._groups = {}
        self.world = self.group(range(rank.world_size), is_whole=True)
        self.nodes = self._nodes()  # the ranks of each node, in order

    def group(self, ranks, is_whole=False):
        """Returns a group, or None on a rank that is not in it. Every rank makes every group, in
        the same order."""
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
        """Returns rank 0's value, which JSON can hold, on all ranks. Uses all_reduce, because a
        backend may lack other collectives."""
        text = json.dumps(value).encode() if self.rank == 0 else b""
        size = comm.all_reduce(torch.tensor([len(text)], device=self.device), self.world).item()
        padded = torch.zeros(size, dtype=torch.int32)
        padded[:len(text)] = torch.tensor(list(text), dtype=torch.int32)
        return json.loads(bytes(comm.all_reduce(padded.to(self.device), self.world).tolist()))

    def alone(self, function):
        """Returns what the function returns on rank 0. If it raises, all ranks raise
        PointFailed."""
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
        """Frees the memory that the allocator caches, which others could not use."""
        if hasattr(self.module, "empty_cache"):
            self.module.empty_cache()

    def dtype(self, precision):
        if precision == "fp8":
            return torch.float8_e4m3fn
        return {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[precision]

    def random(self, *shape, precision="fp32"):
        """Returns random operands. They are not zeros, because with zeros a chip draws less power
        and runs faster than in use."""
        if precision == "fp8":
            return self.random(*shape, precision="bf16").to(self.dtype(precision))
        return torch.randn(*shape, device=self.device, dtype=self.dtype(precision))

    def runs(self, precision):
        """Returns None if a GEMM runs in this precision, else the reason why it does not."""
        try:
            one = torch.ones(64, 64, device=self.device).to(self.dtype(precision))
            if precision == "fp8":
                if not isinstance(fp8_product(one, one, True)(), torch.Tensor):
                    return f"{precision}: this PyTorch's _scaled_mm returns more than the product"
            else:
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


def fp8_product(a, b, is_fast):
    """Returns a call that multiplies a [m, k] by b [n, k]^T, both fp8 with one scale each, to bf16.
    `is_fast` sums in the shorter format of the matrix units."""
    one = torch.ones((), device=a.device)
    return lambda: torch._scaled_mm(a, b.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16,
                                    use_fast_accum=is_fast)


def group_sizes(most):
    """Returns 2, 4, 8, ... and `most`, which need not be a power of two."""
    if most < 2:
        return []
    return sorted({2**power for power in range(1, int(math.log2(most)) + 1)} | {most})
