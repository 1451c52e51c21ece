"""The kinds of devices that the step runs on: data, not code.

A new chip is a row. Its module in torch (torch.cuda, torch.npu, ...) must have the usual names:
device_count, set_device, synchronize, max_memory_allocated, reset_peak_memory_stats, get_device_name.
"""

import dataclasses
import functools
import importlib
import os

import torch


@dataclasses.dataclass(frozen=True)
class Device:
    name: str  # as --device and torch.device have it
    backend: str  # of torch.distributed
    plugin: str = ""  # module to import before torch knows the device
    has_reduce_scatter: bool = True  # else: all_reduce, and each keeps its part
    has_gather_into_tensor: bool = True  # else: all_gather into a list, and a copy
    has_bf16: bool = True  # in collectives; else bf16 is summed as fp32 and moved as fp16's bits
    runs_as: str = ""  # what it takes to give the same bits twice, or what is special


DEVICES = {row.name: row for row in (
    Device("cpu", "gloo", has_reduce_scatter=False, has_gather_into_tensor=False, has_bf16=False,
           runs_as="the same bits with the same number of threads"),
    Device("cuda", "nccl", runs_as="NVIDIA and AMD; CUBLAS_WORKSPACE_CONFIG=:4096:8 for the same bits"),
    Device("npu", "hccl", "torch_npu", runs_as="Ascend; HCCL_DETERMINISTIC=true for the same bits"),
    Device("mlu", "cncl", "torch_mlu", runs_as="Cambricon"),
    Device("musa", "mccl", "torch_musa", runs_as="Moore Threads"),
    Device("xpu", "ccl", "oneccl_bindings_for_pytorch", runs_as="Intel GPU"),
    Device("hpu", "hccl", "habana_frameworks.torch.distributed.hccl", runs_as="Gaudi; eager mode"),
)}


def module_of(device):
    """torch.cuda, torch.npu, ...; None for the CPU, whose memory is the process's."""
    if device.plugin:
        importlib.import_module(device.plugin)
    return None if device.name == "cpu" else getattr(torch, device.name)


def take(device, module, local_rank):
    """Sets up this rank's device; returns its name for torch.device. `module` is module_of(device)."""
    if module is None:
        torch.set_flush_denormal(True)
        return device.name
    index = index_of(local_rank, module.device_count())
    module.set_device(index)
    return f"{device.name}:{index}"


def synchronize(module):
    if module is not None:
        module.synchronize()


@functools.lru_cache(maxsize=None)
def resident_before_model():
    """Bytes, when it is asked for the first time: what the libraries and the interpreter take."""
    torch.ones(64, 64) @ torch.ones(64, 64)  # the linear algebra library takes its own now
    return _resident("VmRSS")


def peak_memory(module):
    """(bytes, what they are)."""
    if module is None:
        return max(0, _resident("VmHWM") - resident_before_model()), "resident_set_growth"
    return module.max_memory_allocated(), "device_allocator"


def reset_peak_memory(module):
    if module is not None:
        module.reset_peak_memory_stats()
        return
    try:
        with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
            file.write("5")  # proc(5): the peak of the resident set
    except OSError:
        pass  # a kernel without it: the peak then holds what building the model took


def _resident(member):
    """VmRSS, or its peak VmHWM, of proc(5)."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(f"{member}:"))


def fallbacks(device):
    """What the backend lacks and what runs instead, for the environment line."""
    lacking = []
    if not device.has_reduce_scatter:
        lacking.append({"lacks": "reduce_scatter", "used": "all_reduce, of which each rank keeps its part"})
    if not device.has_gather_into_tensor:
        lacking.append({"lacks": "all_gather_into_tensor", "used": "all_gather and a copy"})
    if not device.has_bf16:
        lacking.append({"lacks": "bf16 collectives", "used": "fp32 sums; moves of the same 16 bits"})
    return lacking


def index_of(local_rank, device_count, environment=os.environ):
    """The device of a rank of this machine, from 0: of those that the local engine has leased to the job
    (MESHWRIGHT_DEVICES, docs/jobs.md), else as many as there are, of which a site may show each rank its own alone.

    Where the job sees those that it leased alone (visible_devices_variable), they are numbered anew: then the numbers
    of the lease are 0, 1, ... too, or the greatest is none of a device that is seen."""
    leased = [int(number) for number in environment.get("MESHWRIGHT_DEVICES", "").split(",") if number]
    if local_rank < len(leased) and max(leased) < device_count:
        return leased[local_rank]
    return local_rank % device_count
