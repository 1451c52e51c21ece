#!/usr/bin/env python3
"""Counts the starts that are lost while a job needs more memory than the model says.

    bench/lost_starts.py build/release/bin/meshwright [FACTOR...]

For each factor, Llama-2-70B on 128 A100 is asked for with an empty history. The first plan runs out
of memory if the memory that the untaught model gives it, times the factor, exceeds the device's. The
failure is reported, and the question is asked again, until a plan runs.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

EXAMPLE = pathlib.Path(__file__).resolve().parent.parent / "examples" / "llama2-70b"
MOST_STARTS = 12


def ask(program, store, *arguments):
    """Returns the JSON answer of a command that must succeed."""
    done = subprocess.run([program, *arguments, "--db", store, "--output", "json"], text=True,
                          capture_output=True, check=True)
    return json.loads(done.stdout)


def starts(program, factor):
    """Yields (GiB by the untaught model, step seconds, whether it ran) of each start."""
    question = [argument for name in ("model", "workload", "cluster")
                for argument in (f"--{name}", EXAMPLE / f"{'config' if name == 'model' else name}.json")]
    with tempfile.TemporaryDirectory() as folder:
        store = f"{folder}/history.db"
        for _ in range(MOST_STARTS):
            answer = ask(program, store, "tune", "--top", "1", *question)
            estimate = answer["plans"][0]["estimate"]
            learnt = answer.get("calibration", {}).get("memory_ratio", 1)
            untaught = estimate["reserved_memory_bytes"] / learnt
            ran = untaught * factor <= estimate["memory_capacity_bytes"]
            yield untaught / 2**30, estimate["step_time_seconds"], ran
            if ran:
                return
            ask(program, store, "job", "report", "--study", answer["study_id"], "--rank", "1",
                "--outcome", "oom")


def main(program, *factors):
    for factor in [float(text) for text in factors] or [1.15, 1.4, 1.7, 2.1, 2.8]:
        print(f"memory x {factor}")
        for number, (untaught, seconds, ran) in enumerate(starts(program, factor), 1):
            print(f"  {number}: {untaught:5.1f} GiB by the model, {seconds:.1f} s a step: "
                  f"{'ran' if ran else 'out of memory'}")


if __name__ == "__main__":
    main(*sys.argv[1:])
