"""Item `memory`: the speed of reading and writing memory, for working sets from those that fit in
caches to those that do not."""

import torch

from .point import Point

_SMALLEST = 2**16
_LARGEST = 2**30
_ELEMENT = 4  # bytes of fp32

# name -> (arrays, the call on them). Each array is passed once, so the working set is what is
# moved.
_OPERATIONS = {
    "copy": (2, lambda to, a: to.copy_(a)),
    "scale": (2, lambda to, a: torch.mul(a, 3.0, out=to)),
    "triad": (3, lambda to, a, b: torch.add(a, b, alpha=3.0, out=to)),
}


def points(bench, _notes):
    for name, (arrays, call) in _OPERATIONS.items():
        size = _SMALLEST
        while size <= min(_LARGEST, bench.options.max_bytes):
            count = size // (arrays * _ELEMENT)
            moved = count * arrays * _ELEMENT
            yield Point({"operation": name, "bytes": moved, "working_set_bytes": moved},
                        lambda arrays=arrays, call=call, count=count: _prepare(bench, arrays, call, count))
            size *= 4


def _prepare(bench, arrays, call, count):
    operands = [torch.ones(count, device=bench.device) for _ in range(arrays)]
    return lambda: call(*operands)
