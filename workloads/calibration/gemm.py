"""Item `gemm`: the matrix products of the three passes of a linear layer, and the batched products
of unfused attention."""

import math

import torch

from . import timing
from .bench import fp8_product
from .point import Point, Skip
from .shapes import batched_design, design

_LONGEST_SECONDS = 0.3  # limit for the largest product
_PROBE = 512  # each dimension of the product that sets the scale of the design
_BATCHED = 8  # number of shapes
_FP8_ROWS = 16


def points(bench, notes):
    smallest = 64 if bench.module is None else 128
    reasons = {name: bench.alone(lambda name=name: bench.runs(name)) for name in bench.options.precisions}
    notes += [why for why in reasons.values() if why]
    if all(reasons.values()):
        raise Skip("; ".join(notes))
    for precision, why in reasons.items():
        if why:
            continue
        largest = largest_size(bench, precision)
        is_fp8 = precision == "fp8"  # takes whole groups of rows, and no batches
        batched = [] if is_fp8 else batched_design(2 if bench.options.quick else _BATCHED, largest)
        for shape in design(bench.options.gemm_shapes, smallest, largest):
            if not is_fp8 or shape[0] % _FP8_ROWS == 0:
                yield from _passes(bench, precision, (1, *shape))
        for shape in batched:
            yield from _passes(bench, precision, shape)


def _passes(bench, precision, shape):
    count, m, n, k = shape
    for name in ("forward", "input_gradient", "weight_gradient"):
        # Gradients of 16 bits may also be accumulated in fp32.
        for adds in (False, True) if name == "weight_gradient" and precision != "fp32" and count == 1 else (False,):
            row = {"precision": precision, "pass": name, "count": count, "m": m, "n": n, "k": k,
                   "accumulates_fp32": adds}
            yield Point(row, lambda row=row: prepare(bench, row))


def prepare(bench, row):
    """Returns the call that this row measures, with operands laid out as in the layer. In fp8 the
    matrix units take only rows times rows, so that gradients need transposed copies; these are
    memory-bound and not part of the row. Only the forward pass sums in the units' shorter
    format."""
    count, m, n, k = (row[name] for name in ("count", "m", "n", "k"))
    batch = (count,) if count > 1 else ()
    multiply = torch.bmm if batch else torch.mm

    def operand(*sizes):
        return bench.random(*batch, *sizes, precision=row["precision"])
    if row["precision"] == "fp8":
        product = fp8_product(operand(m, k), operand(n, k), row["pass"] == "forward")
        total = torch.zeros(m, n, device=bench.device) if row["accumulates_fp32"] else None
        return product if total is None else lambda: total.add_(product())
    if row["pass"] == "forward":  # X[m,k] W[n,k]^T
        a, b = operand(m, k), operand(n, k).transpose(-2, -1)
    elif row["pass"] == "input_gradient":  # A[m,k] B[k,n]
        a, b = operand(m, k), operand(k, n)
    else:  # A[k,m]^T B[k,n]
        a, b = operand(k, m).transpose(-2, -1), operand(k, n)
    if row["accumulates_fp32"]:
        total = torch.zeros(m, n, device=bench.device)
        return lambda: total.add_(multiply(a, b))
    out = torch.empty(*batch, m, n, device=bench.device, dtype=a.dtype)
    return lambda: multiply(a, b, out=out)


def largest_size(bench, precision):
    """Returns the largest size of the design: a power of two whose cube takes about
    _LONGEST_SECONDS. It is stored in the file, because a later run must continue with the same
    design."""
    sizes = bench.document["items"]["gemm"].setdefault("largest_sizes", {})
    if precision not in sizes:
        sizes[precision] = bench.alone(lambda: _fitting_size(bench, precision))
    return sizes[precision]


def _fitting_size(bench, precision):
    if bench.options.quick:
        return 256
    row = {"precision": precision, "pass": "forward", "count": 1, "m": _PROBE, "n": _PROBE, "k": _PROBE,
           "accumulates_fp32": False}
    rate = 2 * _PROBE**3 / timing.alone(bench, prepare(bench, row))
    size = (_LONGEST_SECONDS * rate / 2) ** (1 / 3)
    return min(16384, max(1024, 2 ** round(math.log2(size))))
