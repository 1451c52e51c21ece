"""One rank of a run, from its first line to its exit code."""

import datetime
import os
import platform
import resource
import statistics
import sys
import traceback

import torch
import torch.distributed as dist

from . import comm, devices
from .case import departures
from .exit_codes import ExitCode, classify
from .output import emit, emit_first, failure, invalid
from .ranks import make_groups
from .trainer import Trainer, uses_fused_attention
from .trouble import make_trouble
from .watchdog import Watchdog


def run(case, rank, options):
    row = devices.DEVICES.get(options.device)
    if row is None:
        known = ", ".join(devices.DEVICES)
        return invalid([("--device", f"is {options.device}; there are {known}")], rank.rank)
    if options.memory_limit and row.name != "cpu":
        return invalid([("--memory-limit", "is for the CPU")], rank.rank)
    try:
        _train(case, rank, row, options)
        code = ExitCode.DONE
    except Exception as error:
        code = classify(error, row.name == "cpu")
        # Lifts the limit, so that the report has memory.
        resource.setrlimit(resource.RLIMIT_DATA, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        failure(code, rank.rank, f"{type(error).__name__}: {error}")
        traceback.print_exc()
    sys.stderr.flush()
    os._exit(code)  # skips the libraries' own shutdown, which can hang if a peer is gone


def _train(case, rank, row, options):
    module = devices.module_of(row)
    watchdog = Watchdog(rank.rank, options.timeout)
    device = devices.take(row, module, rank.local_rank)
    if rank.world_size > 1:
        # The watchdog must act first, because backends differ in what they do after a time-out.
        dist.init_process_group(row.backend, rank=rank.rank, world_size=rank.world_size,
                                timeout=datetime.timedelta(seconds=2 * options.timeout))
    groups = make_groups(case[2], rank.rank, rank.world_size, row)
    if rank.rank == 0:
        _tell_environment(case, rank, row, module)
    if options.memory_limit:
        _limit_memory(options.memory_limit)
    devices.resident_before_model()
    trainer = Trainer(case, groups, options.seed, device, progress=watchdog.progress)
    seconds = []
    for step in range(options.warmup + options.steps):
        make_trouble(rank.rank, step, trainer.stage.units)
        taken, loss, norm = trainer.step()
        is_warmup = step < options.warmup
        if not is_warmup:
            seconds.append(taken)
        if rank.rank == 0:
            emit("step", step=step, step_time_seconds=taken, loss=loss, grad_norm=norm, is_warmup=is_warmup)
        if step in (options.warmup, options.warmup + options.steps - 1):
            # Printed early as well, because the reader may have seen enough steps before the last.
            peaks, source = _peaks(groups["world"], module, device)
            if rank.rank == 0:
                emit("memory", source=source, peak_memory_bytes_by_rank=peaks)
    if rank.rank == 0:
        _tell_result(case, rank, seconds, loss, max(peaks))


def _tell_environment(case, rank, row, module):
    model, workload, plan = case
    kernel = "vendor" if uses_fused_attention(workload, plan) else "unfused"
    emit_first(
        torch=torch.__version__, python=platform.python_version(), device=row.name, backend=row.backend,
        device_name=platform.machine() if module is None else module.get_device_name(),
        host=platform.node(), ranks=rank.world_size, threads=torch.get_num_threads(),
        deterministic=row.runs_as, fallbacks=devices.fallbacks(row),
        departures=departures(model, workload, kernel),
        model=model.name, plan={**vars(plan), "recompute": vars(plan.recompute)})


def _tell_result(case, rank, seconds, loss, peak):
    workload = case[1]
    middle = statistics.median(seconds)
    tokens = workload.global_batch_size * workload.sequence_length
    emit("result", steps=len(seconds), step_time_seconds=middle, step_time_low_seconds=min(seconds),
         step_time_high_seconds=max(seconds), tokens_per_second_per_device=tokens / middle / rank.world_size,
         loss=loss, peak_memory_bytes=peak)


def _peaks(world, module, device):
    peak, source = devices.peak_memory(module)
    return comm.all_gather(torch.tensor([peak], device=device), world).tolist(), source


def _limit_memory(size):
    """Limits the memory on top of what the process has by now, which is mostly the libraries'.
    RLIMIT_DATA counts writable memory, unlike RLIMIT_AS, which also counts addresses that threads
    only reserve."""
    torch.ones(64, 64) @ torch.ones(64, 64)  # makes the linear algebra library allocate its own memory now
    with open("/proc/self/statm", encoding="ascii") as file:
        data = int(file.read().split()[5]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_DATA, (data + size, resource.RLIM_INFINITY))
