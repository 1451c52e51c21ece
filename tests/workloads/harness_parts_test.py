"""Tests the parts of the harness separately: harness_parts_test.py"""

import ast
import io
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import unittest

FOLDER = pathlib.Path(__file__).resolve().parent
WORKLOADS = FOLDER.parent.parent / "workloads"
sys.path[:0] = [str(WORKLOADS), str(FOLDER.parent)]

from events.wait_for import wait_until  # noqa: E402
from measure import formats, machine, result  # noqa: E402
from measure.masking import MASK, Masker  # noqa: E402
from measure.output import KEPT_BYTES, LINE_BYTES, Lines, Output  # noqa: E402
from measure.suspects import Sample, Suspects  # noqa: E402
from measure.step_times import StepTimes, rank_of_interval  # noqa: E402

GIB, MIB = 2**30, 2**20


class FormatsTest(unittest.TestCase):
    # The samples follow the real format, with round numbers: Megatron-LM training_log() and
    # report_memory(); FlagScale under torchrun --tee; DeepSpeed ThroughputTimer,
    # wall_clock_breakdown, see_memory_usage() and PipelineEngine; regex.log is nanoGPT's line.
    # file, format, options, (step, seconds, loss) of each time, peak, reserved
    CASES = [
        ("megatron", "megatron", {}, [(1, 8.9124, 10.83217), (2, 1.5528, 10.81044), (3, 1.5481, None)],
         40960 * MIB, 49152 * MIB),
        ("flagscale", "flagscale", {}, [(1, 12.0319, 11.9), (2, 2.21, 11.7)], 21504 * MIB, 23552 * MIB),
        # 256 / 64, 256 / 51.2; the breakdown of the same step does not count again
        ("deepspeed", "deepspeed", {"size": formats.JobSize(256)}, [(2, 4.0, None), (3, 5.0, None)], 20 * GIB, None),
        # 0.9 + 2.8 + 0.3: without the batch size, the rate gives no time
        ("deepspeed", "deepspeed", {}, [(None, 4.0, None)], 20 * GIB, None),
        # 3.85930 + 11.26797 + 0.82919
        ("deepspeed_breakdown", "deepspeed", {}, [(None, 15.95646, None)], int(12.5 * GIB), 14 * GIB),
        ("deepspeed_pipeline", "deepspeed", {}, [(10, 0.512, 2.075), (20, 0.508, 1.9801)], None, None),
        ("maxtext", "maxtext", {}, [(0, 44.923, 12.038), (1, 0.25, 12.038), (2, 0.5, 11.689)], None, None),
        ("nemo", "nemo", {}, [(0, 9.5, 10.92), (1, 1.25, 10.75)], None, None),
        # three digits with a suffix
        ("nanotron", "nanotron", {}, [(1, 4.71, 5.32), (2, 0.625, 5.3)], 30720 * MIB, 32768 * MIB),
        # 1.25 / 1; 808.1082 x 0.012 = 9.7, so ten steps
        ("paddlenlp", "paddlenlp", {}, [(1, 1.25, 12.0635252), (11, 80.81082, 1.5980545)], int(12.25 * GIB),
         int(12.5 * GIB)),
        # 64 x 8192 / 8 / 512, / 8192, / 4096
        ("torchtitan", "torchtitan", {"size": formats.JobSize(64, 8192, 8)},
         [(1, 128.0, 12.2718), (10, 8.0, 10.5), (20, 16.0, 9.25)], None, int(40.5 * GIB)),
        ("json", "json", {"fields": ["step=train.iteration", "step_time_seconds=train.seconds", "loss=train.loss",
                                     "peak_mb=mem.peak"]},
         [(1, 0.75, 4.5), (2, 0.5, 4.25)], 3_000_000_000, None),
        ("meshwright", "meshwright", {}, [(1, 0.9, 5.0), (2, 0.25, float("nan")), (3, 0.5, 4.0)], 400, None),
        ("regex", "regex", {"patterns": [r"iter (?P<step>\d+): loss (?P<loss>\S+), time (?P<step_time_ms>[\d.]+)ms"]},
         [(1631, 0.56194, 4.0863), (1632, 0.56315, 3.7441)], None, None),
    ]

    def test_samples(self):
        for file, name, options, times, peak, reserved in self.CASES:
            with self.subTest(file=file, options=options):
                job_format = formats.named(name, **options)
                lines = (FOLDER / "logs" / f"{file}.log").read_text().splitlines()
                found = [job_format.read(line) for line in lines]
                timed = [reading for reading in found if "step_time_seconds" in reading]
                self.assertEqual([reading.get("step") for reading in timed], [step for step, _, _ in times])
                for reading, (_, seconds, loss) in zip(timed, times):
                    self.assertAlmostEqual(reading["step_time_seconds"], seconds, places=9)
                    self.assertEqual(repr(reading.get("loss")), repr(loss))  # repr: NaN is not equal to itself
                for key, value in (("peak_bytes", peak), ("reserved_bytes", reserved)):
                    self.assertEqual(max((reading[key] for reading in found if key in reading), default=None), value)

    def test_environment_and_warmup_are_read(self):
        job_format = formats.named("meshwright")
        lines = (FOLDER / "logs" / "meshwright.log").read_text().splitlines()
        self.assertEqual(job_format.read(lines[0])["environment"]["torch"], "2.4.1")
        self.assertIs(job_format.read(lines[1])["is_warmup"], True)

    def test_nan_steps_of_megatron(self):
        line = " iteration 4/ 50 | elapsed time per iteration (ms): 10.0 | number of nan iterations:   2 |"
        self.assertEqual(formats.named("megatron").read(line)["nan_steps"], 2)

    def test_odd_lines_read_as_nothing(self):
        for name in ("meshwright", "megatron", "flagscale", "deepspeed", "maxtext", "nemo", "nanotron", "paddlenlp"):
            for line in ("", "{", '"meshwright" {"meshwright": 1, "event": "step"', "{" * 5000, '"meshwright" []',
                         '{"meshwright": 1, "event": "step", "step": "x", "step_time_seconds": {}}',
                         '{"meshwright": 1, "event": "step", "step": 1e999, "step_time_seconds": -1}',
                         "elapsed time per iteration (ms): 5", "CurrSamplesPerSec=0, global_step=1,"):
                with self.subTest(name=name, line=line[:60]):
                    self.assertNotIn("step_time_seconds", formats.named(name).read(line))

    def test_what_describes_no_format_is_an_error(self):
        for name, options, said in (
                ("json", {}, "--field step_time_seconds"), ("json", {"fields": ["speed"]}, "QUANTITY=NAME"),
                ("json", {"fields": ["speed=x"]}, "speed is not a quantity"), ("regex", {}, "--pattern"),
                ("regex", {"patterns": ["("]}, "--pattern ("), ("regex", {"patterns": ["x"]}, "no named group"),
                ("regex", {"patterns": ["(?P<time>x)"]}, "time is not a quantity"),
                ("json", {"fields": ["step=a", "loss=b"]}, "--field step_time_seconds"),
                ("json", {"fields": ["samples_per_second=a"]}, "with --global-batch-size"),
                ("regex", {"patterns": ["(?P<step>x)"]}, "with (?P<step_time_seconds>".replace("?", r"\?")),
                ("megatron", {"fields": ["step=a"], "patterns": ["(", "b"]},
                 "--field step=a: is only for --format json; --pattern (: is only for --format regex; --pattern b"),
                ("json", {"fields": ["speed=x", "time=y"]}, "speed is not a quantity.*; time is not a quantity")):
            with self.subTest(name=name, options=options):
                with self.assertRaisesRegex(formats.FormatError, said.replace("(", r"\(")):
                    formats.named(name, **options)
        formats.named("json", ["samples_per_second=a"], size=formats.JobSize(8))
        with self.assertRaisesRegex(formats.FormatError, "torchtitan needs .*--sequence-length and --device-count"):
            formats.named("torchtitan", size=formats.JobSize(8, 4096))


