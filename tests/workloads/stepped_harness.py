"""Runs the harness by a clock that tests step: stepped_harness.py STEPS SECONDS FILE ARGUMENTS...

The clock stands still until the harness has read that many steps. Then so many seconds pass at
once, and FILE appears when the harness has held them against its limits and goes on.
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "workloads"))

import harness
from measure import result


def main(step_count, seconds, file, *arguments):
    passed = 0.0

    class Progress(result.Progress):
        """Is told the number of steps after each look at the limits."""

        def show(self, state, steps, step_time_seconds):
            nonlocal passed
            super().show(state, steps, step_time_seconds)
            if passed:
                pathlib.Path(file).touch()
            elif steps >= int(step_count):
                passed = float(seconds)

    result.Progress = Progress
    return harness.main(list(arguments), now=lambda: passed)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
