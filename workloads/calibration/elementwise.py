"""Item `elementwise`: memory-bound operations, as the reference step runs them (`eager`) and, on
devices, as one compiled kernel (`fused`), as training frameworks run them."""

import importlib
import types

import torch
import torch.nn.functional as F
from train import adam, layers, loss
from train.ranks import Group

from .point import LeftOut, Point, Skip

# Numbers of elements; --max-bytes may allow fewer.
_SIZES = (10**4, 10**6, 10**8)
_CPU_SIZES = (10**4, 10**6, 4 * 10**6)
_BYTES = 16  # bytes for an element and its states, at most: those of Adam
_WIDTH = 1024  # size of the last dimension: a hidden size
_VOCABULARY = 8192
_ALONE = Group((0,), 0, None, None)

# The data that a fused kernel would move, in arrays of element_count elements: forward and
# backward. Backward kernels read the gradient and what the forward pass kept, and write a gradient
# for each input.
_ARRAYS = {
    "layernorm": (2, 3),      # input, output | input, gradient, result
    "rmsnorm": (2, 3),
    "gelu": (2, 3),
    "swiglu": (3, 5),         # gate, value, output | gate, value, gradient, two results
    "softmax": (2, 3),        # input, output | output, gradient, result
    "add": (3, None),         # two inputs, output | the gradient is passed on unchanged
    "cross_entropy": (1, 2),  # logits | logits, result
    "permute": (2, None),     # rows, and the same in another order: tokens on their way to experts
}
_FUSED = ("layernorm", "rmsnorm", "gelu", "swiglu", "cross_entropy")
_ADAM_BYTES = 28  # bytes per element, in fp32: gradient, weight and two moments are read, the last three written


def points(bench, _notes):
    precision = next((name for name in bench.options.precisions if name != "fp8"), None)
    if precision is None:
        raise Skip("no precision of these operations was asked for")
    width = torch.finfo(bench.dtype(precision)).bits // 8
    most = bench.options.max_bytes // _BYTES
    sizes = sorted({min(size, most) // _VOCABULARY * _VOCABULARY
                    for size in (_CPU_SIZES if bench.module is None else _SIZES)})
    for kernel, name in _kernels(bench):
        for pass_name, arrays in zip(("forward", "backward"), _ARRAYS[name]):
            for count in sizes if arrays else ():
                row = {"operation": name, "pass": pass_name, "kernel": kernel, "element_count": count,
                       "bytes": arrays * count * width}
                yield Point(row, lambda row=row: _prepare(bench, row, precision))
    for count in sizes:
        row = {"operation": "adam", "pass": "forward", "kernel": "eager", "element_count": count,
               "bytes": _ADAM_BYTES * count}
        yield Point(row, lambda count=count: _adam(bench, count))


def _kernels(bench):
    found = [("eager", name) for name in _ARRAYS]
    if bench.module is not None and hasattr(torch, "compile"):
        found += [("fused", name) for name in _FUSED]
    return found


def _prepare(bench, row, precision):
    function, inputs = _operation(bench, row, precision)
    if row["kernel"] == "eager":
        return _pass(function, inputs, row["pass"])
    try:
        call = _pass(_compiled(function), inputs, row["pass"])
        call()
        return call
    except Exception as error:  # the compiler has errors of its own, and needs one of C++ on the host
        if bench.does_not_fit(error):
            raise
        raise LeftOut(f"cannot be compiled: {type(error).__name__}: {str(error)[:200]}") from error


def _pass(function, inputs, name):
    if name == "forward":
        def call():
            with torch.no_grad():
                function(*inputs)
        return call
    for one in inputs:
        one.requires_grad_()
    out = function(*inputs)
    grad = torch.randn_like(out)
    return lambda: torch.autograd.grad(out, inputs, grad, retain_graph=True)


def _compiled(function):
    """Returns the function, compiled for the sizes of its first call. A kernel for all sizes would be
    tuned for those that came first."""
    torch._dynamo.reset()
    functorch = importlib.import_module("torch._functorch.config")
    if hasattr(functorch, "donated_buffer"):
        functorch.donated_buffer = False  # the gradient is taken many times from one forward pass
    return torch.compile(function, dynamic=False)


def _operation(bench, row, precision):
    """Returns (function, inputs)."""
    name, count = row["operation"], row["element_count"]

    def random(*shape):
        return bench.random(*shape, precision=precision)
    x, scale = random(count // _WIDTH, _WIDTH), random(_WIDTH)
    if name == "layernorm":
        return layers.norm, (x, scale, random(_WIDTH))
    if name == "rmsnorm":
        return (lambda x, scale: layers.norm(x, scale, None)), (x, scale)
    if name == "gelu":
        return (lambda x: layers.activate((x,), "gelu")), (x,)
    if name == "swiglu":
        return (lambda gate, value: layers.activate((gate, value), "swiglu")), (x, torch.randn_like(x))
    if name == "softmax":
        return (lambda x: x.softmax(-1)), (x,)
    if name == "add":
        return torch.add, (x, torch.randn_like(x))
    if name == "permute":
        order = torch.randperm(len(x), device=bench.device)
        return (lambda x: x[order]), (x,)
    logits = x.view(-1, _VOCABULARY)
    labels = torch.randint(_VOCABULARY, logits.shape[:1], device=bench.device)
    if row["kernel"] == "fused":
        return (lambda logits: F.cross_entropy(logits.float(), labels, reduction="none")), (logits,)
    return (lambda logits: loss.cross_entropy(logits, labels, _VOCABULARY, _ALONE)), (logits,)


def _adam(bench, count):
    gradient = bench.random(count)
    unit = types.SimpleNamespace(master=bench.random(count), gradient=None, publish=lambda: None,
                                 states=(torch.zeros_like(gradient), torch.zeros_like(gradient)))
    settings = adam.Adam()

    def call():
        unit.gradient = gradient  # the update drops it
        adam.update([unit], 1.0, 1, settings)
    return call
