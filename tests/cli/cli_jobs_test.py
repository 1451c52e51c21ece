"""Tests studies whose trials are jobs, as users run them: cli_jobs_test.py MESHWRIGHT MESHWRIGHTD
EXAMPLES LAUNCHER PYTHON [TEST...]

LAUNCHER is local, slurm or kubernetes (the fake of tests/launchers); PYTHON has PyTorch. Jobs run a
replacement for a training program, which prints step times by its plan. Some tests run the
reference step.
"""

import contextlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import unittest
import urllib.request

from jobs_folder import CLUSTER, LAUNCHER, MODEL, PYTHON, SITE, WORKLOAD, JobsFolder, ServedFolder
from jobs_folder import setUpModule  # noqa: F401: unittest calls it
from programs import EXAMPLES, MESHWRIGHT


class JobsTest(JobsFolder):
    def test_the_answer_is_what_was_measured(self):
        answer = json.loads(self.tune().stdout)
        self.assertEqual(len(answer["trials"]), 3)
        self.assertEqual(answer["trials"][0]["plan"], answer["baseline"]["plan"])
        for trial in answer["trials"]:
            self.assertEqual(trial["outcome"], "ok")
            self.assertAlmostEqual(trial["step_time_seconds"], 1.0 / trial["plan"]["tensor_parallel"])
        self.assertAlmostEqual(answer["plans"][0]["estimate"]["step_time_seconds"],
                               min(trial["step_time_seconds"] for trial in answer["trials"]))
        self.assertEqual(answer["plans"][0]["estimate"]["provenance"], "measured")
        self.assertEqual(sorted(self.began().values()), [1, 1, 1])
        # The quality of the measurement is reported too.
        study = json.loads(self.run_cli("study", "list", "--output", "json").stdout)["studies"][0]["id"]
        attempt = json.loads(self.run_cli("study", "attempts", study, "--trial", "1", "--output", "json").stdout)
        attempt = attempt["attempts"][0]
        self.assertGreaterEqual(attempt["step_count"], 4)
        self.assertLessEqual(attempt["step_time_low_seconds"], attempt["step_time_high_seconds"])
        self.assertEqual(json.loads(attempt["environment"])["digest"], attempt["environment_digest"])
        self.assertIn(" steps", self.run_cli("study", "attempts", study).stdout)
        # The measurement teaches the next question.
        rows = json.loads(self.run_cli("history", "measurements", "--output", "json").stdout)
        self.assertEqual(len(rows["measurements"]), 3)

    def test_a_machine_that_varies(self):
        self.behave({"drift": 0.05})
        answer = json.loads(self.tune("--interleave-baseline", "--confirm-plans", "1").stdout)
        study = json.loads(self.run_cli("study", "list", "--output", "json").stdout)["studies"][0]["id"]
        shown = self.run_cli("history", "show", study).stdout
        self.assertIn("/ baseline", shown)
        self.assertIn("3 of ", shown)
        purposes = [trial["purpose"] for trial in answer["trials"]]
        self.assertEqual(purposes.count("search"), 3)
        self.assertGreaterEqual(purposes.count("confirm"), 3)
        self.assertEqual(set(purposes[2::2]), {"reference"})
        baseline = answer["baseline"]["plan"]
        for i, trial in enumerate(answer["trials"]):
            self.assertAlmostEqual(trial["step_time_seconds"], (1 + 0.05 * i) / trial["plan"]["tensor_parallel"])
            if trial["purpose"] == "reference":
                self.assertEqual(trial["plan"], baseline)
            else:
                near = answer["trials"][max(0, i - 1)]["step_time_seconds"]
                self.assertAlmostEqual(trial["reference_step_time_seconds"], near)
        # Each is compared with a baseline that the machine ran nearly as fast; its first run is the unit.
        unit = answer["trials"][0]["step_time_seconds"] * baseline["tensor_parallel"]
        best = answer["plans"][0]
        true = unit / best["plan"]["tensor_parallel"]
        self.assertLess(abs(best["estimate"]["step_time_seconds"] / true - 1), 0.051)
        last = answer["trials"][-1]
        self.assertGreater(last["step_time_seconds"] * last["plan"]["tensor_parallel"], 1.3 * unit)

    def test_memory_that_another_rank_lacks(self):
        self.behave({"mb2": {"dies": True, "hangs": True}})
        answer = json.loads(self.tune(trials=8).stdout)
        failed = [trial for trial in answer["trials"] if trial["plan"]["micro_batch_size"] == 2]
        self.assertTrue(failed)
        for trial in failed:
            self.assertEqual((trial["outcome"], trial["failure_class"]), ("oom", "oom_device"))
            self.assertIn("CUDA out of memory", trial["failure_message"])
        number = 1 + answer["trials"].index(failed[0])
        study = json.loads(self.run_cli("study", "list", "--output", "json").stdout)["studies"][0]["id"]
        shown = json.loads(self.run_cli("study", "attempts", study, "--trial", str(number), "--output", "json").stdout)
        self.assertEqual([a["failure_class"] for a in shown["attempts"]], ["oom_device"])
        self.assertIn("CUDA out of memory", shown["attempts"][0]["log_head"])
        self.assertIn("oom (oom_device)", self.run_cli("study", "attempts", study).stdout)

    def test_memory_that_lacks_teaches_the_pruner(self):
        self.behave({"mb8": {"dies": True, "hangs": True}, "mb4": {"dies": True, "hangs": True}})
        answer = json.loads(self.tune(trials=100).stdout)
        needs = 0  # the smallest that ran out of memory, which is above all that ran
        ran = 0
        for trial in answer["trials"]:
            need = self.modelled_memory(trial["plan"])
            self.assertLess(need, needs or need + 1, trial)
            if trial["outcome"] == "ok":
                ran = max(ran, need)
            elif need > ran:
                self.assertEqual(trial["failure_class"], "oom_device")
                needs = need
        self.assertGreater(needs, 0)
        self.assertGreater(answer["search"]["pruned_count_by_rule"]["history"], 0)
        self.assertRegex(" ".join(answer["warnings"]), "rule history: .* ran out of memory")

    def test_memory_that_a_limit_takes(self):
        # The limit is on address space. It has room for what PyTorch itself maps and for
        # micro-batches of one sequence, but not of eight.
        ask = "import torch; print(next(line for line in open('/proc/self/status') if line.startswith('VmPeak')))"
        mapped = subprocess.run([PYTHON, "-c", ask], capture_output=True, text=True, check=True,
                                env={**os.environ, "OMP_NUM_THREADS": "1"}).stdout
        limit = int(mapped.split()[1]) * 1024 + 900_000_000
        example = EXAMPLES / "two-cores"
        workload = {**json.loads((example / "workload.json").read_text()), "sequence_length": 512}
        job = {**self.job(), "command": ["prlimit", f"--as={limit}", PYTHON, "{workloads_folder}/train_step.py",
                                         "--case", "{case_file}", "--device", "cpu", "--warmup", "1", "--steps", "3"],
               "environment": ["OMP_NUM_THREADS=1"],
               "metrics": {"warmup_steps": 1, "min_steps": 2, "max_steps": 2}}
        done = self.run_cli("tune", "--model", str(example / "model.json"), "--workload",
                            self.write("workload.json", workload), "--cluster", str(example / "cluster.json"),
                            "--launcher", LAUNCHER, "--job", self.write("job.json", job), "--max-trials", "2",
                            "--stop-within", "0", "--dimension", "data_parallel=2", "--dimension", "recompute=none",
                            "--dimension", "micro_batch_size=8", "--output", "json")
        answer = json.loads(done.stdout)
        self.assertIn("oom", [trial["outcome"] for trial in answer["trials"]], answer["trials"])
        self.assertIn("ok", [trial["outcome"] for trial in answer["trials"]], answer["trials"])

    def test_a_hang_is_ended(self):
        self.behave({"1": {"hangs": True}, "2": {"hangs": True}})
        job = self.job()
        job["metrics"]["start_limit_seconds"] = 10
        answer = json.loads(self.tune(trials=1, job=job, expect=10).stdout)
        self.assertEqual([t["outcome"] for t in answer["trials"]], ["hang"])
        self.assertEqual(len(self.began()), 2)  # tried once more

    def test_every_bad_field_is_named(self):
        job = self.job(command=["{flagz}"], environment=["A B=1", "HF_TOKEN=x"], time_limit_seconds=-1,
                       folder="relative", metrics={"format": "regex", "interval_ratio": 2})
        errors = self.tune(job=job, expect=3).stderr
        for field in ("job.command[0]", "job.environment[0]", "job.environment[1]", "job.time_limit_seconds",
                      "job.folder", "job.metrics.pattern", "job.metrics.interval_ratio"):
            self.assertIn(field, errors)
        self.assertIn("job", self.run_cli("tune", *self.question(MODEL, WORKLOAD, CLUSTER), "--launcher", LAUNCHER,
                                          "--max-trials", "1", expect=3).stderr)
        self.assertIn("gradient_dtype: this question takes only one value",
                      self.tune("--dimension", "gradient_dtype=fp32,bf16", expect=3).stderr)

    def test_the_reference_step(self):
        example = EXAMPLES / "two-cores"
        job = {**json.loads((example / "job.json").read_text()), "folder": str(self.jobs), "python": PYTHON, **SITE}
        job["metrics"]["max_steps"] = job["metrics"]["min_steps"]
        done = self.run_cli("tune", "--model", str(example / "model.json"), "--workload",
                            str(example / "workload.json"), "--cluster", str(example / "cluster.json"), "--launcher",
                            LAUNCHER, "--job", self.write("job.json", job), "--max-trials", "2",
                            "--stop-within", "0", "--output", "json")
        answer = json.loads(done.stdout)
        for trial in answer["trials"]:
            self.assertEqual(trial["outcome"], "ok", trial)
            self.assertGreater(trial["step_time_seconds"], 0)
            self.assertGreater(trial["peak_memory_bytes"], 0)


