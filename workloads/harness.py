#!/usr/bin/env python3
"""Runs a training command and measures its steps: docs/harness.md.

    harness.py --attempt ID --token N --folder DIR --format FORMAT [options] -- COMMAND ARGS...

Python 3.9 or newer on Linux, standard library only.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import sys
import time

from measure import failures, formats, machine, result, slurm
from measure.masking import Masker
from measure.output import Output
from measure.run import Limits, Run
from measure.suspects import ATTEMPT_VARIABLE, Suspects

# Launchers tell a process its rank and the number of ranks in the first of these variables that is
# set. Variables at the same position belong together, but some launchers set only one of a pair.
_RANK_VARIABLES = ("RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID", "NODE_RANK")
_COUNT_VARIABLES = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMIX_SIZE", "PMI_SIZE", "SLURM_NTASKS", "NNODES")


def main(argv, now=time.monotonic):
    """Runs the harness and returns its exit code. `now` returns the time that the limits are held
    against."""
    own, command = _split(argv)
    parser = _parser()
    args = parser.parse_args(own)
    wrong = [] if command else ["no command: it stands behind --"]
    if not 1 <= args.min_steps <= args.max_steps:
        wrong.append(f"--min-steps {args.min_steps}: must be between 1 and --max-steps {args.max_steps}")
    rank, count = _place()
    measuring_rank = args.measuring_rank
    if measuring_rank == "last" and count is None:
        wrong.append("--measuring-rank last: the environment does not say how many ranks there are")
    elif measuring_rank == "last":
        measuring_rank = count - 1
    elif count is not None and measuring_rank >= count:
        wrong.append(f"--measuring-rank {measuring_rank}: must be below {count}, the ranks by the environment")
    job_format = rules = notable = None
    try:
        job_format = formats.named(args.format, args.field, args.pattern,
                                   formats.JobSize(args.global_batch_size, args.sequence_length, args.device_count))
    except formats.FormatError as error:
        wrong.append(str(error))
    try:
        rules, notable = failures.load(args.failures)
    except failures.RulesError as error:
        wrong.append(str(error))
    if wrong:
        parser.error("; ".join(wrong))
    os.environ[ATTEMPT_VARIABLE] = args.attempt
    if rank != measuring_rank:
        return _run_unmeasured(args, command, rules, notable)
    return _measure(args, command, (job_format, rules, notable), now)


def _measure(args, command, reads, now):
    """Runs the command, writes the result and returns our exit code."""
    job_format, rules, notable = reads
    start_ms = int(time.time() * 1000)
    path = os.path.join(args.folder, args.attempt)
    try:
        os.makedirs(args.folder, exist_ok=True)
        output_file, progress_file = open(path + ".out", "wb"), open(path + ".progress.jsonl", "w", encoding="utf-8")
    except OSError as error:
        print(f"harness.py: --folder {args.folder}: {error.strerror}", file=sys.stderr)
        return failures.EXIT_CODES["launch_error"]
    masker = Masker(os.environ, command)
    output = Output(output_file, masker, notable)
    progress = result.Progress(progress_file, args.attempt, args.token, now)
    tools = machine.table()
    suspects = Suspects(tools, args.attempt)
    run = Run(_limits(args), job_format, output, progress, suspects, now)
    environment = machine.describe(tools, masker)

    run.run(command)

    verdict = _verdict(run, rules, output, args)
    reasons = suspects.reasons() + _drift(run, args.interval_ratio)
    environment["reported"] = masker.mask_all(run.reported)
    environment["skipped"] += suspects.skipped
    environment["digest"] = machine.digest(environment, tools["reported_in_digest"])
    document = {**_frame(args, command, masker, start_ms),
                **result.compose(run, output, verdict, environment, reasons)}
    document["message"] = masker.mask(document["message"])
    return _hand_over(path + ".result.json", document)


def _split(argv):
    if "--" not in argv:
        return argv, []
    cut = argv.index("--")
    return argv[:cut], argv[cut + 1:]


def _parser():
    parser = argparse.ArgumentParser(prog="harness.py", allow_abbrev=False,
                                     usage="%(prog)s --attempt ID --token N --folder DIR [options] -- COMMAND ...")
    add = parser.add_argument
    add("--attempt", required=True, type=_attempt, help="id of the attempt; the files are named after it")
    add("--token", required=True, type=int, help="the lease's token, handed back in the result")
    add("--folder", required=True, help="where the files go; made if missing")
    add("--format", default="meshwright", choices=formats.names(), help="what the job prints (default: %(default)s)")
    add("--pattern", action="append", default=[], metavar="REGEX", help="for --format regex; may be repeated")
    add("--field", action="append", default=[], metavar="QUANTITY=NAME", help="for --format json; may be repeated")
    add("--global-batch-size", type=_positive_count, metavar="N", help="samples a step, where the job prints a rate")
    add("--sequence-length", type=_positive_count, metavar="N", help="tokens a sample, where it prints tokens a second")
    add("--device-count", type=_positive_count, metavar="N", help="devices, where it prints tokens a second and device")
    add("--failures", action="append", default=[], metavar="FILE", help="a vendor's rules, tried before ours")
    add("--warmup", type=_count, default=5, metavar="N", help="steps left out (default: %(default)s)")
    add("--min-steps", type=_count, default=10, metavar="N", help="fewest measured (default: %(default)s)")
    add("--max-steps", type=_count, default=100, metavar="N", help="most measured (default: %(default)s)")
    add("--interval-ratio", type=_ratio, default=0.02, metavar="X",
        help="stop when the median is known this well (default: %(default)s)")
    add("--start-limit", type=_positive, default=1800.0, metavar="SECONDS",
        help="until the first step (default: %(default)s)")
    add("--hang-limit", type=_positive, default=60.0, metavar="SECONDS",
        help="without a step, at least; ten usual steps if that is more (default: %(default)s)")
    add("--time-limit", type=_positive, default=math.inf, metavar="SECONDS", help="for all (default: none)")
    add("--grace", type=_positive, default=10.0, metavar="SECONDS", help="from TERM to KILL (default: %(default)s)")
    add("--measuring-rank", type=_rank, default=0, metavar="N|last",
        help="the rank that measures when every rank has a harness (default: %(default)s)")
    return parser


def _attempt(text):
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", text):
        raise argparse.ArgumentTypeError(f"{text!r} must be letters, digits, '.', '_' and '-', at most 128")
    return text


def _positive(text):
    value = float(text)
    if not value > 0:
        raise argparse.ArgumentTypeError(f"{text} must be above 0")
    return value


def _ratio(text):
    value = float(text)
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text} must be 0 or more")
    return value


def _positive_count(text):
    if not _count(text):
        raise argparse.ArgumentTypeError(f"{text!r} must be 1 or more")
    return int(text)


def _count(text):
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number, 0 or more")
    return int(text)


def _rank(text):
    return text if text == "last" else _count(text)


def _limits(args):
    return Limits(warmup=args.warmup, min_steps=args.min_steps, max_steps=args.max_steps,
                  interval_ratio=args.interval_ratio, start_seconds=args.start_limit, hang_seconds=args.hang_limit,
                  time_seconds=args.time_limit, grace_seconds=args.grace)


def _place():
    """Returns (our rank, number of ranks). The number is None if a launcher does not tell it.
    Without a launcher, returns (0, 1)."""
    for name, partner in zip(_RANK_VARIABLES, _COUNT_VARIABLES):
        if os.environ.get(name, "").isdigit() and not (name == "SLURM_PROCID" and slurm.is_batch_script(os.environ)):
            counts = [os.environ[other] for other in (partner, *_COUNT_VARIABLES)
                      if os.environ.get(other, "").isdigit()]
            return int(os.environ[name]), int(counts[0]) if counts else None
    return 0, 1


def _run_unmeasured(args, command, rules, notable):
    """Runs the command on a rank that does not measure and passes its output on with secrets
    masked. If the command failed by itself, says why. Returns our exit code."""
    start_ms = int(time.time() * 1000)
    masker = Masker(os.environ, command)
    output = Output(os.fdopen(os.dup(sys.stdout.fileno()), "wb"), masker, notable)
    nowhere = result.Progress(open(os.devnull, "w", encoding="utf-8"), args.attempt, args.token)
    run = Run(Limits(warmup=0, min_steps=1, max_steps=1, interval_ratio=0.0, start_seconds=math.inf,
                     hang_seconds=math.inf, time_seconds=math.inf, grace_seconds=args.grace),
              formats.Format([]), output, nowhere, None)

    run.run(command)

    if run.ending:
        return failures.EXIT_CODES[run.ending.name]
    if run.ended["exit_code"] == 0:
        return failures.EXIT_CODES["ok"]
    if run.ended["error"]:
        print(f"harness.py: {run.ended['error']}", file=sys.stderr)
    verdict = failures.classify(rules, run.ended, output.kept(), run.oom_kills)
    if verdict[0] != "cancelled":  # the reason for a cancelled run is known to whoever cancelled it
        rank = _place()[0]
        document = {**_frame(args, command, masker, start_ms), "rank": rank,
                    **result.how_it_ended(run, output, verdict)}
        document["message"] = masker.mask(document["message"])
        _write(result.rank_failure(args.folder, args.attempt, rank), document)
    return failures.EXIT_CODES[verdict[0]]


def _frame(args, command, masker, start_ms):
    """Returns the members that every document of an attempt begins with."""
    return {"meshwright_result": 1, "attempt": args.attempt, "token": args.token,
            "command": [masker.mask(argument) for argument in command],
            "start_time_ms": start_ms, "end_time_ms": int(time.time() * 1000)}


def _verdict(run, rules, output, args):
    """Returns (class, matched, message)."""
    count = len(run.times.measured)
    rule = {"rule": "steps", "line": None, "line_number": None}
    if run.ending:
        name, matched, message = run.ending.name, {**rule, "rule": run.ending.rule}, run.ending.message
    elif run.ended["exit_code"] != 0:
        name, matched, message = failures.classify(rules, run.ended, output.kept(), run.oom_kills)
    elif count < args.min_steps:
        return ("metrics_missing", rule, f"the command ended with {count} measured steps; {args.min_steps} are needed")
    else:
        return ("ok", rule, f"{count} steps are measured; the command ended by itself")
    was_ended = run.ending and name in ("timeout", "hang") or name == "cancelled"
    if was_ended and count >= args.min_steps and not result.other_rank_failed(args.folder, args.attempt, args.token):
        return ("ok", matched, f"{count} steps are measured; {message}")
    return (name, matched, message)


def _drift(run, smallest_ratio):
    moved = run.times.drift(smallest_ratio)
    if moved is None:
        return []
    first, second = moved
    return [{"reason": "drift", "first_half_seconds": first, "second_half_seconds": second,
             "message": f"the steps' median went from {first:.6g} s in the first half to {second:.6g} s in the second"}]


def _hand_over(path, document):
    """Writes the result to its file and to stdout. Returns our exit code."""
    _write(path, document)
    try:
        print(result.PREFIX + result.one_line(document), flush=True)
    except OSError:
        pass  # nobody reads stdout, but the file is there
    return failures.EXIT_CODES[document["class"]]


def _write(path, document):
    try:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        result.write(path, document)
    except OSError as error:
        print(f"harness.py: {path}: {error.strerror}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
