"""Cross entropy of logits whose vocabulary is split across tensor-parallel ranks."""

import math

import torch
import torch.distributed as dist

from . import comm


class _CrossEntropy(torch.autograd.Function):
    """Sends two sums and a maximum per token instead of its logits. Logits of padding are ignored,
    because padding depends on the plan; a rank may have nothing else."""

    @staticmethod
    def forward(ctx, logits, labels, vocab_size, group):
        first = group.rank * logits.shape[-1]
        shifted = logits.float() if first + logits.shape[-1] <= vocab_size else logits.float().clone()
        shifted[..., max(0, vocab_size - first):] = -math.inf
        largest = comm.all_reduce(shifted.amax(-1), group, dist.ReduceOp.MAX)
        shifted = shifted - largest[..., None]
        places = labels - first
        is_mine = (places >= 0) & (places < logits.shape[-1])
        places = (places * is_mine)[..., None]
        found = shifted.gather(-1, places)[..., 0].where(is_mine, shifted.new_zeros(()))
        wanted = comm.all_reduce(found, group)
        share = shifted.exp_()
        total = comm.all_reduce(share.sum(-1), group)
        ctx.save_for_backward(share.div_(total[..., None]), places, is_mine)
        ctx.dtype = logits.dtype
        return total.log() - wanted

    @staticmethod
    def backward(ctx, grad):
        share, places, is_mine = ctx.saved_tensors
        out = share.scatter_add(-1, places, -is_mine[..., None].to(share.dtype))
        return (out * grad[..., None]).to(ctx.dtype), None, None, None


def cross_entropy(logits, labels, vocab_size, group):
    """Returns the loss of each token, in fp32."""
    return _CrossEntropy.apply(logits, labels, vocab_size, group)