class StepTimesTest(unittest.TestCase):
    def times(self, seconds, warmup=0):
        times = StepTimes(warmup)
        for value in seconds:
            times.add(value)
        return times

    def test_ranks_are_those_of_the_published_table(self):
        # Table of binomial intervals for the median: n, interval [x(k), x(n-k+1)] of the lowest
        # level >= 80 %: 4: 1,4 87.5 %; 5: 1,5 93.8 %; 6: 1,6 96.9 % (2,5 is 78.1 %); 7: 2,6 87.5 %;
        # 9: 3,7 82.0 %; 10: 3,8 89.1 %; 13: 4,10 90.8 % (5,9 is 73.3 %); 15: 5,11 88.2 %;
        # 17: 6,12 85.7 %; 19: 7,13 83.3 %; 20: 7,14 88.5 %.
        table = {1: None, 2: None, 3: None, 4: 1, 5: 1, 6: 1, 7: 2, 9: 3, 10: 3, 13: 4, 15: 5, 17: 6, 19: 7, 20: 7}
        self.assertEqual({count: rank_of_interval(count) for count in table}, table)
        # 500 values: 250.5 - 1.28155 * sqrt(500) / 2 = 236.2
        self.assertEqual(rank_of_interval(500), 236)

    def test_the_interval_holds_the_median_as_often_as_it_says(self):
        draw = random.Random(5)
        hits = 0
        for _ in range(500):
            low, high = self.times([draw.lognormvariate(0, 0.5) for _ in range(9)]).interval  # median 1
            hits += low <= 1 <= high
        # The true level for nine values is 82.0 %; four standard errors are 4 * sqrt(0.82 * 0.18 /
        # 500) = 6.9 %.
        self.assertAlmostEqual(hits / 500, 0.82, delta=0.069)

    def test_summary(self):
        times = self.times([9, 9, 5, 1, 2, 4, 3, 100, 7], warmup=2)  # measured, sorted: 1 2 3 4 5 7 100
        self.assertEqual((times.median, times.interval, times.warmup_steps), (4, (2, 7), 2))
        self.assertEqual(times.half_width_ratio, (7 - 2) / 2 / 4)
        self.assertEqual(times.spread_ratio, (7 - 2) / 4)  # the second from each end: a quarter of seven is one
        self.assertEqual(self.times([1, 2, 3]).interval, None)

    def test_drift(self):
        rising = self.times([1 + 0.01 * i for i in range(20)])
        # The sorted values are the same: median (1.09 + 1.10) / 2, slope 0.01 per step.
        self.assertAlmostEqual(rising.drift_ratio_per_step, 0.01 / 1.095)
        # The halves have medians 1.045 and 1.145. The interval is ranks 7 and 14: 1.06 .. 1.13, so
        # it is 0.07 wide.
        first, second = rising.drift(0.02)
        self.assertAlmostEqual(first, 1.045)
        self.assertAlmostEqual(second, 1.145)
        self.assertIsNone(rising.drift(0.2), "too small to matter")
        self.assertIsNone(self.times([1, 1.05] * 10).drift(0.02), "no drift, only spread")
        one_slow = self.times([1.0] * 19 + [50.0])
        self.assertEqual(one_slow.drift_ratio_per_step, 0)

    def test_false_alarms_of_drift_are_rare(self):
        draw = random.Random(6)
        alarms = sum(self.times([draw.gauss(1, 0.02) for _ in range(30)]).drift(0.0) is not None for _ in range(300))
        self.assertLess(alarms, 30)

    def test_steps_that_repeat_or_skip(self):
        times = StepTimes(warmup=5)
        for step in (10, 20, 20, 10, 30, 40):  # two ranks print every tenth step
            times.add(1.0, step)
        self.assertEqual((times.ignored, times.steps_per_sample, len(times)), (2, 10, 4))
        # The first line does not say how many steps it covers and counts as one; the second covers
        # 10.
        self.assertEqual((times.warmup_steps, len(times.measured)), (11, 2))

    def test_the_job_may_name_its_warmup(self):
        times = StepTimes(warmup=0)
        for step in range(6):
            times.add(1.0, step, is_warmup=step < 4)
        self.assertEqual((times.warmup_steps, len(times.measured)), (4, 2))
        for warmup, left_out in ((3, 4), (5, 5)):  # the larger of the two, not their sum
            times = StepTimes(warmup)
            for step in range(8):
                times.add(1.0, step, is_warmup=step < 4)
            self.assertEqual((times.warmup_steps, len(times.measured)), (left_out, 8 - left_out))


