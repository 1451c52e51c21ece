"""Runs the command, reads its steps, and ends it once there are enough steps or it is stuck."""

from __future__ import annotations

import dataclasses
import math
import os
import select
import signal
import time

from measure.cgroup import oom_kill_count
from measure.keeper import Kept
from measure.step_times import StepTimes

_POLL_SECONDS = 0.25  # the longest delay before a limit is noticed
_USUAL_STEPS = 10  # a step that takes this many times the usual time is a hang
_DRAIN_SECONDS = 2.0  # time to read the rest of the pipe after everything has ended


@dataclasses.dataclass(frozen=True)
class Limits:
    warmup: int
    min_steps: int
    max_steps: int
    interval_ratio: float
    start_seconds: float
    hang_seconds: float
    time_seconds: float  # math.inf if there is no limit
    grace_seconds: float


@dataclasses.dataclass(frozen=True)
class Ending:
    """The reason why we ended the command: "ok" or the class of the failure, the rule's name, a
    sentence."""

    name: str
    rule: str
    message: str


class Run:
    """One run of the command. It takes over TERM, INT and HUP. After run(), it holds `ending` (None
    if the command ended by itself), `ended` (the keeper's report), and what was read. `now` returns
    the monotonic time that the limits are held against."""

    def __init__(self, limits, job_format, output, progress, suspects, now=time.monotonic):
        self._limits = limits
        self._format = job_format
        self._output = output
        self._progress = progress
        self._suspects = suspects
        self._now = now
        self._started = self._moved = None  # monotonic times
        self._stopping = None  # the signal that we received
        self._untimed = 0  # lines of steps without a time, before the first with a time
        self._told = False  # True once the command was told to end
        self.times = StepTimes(limits.warmup)
        self.ending = None
        self.ended = None
        self.peak_bytes = self.reserved_bytes = None
        self.loss_first = self.loss_last = None
        self.reported = None  # environment that the job reported
        self.oom_kills = 0
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            if signal.getsignal(number) != signal.SIG_IGN:  # ignored signals stay ignored, as under nohup
                signal.signal(number, self._on_signal)

    @property
    def state(self):
        if self.ending or self.ended:
            return "COLLECTING"
        if self.times.measured:
            return "MEASURING"
        return "WARMUP" if len(self.times) else "STARTING"

    def run(self, argv):
        wake, wake_write = os.pipe()
        os.set_blocking(wake_write, False)
        signal.set_wakeup_fd(wake_write)
        oom_kills = oom_kill_count()
        self._started = self._now()
        command = Kept(argv)
        watched = {command.output, command.reports, wake}
        while self.ended is None:
            ready = select.select(watched, [], [], _POLL_SECONDS)[0]
            if wake in ready:
                os.read(wake, 4096)
            self._read_if(command.output in ready, command, watched)
            if self._stopping is not None and not self.ending:
                # The signal can have come since the wait; steps that were printed before it count.
                self._read_if(select.select([command.output], [], [], 0)[0], command, watched)
            if command.reports in ready:
                self.ended = command.read_report()
            self._watch(command)
        deadline = time.monotonic() + _DRAIN_SECONDS
        while command.output in watched and time.monotonic() < deadline:
            if select.select([command.output], [], [], _POLL_SECONDS)[0] and not self._read(command.output):
                break
        for line in self._output.finish():
            self._take(line)
        self.oom_kills = (oom_kill_count() or 0) - (oom_kills or 0)

    def _on_signal(self, number, frame):
        self._stopping = number

    def _read_if(self, is_ready, command, watched):
        if is_ready and command.output in watched and not self._read(command.output):
            watched.remove(command.output)

    def _read(self, fd):
        piece = os.read(fd, 1 << 20)
        for line in self._output.feed(piece):
            self._take(line)
        return bool(piece)

    def _take(self, line):
        found = self._format.read(line)
        if not found:
            return
        for name in ("peak_bytes", "reserved_bytes"):
            if found.get(name, 0) > 0:  # DeepSpeed prints 0.0GB if a device's allocator reports nothing
                setattr(self, name, max(found[name], getattr(self, name) or 0))
        if isinstance(found.get("environment"), dict):
            self.reported = found["environment"]
        if self.ending:
            return  # steps after the command was told to end do not count
        if "step_time_seconds" in found:
            was_measuring = bool(self.times.measured)
            if self.times.add(found["step_time_seconds"], found.get("step"), found.get("is_warmup")):
                self._moved = self._now()
            if self.times.measured and not was_measuring:
                self._suspects.begin()
        elif "step" in found and not len(self.times):
            self._untimed += 1
            if self._untimed >= self._limits.warmup + self._limits.min_steps:
                self._end_with("metrics_missing", "no_times", f"{self._untimed} lines tell of a step and none of its "
                               f"time (a rate is one with --global-batch-size, of tokens also with --sequence-length and --device-count): {line[:200]}")
        if "loss" in found:
            self.loss_first = found["loss"] if self.loss_first is None else self.loss_first
            self.loss_last = found["loss"]
        if not math.isfinite(found.get("loss", 0.0)) or found.get("nan_steps"):
            self._end_with("numeric", "loss", f"the loss is not a number at step {found.get('step')}: {line[:200]}")
        self._stop_when_measured()

    def _stop_when_measured(self):
        if self.ended:
            return  # it ended by itself, and its exit code says how
        limits, count, ratio = self._limits, len(self.times.measured), self.times.half_width_ratio
        if count >= limits.min_steps and ratio is not None and ratio <= limits.interval_ratio:
            self._end_with("ok", "interval", f"the median is known to {ratio:.2%} after {count} steps")
        elif count >= limits.max_steps:
            self._end_with("ok", "max_steps", f"{count} steps are measured, the largest number asked for")

    def _watch(self, command):
        """Notices signals and limits, and ends the command if there is a reason."""
        now = self._now()
        limits = self._limits
        if self._stopping is not None:
            name = signal.Signals(self._stopping).name
            self._end_with("cancelled", "signal", f"the harness got {name}")
        elif self.ended:
            pass  # it ended by itself before any limit
        elif now - self._started > limits.time_seconds:
            self._end_with("timeout", "time_limit", f"not done after the time limit of {limits.time_seconds:g} s")
        elif not len(self.times) and now - self._started > limits.start_seconds:
            self._end_with("start_timeout", "start_limit",
                           f"no step within the start limit of {limits.start_seconds:g} s")
        elif len(self.times) and now - self._moved > self._hang_seconds():
            self._end_with("hang", "hang_limit",
                           f"no step for {self._hang_seconds():g} s after step {self.times.last_step} (limit: "
                           f"{limits.hang_seconds:g} s, or {_USUAL_STEPS} usual steps of {self.times.usual:g} s)")
        if self.state == "MEASURING":
            self._suspects.sample()
        self._progress.show(self.state, len(self.times), self.times.last_seconds)
        if self.ending and not self._told:
            self._told = True
            if self.times.measured:
                self._suspects.sample(last=True)
            command.end(self._limits.grace_seconds)

    def _hang_seconds(self):
        return max(self._limits.hang_seconds, _USUAL_STEPS * self.times.usual)

    def _end_with(self, name, rule, message):
        if self.ending is None:
            self.ending = Ending(name, rule, message)
