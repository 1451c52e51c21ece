"""Item `device`: the overhead of an operation, and the features of the chip's PyTorch."""

import torch
import torch.nn.functional as F
from train import devices

from . import timing
from .point import Point

_PRECISIONS = ("fp32", "bf16", "fp16", "fp8")
_QUEUED = 200  # operations; fewer than the queue of any device holds


def points(bench, _notes):
    yield Point({}, lambda: torch.ones(1, device=bench.device), _measure)


def _measure(bench, one):
    eager, streams = _one_by_one(bench, one), getattr(bench.module, "Stream", None)
    return {
        "eager_op_seconds": eager,
        # The CPU has no queue.
        "queued_op_seconds": eager if bench.module is None else timing.alone(bench, lambda: _queue(one)) / _QUEUED,
        "stream_creation_seconds": timing.alone(bench, streams) if streams else 0.0,
        "precisions": [name for name in _PRECISIONS if bench.runs(name) is None],
        "has_fused_attention": hasattr(F, "scaled_dot_product_attention"),
        **({} if bench.context_bytes is None else {"runtime_context_bytes": bench.context_bytes})}


def _one_by_one(bench, one):
    """Runs the operations and waits after each: launch, execution and return."""
    if bench.module is None:
        return timing.alone(bench, lambda: one.add_(1))

    def call():
        one.add_(1)
        bench.synchronize()
    return timing.alone(bench, call)


def _queue(one):
    for _ in range(_QUEUED):
        one.add_(1)


def context_bytes(module):
    """Returns the memory that the runtime takes before the first tensor, or None if the device does
    not report it. Memory of other users of the device counts as well."""
    if module is None:
        return devices.resident_before_model()
    if not hasattr(module, "mem_get_info"):
        return None
    free, total = module.mem_get_info()
    return total - free