class MaskingTest(unittest.TestCase):
    def test_secrets(self):
        masker = Masker({"HF_TOKEN": "plainvalue1", "MY_PASSWORD_FILE_X": "plainvalue2", "HOME": "/home/someone",
                         "KEY": "short", "API_KEY": "plainvalue1-longer"},
                        ["train", "--wandb-api-key", "plainvalue3", "--hub-token=plainvalue4", "DB_PASSWORD=plainvalue5",
                         "--num-key-value-heads", "12345678", "--token"])
        cases = [  # line, text that must be removed
            ("uses plainvalue1 here", "plainvalue1"), ("x plainvalue1-longer y", "-longer"),
            ("plainvalue2", "plainvalue2"), ("plainvalue3", "plainvalue3"), ("a=plainvalue4;", "plainvalue4"),
            ("plainvalue5", "plainvalue5"), ("hf_" + "a1" * 17, "a1a1"), ("ghp_" + "b2" * 18, "b2b2"),
            ("Authorization: Bearer abcdef.123456", "abcdef"), ("https://bob:hunter2x@host/x", "hunter2x"),
            ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl", "c2lnbm"), ("id AKIAIOSFODNN7EXAMPLE", "IOSFOD"),
            ("glpat-" + "c3" * 12, "c3c3"), ("xoxb-123456789012-abc", "123456789012"), ("AIza" + "d" * 35, "dddd"),
            ("sk-" + "e5" * 15, "e5e5"), ('{"secret": "tiptop99"}', "tiptop99"), ("MY_API_KEY=abc123xyz", "abc123xyz"),
        ]
        for line, gone in cases:
            with self.subTest(line):
                masked = masker.mask(line)
                self.assertNotIn(gone, masked)
                self.assertIn(MASK, masked)

    def test_every_line_of_a_secret(self):
        key = "-----BEGIN KEY-----\n  firstPart1234\r\nsecondPart567\nab\n-----END KEY-----\n"
        masker = Masker({"SSH_KEY": key}, [])
        for line in key.splitlines():
            self.assertEqual(masker.mask(f"<{line.strip()}>"), f"<{MASK}>" if len(line) > 2 else "<ab>")
        self.assertEqual(masker.mask(f"<{key}>"), f"<{MASK}>")
        self.assertEqual(masker.mask(repr(key)[1:-1]).replace(MASK, ""), "\\n  \\r\\n\\nab\\n\\n")

    def test_what_is_no_secret_stays(self):
        masker = Masker({"TOKENIZERS_PARALLELISM": "false-value", "KEY": "true"}, ["--num-tokens", "4096000"])
        for line in ("false-value", "true", "tokens: 4096000", "time per token: 0.003125", "num_key_value_heads=128000",
                     "a task-with-a-very-long-name-indeed", "https://host:8080/path", "loss 10.83217 at step 100000"):
            self.assertEqual(masker.mask(line), line)

    def test_documents(self):
        masked = Masker({}, []).mask_all({"password": "abc", "list": ["sk-" + "e5" * 15, 7], "torch": "2.4"})
        self.assertEqual(masked, {"password": MASK, "list": [MASK, 7], "torch": "2.4"})


