"""Starts the ranks of a run on this machine, and ends with the code that says most."""

import os
import signal
import socket
import subprocess
import time

from measure import cgroup

from .exit_codes import ExitCode
from .output import failure

_GRACE_SECONDS = 5  # for the other ranks to end by themselves, and again after they were asked to


def launch(command, count):
    killed_before = cgroup.oom_kill_count() or 0
    ranks = []

    def stop(number, _):
        _end(ranks)
        raise SystemExit(128 + number)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)

    for environment in _environments(count):
        ranks.append(subprocess.Popen(command, env=environment))
    while all(rank.poll() in (None, 0) for rank in ranks) and any(rank.poll() is None for rank in ranks):
        time.sleep(0.05)
    _wait(ranks)
    own = [rank.poll() for rank in ranks]  # read before the other ranks are ended
    _end(ranks)
    return max((_code(rank, code, killed_before) for rank, code in enumerate(own) if code),
               default=ExitCode.DONE)


def _environments(count):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    # Ours override the environment except for the number of threads, because variables set outside
    # are not about these ranks.
    shared = {"OMP_NUM_THREADS": str(max(1, len(os.sched_getaffinity(0)) // count)), **os.environ,
              "WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
              "GLOO_SOCKET_IFNAME": "lo"}
    return [{**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(count)]


def _wait(ranks):
    deadline = time.monotonic() + _GRACE_SECONDS
    while any(rank.poll() is None for rank in ranks) and time.monotonic() < deadline:
        time.sleep(0.05)


def _end(ranks):
    for rank in ranks:
        if rank.poll() is None:
            rank.terminate()
    _wait(ranks)
    for rank in ranks:
        if rank.poll() is None:
            rank.kill()
            rank.wait()


def _code(rank, code, killed_before):
    """Returns the code of a rank that failed. If the rank did not report a failure itself, reports
    it here."""
    if code in list(ExitCode):
        return ExitCode(code)
    ended = f"ended by signal {-code}" if code < 0 else f"ended with code {code}"
    known = ExitCode.CRASH
    if code == -signal.SIGKILL and (cgroup.oom_kill_count() or 0) > killed_before:
        known, ended = ExitCode.OUT_OF_HOST_MEMORY, "ended by the kernel for want of memory"
    failure(known, rank, ended)
    return known
