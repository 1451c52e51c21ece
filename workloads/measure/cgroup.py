"""Counters of the control group that we are in."""

from __future__ import annotations


def count(controller, version2_file, version1_file, key):
    """The number behind `key` in a file of our group, of either version; None where it cannot be read."""
    try:
        with open("/proc/self/cgroup", encoding="utf-8") as file:
            groups = [line.rstrip("\n").split(":", 2)[1:] for line in file]
    except OSError:
        return None
    for controllers, path in groups:
        if controllers == "":
            name = f"/sys/fs/cgroup{path}/{version2_file}"
        elif controller in controllers.split(","):
            name = f"/sys/fs/cgroup/{controllers}{path}/{version1_file}"
        else:
            continue
        try:
            with open(name, encoding="ascii") as file:
                return int(dict(line.split()[:2] for line in file)[key])
        except (OSError, KeyError, ValueError):
            continue
    return None
