"""Item `host_link`: copies between the host's memory and the device's."""

import torch

from .point import Point, Skip

_SIZES = tuple(2**power for power in (16, 20, 24, 28))


def points(bench, _notes):
    if bench.module is None:
        raise Skip("the device is the host")
    for direction in ("host_to_device", "device_to_host"):
        for is_pinned in (True, False):
            for size in _SIZES:
                if size <= bench.options.max_bytes:
                    row = {"direction": direction, "is_pinned": is_pinned, "bytes": size}
                    yield Point(row, lambda row=row: _prepare(bench, row))


def _prepare(bench, row):
    host = torch.ones(row["bytes"], dtype=torch.uint8)
    if row["is_pinned"]:
        host = host.pin_memory()
    device = torch.ones(row["bytes"], dtype=torch.uint8, device=bench.device)
    to, source = (device, host) if row["direction"] == "host_to_device" else (host, device)
    return lambda: to.copy_(source, non_blocking=row["is_pinned"])
