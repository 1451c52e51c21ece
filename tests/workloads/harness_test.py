"""Tests the harness with real child processes: harness_test.py"""

import json
import os
import random
import signal
import subprocess
import sys
import textwrap
import unittest

from jobs import CODES, TESTS, WORKLOADS, Folder, wait_until

from events.moment import pass_rounds


class MeasureTest(Folder):
    def test_a_run_that_is_measured(self):
        result = self.result(self.command("""
            print(json.dumps({"meshwright": 1, "event": "environment", "torch": "2.4.1"}))
            for number, seconds in enumerate([9, 9, 0.5, 0.1, 0.2, 0.4, 0.3, 10.0, 0.7], 1):
                step(number, seconds, loss=10 - number)
            print(json.dumps({"meshwright": 1, "event": "memory", "peak_bytes": [100, 300]}))
            print("on stderr", file=sys.stderr)
            """, "--warmup", "2", "--min-steps", "7"), "ok")
        # Measured and sorted: 0.1 0.2 0.3 0.4 0.5 0.7 10. The interval of seven is from the second
        # to the sixth.
        expected = {"step_time_seconds": 0.4, "step_time_low_seconds": 0.2, "step_time_high_seconds": 0.7,
                    "steps": 7, "warmup_steps": 2, "loss_first": 9, "loss_last": 1,
                    "exit_code": 0, "signal": None, "ended_by": "command",
                    "peak_memory_bytes": 300, "peak_reserved_bytes": None, "ignored_samples": 0,
                    "steps_per_sample": 1, "output_trouble": None}
        self.assertEqual({key: result[key] for key in expected}, expected)
        self.assertAlmostEqual(result["spread_ratio"], (0.7 - 0.2) / 0.4)
        self.assertEqual(result["environment"]["reported"]["torch"], "2.4.1")
        self.assertRegex(result["environment"]["digest"], "^[0-9a-f]{32}$")
        self.assertIn("on stderr", result["log_head"])
        self.assertEqual((self.results / "a1.out").read_text(), result["log_head"])
        self.assertLess(result["start_time_ms"], result["end_time_ms"])

    def test_the_command_knows_its_attempt(self):
        result = self.result(self.command("print(os.environ['MESHWRIGHT_ATTEMPT']); steps(15)"), "ok")
        self.assertTrue(result["log_head"].startswith("a1\n"))
        self.environment["RANK"] = "1"
        done = self.finished(self.command("print(os.environ['MESHWRIGHT_ATTEMPT'])"))
        self.assertEqual(done.stdout, b"a1\n")

    def test_early_stop(self):
        result = self.result(self.command("""
            for number in range(1, 1001):
                step(number, 0.1 + 0.0001 * (number % 3))
            signal.pause()
            """, "--min-steps", "12"), "ok")
        self.assertEqual((result["steps"], result["ended_by"], result["signal"]), (12, "interval", signal.SIGTERM))
        width = result["step_time_high_seconds"] - result["step_time_low_seconds"]
        self.assertLessEqual(width / 2, 0.02 * result["step_time_seconds"])

    def test_most_steps_when_the_times_spread(self):
        result = self.result(self.command("""
            for number in range(1, 1001):
                step(number, 0.01 if number % 2 else 0.05)
            signal.pause()
            """, "--max-steps", "40"), "ok")
        self.assertEqual((result["steps"], result["ended_by"]), (40, "max_steps"))

    def test_a_job_that_does_not_go_is_killed_after_the_grace(self):
        result = self.result(self.command("""
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            steps(100)
            signal.pause()
            """, "--grace", "0.5"), "ok")
        self.assertEqual(result["signal"], signal.SIGKILL)

    def test_a_job_may_end_in_its_own_way(self):
        result = self.result(self.command("""
            def leave(number, frame):
                print(json.dumps({"meshwright": 1, "event": "memory", "peak_bytes": 77}), flush=True)
                sys.exit(3)
            signal.signal(signal.SIGTERM, leave)
            steps(100)
            signal.pause()
            """), "ok")
        self.assertEqual((result["exit_code"], result["peak_memory_bytes"]), (3, 77))

    def test_drift_is_flagged_and_nothing_is_altered(self):
        result = self.result(self.command("""
            for number in range(1, 21):
                step(number, 1 + 0.05 * number)
            """, "--warmup", "0", "--min-steps", "20", "--max-steps", "99", "--interval-ratio", "0.001"), "ok")
        drift = next(reason for reason in result["suspect"] if reason["reason"] == "drift")
        self.assertAlmostEqual(drift["first_half_seconds"], 1.275)  # steps 1 .. 10: 1 + 0.05 * 5.5
        self.assertAlmostEqual(drift["second_half_seconds"], 1.775)  # steps 11 .. 20: 1 + 0.05 * 15.5
        self.assertAlmostEqual(result["drift_ratio_per_step"], 0.05 / 1.525)
        self.assertAlmostEqual(result["step_time_seconds"], 1.525)

    def test_load_of_others_is_flagged_with_its_share(self):
        busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count())]
        try:
            result = self.result(self.command("""
                for number in range(1, 9):
                    step(number, 0.2 + 0.1 * number)
                    # Longer than the shortest time that says anything of load, however it is scheduled.
                    while time.process_time() < 0.2 * number: pass
                """, "--warmup", "0", "--min-steps", "8"), "ok")
        finally:
            for process in busy:
                process.kill()
                process.wait()
        load = next(reason for reason in result["suspect"] if reason["reason"] == "other_load")
        self.assertGreater(load["share"], load["limit"])
        self.assertIn(f"{load['share']:.0%}", load["message"])

    def test_progress(self):
        process = self.started(self.command(f"""
            sys.path.insert(0, {str(TESTS)!r})
            from events.wait_for import wait_until

            def is_told(name, value):
                lines = open({str(self.results / "a1.progress.jsonl")!r}).read().splitlines(keepends=True)
                return any(json.loads(line)[name] == value for line in lines if line.endswith("\\n"))

            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            steps(2)
            wait_until(lambda: is_told("state", "WARMUP"))
            steps(6, 0.25, first=3)
            wait_until(lambda: is_told("steps", 8))
            steps(100, first=9)
            wait_until(lambda: is_told("state", "COLLECTING"))
            """, "--warmup", "4", "--grace", "120"))
        self.assertEqual(process.wait(120), 0)
        lines = [json.loads(line) for line in (self.results / "a1.progress.jsonl").read_text().splitlines()]
        self.assertEqual([line["state"] for line in lines], sorted(
            (line["state"] for line in lines), key=["STARTING", "WARMUP", "MEASURING", "COLLECTING"].index))
        self.assertLessEqual({"WARMUP", "MEASURING", "COLLECTING"}, {line["state"] for line in lines})
        self.assertTrue(all(line["token"] == 7 and line["attempt"] == "a1" for line in lines))
        self.assertIn((8, 0.25), [(line["steps"], line["step_time_seconds"]) for line in lines])

    def test_other_formats_reach_the_result(self):
        result = self.result(self.command("""
            for number in range(1, 21):
                print(f" iteration {number:8d}/ 50 | elapsed time per iteration (ms): 250.0 | lm loss: 1.0E+01 |")
                if number == 1:  # as Megatron does; the job may be ended at the last line
                    print("[Rank 0] memory (MB) | allocated: 1.0 | max allocated: 2.0 | reserved: 3.0 | max reserved: 4.0")
            """, "--format", "megatron", "--min-steps", "15"), "ok")
        self.assertEqual((result["step_time_seconds"], result["peak_memory_bytes"]), (0.25, 2 * 2**20))

    def test_garbage_does_not_break_it(self):
        result = self.result(self.command("""
            out = sys.stdout.buffer
            out.write(bytes(range(256)) * 50 + b"\\n")
            out.write(b"x" * 10_000_000 + b"\\n")
            out.write(b"{" * 1_000_000 + b"\\n")
            out.write(b'{"meshwright": 1, "event": "step", "step": [], "step_time_seconds": "fast"}\\n')
            out.write(b'\\xff\\xfe {"meshwright": 1, "event": "step", "step": 0, "step_time_seconds": 1e400}\\n')
            out.flush()
            steps(20)
            out.write(b"no end of line \\xc3")
            """, "--max-steps", "15", "--min-steps", "15"), "ok")
        self.assertEqual(result["steps"], 15)
        self.assertLess(len(json.dumps(result)), 10 * 64 * 1024)


