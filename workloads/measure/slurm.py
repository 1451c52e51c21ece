"""Reads what Slurm's variables say about this process."""

from __future__ import annotations


def is_batch_script(environment):
    """Returns True for a batch script. It has the variables of rank 0, but is not a task of srun:
    its step has no number (Slurm 22.05), or one of those above 2^31 that Slurm reserves."""
    step = environment.get("SLURM_STEP_ID", "")
    return "SLURM_PROCID" in environment and not (step.isdecimal() and int(step) < 2**31)