class OutputTest(unittest.TestCase):
    def output(self, masker=None, notable=("error",)):
        self.file = tempfile.TemporaryFile()
        self.addCleanup(self.file.close)
        return Output(os.fdopen(os.dup(self.file.fileno()), "wb"), masker or Masker({}, []), list(notable))

    def test_lines_do_not_depend_on_how_they_arrive(self):
        stream = b"one\r\ntwo\n\n50%\r60%\rthree\nno end"
        expected = [b"one", b"two", b"", b"50%", b"60%", b"three", b"no end"]
        for size in (1, 2, 3, 7, 100):
            with self.subTest(size):
                lines = Lines()
                found = [line for i in range(0, len(stream), size) for line, _ in lines.feed(stream[i:i + size])]
                found += [line for line, _ in lines.finish()]
                self.assertEqual([line for line in found if line], [line for line in expected if line])

    def test_a_line_without_end_takes_little_memory(self):
        lines = Lines()
        for _ in range(50):
            self.assertEqual(lines.feed(b"x" * 100_000), [])
        (line, was_cut), = lines.finish()
        self.assertTrue(LINE_BYTES < len(line) < 2 * LINE_BYTES and was_cut, len(line))

    def test_head_tail_and_notable_lines(self):
        output = self.output()
        output.feed(b"first\n" + b"x" * 99 + b"\n")
        for i in range(4000):
            output.feed(b"%060d\n" % i)
            if i == 2000:
                output.feed(b"the Error in the middle\n")
        output.feed(b"last\n")
        output.finish()
        self.assertTrue(output.head.startswith("first\n"))
        self.assertTrue(output.tail.endswith("last\n"))
        for text in (output.head, output.tail):
            self.assertTrue(KEPT_BYTES - 200 < len(text) <= KEPT_BYTES, len(text))
        self.assertNotIn("the Error in the middle", output.head + output.tail)
        self.assertIn((2004, "the Error in the middle"), output.kept())
        self.assertEqual(sorted(output.kept()), output.kept())

    def test_a_short_log_is_kept_once(self):
        output = self.output()
        output.feed(b"a\nb")
        output.finish()
        self.assertEqual((output.head, output.tail), ("a\nb\n", ""))

    def test_garbage_and_long_lines(self):
        output = self.output()
        garbage = bytes(byte for byte in range(256) if byte not in b"\r\n")
        output.feed(garbage + b"\n")
        for _ in range(100):
            output.feed(b"y" * 100_000)
        output.feed(b"\nafter\n")
        output.finish()
        self.file.seek(0)
        lines = self.file.read().split(b"\n")
        self.assertEqual(lines[0], garbage)
        self.assertEqual((lines[1], lines[2]), (b"y" * LINE_BYTES + b"... [cut]", b"after"))
        self.assertIn("\\xff", output.head)
        json.dumps(output.head).encode("utf-8")

    def test_a_secret_across_the_cut_is_masked(self):
        output = self.output(Masker({"A_TOKEN": "s3cr3t" * 10}, []))
        output.feed(b"z" * (LINE_BYTES - 20) + b"s3cr3t" * 10 + b"\n")
        output.finish()
        self.assertNotIn("s3cr3t", output.head)

    def test_a_full_disk_does_not_end_a_measurement(self):
        file = open("/dev/full", "wb", buffering=0)
        self.addCleanup(file.close)
        output = Output(file, Masker({}, []), [])
        output.feed(b"a\nb\n")
        self.assertEqual(output.head, "a\nb\n")
        self.assertIn("No space left", output.trouble)


