"""Weights, gradients and optimizer states in flat pieces, which are shared among data-parallel
ranks (ZeRO).

A unit holds weights of one block and one kind in one flat piece. Its ranks are `shard` x `replica`:
the ranks of a shard group share the piece, and replicas of the same shard sum their gradients. ZeRO
0 is a shard group of one; a shard group smaller than data parallelism is HSDP.
"""

import torch

from . import comm


class Unit:
    def __init__(self, weights, setting):
        kind = weights[0].kind
        names = ("expert_shard", "expert_replica") if kind == "expert" else ("shard", "replica")
        self.shard_group, self.replica_group = (setting.groups[name] for name in names)
        self.weights, self.kind = weights, kind
        # With sequence parallelism, tensor-parallel ranks have different tokens, so a replicated
        # weight gets only a part of its gradient on each.
        sums_over_tensor = kind == "replicated" and setting.plan.sequence_parallel
        self.tensor_group = setting.groups["tensor"] if sums_over_tensor else None
        self.copies = self.replica_group.size * (
            setting.groups["tensor"].size if kind == "replicated" else 1)
        self.tied_group = None  # the first and last stages, for a tied embedding
        self.reduces_each_backward = setting.plan.zero_stage >= 2
        self.is_sharded = setting.plan.zero_stage == 3 and self.shard_group.size > 1
        self.gradient_dtype = setting.gradient_dtype
        self._fill(setting)

    def _fill(self, setting):
        values = [weight.initial(setting.seed, setting.device) for weight in self.weights]
        self.size = sum(value.numel() for value in values)
        ranks = self.shard_group.size
        whole = torch.zeros(-(-self.size // ranks) * ranks, device=setting.device)
        torch.cat([value.flatten() for value in values], out=whole[:self.size])
        self.flat = whole.to(setting.dtype)
        self.shard = self._part(self.flat).clone() if self.is_sharded else self._part(self.flat)
        # Adam works in fp32. It works on the weights themselves if they are fp32.
        self.master = self.shard if setting.dtype == torch.float32 else self._part(whole).clone()
        self.gradient = None  # the step's gradient: the whole piece, or this rank's shard of it
        self.states = (torch.zeros_like(self.master), torch.zeros_like(self.master))
        offset = 0
        for weight, value in zip(self.weights, values):
            # Set through `data`, because the piece is written again while autograd still keeps the
            # old weights.
            weight.tensor = torch.nn.Parameter(torch.empty(0, dtype=setting.dtype, device=setting.device))
            weight.tensor.data = self.flat[offset:offset + value.numel()].view(value.shape)
            offset += value.numel()
        self.release()

    def _part(self, piece):
        size = piece.numel() // self.shard_group.size
        return piece[self.shard_group.rank * size:(self.shard_group.rank + 1) * size]

    def gather(self):
        """Makes the weights whole before they are used."""
        if self.is_sharded and _storage(self.flat).size() == 0:
            _storage(self.flat).resize_(_storage_size(self.flat))
            with torch.no_grad():
                comm.all_gather(self.shard, self.shard_group, self.flat)

    def release(self):
        """Frees them. What autograd saved of them shares the same memory, and is whole again after
        gather()."""
        if self.is_sharded:
            _storage(self.flat).resize_(0)

    def take_gradients(self):
        """Adds what autograd left on the weights to the gradient of the step."""
        if all(weight.tensor.grad is None for weight in self.weights):
            return
        if self.gradient is None or self.reduces_each_backward:
            target = self.flat.new_zeros(self.flat.numel(), dtype=self.gradient_dtype)
        else:
            target = self.gradient
        offset = 0
        for weight in self.weights:
            size = weight.tensor.numel()
            if weight.tensor.grad is not None:
                target[offset:offset + size] += weight.tensor.grad.flatten()
            weight.tensor.grad = None
            offset += size
        if self.reduces_each_backward:
            part = comm.reduce_scatter(target, self.shard_group)
            target = part if self.gradient is None else self.gradient.add_(part)
        self.gradient = target

    def finish_gradient(self):
        """Leaves this rank's shard of the sum over all ranks that share these weights."""
        if self.gradient is None:
            shape = self.master if self.reduces_each_backward else self.flat
            self.gradient = torch.zeros(shape.numel(), dtype=self.gradient_dtype, device=shape.device)
        if not self.reduces_each_backward:
            self.gradient = comm.reduce_scatter(self.gradient, self.shard_group)
        for group in (self.replica_group, self.tensor_group, self.tied_group):
            if group is not None:
                self.gradient = comm.all_reduce(self.gradient, group)

    def square_sum(self):
        """Returns this rank's share of the square of the gradient's norm. Over all ranks, each
        weight counts once."""
        return self.gradient.float().square().sum() / self.copies

    def publish(self):
        """Sends the new weights, after the optimizer, to all ranks that use them."""
        if self.shard is not self.master:
            self.shard.copy_(self.master)
        self.release()  # weights that stayed whole are from the previous step
        if not self.is_sharded and self.shard_group.size > 1:
            comm.all_gather(self.shard.clone(), self.shard_group, self.flat)


def _storage(tensor):
    return tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage()


def _storage_size(tensor):
    """Returns the size in the storage's own unit: PyTorch 1 counts elements, PyTorch 2 the bytes of
    an untyped storage."""
    return tensor.numel() * (tensor.element_size() if hasattr(tensor, "untyped_storage") else 1)


def make_units(block, setting):
    """Returns the units of a block, one for each kind of its weights."""
    kinds = {}
    for weight in block.weights.values():
        kinds.setdefault(weight.kind, []).append(weight)
    return [Unit(weights, setting) for weights in kinds.values()]
