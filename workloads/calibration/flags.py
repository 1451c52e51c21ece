"""The flags of microbench.py and their defaults."""

import argparse
import os
import tempfile

from .document import ITEMS

WRONG_USE = 2  # exit code, as that of argparse: something is wrong before anything is measured
SOME_FAILED = 10  # exit code; the file says which items failed and why
_PRECISIONS = ("fp32", "bf16", "fp16", "fp8")
_MEBI = 2**20

# Flags that are not given come from these rows; each row overrides the one before.
_DEVICE = {"precisions": ["bf16", "fp32", "fp8"], "gemm_shapes": 32, "seconds_per_point": 0.05,
           "sustained_seconds": 10.0, "max_bytes": 1024 * _MEBI}
_CPU = {"precisions": ["fp32"], "seconds_per_point": 0.2, "max_bytes": 256 * _MEBI}
_QUICK = {"gemm_shapes": 4, "seconds_per_point": 0.002, "sustained_seconds": 0.2, "max_bytes": _MEBI}


def parse(arguments, description):
    """Returns (options, parser). wrong_use() checks the values."""
    def names(text):
        return [name for name in text.split(",") if name]
    parser = argparse.ArgumentParser(description=description, allow_abbrev=False)
    parser.add_argument("--output", required=True, metavar="FILE", help="of the results; what it holds is kept")
    parser.add_argument("--processes", type=int, metavar="N", help="start so many ranks on this machine")
    parser.add_argument("--device", default="cpu", help="cpu, cuda, npu, ...: docs/train_step.md (cpu)")
    parser.add_argument("--only", type=names, default=[], metavar="ITEM,...", help=f"of {', '.join(ITEMS)}")
    parser.add_argument("--skip", type=names, default=[], metavar="ITEM,...", help="all but these")
    parser.add_argument("--again", action="store_true", help="measure the items of --only afresh")
    parser.add_argument("--precisions", type=names, metavar="NAME,...", help="fp32, bf16, fp16, fp8 (cpu: fp32; "
                        "else bf16,fp32,fp8); elementwise operations take the first but fp8")
    parser.add_argument("--gemm-shapes", type=int, metavar="N", help="shapes of the design in all; what the file "
                        "holds of them stays (32)")
    parser.add_argument("--seconds-per-point", type=float, metavar="S", help="to repeat a measurement (cpu: 0.2; "
                        "else 0.05)")
    parser.add_argument("--sustained-seconds", type=float, metavar="S", help="of sustained_gemm (10)")
    parser.add_argument("--max-bytes", type=int, metavar="B", help="of the largest buffers (cpu: 2^28; else 2^30)")
    parser.add_argument("--seed", type=int, default=1, help="of what the operands hold (1)")
    parser.add_argument("--timeout", type=float, default=120, metavar="SECONDS",
                        help="without progress in a rank (120)")
    parser.add_argument("--quick", action="store_true", help="few, small points: to test the program, not the chip")
    parser.add_argument("--is-started", action="store_true", help=argparse.SUPPRESS)  # --processes sets it
    options = parser.parse_args(arguments)
    presets = {**_DEVICE, **(_CPU if options.device == "cpu" else {}), **(_QUICK if options.quick else {})}
    for name, value in presets.items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    return options, parser


def wrong_use(options):
    from train.devices import DEVICES
    wrong = []

    def known(flag, names, all_names):
        for name in names:
            if name not in all_names:
                wrong.append(f"--{flag} {name}; there are {', '.join(all_names)}")
    known("device", [options.device], tuple(DEVICES))
    if options.device in DEVICES:
        wrong += _missing_device(DEVICES[options.device])
    known("only", options.only, ITEMS)
    known("skip", options.skip, ITEMS)
    known("precisions", options.precisions, _PRECISIONS)
    if not options.precisions:
        wrong.append("--precisions names none")
    if options.only and options.skip:
        wrong.append("give --only or --skip")
    if options.again and not options.only:
        wrong.append("--again needs --only")
    for name, low, high in (("processes", 1, 2**16), ("gemm_shapes", 1, 10**4), ("seconds_per_point", 1e-6, 3600),
                            ("sustained_seconds", 1e-3, 3600), ("max_bytes", 2**17, 2**40), ("seed", 0, 2**32),
                            ("timeout", 1e-3, 1e6)):
        value = getattr(options, name)
        if value is not None and not low <= value <= high:  # rejects NaN as well
            wrong.append(f"--{name.replace('_', '-')} is {value}; must be {low:g} to {high:g}")
    return wrong


def _missing_device(row):
    from train.devices import module_of
    try:
        module = module_of(row)
        if module is not None and module.device_count() < 1:
            return [f"--device {row.name}: PyTorch sees no such device"]
    except (ImportError, AttributeError, OSError, RuntimeError) as error:  # the plug-in is missing or broken
        return [f"--device {row.name}: its PyTorch is not here ({error})"]
    return []


def unwritable(path):
    """Returns the reason why rank 0 could not write the file, so that the run can stop before it
    measures."""
    if os.path.isdir(path):
        return [f"--output {path} is a folder"]
    try:
        with tempfile.TemporaryFile(dir=os.path.dirname(os.path.abspath(path))):
            return []
    except OSError as error:
        return [f"--output {path} cannot be written: {error.strerror}"]


def asked(options):
    """Returns the names of the items to measure, in order."""
    return [name for name in ITEMS if name not in options.skip and (not options.only or name in options.only)]
