"""Tests the limits of jobs, their budgets and their progress; run like cli_jobs_test.py."""

import json
import os
import re
import subprocess
import sys
import unittest

from jobs_folder import CLUSTER, LAUNCHER, MODEL, PYTHON, WORKLOAD, JobsFolder, ServedFolder
from jobs_folder import setUpModule  # noqa: F401: unittest calls it
from programs import MESHWRIGHT

# Prints steps after BODY until it is ended.
STEPS = """
import json, os, pathlib, signal, sys
{body}
for step in range(40):
    print(json.dumps({{"meshwright": 1, "event": "step", "step": step, "step_time_seconds": 0.5, "is_warmup": False}}),
          flush=True)
signal.pause()
"""


class LimitsTest(JobsFolder):

    def run_body(self, body, expect=0, **job):
        """Runs one trial of a program with this body and returns it."""
        program = self.write("program.py", STEPS.format(body=body))
        # Libraries take memory for every processor.
        job.setdefault("environment", ["OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1"])
        job = self.job(command=[PYTHON, program, "{folder}", "{attempt}"], **job)
        answer = json.loads(self.tune(trials=1, job=job, expect=expect).stdout)
        self.assertEqual(len(answer["trials"]), 1)
        return answer["trials"][0]

    def attempts(self):
        study = json.loads(self.run_cli("study", "list", "--output", "json").stdout)["studies"][0]["id"]
        shown = self.run_cli("study", "attempts", study, "--trial", "1", "--output", "json").stdout
        return json.loads(shown)["attempts"]


class LocalOptionsTest(LimitsTest):
    """Options of launcher local."""

    # Reserves memory that is never touched; the machine has enough of it.
    HOLDS = "import torch; held = torch.empty({}, dtype=torch.uint8)"
    MUCH, LITTLE, LIMIT = 3_000_000_000, 50_000_000, 2_000_000_000

    def test_memory_within_the_limit(self):
        trial = self.run_body(self.HOLDS.format(self.LITTLE), memory_limit_bytes=self.LIMIT)
        self.assertEqual(trial["outcome"], "ok", trial)

    def test_memory_beyond_the_limit(self):
        trial = self.run_body(self.HOLDS.format(self.MUCH), memory_limit_bytes=self.LIMIT, expect=10)
        self.assertEqual((trial["outcome"], trial["failure_class"]), ("crash", "oom_host"), trial)
        attempts = self.attempts()
        self.assertEqual([a["failure_class"] for a in attempts], ["oom_host", "oom_host"])
        self.assertIn("can't allocate memory", attempts[0]["log_tail"] + attempts[0]["log_head"])

    def test_memory_without_a_limit(self):
        self.assertEqual(self.run_body(self.HOLDS.format(self.MUCH))["outcome"], "ok")

    def test_the_least_limit_is_enough_for_the_harness(self):
        self.assertEqual(self.run_body("", memory_limit_bytes=64 << 20)["outcome"], "ok")

    # The trial ends with the steps of one process, so none begins before all have written.
    SAYS = """
import time
path = pathlib.Path(sys.argv[1], f"{sys.argv[2]}.rank{os.environ['RANK']}.written")
path.write_text(os.environ["CUDA_VISIBLE_DEVICES"] + " of " + os.environ["MESHWRIGHT_DEVICES"])
path.rename(path.with_suffix(".sees"))
while len(list(path.parent.glob(f"{sys.argv[2]}.*.sees"))) < int(os.environ["WORLD_SIZE"]):
    time.sleep(0.01)
"""

    def sees(self, **job):
        """Returns what the processes of a job have written, and removes it."""
        trial = self.run_body(self.SAYS, visible_devices_variable="CUDA_VISIBLE_DEVICES", **job)
        self.assertEqual(trial["outcome"], "ok", trial)
        paths = sorted(self.jobs.glob("*.sees"))
        seen = [path.read_text() for path in paths]
        for path in paths:
            path.unlink()
        return seen

    def test_devices_that_a_job_sees(self):
        own = os.environ.pop("CUDA_VISIBLE_DEVICES", None)
        if own is not None:
            self.addCleanup(os.environ.__setitem__, "CUDA_VISIBLE_DEVICES", own)
        self.assertEqual(self.sees(), ["0,1 of 0,1"] * 2)
        # One process may start the processes of all devices.
        self.assertEqual(self.sees(processes_per_node=1), ["0,1 of 0,1"])
        os.environ["CUDA_VISIBLE_DEVICES"] = "4,GPU-a,7"
        self.addCleanup(os.environ.pop, "CUDA_VISIBLE_DEVICES", None)
        self.assertEqual(self.sees(), ["4,GPU-a of 0,1"] * 2)
        self.assertEqual(self.sees(environment=["CUDA_VISIBLE_DEVICES=2,3"]), ["2,3 of 0,1"] * 2)
        os.environ["CUDA_VISIBLE_DEVICES"] = "4"
        errors = self.tune(trials=1, job=self.job(visible_devices_variable="CUDA_VISIBLE_DEVICES"), expect=3).stderr
        self.assertIn("job.visible_devices_variable", errors)
        self.assertIn("CUDA_VISIBLE_DEVICES=4; must list at least 2 devices", errors)


# A training program whose steps take as long as the model says.
AS_MODELLED = """
import json, signal, subprocess, sys
evaluate = [sys.argv[1], "evaluate", "--cases", sys.argv[2], "--db", sys.argv[2] + ".none"]
seconds = json.loads(subprocess.run(evaluate, capture_output=True, check=True).stdout)["step_time_seconds"]
for step in range(40):
    print(json.dumps({"meshwright": 1, "event": "step", "step": step, "step_time_seconds": seconds, "is_warmup": False}),
          flush=True)
signal.pause()
"""


