#!/usr/bin/env python3
"""The reference training step: trains a model on random tokens under a plan, and says what it took.

    train_step.py --processes 2 --question question.json --plan plan.json --steps 5 --warmup 2

docs/train_step.md tells what it runs, what its lines mean and how it ends.
"""

import argparse
import sys

from train.case import read_case
from train.fields import InvalidCase
from train.launcher import launch
from train.output import invalid
from train.ranks import Rank, rank_from_environment


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
    if (options.case is None) == (options.question is None):
        parser.error("give either --case or --question (with --plan)")
    if options.case and options.plan:
        parser.error("--case holds the plan already")
    if options.steps < 1 or options.warmup < 0 or (options.processes or 1) < 1 or options.timeout <= 0:
        parser.error("--steps, --processes and --timeout must be positive, --warmup not negative")
    options.paths = [path for path in (options.case, options.question, options.plan) if path]
    return options


def main(arguments):
    options = parse(arguments)
    rank = rank_from_environment()
    if rank is None:
        rank = Rank(0, options.processes or 1, 0)
        starts_others = rank.world_size > 1
    else:
        starts_others = False
    try:
        case = read_case(options.paths, rank.world_size)
    except InvalidCase as error:
        return invalid(error.wrong, rank.rank)
    if starts_others:
        return launch([sys.executable, __file__, *arguments], rank.world_size)
    from train.run import run  # PyTorch takes a second to load, which the launcher does not need
    return run(case, rank, options)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
