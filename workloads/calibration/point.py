"""One row to measure."""

import dataclasses
from typing import Callable

from . import timing


class Skip(Exception):
    """An item that this machine cannot have, and why; raised on all ranks alike."""


def _time_alone(bench, call):
    return {"time_seconds": timing.alone(bench, call)}


@dataclasses.dataclass(frozen=True)
class Point:
    """Items are generators of these, which are sent the finished row, or None where it did not fit in memory. Every
    rank runs the generator; `prepare` and `measure` only those of `ranks`."""
    row: dict  # what is measured
    prepare: Callable  # makes the operands, where memory may run out, and gives what `measure` takes
    measure: Callable = _time_alone  # of (bench, prepared): the row's other members
    ranks: tuple = (0,)  # of which rank 0's answer counts
