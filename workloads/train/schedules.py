"""The order in which a stage runs the forward and backward passes of its micro-batches."""

import collections

Pass = collections.namedtuple("Pass", "is_forward micro chunk")


def passes(schedule, stage, stages, chunks, micro_batches):
    if schedule == "gpipe":
        return ([Pass(True, m, 0) for m in range(micro_batches)]
                + [Pass(False, m, 0) for m in reversed(range(micro_batches))])
    total = micro_batches * chunks
    if schedule == "1f1b":
        warm_up = stages - stage - 1
    else:
        # Narayanan et al. 2021, arXiv 2104.04473; as in Megatron-Core's schedules.py.
        warm_up = 2 * (stages - stage - 1) + (chunks - 1) * stages
    warm_up = min(warm_up, total)
    forward = [_pass(True, i, stages, chunks) for i in range(total)]
    backward = [_pass(False, i, stages, chunks) for i in range(total)]
    order = forward[:warm_up]
    for i in range(total - warm_up):
        order += [forward[warm_up + i], backward[i]]
    return order + backward[total - warm_up:]


def _pass(is_forward, i, stages, chunks):
    """Returns the i-th pass. Micro-batches go in groups as large as the number of stages, chunk
    after chunk."""
    if chunks == 1:
        return Pass(is_forward, i, 0)
    group, within = divmod(i, stages * chunks)
    chunk, micro = divmod(within, stages)
    return Pass(is_forward, group * stages + micro, chunk if is_forward else chunks - 1 - chunk)
