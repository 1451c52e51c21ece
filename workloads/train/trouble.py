"""Trouble on demand, to test programs that run the step: MESHWRIGHT_TROUBLE=KIND:RANK:STEP.

For tests only. RANK * means every rank. The kinds: hang, crash (a signal), kill (as the kernel
does), raise (an exception), nan (a weight is not a number), silent (ends well without a result),
garbage (lines that are not JSON).
"""

import os
import signal
import sys
import time


def make_trouble(rank, step, units, environment=os.environ):
    kind, _, where = environment.get("MESHWRIGHT_TROUBLE", "").partition(":")
    if where not in (f"{rank}:{step}", f"*:{step}"):
        return
    if kind == "hang":
        time.sleep(10**6)
    elif kind == "crash":
        os.abort()
    elif kind == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif kind == "raise":
        raise RuntimeError("trouble on demand")
    elif kind == "nan":
        units[0].flat.fill_(float("nan"))
    elif kind == "silent":
        os._exit(0)
    elif kind == "garbage":
        print("garbage {\n\0\x1b[1m[]", flush=True, file=sys.stdout)