class ConformanceTest(JobsFolder):
    """Tests that jobs end in the same way under every launcher. ClusterTest and the tests of the
    engines (tests/launchers) cover nodes and engines that fail."""

    # Each case has the behaviour of the program, the outcome and failure class of the trial, and
    # the number of attempts.
    CASES = {
        "success": ({}, ("ok", ""), 1),
        "memory of a device": ({"says": "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
                                "exits": 1}, ("oom", "oom_device"), 1),
        "memory of the host": ({"says": "MemoryError", "exits": 1}, ("crash", "oom_host"), 2),
        "crash": ({"signal": signal.SIGSEGV}, ("crash", "crash"), 1),
        "hang": ({"stalls": 3}, ("hang", "hang"), 2),
        "timeout": ({"stalls": 1}, ("timeout", "timeout"), 1),
        "garbage": ({"garbage": True}, ("ok", ""), 1),
        "no metrics": ({"exits": 0}, ("cancelled", "metrics_missing"), 2),
    }

    def test_what_becomes_of_a_job(self):
        for name, (does, end, attempts) in self.CASES.items():
            with self.subTest(name):
                self.behave({"1": does, "2": does})
                job = self.job(**({"time_limit_seconds": 4} if name == "timeout" else {}))
                if name == "hang":
                    job["metrics"]["hang_limit_seconds"] = 1
                answer = json.loads(self.tune(trials=1, job=job, expect=0 if end[0] == "ok" else 10).stdout)
                self.assertEqual([(t["outcome"], t["failure_class"]) for t in answer["trials"]], [end])
                self.assertEqual(list(self.began().values()), [1] * attempts)
                for path in self.jobs.glob("study-*"):
                    path.unlink()


