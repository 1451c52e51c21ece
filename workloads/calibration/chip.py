"""Item `device`: what an operation costs beside its work, and what the chip's PyTorch has."""

import torch
import torch.nn.functional as F
from train import devices

from . import timing
from .point import Point

_PRECISIONS = ("fp32", "bf16", "fp16")
_QUEUED = 200  # operations: fewer than any queue of a device holds


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
    """Each awaited: launch, run and the way back."""
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
    """What the runtime takes before the first tensor; None where the device does not tell. Others that use the same
    device at this time count as well."""
    if module is None:
        return devices.resident_before_model()
    if not hasattr(module, "mem_get_info"):
        return None
    free, total = module.mem_get_info()
    return total - free
