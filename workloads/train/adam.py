"""Adam in fp32 on each rank's shard, with the gradient clipped by its norm over all ranks."""

import dataclasses

import torch

from . import comm


@dataclasses.dataclass(frozen=True)
class Adam:
    learning_rate: float = 1e-4
    decay: tuple = (0.9, 0.95)  # decay rates of the first and second moments
    epsilon: float = 1e-8
    largest_norm: float = 1.0


def total_square_sum(units, world, device):
    """Returns the sum of squares over the gradient of the whole model. It is the same on all
    ranks."""
    mine = sum((unit.square_sum() for unit in units), torch.zeros((), device=device))
    return comm.all_reduce(mine, world)


@torch.no_grad()
def update(units, norm, step, adam):
    """Updates the weights. `step` counts from 1."""
    scale = min(1.0, adam.largest_norm / (norm + 1e-6))
    first_decay, second_decay = adam.decay
    for unit in units:
        first, second = unit.states
        gradient = unit.gradient.float() * scale
        first.lerp_(gradient, 1 - first_decay)
        second.mul_(second_decay).addcmul_(gradient, gradient, value=1 - second_decay)
        spread = (second / (1 - second_decay ** step)).sqrt_().add_(adam.epsilon)
        unit.master.addcdiv_(first, spread, value=-adam.learning_rate / (1 - first_decay ** step))
        unit.gradient = None
        unit.publish()
