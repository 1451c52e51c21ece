#!/usr/bin/env python3
"""Measures a chip by PyTorch, for `meshwright calibrate`: eleven items into one file, which a later run goes on with.

    microbench.py --output chip.json --processes 2
    srun microbench.py --output chip.json --device cuda

docs/microbench.md tells what is measured and how, and what the file holds.
"""

import os
import sys

from calibration import document, flags
from calibration.flags import SOME_FAILED
from train import pytorch


def main(arguments):
    options, parser = flags.parse(arguments, __doc__.splitlines()[0])
    if options.device == "cpu":
        # A rank uses one core. This must be set before PyTorch loads, because its linear algebra
        # library reads it once.
        os.environ.setdefault("OMP_NUM_THREADS", "1")
    missing = pytorch.missing("microbench")
    if missing:
        print(missing, file=sys.stderr)
        return flags.WRONG_USE
    wrong = flags.wrong_use(options)
    from train_step import place
    try:
        rank, starts_others = place(options.processes)
        if rank.rank == 0:
            wrong += flags.unwritable(options.output)
    except ValueError as error:
        wrong.append(str(error))
    if wrong:
        parser.error("; ".join(wrong))
    if not starts_others:
        from calibration.run import run
        return run(rank, options)
    return _launch(arguments, options, rank.world_size)


def _launch(arguments, options, count):
    from train.exit_codes import ExitCode
    from train.launcher import launch
    here = {"device": options.device, "device_count": count}
    refused = document.refusals(options.output, document.load(options.output), here)
    if refused:
        print("\n".join(f"microbench: {one}" for one in refused), file=sys.stderr)
        return ExitCode.INVALID_CONFIG
    code = launch([sys.executable, __file__, *arguments, "--is-started"], count)
    if code:
        return code
    # The launcher only learns if a rank ran well; the file says which items failed.
    items = document.load(options.output)["items"]
    return SOME_FAILED if any(items[name]["status"] == "failed" for name in flags.asked(options)) else code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
