"""One rank of a run, from the file that it continues to its exit code."""

import datetime
import os
import platform
import re
import sys
import traceback

import torch
import torch.distributed as dist
from train import devices
from train.exit_codes import ExitCode, classify
from train.output import failure
from train.watchdog import Watchdog

from . import document, flags
from .bench import Bench
from .chip import context_bytes
from .items import run_all


def run(rank, options):
    row = devices.DEVICES[options.device]
    try:
        code = _run(rank, row, options)
    except Exception as error:
        code = classify(error, row.name == "cpu")
        failure(code, rank.rank, f"{type(error).__name__}: {error}")
        traceback.print_exc()
    sys.stderr.flush()
    os._exit(code)  # as in the training step, because the libraries' own shutdown can hang if a peer is gone


def _run(rank, row, options):
    module = devices.module_of(row)
    watchdog = Watchdog(rank.rank, options.timeout)
    torch.manual_seed(options.seed)
    device = devices.take(row, module, rank.local_rank)
    context = context_bytes(module)  # read before the communicators take memory
    if row.graph:  # graphs record only streams that are not the device's default one
        module.set_stream(module.Stream())
    if rank.world_size > 1:
        dist.init_process_group(row.backend, rank=rank.rank, world_size=rank.world_size,
                                timeout=datetime.timedelta(seconds=2 * options.timeout))
    bench = Bench(rank, row, options, device, watchdog.progress)
    bench.context_bytes = context
    refused = _open(bench)
    if refused:
        if rank.rank == 0:
            print("\n".join(f"microbench: {one}" for one in refused), file=sys.stderr)
        return ExitCode.INVALID_CONFIG
    run_all(bench)
    failed = [name for name in flags.asked(options) if bench.document["items"][name]["status"] == "failed"]
    bench.barrier(bench.world)
    # If --processes started this rank, the launcher finds failed items in the file.
    return flags.SOME_FAILED if failed and not options.is_started else ExitCode.DONE


def _open(bench):
    """Sends the file's document, or a new one, to all ranks. Returns the reasons why it is
    refused."""
    def load():
        machine = _machine(bench)
        found = document.load(bench.options.output)
        refused = document.refusals(bench.options.output, found, machine)
        if not refused:
            new = document.new(machine)
            found = {**new, **(found or {}), "items": {**new["items"], **(found or {}).get("items", {})}}
        return found, refused
    bench.document, refused = bench.alone(load)
    return refused


def _machine(bench):
    node_count = len(bench.nodes)
    return {
        "device": bench.row.name, "backend": bench.row.backend, "device_name": _device_name(bench.module),
        "torch": torch.__version__, "python": platform.python_version(), "libraries": _libraries(bench),
        "device_count": bench.world.size, "node_count": node_count, "threads_per_rank": torch.get_num_threads(),
        "is_quick": bench.options.quick,
        "memory_bytes": _memory_bytes(bench),
        "started_at": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")}


def _device_name(module):
    if module is not None:
        return module.get_device_name()
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _libraries(bench):
    """Returns the libraries that the times depend on. The linear algebra library is the one that
    was loaded: on Debian, the alternatives system selects it, and the slowest takes seven times as
    long."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
        loaded = {os.path.basename(line.split()[-1]) for line in file if re.search(r"lib[^/]*(blas|mkl|dnnl)", line)}
    found = {"linear_algebra": ", ".join(sorted(loaded)) or "in PyTorch"}
    for name, value in (("cuda", torch.version.cuda), ("hip", getattr(torch.version, "hip", None))):
        if value:
            found[name] = value
    if bench.row.plugin:
        plugin = sys.modules[bench.row.plugin.partition(".")[0]]
        found[bench.row.plugin] = str(getattr(plugin, "__version__", "unknown"))
    if bench.row.backend == "nccl" and bench.module is not None:
        found["nccl"] = str(torch.cuda.nccl.version())
    return found


def _memory_bytes(bench):
    """Returns the memory of one device; on the CPU, a rank's share of the machine's memory."""
    if bench.module is None:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // len(bench.nodes[0])
    if hasattr(bench.module, "get_device_properties"):
        return bench.module.get_device_properties(bench.device).total_memory
    return bench.module.mem_get_info()[1]
