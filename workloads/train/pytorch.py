"""Finds out if this Python can load PyTorch, before what needs it is imported."""

import sys


def missing(program):
    """Returns a line that says why PyTorch cannot be loaded and how to get it, or None."""
    try:
        import torch  # noqa: F401
    except (ImportError, OSError) as error:  # it is not installed, or a library of it cannot be loaded
        why = str(error).splitlines()[0] if str(error) else type(error).__name__
        return (f"{program}: needs PyTorch, which this Python ({sys.executable}) cannot load: {why}; start it with the "
                "Python of your training jobs, or install PyTorch (Debian: apt install python3-torch; for an "
                "accelerator, the build of its vendor)")
    return None
