"""Runs a command so that nothing of it outlives us.

Between the harness and the command stands a small process, the keeper. It adopts what the command leaves
orphaned (PR_SET_CHILD_SUBREAPER, Linux 3.4), so that it also finds the workers which torchrun starts in sessions
of their own. Whoever of the two dies first, the other ends the rest:

- the harness is killed: the keeper reads the end of its pipe and kills everything;
- the keeper is killed: the command gets KILL (PR_SET_PDEATHSIG), the rest falls to the harness, which kills it.

When both are killed in the same instant, only the command itself is sure to go.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import subprocess
import time

_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_KILL_SECONDS = 10.0  # time to try to kill processes that do not end (a driver may hold them)


def descendants(root):
    """Returns the living processes below `root`, without zombies."""
    children = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                state, parent = file.read().rpartition(b")")[2].split()[:2]  # the name before may contain blanks
        except (OSError, ValueError):
            continue  # it has ended meanwhile
        children.setdefault(int(parent), []).append((int(name), state))
    found, todo = [], [root]
    while todo:
        for pid, state in children.get(todo.pop(), []):
            todo.append(pid)
            if state not in (b"Z", b"X"):
                found.append(pid)
    return found


def reap():
    """Collects every child that ended. Returns {pid: wait status}."""
    ended = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if pid == 0:
            return ended
        ended[pid] = status


def kill_descendants():
    """Kills all processes below this one. Returns {pid: wait status} and those that did not end."""
    ended = {}
    deadline = time.monotonic() + _KILL_SECONDS
    while True:
        ended.update(reap())
        left = descendants(os.getpid())
        if not left or time.monotonic() > deadline:
            ended.update(reap())  # what ended between the two looks is a zombie, and not in `left`
            return ended, left
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.01)


class Kept:
    """A command that runs under a keeper. `output` and `reports` are for select()."""

    def __init__(self, argv):
        _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self.output, output_end = os.pipe()  # stdout and stderr of the command
        self.reports, reports_end = os.pipe()  # one JSON line from the keeper at the end
        orders, self._orders = os.pipe()  # to the keeper; its end means that we have ended
        self._report = b""
        self.keeper = os.fork()
        if self.keeper == 0:
            for fd in (self.output, self.reports, self._orders):
                os.close(fd)
            _keep(argv, orders, output_end, reports_end)  # never returns
        for fd in (orders, output_end, reports_end):
            os.close(fd)

    def end(self, grace_seconds):
        """Sends TERM to the command's group, and KILL to all that is left after the grace period.
        Returns at once."""
        try:
            os.write(self._orders, f"{grace_seconds}\n".encode())
        except BrokenPipeError:
            pass  # the keeper has already ended

    def read_report(self):
        """Returns the report once it is complete, else None. Call it whenever `reports` is
        readable.

        The report: exit_code or signal, error (if it could not be started), left_behind (processes).
        """
        piece = os.read(self.reports, 65536)
        self._report += piece
        if piece:
            return None
        ended, left = kill_descendants()  # finds processes only if the keeper was killed
        if not self._report:
            return {"exit_code": None, "signal": signal.SIGKILL, "error": "the keeper was killed or failed",
                    "left_behind": left}
        return json.loads(self._report)


def _keep(argv, orders, output, reports):
    os.setsid()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the harness decides
    _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        report = _run(argv, orders, output)
        os.write(reports, json.dumps(report).encode())
    finally:
        os._exit(0)


def _run(argv, orders, output):
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    try:
        command = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                                   start_new_session=True, preexec_fn=_before_exec(os.getpid()))
    except OSError as error:
        # Shells use the same codes.
        return {"exit_code": 126 if isinstance(error, PermissionError) else 127, "signal": None,
                "error": f"{argv[0]}: {error.strerror}", "left_behind": []}
    os.close(output)
    status, deadline = None, None
    while status is None:
        wait = None if deadline is None else max(0.0, deadline - time.monotonic())
        ready = select.select([orders, wake_read], [], [], wait)[0]
        if wake_read in ready:
            os.read(wake_read, 4096)
        status = reap().get(command.pid)
        if orders in ready:
            order = os.read(orders, 4096)
            if not order:
                break  # the harness has ended
            if deadline is None and status is None:
                deadline = time.monotonic() + float(order.split()[0])
                os.killpg(command.pid, signal.SIGTERM)
        if deadline is not None and time.monotonic() >= deadline:
            break
    ended, left = kill_descendants()
    status = ended.get(command.pid, status)
    code, number = None, None
    if status is not None and os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
    elif status is not None:
        code = os.WEXITSTATUS(status)
    return {"exit_code": code, "signal": number, "error": None, "left_behind": left}


def _before_exec(keeper):
    def prepare():
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != keeper:
            os._exit(1)  # the keeper died before the call above
    return prepare
