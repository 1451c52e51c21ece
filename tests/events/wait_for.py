"""Waits for other processes. This is the only place in the Python tests that sleeps to wait."""

import time


def wait_until(has_happened, seconds=120):
    """Returns True once it has happened, or False if it has not within a time that is far above
    what anything takes."""
    deadline = time.monotonic() + seconds
    while not has_happened():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True
