"""The exit codes, which say how a run ended."""

import enum


class ExitCode(enum.IntEnum):
    """The exit codes documented in docs/train_step.md. If several ranks fail, the highest code says
    most. The launcher keeps it, and so does srun, which ends with the highest code of its tasks."""

    DONE = 0
    PEER_LOST = 80  # a collective failed because another rank had ended
    COLLECTIVE_TIMEOUT = 81
    CRASH = 82
    NUMERIC = 83  # the loss or the gradient is not finite
    INVALID_CONFIG = 84
    OUT_OF_HOST_MEMORY = 85
    OUT_OF_DEVICE_MEMORY = 86


class NumericError(Exception):
    """The loss or the gradient is not finite."""


# Parts of libraries' messages, in lower case, about failures that have a code of their own.
_DEVICE_MEMORY = ("out of memory", "alloc_failed", "memory allocation failure", "resource_exhausted")
_HOST_MEMORY = ("defaultcpuallocator", "can't allocate memory", "cannot allocate memory", "bad_alloc",
                "cannot reserve memory")
_TIMEOUT = ("timed out", "timeout")
_PEER = ("connection closed by peer", "connection reset", "broken pipe", "connection refused",
         "remote process", "remote error", "socket closed")


def classify(error, device_is_host):
    """Returns the code of an exception. On the CPU, the device's memory is the host's."""
    if isinstance(error, NumericError):
        return ExitCode.NUMERIC
    words = f"{type(error).__name__}: {error}".lower()
    if isinstance(error, MemoryError) or any(part in words for part in _HOST_MEMORY):
        return ExitCode.OUT_OF_DEVICE_MEMORY if device_is_host else ExitCode.OUT_OF_HOST_MEMORY
    if any(part in words for part in _DEVICE_MEMORY):
        return ExitCode.OUT_OF_DEVICE_MEMORY
    if any(part in words for part in _PEER):
        return ExitCode.PEER_LOST
    if any(part in words for part in _TIMEOUT):
        return ExitCode.COLLECTIVE_TIMEOUT
    return ExitCode.CRASH
