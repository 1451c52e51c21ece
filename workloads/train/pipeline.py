"""Runs the passes of one stage, and sends activations and gradients between stages."""

import torch

from . import comm
from .schedules import passes


class Neighbours:
    """The sources of a pass's input and the targets of its output: (peer, channel), or None at the
    ends of the model. Chunk c of stage i is followed by chunk c of stage i + 1, and that of the
    last stage by chunk c + 1 of the first."""

    def __init__(self, stage, stages, chunks):
        self.stage, self.stages, self.chunks = stage, stages, chunks

    def source(self, one):
        return self._before(one, "forward") if one.is_forward else self._behind(one, "backward")

    def target(self, one):
        return self._behind(one, "forward") if one.is_forward else self._before(one, "backward")

    def _before(self, one, channel):
        if self.stage > 0:
            return self.stage - 1, channel
        return (self.stages - 1, f"{channel}_wrap") if one.chunk > 0 else None

    def _behind(self, one, channel):
        if self.stage + 1 < self.stages:
            return self.stage + 1, channel
        return (0, f"{channel}_wrap") if one.chunk + 1 < self.chunks else None


def open_channels(setting):
    """Sends a number along every channel once. Backends connect two ranks at their first message. A
    rank that waits to receive would otherwise block before it has sent what the other waits for."""
    pipeline, plan = setting.groups["pipeline"], setting.plan
    last = pipeline.size - 1
    hops = {"forward": [(i, i + 1) for i in range(last)],
            "backward": [(i + 1, i) for i in reversed(range(last))]}
    if plan.virtual_pipeline > 1:
        hops.update({"forward_wrap": [(last, 0)], "backward_wrap": [(0, last)]})
    for channel, pairs in hops.items():
        for source, target in pairs:
            number = torch.zeros(1, device=setting.device)
            if pipeline.rank == source:
                comm.start_send(number, target, setting.groups[channel]).wait()
            elif pipeline.rank == target:
                comm.start_receive(number, source, setting.groups[channel]).wait()


def run_pipeline(stage, setting, batches):
    """Runs one forward and backward pass of every micro-batch. Returns the sum of the losses, on
    the last stage."""
    plan, group = setting.plan, setting.groups["pipeline"]
    order = passes(plan.schedule, group.rank, group.size, plan.virtual_pipeline, len(batches))
    neighbours = Neighbours(group.rank, group.size, plan.virtual_pipeline)
    loss = torch.zeros((), device=setting.device)
    sending = []  # (request, tensor that is sent)
    coming = _receive(neighbours, order[0], setting)
    for i, one in enumerate(order):
        request, given = coming
        if request is not None:
            request.wait()
        # The next input is requested early, so that it travels while this pass runs.
        coming = _receive(neighbours, order[i + 1], setting) if i + 1 < len(order) else None
        if one.is_forward:
            out = stage.forward(one, given, batches[one.micro])
            if neighbours.target(one) is None:
                loss, out = loss + out, None
        else:
            out = stage.backward(one, given, batches[one.micro])
        target = neighbours.target(one)
        if target is not None:
            out = out.contiguous()
            sending = [pair for pair in sending if not pair[0].is_completed()]
            sending.append((comm.start_send(out, target[0], setting.groups[target[1]]), out))
    for request, _ in sending:
        request.wait()
    return loss


def _receive(neighbours, one, setting):
    """Returns (request, the tensor to come) for a pass; (None, None) if it has no input."""
    source = neighbours.source(one)
    if source is None:
        return None, None
    given = torch.empty(setting.activation_shape, dtype=setting.dtype, device=setting.device)
    return comm.start_receive(given, source[0], setting.groups[source[1]]), given
