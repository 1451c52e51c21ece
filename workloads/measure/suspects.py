"""Finds reasons to doubt a measurement: other load, throttling, a changed clock. They flag the
measurement but do not change it."""

from __future__ import annotations

import glob
import os
import re
import shutil
import subprocess
import time

from measure import cgroup
from measure.keeper import descendants

ATTEMPT_VARIABLE = "MESHWRIGHT_ATTEMPT"  # set in the environment of all processes that a harness starts
_TICKS = os.sysconf("SC_CLK_TCK")
_OTHER_SHARE = 0.1  # share of all processors' time that others use
_STOLEN_SHARE = 0.02  # share taken by the hypervisor
_LOAD_SHARE = 0.5  # share of the processors that are busy before we begin
_SHORTEST_SECONDS = 0.5  # the kernel counts in hundredths of a second; shorter times say nothing
_CLOCK_SECONDS = 0.2  # difference of the wall clock from the monotonic one; slewing by NTP stays below
_ASK_EVERY_SECONDS = 30.0  # asking a device disturbs it slightly
_SAMPLE_COST = 100  # sampling the processes may take 1 % of the time


class Suspects:
    """Call begin() when measuring starts, sample() now and then while the command runs, and
    reasons() at the end."""

    def __init__(self, tools, attempt):
        self._attempt = attempt
        installed = [row for row in tools["tools"] if shutil.which(row["tool"])]
        self._tools = [row for row in installed if "throttle" in row]
        self.skipped = [f"{row['tool']}: how it tells throttling is not known" for row in installed
                        if "throttle" not in row]
        self._load_before = os.getloadavg()[0]
        self._first = self._last = None
        self._asked = None
        self._asking = []  # (row, process)
        self._throttled = {}  # tool: lines
        self._next_sample = 0.0

    def begin(self):
        self._first = self._last = Sample(self._attempt)
        if not self._first.throttles:
            self.skipped.append("thermal_throttle: no counters in sysfs")

    def sample(self, last=False):
        """Takes a sample. It is cheap enough to be called at any time while measuring. `last` is
        for the moment before the end."""
        now = time.monotonic()
        if last or now >= self._next_sample:
            before = time.thread_time()
            self._last = Sample(self._attempt)
            self._next_sample = now + max(1.0, _SAMPLE_COST * (time.thread_time() - before))
        self._collect()
        if not last and not self._asking and (self._asked is None or now - self._asked >= _ASK_EVERY_SECONDS):
            self._asked = now
            for row in self._tools:
                try:
                    self._asking.append((row, subprocess.Popen(
                        [row["tool"], *row["throttle"]], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                        stderr=subprocess.DEVNULL)))
                except OSError as error:
                    self.skipped.append(f"{row['tool']}: {error.strerror}")

    def _collect(self):
        """Collects the answers of the tools that have finished."""
        waiting = []
        for row, process in self._asking:
            if process.poll() is None:
                waiting.append((row, process))
                continue
            text = process.stdout.read().decode("utf-8", "replace")
            process.stdout.close()
            if process.returncode != 0 or not text:
                self.skipped.append(f"{row['tool']}: did not say whether a device was slowed down")
            lines = [line.strip() for line in text.splitlines() if re.search(row["throttled"], line)]
            self._throttled.setdefault(row["tool"], []).extend(lines)
        self._asking = waiting

    def reasons(self):
        """Returns a list of {"reason", "message", numbers}."""
        if self._first is None:
            return []
        self._collect()
        found = []
        cpus = os.cpu_count() or 1
        if self._load_before > _LOAD_SHARE * cpus:
            found.append({"reason": "load_before", "load": self._load_before, "cpu_count": cpus,
                          "message": f"{self._load_before:.1f} tasks ran on {cpus} processors before we began"})
        seconds = self._last.monotonic - self._first.monotonic
        if seconds < _SHORTEST_SECONDS:
            self.skipped.append(f"load of others: not known from {seconds:.2f} s of measuring")
        else:
            found += self._first.compare(self._last, cpus)
        for tool, lines in self._throttled.items():
            if lines:
                found.append({"reason": "device_throttled", "times": len(lines), "tool": tool,
                              "message": f"{tool} said {len(lines)} times that a device was slowed down: {lines[0]}"})
        return found


class Sample:
    """Counters at one moment. Processes under another harness of the attempt count as ours."""

    def __init__(self, attempt):
        self.monotonic, self.wall = time.monotonic(), time.time()
        with open("/proc/stat", encoding="ascii") as file:
            # user nice system idle iowait irq softirq steal; guest time is part of user
            ticks = [int(text) for text in file.readline().split()[1:9]]
        self.busy = (sum(ticks) - ticks[3] - ticks[4] - ticks[7]) / _TICKS
        self.stolen = ticks[7] / _TICKS
        own = {os.getpid(), *descendants(os.getpid()), *_of_attempt(attempt)}
        self.own = sum(map(_cpu_seconds, own))
        self.throttles = _counters("/sys/devices/system/cpu/cpu*/thermal_throttle/*_throttle_count")
        self.quota = cgroup.count("cpu", "cpu.stat", "cpu.stat", "nr_throttled")

    def compare(self, later, cpus):
        """Returns the reasons that follow from the difference of two samples."""
        available = (later.monotonic - self.monotonic) * cpus
        found = []
        other = max(0.0, later.busy - self.busy - (later.own - self.own)) / available
        if other > _OTHER_SHARE:
            found.append({"reason": "other_load", "share": round(other, 4), "limit": _OTHER_SHARE,
                          "message": f"others used {other:.0%} of the processors while we measured"})
        stolen = (later.stolen - self.stolen) / available
        if stolen > _STOLEN_SHARE:
            found.append({"reason": "stolen_time", "share": round(stolen, 4), "limit": _STOLEN_SHARE,
                          "message": f"the hypervisor took {stolen:.0%} of the processors while we measured"})
        throttles = sum(later.throttles.values()) - sum(self.throttles.values())
        if throttles > 0:
            found.append({"reason": "cpu_throttled", "times": throttles,
                          "message": f"processors were slowed down for heat {throttles} times while we measured"})
        if self.quota is not None and later.quota is not None and later.quota > self.quota:
            found.append({"reason": "cpu_quota", "times": later.quota - self.quota,
                          "message": f"the cgroup's processor quota held us back {later.quota - self.quota} times"})
        jump = (later.wall - self.wall) - (later.monotonic - self.monotonic)
        if abs(jump) > _CLOCK_SECONDS:
            found.append({"reason": "clock_changed", "seconds": round(jump, 3),
                          "message": f"the wall clock was set by {jump:+.3f} s while we measured"})
        return found


def _of_attempt(attempt):
    """Returns the processes that harnesses of this attempt started here, as far as we may read
    their environments."""
    mark = f"{ATTEMPT_VARIABLE}={attempt}".encode()
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                if mark in file.read().split(b"\0"):
                    yield int(name)
        except OSError:
            pass  # it has ended, or is another user's


def _cpu_seconds(pid):
    """Returns the processor time of a process and of its children that ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        return sum(int(text) for text in fields[11:15]) / _TICKS  # utime stime cutime cstime
    except (OSError, ValueError):
        return 0.0


def _counters(pattern):
    found = {}
    for path in glob.glob(pattern):
        try:
            with open(path, encoding="ascii") as file:
                found[path] = int(file.read())
        except (OSError, ValueError):
            pass
    return found
