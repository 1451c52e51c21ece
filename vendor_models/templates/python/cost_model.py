#!/usr/bin/python3
"""A vendor's cost model as a Python program that serves meshwright.costmodel.v1 on --socket.

A template: a roofline model whose answers to all questions are plausible but not exact. Adapt
`judge` and keep the rest. generate.sh generates the code that it imports.
"""

import argparse
import itertools
import math
import os
import sys
import threading
from concurrent import futures

import grpc

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "generated"))
import health_pb2  # noqa: E402
import health_pb2_grpc  # noqa: E402
from meshwright.costmodel.v1 import costmodel_pb2 as wire  # noqa: E402
from meshwright.costmodel.v1 import costmodel_pb2_grpc  # noqa: E402

PRECISIONS = ("bf16", "fp16", "fp8", "fp32")
KERNELS = ("unfused", "fused_softmax", "flash1", "flash2", "flash3", "cudnn", "vendor")
LINES = ("matmul", "memory_bound", "tensor_parallel", "pipeline_bubble")
MAX_BATCH = 4096

# The columns that this model uses, with their defaults; only the lengths of the others are checked.
DEFAULTS = {
    "tensor_parallel": 1,
    "pipeline_parallel": 1,
    "virtual_pipeline": 1,
    "data_parallel": 1,
    "context_parallel": 1,
    "micro_batch_size": 1,
    "zero_stage": 0,
    "schedule": wire.SCHEDULE_1F1B,
    "recompute": wire.RECOMPUTE_GRANULARITY_NONE,
    "optimizer_offload_ratio": 0.0,
}
LISTS = ("layers_per_stage", "recompute_layers", "selective_layers")


class Refused(Exception):
    """Raised if the question or a batch is wrong."""


class Context:
    """The values that are the same for all candidates of a question."""

    def __init__(self, request):
        model, workload = request.model, request.workload
        if len(request.cluster.pools) != 1:
            raise Refused("cluster.pools: one pool is supported")
        if workload.precision not in PRECISIONS:
            raise Refused(f"workload.precision '{workload.precision}' is not known")
        if workload.attention_kernel not in KERNELS:
            raise Refused(f"workload.attention_kernel '{workload.attention_kernel}' is not known")
        # Operators that GetInfo does not list must be refused, not guessed.
        if model.HasField("mla"):
            raise Refused("model.mla is not modelled")
        for field in ("sliding_window", "mtp_layer_count"):
            if getattr(model, field) > 0:
                raise Refused(f"model.{field} is not modelled")
        pool = request.cluster.pools[0]
        peaks = {peak.precision: peak.flops_per_second for peak in pool.chip.peaks}
        self.peak = peaks.get(workload.precision, 0)
        if not self.peak > 0:
            raise Refused(f"the chip states no peak of {workload.precision}")
        sizes = (model.layer_count, model.hidden_size, model.parameter_count, workload.sequence_length,
                 workload.global_batch_size, pool.devices_per_node, pool.node_count,
                 pool.chip.memory_bandwidth_bytes_per_second, pool.intra_node.bandwidth_bytes_per_second)
        if not all(size > 0 for size in sizes):
            raise Refused("the model, the workload or the pool lacks a size or a bandwidth")
        self.devices_per_node = pool.devices_per_node
        self.devices = pool.devices_per_node * pool.node_count
        self.batch = workload.global_batch_size
        self.tokens = workload.sequence_length
        self.hidden = model.hidden_size
        self.layers = model.layer_count
        self.parameters = model.parameter_count
        width = model.attention_head_count * model.head_dim
        self.flops = 6 * self.batch * self.tokens * (
            model.active_parameter_count + self.layers * width * self.tokens)
        self.memory_bandwidth = 0.8 * pool.chip.memory_bandwidth_bytes_per_second
        self.capacity = pool.memory_capacity_bytes
        self.inside = 0.8 * pool.intra_node.bandwidth_bytes_per_second
        self.outside = (0.8 * pool.inter_node.bandwidth_bytes_per_second / self.devices_per_node
                        or self.inside)

    def judge(self, plan):
        """Returns (status, reason, seconds by line, peak memory in bytes) of one candidate."""
        (tensor, pipeline, chunks, data, context, micro_batch, zero, schedule, recompute,
         offload) = plan
        error = wire.CANDIDATE_STATUS_ERROR
        if min(tensor, pipeline, chunks, data, context, micro_batch) < 1 or not 0 <= zero <= 3:
            return error, "a size is out of its range", None, 0
        if not 0 <= offload <= 1:
            return error, "optimizer_offload_ratio is not in 0 to 1", None, 0
        if tensor * pipeline * data * context != self.devices:
            return error, "the sizes do not multiply to the devices of the cluster", None, 0
        if not (wire.SCHEDULE_GPIPE <= schedule <= wire.SCHEDULE_CHIMERA and
                wire.RECOMPUTE_GRANULARITY_NONE <= recompute <= wire.RECOMPUTE_GRANULARITY_FULL):
            return (wire.CANDIDATE_STATUS_UNSUPPORTED,
                    "a schedule or recomputation that this model does not know", None, 0)
        micro_batches = math.ceil(self.batch / (data * micro_batch))
        parameters = self.parameters / (tensor * pipeline)
        ranks = data * context
        full = recompute == wire.RECOMPUTE_GRANULARITY_FULL
        states = parameters * (2 / (ranks if zero >= 3 else 1) + 4 / (ranks if zero >= 2 else 1) +
                               12 * (1 - offload) / (ranks if zero >= 1 else 1))
        in_flight = micro_batches if schedule == wire.SCHEDULE_GPIPE else min(pipeline,
                                                                              micro_batches)
        tokens = micro_batch * self.tokens / context
        kept = 2 if full else 34 / tensor
        memory = (states + kept * tokens * self.hidden * self.layers / pipeline * in_flight + 1e9)
        if memory > self.capacity:
            return (wire.CANDIDATE_STATUS_INFEASIBLE_MEMORY, "more than the device has", None,
                    memory)
        again = 4 / 3 if full else 1
        small = tokens / tensor
        matmul = again * self.flops / (self.devices * self.peak * 0.6 * small / (small + 256))
        moved = again * 60 * tokens * self.hidden / tensor * self.layers / pipeline
        memory_bound = (6 * parameters + moved) * micro_batches / self.memory_bandwidth
        link = self.inside if tensor <= self.devices_per_node else self.outside
        messages = (self.layers / pipeline * micro_batches * 16 * tokens * self.hidden *
                    (tensor - 1) / tensor / link)
        bubble = (matmul + memory_bound + messages) * (pipeline - 1) / (chunks * micro_batches)
        return (wire.CANDIDATE_STATUS_OK, "", (matmul, memory_bound, messages, bubble), memory)