class ServedJobsTest(ServedFolder):
    """Runs with a server that may be lost at any moment."""

    def test_a_server_runs_jobs_only_when_it_may(self):
        address = self.start()
        errors = self.run_cli("--server", address, "tune", *self.question(MODEL, WORKLOAD, CLUSTER), "--launcher",
                              LAUNCHER, "--job", self.write("job.json", self.job()), "--max-trials", "1",
                              expect=8).stderr
        self.assertIn("--allow-jobs", errors)
        self.assertEqual(self.began(), {})

    def test_killed_at_each_step_of_the_journal(self):
        # Each moment has the jobs that wait until the server has been killed, and the condition for
        # the kill.
        moments = {
            "written down": (None, lambda states: states != []),
            "submitted": (None, lambda states: states[-1:] not in ([], ["intended"])),
            "running": (None, lambda states: states[-1:] == ["running"]),
            "ended": ("later", lambda states: states[:1] == ["ended"]),
            "of the second trial": ("later", lambda states: len(states) > 1 and states[-1] == "running"),
        }
        for name, (those, has_come) in moments.items():
            with self.subTest(name):
                (self.folder / "server.db").unlink(missing_ok=True)
                self.let_jobs_wait(those)
                address = self.start("--allow-jobs", "--insecure-jobs")
                study = self.create(address, trials=2)
                self.wait_for(lambda: has_come(self.states()))
                self.server.kill()
                self.server.wait()
                self.let_go()
                address = self.start("--allow-jobs", "--insecure-jobs")
                self.check_whole(self.ended(address, study), trials=2)
                self.assertEqual(set(self.states()), {"ended"})
                rows = json.loads(self.run_cli("--server", address, "history", "measurements", "--output",
                                               "json").stdout)
                self.assertEqual(len(rows["measurements"]), 2)
                self.server.kill()
                self.server.wait()
                for path in (*self.jobs.glob("study-*"), *self.folder.glob("server.db*")):
                    path.unlink()

    def test_killed_at_the_submission(self):
        """Kills the server between what the engine knows and what is recorded."""
        if LAUNCHER != "slurm":
            self.skipTest("the program that submits is Slurm's")
        folder = self.folder / "bin"
        folder.mkdir()
        shim = folder / "sbatch"
        self.addCleanup(os.environ.__setitem__, "PATH", os.environ["PATH"])
        submit = f'{shutil.which("sbatch")} "$@"'
        os.environ["PATH"] = f"{folder}:{os.environ['PATH']}"
        for name, does, attempts in (("before", "kill -9 $PPID", 3), ("after", f"{submit}; kill -9 $PPID", 2)):
            with self.subTest(name):
                shim.write_text(f"#!/bin/bash\nif mkdir {self.folder}/{name} 2>/dev/null; then {does}; exit 1; fi\n"
                                f"exec {submit}\n")
                shim.chmod(0o755)
                address = self.start("--allow-jobs", "--insecure-jobs")
                study = self.create(address, trials=2)
                self.server.wait(timeout=60)
                self.assertEqual(self.states(), ["intended"])
                address = self.start("--allow-jobs", "--insecure-jobs")
                self.check_whole(self.ended(address, study), trials=2)
                self.assertEqual(self.states(), ["ended"] * attempts)
                self.server.kill()
                self.server.wait()
                for path in (*self.jobs.glob("study-*"), *self.folder.glob("server.db*")):
                    path.unlink()

    def test_killed_again_and_again(self):
        self.let_jobs_wait()
        address = self.start("--allow-jobs", "--insecure-jobs")
        study = self.create(address)
        for _ in range(3):
            self.wait_for(lambda: self.began())
            self.wait_for(lambda: self.states()[-1:] == ["running"])
            # A server that is killed before it has resumed the study was not lost because of it.
            self.wait_for(lambda: self.study_state(study) == "running")
            self.server.kill()
            self.server.wait()
            address = self.start("--allow-jobs", "--insecure-jobs")
        # A study that has crashed its server three times is considered the cause.
        self.run_cli("--server", address, "study", "watch", study, expect=1)
        shown = self.run_cli("--server", address, "study", "list").stdout
        self.assertRegex(shown, rf"{study}.*failed")
        self.wait_for(lambda: not self.processes(study))

    def test_an_orderly_end_leaves_the_job_running(self):
        self.let_jobs_wait()
        address = self.start("--allow-jobs", "--insecure-jobs")
        study = self.create(address, trials=1)
        self.wait_for(lambda: self.began())
        self.server.terminate()
        self.server.wait(timeout=30)
        self.assertNotEqual(self.processes(study), [])
        self.let_go()
        address = self.start("--allow-jobs", "--insecure-jobs")
        self.check_whole(self.ended(address, study), trials=1)
        self.assertEqual(len(self.began()), 1)

    def test_a_pause_leaves_the_job_running_and_keeps_its_result(self):
        self.let_jobs_wait()
        address = self.start("--allow-jobs", "--insecure-jobs")
        study = self.create(address, trials=1)
        self.wait_for(lambda: self.began())
        self.run_cli("--server", address, "study", "pause", study)
        self.wait_for(lambda: self.state_of(address, study) == "paused")
        self.assertNotEqual(self.processes(study), [])
        self.let_go()
        self.wait_for(lambda: list(self.jobs.glob("*.result.json")))
        self.assertEqual(self.state_of(address, study), "paused")
        self.run_cli("--server", address, "study", "resume", study)
        self.check_whole(self.ended(address, study), trials=1)
        self.assertEqual(len(self.began()), 1)

    def test_a_paused_study_is_cancelled_with_its_job(self):
        self.let_jobs_wait()
        address = self.start("--allow-jobs", "--insecure-jobs")
        study = self.create(address)
        self.wait_for(lambda: self.began())
        self.run_cli("--server", address, "study", "pause", study)
        self.wait_for(lambda: self.state_of(address, study) == "paused")
        self.run_cli("--server", address, "study", "cancel", study)
        self.wait_for(lambda: not self.processes(study))
        self.wait_for(lambda: self.state_of(address, study) == "cancelled")

    def test_cancel_ends_the_job(self):
        self.let_jobs_wait()
        address = self.start("--allow-jobs", "--insecure-jobs")
        study = self.create(address)
        self.wait_for(lambda: self.began())
        self.run_cli("--server", address, "study", "cancel", study)
        self.wait_for(lambda: not self.processes(study))

    def test_killed_while_it_cancels(self):
        self.let_jobs_wait(deaf=True)
        address = self.start("--allow-jobs", "--insecure-jobs")
        study = self.create(address)
        self.wait_for(lambda: self.began())
        self.run_cli("--server", address, "study", "cancel", study)
        self.server.kill()
        self.server.wait()
        address = self.start("--allow-jobs", "--insecure-jobs")
        self.wait_for(lambda: not self.processes(study))
        self.wait_for(lambda: self.state_of(address, study) == "cancelled")

    def test_searches_do_not_wait_for_jobs(self):
        self.let_jobs_wait()
        address = self.start("--allow-jobs", "--insecure-jobs")
        study = self.create(address)
        self.wait_for(lambda: self.began())
        answer = json.loads(self.run_cli("--server", address, "tune", *self.question(MODEL, WORKLOAD, CLUSTER),
                                         "--output", "json").stdout)
        self.assertTrue(answer["plans"])
        self.assertRegex(self.run_cli("--server", address, "study", "list").stdout, rf"{study}.*running")