class MachineTest(unittest.TestCase):
    def test_the_digest_is_of_the_kind_not_of_the_machine(self):
        base = {"host": "n1", "cpu_model": "x", "memory_bytes": 64 * GIB, "variables": {"NCCL_ALGO": "Ring"},
                "for_people": {"CUDA_VISIBLE_DEVICES": "0"}, "skipped": []}
        def digest(change):
            return machine.digest({**base, **change}, machine.table()["reported_in_digest"])

        for change in ({"host": "n2"}, {"memory_bytes": 64 * GIB - 5 * MIB}, {"for_people": {}}, {"skipped": ["x"]},
                       {"python": "3.9"}, {"reported": None}, {"reported": {"plan": "tp2", "host": "n2"}}):
            self.assertEqual(digest(change), digest({}), change)
        for change in ({"cpu_model": "y"}, {"memory_bytes": 32 * GIB}, {"variables": {}}, {"reported": {"torch": "2"}}):
            self.assertNotEqual(digest(change), digest({}), change)

    def test_devices_are_asked_and_lose_their_serials(self):
        with tempfile.TemporaryDirectory() as folder:
            tool = pathlib.Path(folder, "acme-smi")
            tool.write_text("#!/bin/sh\necho 'GPU 0: Acme 1 (UUID: GPU-1234-5678)'\n")
            tool.chmod(0o755)
            broken = pathlib.Path(folder, "broken-smi")
            broken.write_text("#!/bin/sh\necho no driver; exit 9\n")
            broken.chmod(0o755)
            tools = machine.table()
            tools["tools"] = [{"tool": str(tool), "devices": ["-L"]}, {"tool": str(broken), "devices": []},
                              {"tool": "no-such-smi", "devices": []}]
            environment = machine.describe(tools, Masker({}, []))
        self.assertEqual([line.strip() for line in environment["devices"][str(tool)]], ["GPU 0: Acme 1"])
        self.assertIn("exit code 9: no driver", environment["skipped"][0])
        self.assertEqual(environment["skipped"][1], "no-such-smi: not installed")