def plans_of(candidates):
    """Returns candidates as tuples of DEFAULTS' columns; raises Refused if one is malformed."""
    count = candidates.count
    if count < 0:
        raise Refused("candidates.count is below 0")
    for field in candidates.DESCRIPTOR.fields:
        if field.name == "count" or field.name in LISTS:
            continue
        if len(getattr(candidates, field.name)) not in (0, count):
            raise Refused(f"candidates.{field.name} has neither {count} entries nor none")
    for name in LISTS:
        lengths = getattr(candidates, name + "_length")
        if any(n < 0 for n in lengths) or sum(lengths) != len(getattr(candidates, name)):
            raise Refused(f"candidates.{name} does not match its lengths")
    columns = [list(getattr(candidates, name)) or itertools.repeat(default, count)
               for name, default in DEFAULTS.items()]
    return list(zip(*columns))


class Service(costmodel_pb2_grpc.CostModelServiceServicer):

    def __init__(self):
        self._lock = threading.Lock()
        self._contexts = {}
        self._last = 0

    def GetInfo(self, request, call):
        if request.protocol_major not in (0, 1):
            call.abort(grpc.StatusCode.FAILED_PRECONDITION, "this model speaks protocol 1")
        return wire.GetInfoResponse(
            protocol_major=1, protocol_minor=0, name="roofline-python", vendor="Example",
            version="1.0.0", description="Template in Python: FLOPs over peak, bytes over bandwidth",
            chips=["*"], precisions=PRECISIONS, operators=["dense", "moe"], is_deterministic=True,
            max_batch_size=MAX_BATCH, max_concurrent_batches=4, candidates_per_second=5000,
            has_lower_bound=True)

    def OpenContext(self, request, call):
        try:
            context = Context(request)
        except Refused as refused:
            call.abort(grpc.StatusCode.INVALID_ARGUMENT, str(refused))
        with self._lock:
            self._last += 1
            self._contexts[self._last] = context
            return wire.OpenContextResponse(context=self._last)

    def CloseContext(self, request, call):
        with self._lock:
            if self._contexts.pop(request.context, None) is None:
                call.abort(grpc.StatusCode.NOT_FOUND, "the context is not open")
        return wire.CloseContextResponse()

    def _find(self, request, call):
        with self._lock:
            context = self._contexts.get(request.context)
        if context is None:
            call.abort(grpc.StatusCode.NOT_FOUND, "the context is not open")
        try:
            plans = plans_of(request.candidates)
        except Refused as refused:
            call.abort(grpc.StatusCode.INVALID_ARGUMENT, str(refused))
        if len(plans) > MAX_BATCH:
            call.abort(grpc.StatusCode.INVALID_ARGUMENT, f"candidates.count; must be <= {MAX_BATCH}")
        return context, plans

    def EstimateBatch(self, request, call):
        context, plans = self._find(request, call)
        answer = wire.EstimateBatchResponse(provenance="assumed")
        statuses, times, memories, lines = [], [], [], []
        for index, plan in enumerate(plans):
            if index % 256 == 0 and not call.is_active():
                break  # cancelled, so nobody reads the answer
            status, reason, seconds, memory = context.judge(plan)
            statuses.append(status)
            times.append(sum(seconds) if seconds else 0.0)
            memories.append(int(memory))
            lines.extend(seconds or (0.0,) * len(LINES))
            if reason:
                answer.reasons.add(index=index, text=reason)
        answer.status.extend(statuses)
        answer.step_time_seconds.extend(times)
        answer.peak_memory_bytes.extend(memories)
        if request.with_breakdown:
            answer.breakdown_names.extend(LINES)
            answer.breakdown_seconds.extend(lines)
        return answer

    def LowerBound(self, request, call):
        context, plans = self._find(request, call)
        least = context.flops / (context.devices * context.peak)
        return wire.LowerBoundResponse(step_time_seconds=[least] * len(plans))


class Health(health_pb2_grpc.HealthServicer):

    def Check(self, request, call):
        return health_pb2.HealthCheckResponse(status=health_pb2.HealthCheckResponse.SERVING)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--socket", required=True)
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=4))
    costmodel_pb2_grpc.add_CostModelServiceServicer_to_server(Service(), server)
    health_pb2_grpc.add_HealthServicer_to_server(Health(), server)
    server.add_insecure_port("unix:" + parser.parse_args().socket)
    server.start()
    server.wait_for_termination()


if __name__ == "__main__":
    main()