class EndOfTrialsTest(JobsFolder):

    def test_trials_end_when_little_is_left_to_gain(self):
        program = self.write("modelled.py", AS_MODELLED)
        job = self.job(command=[PYTHON, program, str(MESHWRIGHT), "{case_file}"])

        def tune(name, trials, stop_within):
            done = self.tune("--disable-rule", "bound", "--db", str(self.folder / name), trials=trials, job=job,
                             stop_within=stop_within)
            return json.loads(done.stdout)

        answer = tune("default.db", 12, None)
        summary = answer["trial_summary"]
        self.assertEqual(summary["stop_reason"], "within_ratio")
        self.assertIn({"field": "trials.stop_within_ratio", "value": "0.02", "source": "trials of real jobs"},
                      answer["applied_defaults"])
        best = min(trial["step_time_seconds"] for trial in answer["trials"])
        self.assertEqual(summary["best_step_time_seconds"], best)
        self.assertGreaterEqual(summary["optimistic_step_time_seconds"], 0.98 * best)
        shown = self.run_cli("study", "list", "--db", str(self.folder / "default.db"), "--output", "json").stdout
        shown = self.run_cli("study", "show", json.loads(shown)["studies"][0]["id"], "--db",
                             str(self.folder / "default.db")).stdout
        self.assertRegex(shown, "ended by within_ratio\nThe best measured .* most promising remaining plan")
        # Zero is stated, so that no ratio ends the trials early.
        more = len(answer["trials"]) + 1
        answer = tune("zero.db", more, "0")
        self.assertEqual(answer["trial_summary"]["stop_reason"], "trial_limit")
        self.assertEqual(len(answer["trials"]), more)


class ProgressTest(ServedFolder):

    def test_how_far_a_running_job_has_come(self):
        self.let_jobs_wait(waits=3)  # one to warm up, and two that are measured
        address = self.start("--allow-jobs", "--insecure-jobs")
        study = self.create(address, trials=1)
        self.wait_for(lambda: self.states() == ["running"])
        self.wait_for(lambda: self.attempts(address, study)[-1]["harness_state"] == "measuring")
        table = self.run_cli("--server", address, "study", "attempts", study).stdout
        self.assertRegex(table, r"running: measuring, \d+ steps")
        self.let_go()
        answer = self.ended(address, study)
        self.assertEqual(answer["result"]["trials"][0]["outcome"], "ok")
        self.assertEqual(self.attempts(address, study)[-1]["harness_state"], "")

    def test_it_is_told_while_one_waits(self):
        self.let_jobs_wait(waits=3)
        environment = {**os.environ, "XDG_STATE_HOME": str(self.folder / "state")}
        with subprocess.Popen([MESHWRIGHT, *self.tune_command(trials=1)], stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True, env=environment) as tune:
            self.assertTrue(any(re.search("running.*; measuring", line) for line in tune.stderr), "is not told")
            self.let_go()
            tune.stderr.read()
        self.assertEqual(tune.returncode, 0)


# Notes the time limit that the harness, a process above this one, was given.
NOTES_LIMIT = """
pid, words = os.getppid(), []
while "--time-limit" not in words:
    words = pathlib.Path(f"/proc/{pid}/cmdline").read_text().split("\\0")
    pid = int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
if os.environ["RANK"] == "0":
    pathlib.Path(sys.argv[1], sys.argv[2] + ".limit").write_text(words[words.index("--time-limit") + 1])
"""


class BudgetTest(LimitsTest):
    """Tests that a job may run for as long as earlier jobs have left of a budget. How a job ends at
    such a limit is tested without waiting for it: tests/launchers/job_launcher_test.cc,
    tests/tuner/trials/trials_test.cc."""

    DEVICES = 2

    def tune_within(self, budget):
        """Returns the answer of two trials with a budget of so many device-seconds."""
        program = self.write("program.py", STEPS.format(body=NOTES_LIMIT))
        job = self.job(command=[PYTHON, program, "{folder}", "{attempt}"], time_limit_seconds=900)
        done = self.tune("--max-device-seconds", str(budget), trials=2, job=job)
        return json.loads(done.stdout)

    def test_each_job_may_use_what_is_left(self):
        budget = 1200  # a trial is expected to take at least two minutes of each device
        answer = self.tune_within(budget)
        self.assertEqual([trial["outcome"] for trial in answer["trials"]], ["ok", "ok"])
        used = [trial["device_seconds"] for trial in answer["trials"]]
        self.assertGreater(used[0], 0)
        self.assertAlmostEqual(answer["trial_summary"]["device_seconds"], sum(used))
        limits = [float(path.read_text()) for path in sorted(self.jobs.glob("*.limit"))]
        self.assertEqual(len(limits), 2)
        self.assertAlmostEqual(limits[0], budget / self.DEVICES)
        self.assertAlmostEqual(limits[1], (budget - used[0]) / self.DEVICES)

    def test_no_job_begins_that_would_exceed_it(self):
        answer = self.tune_within(5)
        self.assertEqual(answer["trial_summary"]["stop_reason"], "device_time_limit")
        self.assertEqual(answer.get("trials", []), [])
        self.assertNotEqual(answer["plans"][0]["estimate"]["provenance"], "measured")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[6:]], verbosity=2)
