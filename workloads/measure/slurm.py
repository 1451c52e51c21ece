"""What Slurm's variables say of this process."""

from __future__ import annotations


def is_batch_script(environment):
    """A batch script has the variables of rank 0, but is no task of srun: its step has no number (Slurm 22.05), or one
    of those above 2^31 that Slurm sets aside."""
    step = environment.get("SLURM_STEP_ID", "")
    return "SLURM_PROCID" in environment and not (step.isdecimal() and int(step) < 2**31)