class FailureTest(Folder):
    # class, rule, job; its message goes through the whole harness
    JOBS = [
        ("oom_device", "PyTorch allocator", "steps(3); raise RuntimeError('CUDA out of memory. Tried to allocate')"),
        ("oom_device", "train_step memory", "steps(3); sys.exit(40)"),
        ("oom_host", "host allocator", "steps(3); raise MemoryError()"),
        ("hang", "train_step collective", "steps(3); sys.exit(44)"),
        ("node_failure", "ECC", "raise RuntimeError('CUDA error: uncorrectable ECC error encountered')"),
        ("invalid_config", "argument refused",
         "import argparse; argparse.ArgumentParser().parse_args(['--no-such-flag'])"),
        ("launch_error", "module or library missing", "import no_such_module"),
        ("numeric", "loss", "steps(3); step(4, loss=float('nan')); signal.pause()"),
        ("metrics_missing", "steps", "steps(9)"),
        ("crash", "exception", "steps(3); raise ValueError('of no known kind')"),
        ("crash", "none", "steps(3); os.kill(os.getpid(), signal.SIGSEGV)"),
    ]

    def test_classes(self):
        for name, rule, job in self.JOBS:
            with self.subTest(rule):
                result = self.result(self.command(job), name)
                self.assertEqual(result["matched"]["rule"], rule)

    def test_the_line_that_decided_is_shown(self):
        result = self.result(self.command("print('fine'); raise RuntimeError('NPU out of memory. Tried to')"),
                             "oom_device")
        self.assertEqual(result["matched"]["line"], "RuntimeError: NPU out of memory. Tried to")
        lines = (self.results / "a1.out").read_text().splitlines()
        self.assertEqual(lines[result["matched"]["line_number"] - 1], result["matched"]["line"])

    def test_a_signal_is_named(self):
        result = self.result(self.command("os.kill(os.getpid(), signal.SIGSEGV)"), "crash")
        self.assertEqual((result["exit_code"], result["signal"]), (None, signal.SIGSEGV))
        self.assertIn("SIGSEGV", result["message"])

    def test_what_cannot_be_started(self):
        plain = self.folder / "plain.txt"
        plain.write_text("no program")
        for program, code in ((self.folder / "missing", 127), (plain, 126)):
            with self.subTest(code):
                result = self.result(self.of(program), "launch_error")
                self.assertEqual(result["exit_code"], code)
                self.assertIn(str(program), result["message"])

    def test_hang_is_ended(self):
        result = self.result(self.stepped(8, 2, "steps(8); signal.pause()", "--hang-limit", "1"), "hang")
        self.assertIn("no step for 1 s after step 8", result["message"])
        self.assertEqual((result["steps"], result["step_time_seconds"]), (3, 0.01))  # the steps so far are known nevertheless

    def test_ten_slow_steps_are_no_hang(self):
        # The steps say 2 s, so the limit is 20 s although 1 s was requested.
        job = "steps(10, 2.0); wait_for_clock(); steps(10, 2.0, first=11)"
        options = ["--hang-limit", "1", "--min-steps", "12"]
        self.result(self.stepped(10, 19, job, *options), "ok")
        (self.folder / "passed").unlink()
        result = self.result(self.stepped(10, 21, "steps(10, 2.0); signal.pause()", *options), "hang")
        self.assertIn("no step for 20 s after step 10", result["message"])

    def test_start_timeout(self):
        result = self.result(self.stepped(0, 2, "signal.pause()", "--start-limit", "1"), "start_timeout")
        self.assertIn("start limit of 1 s", result["message"])

    def test_timeout(self):
        result = self.result(self.stepped(7, 2, "steps(7); signal.pause()", "--time-limit", "1"), "timeout")
        self.assertEqual(result["steps"], 2)
        self.assertIn("time limit of 1 s", result["message"])

    def test_what_is_measured_is_not_thrown_away(self):
        for job, options, ended_by in (("", ["--time-limit", "1"], "time_limit"),
                                       ("", ["--hang-limit", "1"], "hang_limit"),
                                       ("os.kill(os.getpid(), signal.SIGTERM)", [], "command")):
            with self.subTest(ended_by):
                result = self.result(self.stepped(77, 2, f"""
                    for number in range(1, 78):
                        step(number, 0.01 if number % 2 else 0.05)
                    {job}
                    signal.pause()
                    """, *options), "ok")
                self.assertEqual((result["ended_by"], result["steps"]), (ended_by, 72))
                self.assertIn("72 steps are measured; ", result["message"])
        self.result(self.command("steps(14); print('CUDA out of memory. Tried to', flush=True); sys.exit(1)"),
                    "oom_device")
        self.result(self.command("steps(14); step(15, loss=float('nan')); signal.pause()"), "numeric")

    def ended_by_term(self, token):
        """Returns the result of a run that got TERM after 20 steps, where rank 1 failed under that
        token."""
        (self.folder / "pids").unlink(missing_ok=True)
        process = self.started(self.command(f"""
            for number in range(1, 26):
                step(number, 0.01 if number % 2 else 0.05)
            print(1, file=open({str(self.folder / "pids")!r}, "w"))
            signal.pause()
            """))
        self.pids(1)
        (self.results / "a1.rank1.failure.json").write_text(json.dumps({"token": token}))
        process.terminate()
        process.wait(60)
        return json.loads((self.results / "a1.result.json").read_text())

    def test_ended_after_enough_steps_is_measured_unless_another_rank_failed(self):
        self.assertEqual([(result["class"], result["ended_by"], result["steps"])
                          for result in map(self.ended_by_term, (6, 7))],
                         [("ok", "signal", 20), ("cancelled", "signal", 20)])

    def test_memory_of_which_nothing_is_known(self):
        line = "global_step=%d, CurrSamplesPerSec=1, MemAllocated=0.0GB, MaxMemAllocated=0.0GB"
        result = self.result(self.command(f"for n in range(2, 20): print({line!r} % n)", "--format", "deepspeed",
                                          "--global-batch-size", "4"), "ok")
        self.assertIsNone(result["peak_memory_bytes"])

    def test_a_vendors_rules_come_first(self):
        rules = self.folder / "acme.json"
        rules.write_text(json.dumps({"rules": [
            {"name": "acme", "class": "node_failure", "patterns": ["ACME-E17"], "source": "acme's manual"}]}))
        job = "raise RuntimeError('CUDA out of memory, ACME-E17')"
        self.assertEqual(self.result(self.command(job, "--failures", rules), "node_failure")["matched"]["rule"], "acme")

    def test_wrong_use_is_one_clear_error_and_starts_nothing(self):
        bad = self.folder / "bad.json"
        bad.write_text('{"rules": [{"name": "x", "class": "oom"}]}')
        touch = ["touch", self.folder / "started"]
        for options, said in ((["--failures", bad], "class = oom; must be one of"),
                              (["--format", "regex", "--pattern", "("], "--pattern ("),
                              (["--format", "no"], "--format"), (["--attempt", "../x"], "'../x'"),
                              (["--hang-limit", "0"], "--hang-limit"), (["--warmup", "-1"], "--warmup"),
                              (["--min-steps", "101"], "--min-steps 101"), (["--measuring-rank", "x"], "'x'"),
                              (["--interval-ratio", "nan"], "--interval-ratio"),
                              (["--interval-ratio", "-3"], "--interval-ratio"),
                              (["--global-batch-size", "0"], "--global-batch-size"),
                              (["--measuring-rank", "7", "--pattern", "(", "--min-steps", "101", "--failures", bad],
                               "--min-steps 101: must be between 1 and --max-steps 100; --measuring-rank 7: must be "
                               "below 1, the ranks by the environment; --pattern (: is only for --format "
                               f"regex; {bad}: rules[0] (x): class = oom")):
            with self.subTest(options):
                done = self.finished(self.of(*touch, options=options))
                self.assertEqual(done.returncode, 2)
                self.assertIn(said, done.stderr.decode())
                self.assertNotIn("Traceback", done.stderr.decode())
        done = self.finished(self.of())
        self.assertEqual((done.returncode, b"no command" in done.stderr), (2, True))
        self.assertFalse((self.folder / "started").exists())

    def test_a_rank_that_is_not_there_cannot_measure(self):
        for environment, rank, code in (({"RANK": "1", "WORLD_SIZE": "2"}, "7", 2), ({"RANK": "1"}, "last", 2),
                                        ({"RANK": "1", "WORLD_SIZE": "2"}, "0", 0), ({"RANK": "1"}, "0", 0),
                                        ({"PMIX_RANK": "1", "SLURM_NTASKS": "4"}, "last", 0)):
            with self.subTest(environment=environment, rank=rank):
                done = subprocess.run(self.of("true", options=["--measuring-rank", rank]), stderr=subprocess.PIPE,
                                      env={**self.environment, **environment}, timeout=300, check=False)
                self.assertEqual((done.returncode, b"--measuring-rank" in done.stderr), (code, code == 2))

    def test_a_batch_script_is_no_task(self):
        self.environment.update(SLURM_PROCID="0", SLURM_NTASKS="4")
        self.result(self.command("steps(20)", "--measuring-rank", "last"), "ok")
        self.environment["SLURM_STEP_ID"] = "0"
        self.assertEqual(self.finished(self.of("echo", options=["--measuring-rank", "last"])).stdout, b"\n")

    def test_steps_without_times_end_early(self):
        line = "global_step=%d, RunningAvgSamplesPerSec=1, CurrSamplesPerSec=8.0, MemAllocated=1GB"
        result = self.result(self.command(f"""
            for number in range(2, 30):
                print({line!r} % number, flush=True)
            signal.pause()
            """, "--format", "deepspeed"), "metrics_missing")
        self.assertEqual((result["ended_by"], result["steps"]), ("no_times", 0))
        self.assertIn("15 lines tell of a step", result["message"])  # 5 to warm up and 10 to measure

    def test_a_folder_that_cannot_be(self):
        (self.folder / "results").write_text("a file")
        done = self.finished(self.of("true"))
        self.assertEqual(done.returncode, CODES["launch_error"])
        self.assertIn("--folder", done.stderr.decode())


