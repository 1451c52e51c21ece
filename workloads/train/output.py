"""Writes lines to standard output, one JSON object each: docs/train_step.md."""

import json
import os
import sys

from .exit_codes import ExitCode

PROTOCOL = 1
_LONGEST_MESSAGE = 2000  # short enough that a line fits in one write to a pipe and is not mixed with other ranks'
                         # lines


def emit(event, **fields):
    os.write(sys.stdout.fileno(), (json.dumps({"event": event, **fields}) + "\n").encode())


def emit_first(**fields):
    """Writes the line that states the protocol of all other lines."""
    os.write(sys.stdout.fileno(),
             (json.dumps({"meshwright": PROTOCOL, "event": "environment", **fields}) + "\n").encode())


def failure(code, rank, message):
    emit("failure", **{"class": code.name}, rank=rank, message=message[-_LONGEST_MESSAGE:])


def invalid(wrong, rank):
    """Reports an invalid case. Every rank finds the same mistakes, so only the first reports
    them."""
    if rank == 0:
        emit("failure", **{"class": ExitCode.INVALID_CONFIG.name}, rank=rank,
             message="; ".join(f"{field}: {what}" for field, what in wrong),
             fields=[{"field": field, "message": what} for field, what in wrong])
        for field, what in wrong:
            print(f"train_step: {field} {what}", file=sys.stderr)
    return ExitCode.INVALID_CONFIG
