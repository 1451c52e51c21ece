"""Ends a rank that makes no progress, independently of its backend's own time-outs."""

import os
import threading
import time

from .exit_codes import ExitCode
from .output import failure


class Watchdog:
    def __init__(self, rank, seconds):
        self.rank, self.seconds = rank, seconds
        self.progress()
        threading.Thread(target=self._watch, daemon=True).start()

    def progress(self):
        self.last = time.monotonic()

    def _watch(self):
        while time.monotonic() - self.last < self.seconds:
            time.sleep(min(1.0, self.seconds / 10))
        code = ExitCode.COLLECTIVE_TIMEOUT
        failure(code, self.rank, f"no progress for {self.seconds:g} seconds")
        os._exit(code)
