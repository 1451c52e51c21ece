"""Item `grouped_gemm`: the products of all experts of a layer in one kernel, for the three passes.
Every expert gets as many tokens."""

import torch
import torch.nn.functional as F

from .point import Point, Skip

_EXPERTS = (4, 16, 64)  # on one device
_TOKENS = (64, 256, 1024, 4096)  # of an expert
_SIZES = ((1536, 2048), (4096, 2048), (4096, 7168), (14336, 4096))  # (n, k) of an expert's weight
_QUICK = ((2,), (64,), ((128, 64),))
_MOST_FLOPS = 2e13


def points(bench, _notes):
    if bench.module is None:
        raise Skip("on the CPU, experts run one by one")
    if _multiply() is None:
        raise Skip(f"PyTorch {torch.__version__} has no grouped product")
    experts, tokens, sizes = _QUICK if bench.options.quick else (_EXPERTS, _TOKENS, _SIZES)
    for count, m, (n, k) in ((e, t, s) for e in experts for t in tokens for s in sizes):
        if 2 * count * m * n * k > _MOST_FLOPS:
            continue
        for name in ("forward", "input_gradient", "weight_gradient"):
            row = {"precision": "bf16", "pass": name, "expert_count": count, "tokens_per_expert": m, "n": n, "k": k}
            yield Point(row, lambda row=row: _prepare(bench, row))


def _multiply():
    return getattr(F, "grouped_mm", None) or getattr(torch, "_grouped_mm", None)


def _prepare(bench, row):
    count, m, n, k = (row[name] for name in ("expert_count", "tokens_per_expert", "n", "k"))
    multiply = _multiply()
    ends = torch.arange(m, count * m + 1, m, device=bench.device, dtype=torch.int32)

    def operand(*sizes):
        return bench.random(*sizes, precision=row["precision"])
    if row["pass"] == "forward":  # X[em,k] W[e,n,k]^T
        a, b = operand(count * m, k), operand(count, n, k).transpose(-2, -1)
    elif row["pass"] == "input_gradient":  # G[em,n] W[e,n,k]
        a, b = operand(count * m, n), operand(count, n, k)
    else:  # G[em,n]^T X[em,k], by expert
        a, b = operand(count * m, n).transpose(0, 1), operand(count * m, k)
    return lambda: multiply(a, b, offs=ends)
