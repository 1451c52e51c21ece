"""Compares random plans of 4 ranks with a single process: random_plans.py SEED SECONDS

This is not part of the suite, which has a case for each form. It looks for combinations that go
wrong.
"""

import random
import sys
import time

import compare
import torch
from parallel_forms_test import GPT, MOE, TIED, TOLERANCE
from pool import Pool
from train.fields import InvalidCase

RANKS = 4


def random_case(choose):
    """Returns (model, plan), which may be illegal."""
    model = {}
    for change in (MOE, GPT, TIED):
        model.update(choose([{}, change]))
    plan = {
        "tensor_parallel": choose([1, 2]), "pipeline_parallel": choose([1, 2, 4]),
        "context_parallel": choose([1, 2]), "sequence_parallel": choose([True, False]),
        "context_parallel_kind": choose(["ring", "ulysses", "all_gather"]),
        "virtual_pipeline": choose([1, 2]), "micro_batch_size": choose([1, 2]),
        "zero_stage": choose([0, 1, 2, 3]), "zero_group_size": choose([0, 0, 2]),
        "whole_weights_ratio": choose([0, 0, 0.5]), "expert_parallel": choose([1, 1, 2, 4]),
        "expert_tensor_parallel": choose([1, 1, 2]),
        "rank_order": choose(["tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp"]),
        "recompute": {"granularity": choose(["none", "selective", "full"])}}
    if plan["pipeline_parallel"] == 2:
        plan["layers_per_stage"] = choose([[], [3, 1], [4, 0]])
    if plan["virtual_pipeline"] == 1:
        plan["schedule"] = choose(["1f1b", "gpipe"])
    return model, plan


def main(seed, seconds):
    torch.set_num_threads(1)
    choose, pool = random.Random(seed).choice, Pool(RANKS)
    tried = wrong = 0
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        model, plan = random_case(choose)
        try:
            compare.case_of(model, {}, plan, RANKS)
        except InvalidCase:
            continue
        tried += 1
        for found in pool.run(compare.differences, model, {}, plan):
            if any(found[figure] > tolerance for figure, tolerance in TOLERANCE.items()):
                wrong += 1
                print({**model, **plan}, {figure: found[figure] for figure in TOLERANCE}, found["worst"])
                break
    pool.close()
    print(f"{tried} plans, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), float(sys.argv[2])))
