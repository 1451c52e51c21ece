"""A watch that goes on after a broken connection."""

from __future__ import annotations

import time
from typing import Optional

import grpc

from . import v1
from ._channel import backoff_seconds, check_deadline
from .errors import DeadlineExceeded, MeshwrightError

# A stream is opened anew after so many seconds, so that a connection that broke without a word is
# noticed. The server sends a heartbeat every 15 s.
STREAM_SECONDS = 60.0
DEFAULT_PATIENCE = 60.0


class Watch:
    """Says how a watch begins, goes on and gives up; the clients only move its messages."""

    def __init__(self, study_id: str, after_revision: int, deadline: Optional[float], patience: float) -> None:
        now = time.monotonic()
        self._study_id = study_id
        self._revision = after_revision
        self._end = None if deadline is None else now + check_deadline(deadline)
        self._patience = patience
        self._heard = now
        self._failures = 0

    def request(self) -> v1.WatchStudyRequest:
        return v1.WatchStudyRequest(study_id=self._study_id, after_revision=self._revision)

    def stream_seconds(self) -> float:
        """Returns the time of the next stream. Raises DeadlineExceeded if none is left."""
        left = STREAM_SECONDS if self._end is None else min(STREAM_SECONDS, self._end - time.monotonic())
        if left <= 0:
            raise DeadlineExceeded(grpc.StatusCode.DEADLINE_EXCEEDED, "DEADLINE_EXCEEDED",
                                   f"study '{self._study_id}' had not ended by the watch's deadline")
        return left

    def receive(self, event: v1.WatchStudyResponse) -> bool:
        """Notes a message. Returns False for one that the reader has no use for: a heartbeat, or one
        that came already before the connection broke."""
        self._heard = time.monotonic()
        self._failures = 0
        if event.kind == "heartbeat" or event.revision <= self._revision:
            return False
        self._revision = event.revision
        return True

    def wait_after(self, error: MeshwrightError) -> float:
        """Returns the time to wait before the next stream. Raises the error if the watch has to end
        with it, or if nothing came from the server for longer than the reader is patient."""
        own_end = error.code is grpc.StatusCode.DEADLINE_EXCEEDED
        if not (own_end or error.code is grpc.StatusCode.UNAVAILABLE or error.reason == "RESYNC"):
            raise error
        if self._end is not None and time.monotonic() >= self._end:
            self.stream_seconds()  # raises
        if time.monotonic() - self._heard >= self._patience:
            raise error
        if own_end:
            return 0.0
        self._failures += 1
        wait = backoff_seconds(self._failures)
        return wait if self._end is None else min(wait, max(0.0, self._end - time.monotonic()))
