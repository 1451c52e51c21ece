"""Reads counters of our control group."""

from __future__ import annotations

_OWN_GROUPS = "/proc/self/cgroup"
_ROOT = "/sys/fs/cgroup"


def oom_kill_count():
    """Returns how often the kernel killed a process of our group for lack of memory, or None if
    that cannot be read."""
    return count("memory", "memory.events", "memory.oom_control", "oom_kill")


def count(controller, version2_file, version1_file, key):
    """Returns the number after `key` in a file of our group, of either version, or None if it
    cannot be read."""
    try:
        with open(_OWN_GROUPS, encoding="utf-8") as file:
            groups = [line.rstrip("\n").split(":", 2)[1:] for line in file]
    except OSError:
        return None
    for controllers, path in groups:
        if controllers == "":
            folder, name = _ROOT, version2_file
        elif controller in controllers.split(","):
            folder, name = f"{_ROOT}/{controllers}", version1_file
        else:
            continue
        # A container may see its own group as the root, although the host knows it by another path.
        for place in (f"{folder}{path}/{name}", f"{folder}/{name}"):
            try:
                with open(place, encoding="ascii") as file:
                    return int(dict(line.split()[:2] for line in file)[key])
            except (OSError, KeyError, ValueError):
                continue
    return None
