"""Cross entropy of logits whose vocabulary is cut across tensor-parallel ranks."""

import torch
import torch.distributed as dist

from . import comm


class _CrossEntropy(torch.autograd.Function):
    """Sends two sums and a maximum a token instead of its logits."""

    @staticmethod
    def forward(ctx, logits, labels, group):
        shifted = logits.float()
        largest = comm.all_reduce(shifted.amax(-1), group, dist.ReduceOp.MAX)
        shifted = shifted - largest[..., None]
        places = labels - group.rank * logits.shape[-1]
        is_mine = (places >= 0) & (places < logits.shape[-1])
        places = (places * is_mine)[..., None]
        wanted = comm.all_reduce(shifted.gather(-1, places)[..., 0] * is_mine, group)
        share = shifted.exp_()
        total = comm.all_reduce(share.sum(-1), group)
        ctx.save_for_backward(share.div_(total[..., None]), places, is_mine)
        ctx.dtype = logits.dtype
        return total.log() - wanted

    @staticmethod
    def backward(ctx, grad):
        share, places, is_mine = ctx.saved_tensors
        out = share.scatter_add(-1, places, -is_mine[..., None].to(share.dtype))
        return (out * grad[..., None]).to(ctx.dtype), None, None


def cross_entropy(logits, labels, group):
    """The loss of each token, in fp32."""
    return _CrossEntropy.apply(logits, labels, group)
