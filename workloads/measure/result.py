"""Writes the files that the server reads: the result, which is complete or absent, and the progress
during the run."""

from __future__ import annotations

import glob
import json
import math
import os
import time

PREFIX = "meshwright-result: "
_QUIET_SECONDS = 10.0  # a line is written this often even if nothing changes, to show that the harness is alive
_BUSY_SECONDS = 1.0  # and at most this often


def write(path, result):
    """Writes a temporary file, makes it durable and renames it. So a reader finds the old file, no
    file, or the whole new one."""
    temporary = f"{path}.{os.getpid()}.tmp"
    with open(temporary, "w", encoding="utf-8") as file:
        file.write(one_line(result) + "\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    folder = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def rank_failure(folder, attempt, rank):
    """Returns the path of the file in which a rank that does not measure says why it failed."""
    return os.path.join(folder, f"{attempt}.rank{rank}.failure.json")


def other_rank_failed(folder, attempt, token):
    """Returns True if a rank that does not measure has reported a failure under this token."""
    for path in glob.glob(rank_failure(glob.escape(folder), attempt, "*")):
        try:
            with open(path, encoding="utf-8") as file:
                if json.load(file)["token"] == token:
                    return True
        except (OSError, ValueError, KeyError, TypeError):
            pass  # the file was not written by a known rank
    return False


def how_it_ended(run, output, verdict):
    """Returns the members that do not depend on measuring. `verdict` is (class, matched,
    message)."""
    name, matched, message = verdict
    return {
        "class": name,
        "message": message,
        "matched": matched,
        "ended_by": run.ending.rule if run.ending else "command",
        "exit_code": run.ended["exit_code"],
        "signal": run.ended["signal"],
        "left_behind": run.ended["left_behind"],
        "oom_kills": run.oom_kills,
        "output_trouble": output.trouble,
        "log_head": output.head,
        "log_tail": output.tail,
    }


def compose(run, output, verdict, environment, suspects):
    """Returns the members of a result that come from the run. Times are in seconds."""
    times = run.times
    low, high = times.interval or (None, None)
    return {
        **how_it_ended(run, output, verdict),
        "step_time_seconds": times.median,
        "step_time_low_seconds": low,
        "step_time_high_seconds": high,
        "steps": len(times.measured),
        "warmup_steps": times.warmup_steps,
        "steps_per_sample": times.steps_per_sample,
        "ignored_samples": times.ignored,
        "spread_ratio": times.spread_ratio,
        "drift_ratio_per_step": times.drift_ratio_per_step,
        "step_times_seconds": [seconds for _, seconds in times.measured],
        "suspect": suspects,
        "peak_memory_bytes": run.peak_bytes,
        "peak_reserved_bytes": run.reserved_bytes,
        "loss_first": run.loss_first,
        "loss_last": run.loss_last,
        "environment": environment,
    }


def one_line(document):
    """Returns JSON without NaN, because other readers do not accept it."""
    return json.dumps(_finite(document), allow_nan=False, separators=(",", ":"))


def _finite(value):
    if isinstance(value, dict):
        return {key: _finite(member) for key, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(member) for member in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


class Progress:
    """Appends a line if something changed, at most one per second by the monotonic time that `now`
    returns."""

    def __init__(self, file, attempt, token, now=time.monotonic):
        self._file = file
        self._same = {"meshwright_progress": 1, "attempt": attempt, "token": token}
        self._now = now
        self._last = None
        self._last_time = None

    def show(self, state, steps, step_time_seconds):
        now = self._now()
        line = {"state": state, "steps": steps, "step_time_seconds": step_time_seconds}
        wait = _QUIET_SECONDS if line == self._last else _BUSY_SECONDS
        if self._last_time is not None and now - self._last_time < wait:
            return
        self._last, self._last_time = line, now
        try:
            self._file.write(one_line({**self._same, "time_ms": int(time.time() * 1000), **line}) + "\n")
            self._file.flush()
        except OSError:
            pass  # a full disk does not end a measurement
