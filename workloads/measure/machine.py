"""Describes the environment in which a job ran, with a digest over the parts that affect speed."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess

_TOOL_SECONDS = 10.0  # a tool that takes longer is given up
_TOOL_LINES = 64
# These members are not part of the digest: the identity of the machine, our own interpreter, and
# information for people only.
_NOT_IN_DIGEST = ("host", "python", "for_people", "skipped", "digest")


def table():
    with open(os.path.join(os.path.dirname(__file__), "machine.json"), encoding="utf-8") as file:
        return json.load(file)


def describe(tools, masker):
    """Returns the environment without its digest, because the job may still report more
    ("reported")."""
    devices, skipped = {}, []
    for row in tools["tools"]:
        if shutil.which(row["tool"]) is None:
            skipped.append(f"{row['tool']}: not installed")
            continue
        lines, trouble = ask([row["tool"], *row["devices"]])
        if trouble:
            skipped.append(trouble)
        else:
            devices[row["tool"]] = [masker.mask(re.sub(tools["not_of_the_kind"], "", line)) for line in lines]
    kept, for_people = _variables(tools["environment"], masker)
    return {
        "host": platform.node(),
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "cpu_model": _field("/proc/cpuinfo", "model name"),
        "cpu_count": os.cpu_count(),
        "usable_cpu_count": len(os.sched_getaffinity(0)),
        "memory_bytes": _memory_bytes(),
        "python": platform.python_version(),
        "devices": devices,
        "variables": kept,
        "for_people": for_people,
        "skipped": skipped,
    }


def ask(argv):
    """Returns (lines, None), or ([], reason why not)."""
    try:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    except OSError as error:
        return [], f"{argv[0]}: {error.strerror}"
    try:
        text = process.communicate(timeout=_TOOL_SECONDS)[0].decode("utf-8", "backslashreplace")
    except subprocess.TimeoutExpired:
        process.kill()  # not waited for, because a driver may hold it
        return [], f"{argv[0]}: no answer within {_TOOL_SECONDS:g} s"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if process.returncode != 0:
        return [], f"{argv[0]}: exit code {process.returncode}: {' '.join(lines)[:200]}"
    return lines[:_TOOL_LINES], None


def digest(environment, reported_members):
    """Returns a digest that is the same on machines of one kind with the same software and
    settings."""
    parts = {key: value for key, value in environment.items() if key not in _NOT_IN_DIGEST}
    parts["reported"] = {key: value for key, value in (environment.get("reported") or {}).items()
                         if key in reported_members}
    if parts.get("memory_bytes"):
        # The kernel reserves slightly varying amounts for itself.
        parts["memory_bytes"] = f"{round(parts['memory_bytes'] / 2**30)} GiB"
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _variables(rules, masker):
    kept, for_people = {}, {}
    for name, value in sorted(os.environ.items()):
        if name in rules["only_for_people"]:
            for_people[name] = masker.mask(value)
        elif name in rules["names"] or name.startswith(tuple(rules["prefixes"])):
            kept[name] = masker.mask(value)
    return kept, for_people


def _field(path, name):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                key, colon, value = line.partition(":")
                if colon and key.strip() == name:
                    return value.strip()
    except OSError:
        pass
    return None


def _memory_bytes():
    text = _field("/proc/meminfo", "MemTotal")  # "32879512 kB"
    return int(text.split()[0]) * 1024 if text else None
