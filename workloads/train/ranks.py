"""Finds which rank this process is, and which ranks form groups."""

import dataclasses
import os

import torch.distributed as dist
from measure.slurm import is_batch_script

# The environment variables of torchrun and similar launchers, and of Slurm's srun.
_NAMES = (("RANK", "WORLD_SIZE", "LOCAL_RANK"), ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"))


@dataclasses.dataclass(frozen=True)
class Rank:
    rank: int
    world_size: int
    local_rank: int


def rank_from_environment(may_start_others=False, environment=os.environ):
    """Returns this process's rank, or None if nothing started it as one of several. A batch script
    of Slurm counts as one of several only if it may not start others. Raises ValueError."""
    for names in _NAMES:
        if all(name in environment for name in names):
            if "SLURM_PROCID" in names and may_start_others and is_batch_script(environment):
                return None
            numbers = [environment[name] for name in names]
            if not all(map(str.isdecimal, numbers)) or not int(numbers[0]) < int(numbers[1]):
                told = ", ".join(f"{name}={number!r}" for name, number in zip(names, numbers))
                raise ValueError(f"{told} in the environment: must be whole numbers, the first below the second")
            return Rank(*map(int, numbers))
    return None


@dataclasses.dataclass(frozen=True)
class Group:
    """Ranks that communicate. `rank` is this process's position among them."""
    ranks: tuple
    rank: int
    handle: object  # from torch.distributed; None for a group of one
    device: object  # a Device, which says what its backend can do

    @property
    def size(self):
        return len(self.ranks)


def coordinates(plan, rank):
    """Returns (tensor, context, data, stage) of a rank. The first changes fastest, as rank_order
    says."""
    t, c, d, p = (plan.tensor_parallel, plan.context_parallel, plan.data_parallel,
                  plan.pipeline_parallel)
    rest = rank // (t * c)
    data, stage = (rest // p, rest % p) if plan.rank_order == "tp-cp-ep-pp-dp" else (rest % d, rest // d)
    return rank % t, rank // t % c, data, stage


def partitions(plan):
    """Returns a function that gives a rank's key for a kind of group. Ranks with equal keys form a
    group.

    Experts are folded into the tensor x context x data ranks of a stage, numbered by `within`:
    expert_tensor_parallel neighbours share an expert, and expert_parallel such sets hold all experts.
    """
    t, c, d = plan.tensor_parallel, plan.context_parallel, plan.data_parallel
    shard = plan.zero_group_size or d * c
    if plan.zero_stage == 0:
        shard = 1
    x, ex = plan.expert_tensor_parallel, plan.expert_tensor_parallel * plan.expert_parallel
    expert_shard = t * c * d // ex if plan.zero_stage else 1

    def key(kind, tensor, context, data, stage):
        gradient = context + c * data  # position among the ranks with the same dense weights
        within = tensor + t * gradient
        return {
            "world": (),
            "tensor": (stage, gradient),
            "context": (stage, tensor, data),
            "pipeline": (tensor, gradient),
            "shard": (stage, tensor, gradient // shard),
            "replica": (stage, tensor, gradient % shard),
            "expert_tensor": (stage, within // x),
            "expert": (stage, within % x, within // ex),
            "expert_shard": (stage, within % ex, within // ex // expert_shard),
            "expert_replica": (stage, within % ex, within // ex % expert_shard),
            # The first and last stages both hold a tied embedding; all others are groups of one.
            "ends": (tensor, gradient, 0 if stage in (0, plan.pipeline_parallel - 1) else stage),
        }[kind]
    return key


KINDS = ("world", "tensor", "context", "pipeline", "shard", "replica", "expert_tensor", "expert",
         "expert_shard", "expert_replica", "ends")

# Messages between stages use one communicator per direction, and two more between the last stage
# and the first, so that two ranks never wait for each other's first message (NCCL has no tags).
CHANNELS = ("forward", "backward", "forward_wrap", "backward_wrap")


def make_groups(plan, rank, world_size, device):
    """Returns {kind or channel: this rank's group}. Every rank makes every group, in the same
    order."""
    handles, mine = {}, {}

    def make(name, ranks, shared_key):
        if len(ranks) > 1 and shared_key not in handles:
            handles[shared_key] = dist.new_group(ranks)
        if rank in ranks:
            mine[name] = Group(tuple(ranks), ranks.index(rank), handles.get(shared_key), device)

    key = partitions(plan)
    for kind in KINDS:
        groups = {}
        for other in range(world_size):
            groups.setdefault(key(kind, *coordinates(plan, other)), []).append(other)
        for ranks in groups.values():
            make(kind, ranks, tuple(ranks))
            if kind == "pipeline":
                for channel in CHANNELS[:4 if plan.virtual_pipeline > 1 else 2]:
                    make(channel, ranks, (channel, *ranks))
    return mine
