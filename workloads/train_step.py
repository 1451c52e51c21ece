#!/usr/bin/env python3
"""The reference training step: trains a model on random tokens under a plan, and says what it took.

    train_step.py --processes 2 --question question.json --plan plan.json --steps 5 --warmup 2

docs/train_step.md tells what it runs, what its lines mean and how it ends.
"""

import argparse
import sys

from train import pytorch
from train.case import read_case
from train.fields import InvalidCase
from train.launcher import launch
from train.output import invalid

WRONG_USE = 2  # exit code, as that of argparse: something is wrong before a rank starts


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--case", help="a file with model, workload and plan")
    parser.add_argument("--question", help="a file with model and workload")
    parser.add_argument("--plan", help="a file with the plan")
    parser.add_argument("--steps", type=int, default=100, help="steps that count (100)")
    parser.add_argument("--warmup", type=int, default=5, help="steps before them (5)")
    parser.add_argument("--seed", type=int, default=1, help="of weights and tokens (1)")
    parser.add_argument("--device", default="cpu", help="cpu, cuda, npu, ...: docs/train_step.md (cpu)")
    parser.add_argument("--processes", type=int, help="start so many ranks on this machine")
    parser.add_argument("--timeout", type=float, default=120, metavar="SECONDS",
                        help="without progress in a rank (120)")
    parser.add_argument("--memory-limit", type=int, metavar="BYTES",
                        help="that a rank may take for the training, on the CPU")
    options = parser.parse_args(arguments)
    missing = pytorch.missing("train_step")
    if missing:
        print(missing, file=sys.stderr)
        parser.exit(WRONG_USE)
    wrong = wrong_use(options)
    try:
        rank, starts_others = place(options.processes)
    except ValueError as error:
        wrong.append(str(error))
    if wrong:
        parser.error("; ".join(wrong))
    return options, rank, starts_others


def wrong_use(options):
    wrong = []
    if (options.case is None) == (options.question is None):
        wrong.append("give either --case or --question (with --plan)")
    if options.case and options.plan:
        wrong.append("--case holds the plan already")
    for name, low, high in (("steps", 1, 2**31), ("warmup", 0, 2**31), ("seed", 0, 2**32), ("processes", 1, 2**16),
                            ("timeout", 1e-3, 1e6), ("memory_limit", 1, 2**62)):
        value = getattr(options, name)
        if value is not None and not low <= value <= high:  # rejects NaN as well
            wrong.append(f"--{name.replace('_', '-')} is {value}; must be {low:g} to {high:g}")
    return wrong


def place(processes):
    """Returns (this process's rank, True if it starts the ranks as --processes asks). Raises
    ValueError."""
    from train.ranks import Rank, rank_from_environment  # loads PyTorch
    outer = rank_from_environment(may_start_others=processes is not None)
    if processes is None or (outer and outer.world_size == processes):
        return outer or Rank(0, 1, 0), False
    if outer and outer.world_size > 1:
        raise ValueError(f"--processes {processes}: this is one of {outer.world_size} ranks by its environment")
    return Rank(0, processes, 0), processes > 1


def main(arguments):
    options, rank, starts_others = parse(arguments)
    try:
        case = read_case(options.case or options.question, options.plan, rank.world_size)
    except InvalidCase as error:
        return invalid(error.wrong, rank.rank)
    if starts_others:
        return launch([sys.executable, __file__, *arguments], rank.world_size)
    from train.run import run  # PyTorch takes a second to load, and the launcher does not need it
    return run(case, rank, options)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
