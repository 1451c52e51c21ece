"""The kinds of devices that the step runs on, as data.

A new chip is a new row. Its module in torch (torch.cuda, torch.npu, ...) must have the usual names:
device_count, set_device, synchronize, max_memory_allocated, reset_peak_memory_stats,
get_device_name.
"""

import dataclasses
import functools
import importlib
import os

import torch


@dataclasses.dataclass(frozen=True)
class Device:
    name: str  # as for --device and torch.device
    backend: str  # for torch.distributed
    plugin: str = ""  # module to import before torch knows the device
    has_reduce_scatter: bool = True  # if False, uses all_reduce, and each rank keeps its part
    has_gather_into_tensor: bool = True  # if False, uses all_gather into a list, and a copy
    has_bf16: bool = True  # in collectives; if False, bf16 is summed as fp32 and moved as the bits of fp16
    graph: str = ""  # class of its module that records kernels and replays them, if one was tried
    runs_as: str = ""  # requirements for identical results, or other special facts


DEVICES = {row.name: row for row in (
    Device("cpu", "gloo", has_reduce_scatter=False, has_gather_into_tensor=False, has_bf16=False,
           runs_as="the same bits with the same number of threads"),
    Device("cuda", "nccl", graph="CUDAGraph", runs_as="NVIDIA and AMD; CUBLAS_WORKSPACE_CONFIG=:4096:8 for the same bits"),
    Device("npu", "hccl", "torch_npu", runs_as="Ascend; HCCL_DETERMINISTIC=true for the same bits"),
    Device("mlu", "cncl", "torch_mlu", runs_as="Cambricon"),
    Device("musa", "mccl", "torch_musa", runs_as="Moore Threads"),
    Device("xpu", "ccl", "oneccl_bindings_for_pytorch", runs_as="Intel GPU"),
    Device("hpu", "hccl", "habana_frameworks.torch.distributed.hccl", runs_as="Gaudi; eager mode"),
)}


def module_of(device):
    """Returns torch.cuda, torch.npu, ..., or None for the CPU, whose memory is the process's."""
    if device.plugin:
        importlib.import_module(device.plugin)
    return None if device.name == "cpu" else getattr(torch, device.name)


def take(device, module, local_rank):
    """Sets up this rank's device and returns its name for torch.device. `module` is
    module_of(device)."""
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
    """Returns the resident bytes at the first call, which are those of the libraries and the
    interpreter."""
    torch.ones(64, 64) @ torch.ones(64, 64)  # makes the linear algebra library allocate its own memory now
    return _resident("VmRSS")


def peak_memory(module):
    """Returns (bytes, what they measure)."""
    if module is None:
        return max(0, _resident("VmHWM") - resident_before_model()), "resident_set_growth"
    return module.max_memory_allocated(), "device_allocator"


def reset_peak_memory(module):
    if module is not None:
        module.reset_peak_memory_stats()
        return
    try:
        with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
            file.write("5")  # proc(5): resets the peak of the resident set
    except OSError:
        pass  # this kernel cannot reset it, so the peak includes the memory to build the model


def _resident(member):
    """Returns VmRSS, or its peak VmHWM, from proc(5)."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(f"{member}:"))


def fallbacks(device):
    """Returns what the backend lacks and what runs instead, for the environment line."""
    lacking = []
    if not device.has_reduce_scatter:
        lacking.append({"lacks": "reduce_scatter", "used": "all_reduce, of which each rank keeps its part"})
    if not device.has_gather_into_tensor:
        lacking.append({"lacks": "all_gather_into_tensor", "used": "all_gather and a copy"})
    if not device.has_bf16:
        lacking.append({"lacks": "bf16 collectives", "used": "fp32 sums; moves of the same 16 bits"})
    return lacking


def index_of(local_rank, device_count, environment=os.environ):
    """Returns the device, from 0, of a rank of this machine. It is one of the devices that the
    local engine has leased to the job (MESHWRIGHT_DEVICES, docs/jobs/engines.md). Otherwise it is one of
    all devices, of which a site may show each rank only its own.

    A job that sees only its leased devices (visible_devices_variable) sees them renumbered. Then the
    numbers of the lease are either 0, 1, ... too, or the greatest exceeds the devices that are seen."""
    leased = [int(number) for number in environment.get("MESHWRIGHT_DEVICES", "").split(",") if number]
    if local_rank < len(leased) and max(leased) < device_count:
        return leased[local_rank]
    return local_rank % device_count
