"""Collectives on groups. A collective that the backend lacks is made from others; groups of one do
nothing.

Tensors are gathered and scattered along their first dimension. The autograd functions below come in
pairs: the backward pass of one is the forward pass of the other.
"""

import torch
import torch.distributed as dist


def all_reduce(tensor, group, op=dist.ReduceOp.SUM):
    """Returns the sum (or maximum), possibly in place."""
    if group.size == 1:
        return tensor
    if tensor.dtype == torch.bfloat16 and not group.device.has_bf16:
        return all_reduce(tensor.float(), group, op).to(tensor.dtype)
    tensor = tensor.contiguous()
    dist.all_reduce(tensor, op, group.handle)
    return tensor


def all_gather(tensor, group, out=None):
    if group.size == 1:
        return tensor if out is None else out.copy_(tensor)
    tensor = tensor.contiguous()
    if out is None:
        out = tensor.new_empty(group.size * tensor.shape[0], *tensor.shape[1:])
    if group.device.has_gather_into_tensor:
        # It was called _all_gather_base before PyTorch 2.
        gather = getattr(dist, "all_gather_into_tensor", None) or dist._all_gather_base
        gather(out, tensor, group.handle)
    else:
        parts = [torch.empty_like(_movable(tensor, group)) for _ in range(group.size)]
        dist.all_gather(parts, _movable(tensor, group), group.handle)
        torch.cat(parts, out=_movable(out, group))
    return out


def reduce_scatter(tensor, group):
    if group.size == 1:
        return tensor
    size = tensor.shape[0] // group.size
    if not group.device.has_reduce_scatter:
        # This is a copy, because all_reduce may write into data that the caller still needs.
        whole = all_reduce(tensor.clone(memory_format=torch.contiguous_format), group)
        return whole[group.rank * size:(group.rank + 1) * size].clone()
    out = tensor.new_empty(size, *tensor.shape[1:])
    scatter = getattr(dist, "reduce_scatter_tensor", None) or dist._reduce_scatter_base
    scatter(out, tensor.contiguous(), group=group.handle)
    return out


def all_to_all(tensor, group, send=None, receive=None):
    """Sends part i of the first dimension to rank i. Parts are equal unless sizes are given."""
    if group.size == 1:
        return tensor
    rows = tensor.shape[0] if receive is None else sum(receive)
    out = tensor.new_empty(rows, *tensor.shape[1:])
    dist.all_to_all_single(_movable(out, group), _movable(tensor.contiguous(), group), receive, send,
                           group.handle)
    return out


def start_send(tensor, to, group):
    """Returns the request. The tensor must live until the request has completed."""
    return dist.isend(_movable(tensor, group), group.ranks[to], group.handle)


def start_receive(tensor, source, group):
    return dist.irecv(_movable(tensor, group), group.ranks[source], group.handle)


def shift(tensor, group):
    """Returns the tensor of the previous rank in a ring.

    Every other rank makes its receive request first. So the exchange also completes on backends that
    run the messages of a pair one after the other.
    """
    if group.size == 1:
        return tensor
    out, tensor = torch.empty_like(tensor), tensor.contiguous()
    ends = [lambda: start_send(tensor, (group.rank + 1) % group.size, group),
            lambda: start_receive(out, (group.rank - 1) % group.size, group)]
    for request in [start() for start in (ends if group.rank % 2 == 0 else reversed(ends))]:
        request.wait()
    return out


def _movable(tensor, group):
    """Returns a view of the same memory in a type that the backend can transfer."""
    if tensor.dtype == torch.bfloat16 and not group.device.has_bf16:
        return tensor.view(torch.float16)
    return tensor


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return all_gather(x, group)

    @staticmethod
    def backward(ctx, grad):
        return reduce_scatter(grad, ctx.group), None


class _Scatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return reduce_scatter(x, group)

    @staticmethod
    def backward(ctx, grad):
        return all_gather(grad, ctx.group), None


class _Copy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return all_reduce(grad.clone(), ctx.group), None


class _Reduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        return all_reduce(x.clone(), group)

    @staticmethod
    def backward(ctx, grad):
        return grad, None


class _AllToAll(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group, send, receive):
        ctx.group, ctx.send, ctx.receive = group, send, receive
        return all_to_all(x, group, send, receive)

    @staticmethod
    def backward(ctx, grad):
        return all_to_all(grad, ctx.group, ctx.receive, ctx.send), None, None, None


def gather(x, group):
    """Gathers the parts into the whole. The backward pass gives each rank the sum for its part."""
    return x if group.size == 1 else _Gather.apply(x, group)


def scatter_sum(x, group):
    """Returns this rank's part of the sum."""
    return x if group.size == 1 else _Scatter.apply(x, group)


def copy(x, group):
    """Enters a region in which each rank has its own part of the weights. The backward pass sums
    the gradients."""
    return x if group.size == 1 else _Copy.apply(x, group)


def reduce(x, group):
    """Leaves such a region: returns the whole sum on each rank."""
    return x if group.size == 1 else _Reduce.apply(x, group)


def exchange(x, group, send=None, receive=None):
    return x if group.size == 1 else _AllToAll.apply(x, group, send, receive)