class SuspectsTest(unittest.TestCase):
    def sample(self, **changes):
        sample = Sample("a1")
        for name, value in {"monotonic": 100.0, "wall": 5000.0, "busy": 50.0, "stolen": 1.0, "own": 20.0,
                            "throttles": {"cpu0": 3}, "quota": 4, **changes}.items():
            setattr(sample, name, value)
        return sample

    def test_reasons(self):
        # Ten seconds later on four processors, there were 40 s of processor time, of which 22 s
        # were ours.
        quiet = {"monotonic": 110.0, "wall": 5010.0, "busy": 50.0 + 22 + 3, "own": 20.0 + 22}
        for changes, reason, number in (
                ({}, None, None),  # 3 of 40 s
                ({"busy": 50.0 + 22 + 6}, "other_load", ("share", 0.15)),  # 6 of 40 s
                ({"stolen": 2.0}, "stolen_time", ("share", 0.025)),  # 1 of 40 s
                ({"throttles": {"cpu0": 5}}, "cpu_throttled", ("times", 2)),
                ({"quota": 9}, "cpu_quota", ("times", 5)), ({"quota": None}, None, None),
                ({"wall": 5007.5}, "clock_changed", ("seconds", -2.5)), ({"wall": 5010.1}, None, None)):
            with self.subTest(changes):
                found = self.sample().compare(self.sample(**{**quiet, **changes}), 4)
                self.assertEqual([row["reason"] for row in found], [reason] if reason else [])
                if reason:
                    self.assertEqual(found[0][number[0]], number[1])

    def test_the_time_of_our_children_is_ours(self):
        own = f"parts{os.getpid()}"
        before = Sample(own).own
        burn = "import signal, time\nwhile time.process_time() < 0.5: pass\nprint(flush=True); signal.pause()"
        child = subprocess.Popen([sys.executable, "-c", burn], stdout=subprocess.PIPE)
        child.stdout.readline()
        alive = Sample(own).own - before
        child.kill()
        child.wait()
        child.stdout.close()
        self.assertGreaterEqual(alive, 0.25)
        self.assertGreaterEqual(Sample(own).own - before, alive)  # even after it has ended

    def test_the_time_of_other_ranks_of_the_attempt_is_ours(self):
        burn = ("import os, signal, time\nwhile time.process_time() < 0.5: pass\nprint(os.getpid(), flush=True)\n"
                "signal.pause()")
        # The name is unique, because another test may run at the same time.
        own = f"parts{os.getpid()}"
        for attempt, is_ours in ((own, True), (own + "-2", False), ("x" + own, False)):
            before = Sample(own).own
            # The process is an orphan and not our child, like ranks under harnesses that srun
            # started.
            shell = subprocess.Popen(["sh", "-c", f"{sys.executable} -c '{burn}' &"], stdout=subprocess.PIPE,
                                     env={**os.environ, "MESHWRIGHT_ATTEMPT": attempt})
            orphan = int(shell.stdout.readline())
            shell.wait()
            grown = Sample(own).own - before
            os.kill(orphan, signal.SIGKILL)
            shell.stdout.close()
            self.assertEqual(grown >= 0.25, is_ours, (attempt, grown))

    def test_a_device_that_is_slowed_down(self):
        with tempfile.TemporaryDirectory() as folder:
            tool = pathlib.Path(folder, "acme-smi")
            tool.write_text("#!/bin/sh\nprintf '0, Not Active, Not Active\\n1, Not Active, Active\\n'\n")
            tool.chmod(0o755)
            suspects = Suspects({"tools": [{"tool": str(tool), "throttle": ["-q"], "throttled": ", Active"}]}, "a1")
            suspects.begin()
            suspects.sample()
            self.assertTrue(wait_until(lambda: any(row["reason"] == "device_throttled" for row in suspects.reasons())))
        reason = next(row for row in suspects.reasons() if row["reason"] == "device_throttled")
        self.assertEqual(reason["times"], 1)
        self.assertIn("1, Not Active, Active", reason["message"])


