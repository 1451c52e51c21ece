"""Item `attention`: PyTorch's own fused causal attention, forward and backward."""

import contextlib

import torch
import torch.nn.functional as F
from train.attention import HAS_FUSED

from .point import LeftOut, Point, Skip

_SIZES = {  # sequence lengths, sizes of a head, heads, query heads per key-value head
    "cpu": ((128, 512, 1024), (64, 128), (8,), (1, 4)),
    "device": ((1024, 4096, 16384), (64, 128), (8, 32), (1, 4)),
    "quick": ((128,), (64,), (8,), (1, 4)),
}
_TOKENS = 4096  # tokens of a batch of short sequences on one device
_LONGEST_SECONDS = 0.4  # limit for a backward pass; longer sequences are then left out


def points(bench, _notes):
    if not HAS_FUSED:
        raise Skip(f"PyTorch {torch.__version__} has no scaled_dot_product_attention")
    kind = "quick" if bench.options.quick else "cpu" if bench.module is None else "device"
    lengths, sizes, counts, ratios = _SIZES[kind]
    for precision in _precisions(bench):
        for size, heads, ratio in ((s, h, r) for s in sizes for h in counts for r in ratios):
            for kernel in _kernels(bench, precision):
                yield from _lengths(bench, lengths, {
                    "precision": precision, "kernel": kernel, "head_dim": size, "head_count": heads,
                    "kv_head_count": heads // ratio, "is_causal": True})


def _lengths(bench, lengths, shape):
    for length in lengths:
        batch = 1 if bench.module is None else max(1, _TOKENS // length)
        row = {**shape, "batch": batch, "sequence_length": length}
        for name in ("forward", "backward"):
            done = yield Point({**row, "pass": name}, lambda row=row, name=name: _prepare(bench, row, name))
        if done is None or done["time_seconds"] > _LONGEST_SECONDS:
            return


def _precisions(bench):
    """Returns the precisions to measure. On devices, the kernels used in training take only 16
    bits."""
    named = [name for name in bench.options.precisions if bench.alone(lambda name=name: bench.runs(name)) is None]
    named = [name for name in named if name != "fp8"]
    if not named:
        raise Skip("no precision of the kernels was asked for")
    narrow = [name for name in named if name != "fp32"]
    return narrow if narrow and bench.module is not None else named


def _kernels(bench, precision):
    """Returns the names of the kernels to measure. NVIDIA's PyTorch has FlashAttention 2 and that of
    cuDNN for 16 bits; only the vendors know the kernels of other devices."""
    if bench.row.name != "cuda" or not torch.version.cuda or precision == "fp32":
        return ("vendor",)
    return ("flash2", *(("cudnn",) if hasattr(_backends(), "CUDNN_ATTENTION") else ()))


def _backends():
    """Returns the kernels that PyTorch can be told to run, or None."""
    return getattr(getattr(torch.nn, "attention", None), "SDPBackend", None)


def _only(kernel):
    """Returns a context in which PyTorch runs this kernel or fails."""
    backends = _backends()
    if kernel == "vendor" or backends is None:
        return contextlib.nullcontext()
    return torch.nn.attention.sdpa_kernel(
        backends.FLASH_ATTENTION if kernel == "flash2" else backends.CUDNN_ATTENTION)


def _prepare(bench, row, name):
    batch, length, size = row["batch"], row["sequence_length"], row["head_dim"]
    heads, kv_heads = row["head_count"], row["kv_head_count"]

    def operand(count):
        return bench.random(batch, count, length, size, precision=row["precision"]).requires_grad_(name == "backward")
    q, k, v = operand(heads), operand(kv_heads), operand(kv_heads)

    def forward():  # keys and values are repeated as in the training step
        shared = (x.repeat_interleave(heads // kv_heads, 1) if kv_heads < heads else x for x in (k, v))
        with _only(row["kernel"]):
            return F.scaled_dot_product_attention(q, *shared, is_causal=True)
    try:
        out = forward()
        if name == "forward":
            return forward
        grad = torch.randn_like(out)

        def backward():
            return torch.autograd.grad(out, (q, k, v), grad, retain_graph=True)
        backward()
        return backward
    except RuntimeError as error:
        if bench.does_not_fit(error):
            raise
        raise LeftOut(f"{row['kernel']} does not run: {error}") from error