class KilledTuneTest(ServedFolder):
    """Runs without a server, so the program itself is killed."""

    def kill_tune(self, **job):
        """Kills the program while its first job runs; returns the id of its study."""
        store = ["--db", str(self.folder / "server.db")]
        tune = subprocess.Popen(
            [MESHWRIGHT, "tune", *self.question(MODEL, WORKLOAD, CLUSTER), "--launcher", LAUNCHER, "--job",
             self.write("job.json", self.job(**job)), "--max-trials", "2",
             "--stop-within", "0", *store],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.wait_for(lambda: self.states()[-1:] == ["running"] and self.began())
        tune.kill()
        tune.wait()
        listed = json.loads(self.run_cli("study", "list", *store, "--output", "json").stdout)["studies"]
        self.assertEqual(listed[0]["state"], "interrupted")
        return listed[0]["id"], store

    def test_it_is_gone_on_with(self):
        self.let_jobs_wait()
        study, store = self.kill_tune()
        said = self.run_cli("tune", *self.question(MODEL, WORKLOAD, CLUSTER), *store).stderr
        self.assertIn(f"study resume {study}", said)
        self.let_go()
        answer = json.loads(self.run_cli("study", "resume", study, *store, "--output", "json").stdout)
        self.assertEqual([trial["outcome"] for trial in answer["trials"]], ["ok", "ok"])
        self.assertEqual(set(self.began().values()), {1}, "an attempt began twice")
        self.assertEqual(self.states(), ["ended", "ended"])
        errors = self.run_cli("study", "resume", study, *store, expect=6).stderr
        self.assertIn("has ended (succeeded)", errors)

    def test_it_is_ended(self):
        self.let_jobs_wait()
        study, store = self.kill_tune()
        self.assertNotEqual(self.processes(study), [])
        self.assertIn("cancelled", self.run_cli("study", "cancel", study, *store).stdout)
        self.wait_for(lambda: not self.processes(study))
        self.assertEqual(len(self.began()), 1)

    def test_what_fails_leaves_it_as_it_was(self):
        self.let_jobs_wait()
        os.environ["SITE_VALUE"] = "1"
        self.addCleanup(os.environ.pop, "SITE_VALUE", None)
        study, store = self.kill_tune(environment=["SITE_VALUE"])
        self.run_cli("study", "resume", "study-none", *store, expect=5)
        self.run_cli("study", "cancel", study, "--db", str(self.folder / "none.db"), expect=5)
        self.assertFalse((self.folder / "none.db").exists())
        del os.environ["SITE_VALUE"]
        self.assertIn("is unchanged", self.run_cli("study", "resume", study, *store, expect=3).stderr)
        os.environ["SITE_VALUE"] = "1"
        self.let_go()
        answer = json.loads(self.run_cli("study", "resume", study, *store, "--output", "json").stdout)
        self.assertEqual([trial["outcome"] for trial in answer["trials"]], ["ok", "ok"])

    def test_one_that_was_being_cancelled(self):
        self.let_jobs_wait()
        study, store = self.kill_tune()
        with contextlib.closing(sqlite3.connect(self.folder / "server.db")) as kept, kept:
            kept.execute("UPDATE studies SET state = 'cancelling'")
        self.assertIn("being cancelled", self.run_cli("study", "resume", study, *store, expect=6).stderr)
        self.assertNotEqual(self.processes(study), [])
        self.assertIn("cancelled", self.run_cli("study", "cancel", study, *store).stdout)
        self.wait_for(lambda: not self.processes(study))


class TrialsTest(JobsFolder):
    """Runs the reference step as a study of real trials; scripts/jobs_report.sh compares such studies
    with sweeps."""

    def run_trials(self, processes, count):
        cores = min(processes, len(os.sched_getaffinity(0)))  # more processes than cores share them
        cluster = {"name": "cores", "pools": [{"name": "cpu", "chip": "cpu-generic", "node_count": 1,
                                               "devices_per_node": processes, "physical_devices_per_node": cores}]}
        job = {"folder": str(self.jobs), "python": PYTHON, "environment": ["OMP_NUM_THREADS=1"], **SITE,
               "metrics": {"warmup_steps": 1, "min_steps": 3, "max_steps": 6}}
        answer = json.loads(self.tune("--disable-rule", "bound", trials=count, job=job, cluster=cluster).stdout)
        trials = answer["trials"]
        self.assertEqual([trial["outcome"] for trial in trials], ["ok"] * count)
        fastest = min(trials, key=lambda trial: trial["step_time_seconds"])
        self.assertEqual(answer["plans"][0]["plan"], fastest["plan"])
        self.assertEqual(answer["trial_summary"]["stop_reason"], "trial_limit")
        for trial in trials:
            plan = trial["plan"]
            self.assertEqual(plan["tensor_parallel"] * plan["pipeline_parallel"] * plan["data_parallel"] *
                             plan["context_parallel"], processes)

    def test_of_two_processes(self):
        self.run_trials(2, count=4)

    def test_of_four_processes(self):
        self.run_trials(4, count=2)


class ClusterTest(ServedFolder):
    """Tests what others do to a site's jobs and nodes while a study runs."""

    def setUp(self):
        super().setUp()
        if LAUNCHER == "local":
            self.skipTest("this machine has neither an engine to be asked nor other nodes")
        self.let_jobs_wait()
        self.address = self.start("--allow-jobs", "--insecure-jobs")
        self.study = self.create(self.address, trials=2)
        self.wait_for(lambda: self.began())
        self.wait_for(lambda: self.states()[-1:] == ["running"])
        self.attempt = self.attempts(self.address, self.study)[-1]

    def test_cancelled_by_hand(self):
        if LAUNCHER == "slurm":
            subprocess.run(["scancel", f"--name={self.attempt['id']}"], check=True)
        else:
            site = SITE["kubernetes"]
            urllib.request.urlopen(urllib.request.Request(
                f"{site['server']}/apis/batch/v1/namespaces/{site['namespace']}/jobs/{self.attempt['id']}",
                data=b'{"propagationPolicy": "Foreground"}', method="DELETE"), timeout=10).close()
        self.behave({})
        answer = self.ended(self.address, self.study)
        tried = answer["result"]["trials"]
        self.assertEqual([(t["outcome"], t["failure_class"]) for t in tried], [("cancelled", "cancelled"), ("ok", "")])
        self.assertRegex(tried[0]["failure_message"], "CANCELLED|deleted|gone")
        self.assertEqual(len(self.attempts(self.address, self.study)), 2)

    def test_a_node_taken_down(self):
        if LAUNCHER != "slurm":
            self.skipTest("tests/launchers/kubernetes_faults_test.cc loses nodes")
        ask = ["squeue", "-h", f"--name={self.attempt['id']}", "-o", "%N"]
        node = subprocess.run(ask, capture_output=True, text=True, check=True).stdout.strip()
        self.addCleanup(subprocess.run, ["scontrol", "update", f"NodeName={node}", "State=RESUME"], check=False,
                        stderr=subprocess.DEVNULL)  # its daemon may have resumed it
        subprocess.run(["scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=test"], check=True)
        self.behave({})
        answer = self.ended(self.address, self.study)
        tried = answer["result"]["trials"]
        self.assertEqual([t["outcome"] for t in tried], ["ok", "ok"])
        attempts = self.attempts(self.address, self.study)
        self.assertEqual([(a["trial_number"], a["failure_class"]) for a in attempts],
                         [(1, "node_failure"), (1, ""), (2, "")])
        self.assertEqual(len(self.began()), 3)
        self.assertNotIn(node, attempts[1]["nodes"])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[6:]], verbosity=2)