class ResultTest(Folder):
    def test_whole_or_absent_when_the_harness_is_killed(self):
        command = self.command("print('x' * 9000); steps(60)")
        path, output = self.results / "a1.result.json", self.results / "a1.out"
        draw = random.Random(7)
        for _ in range(20):
            path.unlink(missing_ok=True)
            output.unlink(missing_ok=True)
            process = self.started(command)
            self.assertTrue(wait_until(output.exists))
            pass_rounds(draw.randrange(5_000_000))
            process.kill()
            process.wait()
            if path.exists():
                self.assertEqual(json.loads(path.read_text())["class"], "ok")

    def test_whole_when_killed_while_it_is_written(self):
        path = self.folder / "r.json"
        writer = textwrap.dedent(f"""
            import sys
            sys.path.insert(0, {str(WORKLOADS)!r})
            from measure import result
            for number in range(10**9):
                result.write({str(path)!r}, {{"number": number, "filling": "x" * 300000, "end": number}})
            """)
        draw = random.Random(8)
        for _ in range(10):
            path.unlink(missing_ok=True)
            process = self.started([sys.executable, "-c", writer])
            self.assertTrue(wait_until(path.exists))
            pass_rounds(draw.randrange(2_500_000))
            process.kill()
            process.wait()
            document = json.loads(path.read_text())
            self.assertEqual(document["number"], document["end"])

    def test_secrets_are_masked_in_all_that_is_kept(self):
        secrets = {"env": "s3cretOfEnvironment", "arg": "s3cretOfArguments", "shape": "hf_" + "q7" * 17}
        self.environment["HF_TOKEN"] = self.environment["NCCL_AUTH_TOKEN"] = secrets["env"]
        done = self.finished(self.command("""
            print("environment", os.environ["HF_TOKEN"], "arguments", sys.argv[2:], "shape", "hf_" + "q7" * 17)
            print(json.dumps({"meshwright": 1, "event": "environment", "note": os.environ["HF_TOKEN"]}), flush=True)
            raise RuntimeError("CUDA out of memory for " + os.environ["HF_TOKEN"])
            """, behind=["--api-key", secrets["arg"]]))
        self.assertEqual(done.returncode, CODES["oom_device"])
        kept = {path.name: path.read_bytes() for path in self.results.iterdir()}
        self.assertEqual(set(kept), {"a1.out", "a1.result.json", "a1.progress.jsonl"})
        kept.update(stdout=done.stdout, stderr=done.stderr)
        for name, data in kept.items():
            for secret in secrets.values():
                self.assertNotIn(secret.encode(), data, name)
        result = json.loads(kept["a1.result.json"])
        self.assertEqual(result["command"][-2:], ["--api-key", "[masked]"])
        self.assertIn("[masked]", result["matched"]["line"])
        self.assertEqual(result["environment"]["variables"]["NCCL_AUTH_TOKEN"], "[masked]")
        self.assertEqual(result["environment"]["reported"]["note"], "[masked]")

    def test_nobody_listens(self):
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run(self.command("steps(20)"), stdout=writer, stderr=subprocess.PIPE, env=self.environment,
                              timeout=300, check=False)
        os.close(writer)
        self.assertTrue((self.results / "a1.result.json").exists())
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
