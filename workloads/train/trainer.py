"""A model under a plan, and its training steps."""

import math
import time
import types

import torch

from . import comm, devices
from .adam import Adam, total_square_sum, update
from .attention import HAS_FUSED, positions_of
from .exit_codes import NumericError
from .pipeline import open_channels, run_pipeline
from .ranks import coordinates
from .stage import Stage

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


def uses_fused_attention(workload, plan):
    """Returns True if PyTorch's own fused attention runs, which needs the tokens of a sequence in
    order."""
    in_order = plan.context_parallel == 1 or plan.context_parallel_kind == "ulysses"
    return HAS_FUSED and in_order and workload.attention_kernel not in ("unfused", "fused_softmax")


class Trainer:
    def __init__(self, case, groups, seed, device="cpu", adam=Adam(), progress=lambda: None):
        model, workload, plan = case
        self.module = None if device == "cpu" else getattr(torch, torch.device(device).type)
        self.adam, self.step_count = adam, 0
        context, kind = groups["context"], plan.context_parallel_kind
        length = workload.sequence_length
        all_positions = [positions_of(i, context.size, length, kind) for i in range(context.size)]
        tensor = groups["tensor"].size
        local = length // context.size // (tensor if plan.sequence_parallel else 1)
        # Holds everything that blocks need besides their weights.
        self.setting = setting = types.SimpleNamespace(
            model=model, workload=workload, plan=plan, groups=groups, seed=seed, device=device,
            dtype=DTYPES[workload.precision], gradient_dtype=DTYPES[workload.gradient_dtype],
            # Padded as in Megatron-Core, so that the part of every rank suits matrix units.
            padded_vocab_size=-(-model.vocab_size // (128 * tensor)) * 128 * tensor,
            all_positions=all_positions, positions=all_positions[context.rank].to(device),
            activation_shape=(local, plan.micro_batch_size, model.hidden_size),
            tokens_a_step=workload.global_batch_size * length,
            fused_attention=uses_fused_attention(workload, plan), progress=progress)
        setting.angles = _angles(setting)
        self.stage = Stage(setting)
        self._tie_embeddings()
        open_channels(setting)
        devices.reset_peak_memory(self.module)  # whole weights existed before their parts

    def _tie_embeddings(self):
        """Ties the embedding and the output layer. Across stages, they are copies that sum their
        gradients."""
        ends = self.setting.groups["ends"]
        if not self.setting.model.tied_embeddings or ends.size == 1:
            return
        for name in ("embedding", "head"):
            for unit in self.stage.units_of.get(name, ()):
                if unit.weights[0].name == "embedding.table":
                    unit.tied_group = ends
                    unit.copies *= 2

    def batches(self, step):
        """Returns this rank's micro-batches: random tokens that depend on the seed, the step and
        the position of the sequence in the batch, but not on the plan."""
        workload, plan = self.setting.workload, self.setting.plan
        data = coordinates(plan, self.setting.groups["world"].rank)[2]
        size = plan.micro_batch_size
        count = workload.global_batch_size // (plan.data_parallel * size)
        found = []
        for micro in range(count):
            first = (micro * plan.data_parallel + data) * size
            whole = torch.stack([self._sequence(step, first + i) for i in range(size)], 1)
            places = self.setting.positions.cpu()
            found.append(types.SimpleNamespace(tokens=whole[places].to(self.setting.device),
                                               labels=whole[places + 1].to(self.setting.device)))
        return found

    def _sequence(self, step, index):
        place = (self.setting.seed * 1_000_003 + step) * 1_000_003 + index
        generator = torch.Generator().manual_seed(place % 2**63)
        return torch.randint(self.setting.model.vocab_size, (self.setting.workload.sequence_length + 1,),
                             generator=generator)

    def gradients(self, batches):
        """Runs the forward and backward passes of a step. Returns (loss, norm of the gradient)."""
        setting, world = self.setting, self.setting.groups["world"]
        loss = run_pipeline(self.stage, setting, batches)
        with torch.no_grad():
            for unit in self.stage.units:
                unit.finish_gradient()
            # Every rank of the last stage has a loss: of other tokens, or a copy on tensor-parallel
            # ranks.
            loss = comm.all_reduce(loss / setting.groups["tensor"].size, world)
            norm = total_square_sum(self.stage.units, world, setting.device).sqrt()
        return loss.item(), norm.item()

    def step(self):
        """Runs a step. Returns (seconds, loss, norm of the gradient); the seconds are those of the
        slowest rank."""
        batches = self.batches(self.step_count)  # made before the clock starts, so that a step time excludes loading
                                                 # data
        devices.synchronize(self.module)
        start = time.perf_counter()
        loss, norm = self.gradients(batches)
        if not (math.isfinite(loss) and math.isfinite(norm)):
            raise NumericError(f"step {self.step_count}: loss {loss}, gradient norm {norm}")
        self.step_count += 1
        update(self.stage.units, norm, self.step_count, self.adam)
        devices.synchronize(self.module)
        seconds = torch.tensor(time.perf_counter() - start, device=self.setting.device)
        seconds = comm.all_reduce(seconds, self.setting.groups["world"], torch.distributed.ReduceOp.MAX)
        return seconds.item(), loss, norm


def _angles(setting):
    """Returns rotary angles [tokens of this rank, half a head] (Su et al. 2021, arXiv
    2104.09864)."""
    half = setting.model.head_dim // 2
    speeds = setting.model.rotary_base ** (-torch.arange(half, device=setting.device) / half)
    return setting.positions[:, None] * speeds