class ProgressTest(unittest.TestCase):
    # seconds, steps, a line is written
    LOOKS = [(0, 0, True), (0.25, 1, False), (0.99, 1, False), (1, 1, True), (1.5, 2, False), (2, 2, True),
             (9, 2, False), (11.9, 2, False), (12, 2, True), (12.5, 3, False), (13, 3, True)]

    def test_changes_are_told_once_a_second_and_silence_every_ten(self):
        now, file = 0.0, io.StringIO()
        progress = result.Progress(file, "a1", 7, now=lambda: now)
        for now, steps, is_written in self.LOOKS:
            before = file.tell()
            progress.show("MEASURING", steps, 0.5)
            self.assertEqual(file.tell() > before, is_written, now)
        last = json.loads(file.getvalue().splitlines()[-1])
        self.assertEqual((last["attempt"], last["token"], last["state"], last["steps"], last["step_time_seconds"]),
                         ("a1", 7, "MEASURING", 3, 0.5))


class SourceTest(unittest.TestCase):
    def test_python_3_9_and_the_standard_library_are_enough(self):
        known = {"measure", *sys.stdlib_module_names} if hasattr(sys, "stdlib_module_names") else None
        for path in [WORKLOADS / "harness.py", *sorted((WORKLOADS / "measure").glob("*.py"))]:
            tree = ast.parse(path.read_text(), str(path), feature_version=(3, 9))
            for node in ast.walk(tree):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else (
                    [node.module] if isinstance(node, ast.ImportFrom) else [])
                for name in names:
                    self.assertTrue(known is None or name.split(".")[0] in known, f"{path.name} imports {name}")


if __name__ == "__main__":
    unittest.main()
