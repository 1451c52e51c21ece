"""One row to measure."""

import dataclasses
from typing import Callable

from . import timing


class Skip(Exception):
    """An item that cannot be measured on this machine, with the reason. Raised on all ranks
    alike."""


class LeftOut(Exception):
    """A point that cannot be measured here, with the reason. Raised by `prepare` or `measure`."""


@dataclasses.dataclass(frozen=True)
class Point:
    """A row to measure. An item is a generator of points. It is sent the finished row, or None if
    the row was left out or did not fit in memory. Every rank runs the generator, but only the ranks in `ranks` run
    `prepare` and `measure`."""
    row: dict  # the members that say what is measured
    prepare: Callable  # makes the operands, which may exhaust memory, and returns what `measure` takes
    measure: Callable = timing.of_device  # takes (bench, prepared) and returns the row's other members
    ranks: tuple = (0,)  # ranks that measure; the answer of rank 0 counts
