"""Tests the way from a chip file to a calibrated chip: cli_calibrate_test.py MESHWRIGHT MESHWRIGHTD
EXAMPLES PYTHON [TESTS]

With the program of the release build, it runs the whole of workloads/microbench.py on this machine;
otherwise it uses a file that was kept."""

import json
import pathlib
import shutil
import subprocess
import sys
import unittest

from programs import EXAMPLES, Folder

PYTHON = sys.argv[4]
MICROBENCH = EXAMPLES.parent / "workloads/microbench.py"


def gemm(size, seconds):
    return {"precision": "fp32", "pass": "forward", "m": size, "n": size, "k": size, "count": 1,
            "accumulates_fp32": False, "time_seconds": seconds}


def measurements(**items):
    return {"format": "meshwright.microbench", "version": 1,
            "machine": {"device": "cpu", "backend": "gloo", "device_name": "board", "torch": "1.13", "device_count": 1},
            "items": {name: {"status": "measured", "reason": "", "seconds": 1, "rows": rows}
                      for name, rows in items.items()}}


class CalibrateTest(Folder):
    """Tests what the command does with its files."""

    ROWS = [gemm(size, 2 * size**3 / 5e10 + 1e-5) for size in (128, 256, 384, 512, 768, 1024, 1536)]

    def calibrate(self, *args, content=None, expect=10, chip="cpu-generic"):
        content = content or measurements(gemm=self.ROWS)
        path = self.write("measured.json", content if isinstance(content, str) else json.dumps(content))
        return self.run_cli("calibrate", "--chip", chip, "--measurements", path, "--name", "board-1", *args,
                            expect=expect)

    def site(self):
        folder = pathlib.Path(self.folder) / "site"
        folder.mkdir(exist_ok=True)
        return str(folder)

    def test_the_chip_file_is_written_and_used(self):
        site = self.site()
        answer = json.loads(self.calibrate("--chips", site, "--output", "json", "--draft", expect=0).stdout)
        self.assertEqual((answer["stored_as"], answer["exit_reason"]), (f"{site}/cpu-generic.json", "done"))
        shown = json.loads(self.run_cli("chip", "show", "cpu-generic", "--chips", site, "--output", "json").stdout)
        figures = {figure["name"]: figure for figure in shown["figures"]}
        self.assertAlmostEqual(float(figures["peak_fp32_flops_per_second"]["value"]) / 5e10, 1, delta=0.01)
        self.assertIn("calibration board-1 on board", figures["gemm_fixed_seconds"]["source"])
        self.assertEqual(figures["gemm_fixed_seconds"]["provenance"], "fitted")

    def test_what_was_not_measured_is_said(self):
        answer = json.loads(self.calibrate("--output", "json").stdout)
        verdicts = {fit["name"]: fit["verdict"] for fit in answer["operators"]}
        self.assertEqual(verdicts["gemm"], "good")
        self.assertEqual(verdicts["memory-bound"], "assumed")
        self.assertEqual(answer["verdict"], "not_ready")
        self.assertEqual(answer["stored_as"], "")
        self.assertIn("not stored", " ".join(answer["warnings"]))
        self.assertEqual((answer["device_name"], answer["reasons"][0]), ("board", "stream was not measured"))
        self.assertIn("collectives was not measured", answer["reasons"])
        text = self.calibrate().stdout
        self.assertIn("calibration board-1 of cpu-generic, measured on board: not ready, because\n  stream was not", text)
        self.assertIn("item elementwise is not in the file", text)

    def test_what_is_not_ready_is_not_stored(self):
        site = self.site()
        done = self.calibrate("--chips", site, "--replace", expect=10)
        self.assertIn("warning: not stored, because it is not ready; --draft stores it all the same", done.stdout)
        self.assertEqual(list(pathlib.Path(site).iterdir()), [])
        answer = json.loads(self.calibrate("--folder", site, "--output", "json", expect=10).stdout)
        self.assertEqual((answer["exit_reason"], answer["verdict"], answer["stored_as"]),
                         ("trials_failed", "not_ready", ""))
        self.assertEqual(list(pathlib.Path(site).iterdir()), [])

    def test_a_ratio_out_of_bounds_is_refused_with_what_to_repeat(self):
        row = {"precision": "bf16", "m": 4096, "n": 4096, "k": 2048, "rank_count": 2, "burst_time_seconds": 0.001,
               "time_seconds": 0.0072, "slowest_time_seconds": 0.0072}
        done = self.calibrate(content=measurements(gemm=self.ROWS, sustained_gemm=[row]), expect=10)
        self.assertIn("\n  sustained_time_ratio = 7.2; must be 0.5 to 5: repeat item sustained_gemm (bf16 4096 x 4096 x "
                      "2048)\n", done.stdout)
        self.assertIn("sustained gemm: measure it again on a quiet device: microbench.py --only sustained_gemm --again",
                      done.stdout)

    def test_a_chip_file_is_not_written_over_unasked(self):
        site = self.site()
        self.calibrate("--chips", site, "--draft", expect=0)
        before = pathlib.Path(site, "cpu-generic.json").read_text(encoding="utf-8")
        done = self.calibrate("--chips", site, "--draft", expect=6)
        self.assertIn("--replace", done.stderr)
        self.assertEqual(pathlib.Path(site, "cpu-generic.json").read_text(encoding="utf-8"), before)
        self.calibrate("--chips", site, "--draft", "--replace", expect=0)

    def test_the_shipped_cpu_follows_from_its_measurements(self):
        root = EXAMPLES.parent
        shipped = json.loads((root / "vendor_models/chips/cpu-generic.json").read_text(encoding="utf-8"))
        raw = (root / "bench/chips/cpu-generic.microbench.json").read_text(encoding="utf-8")
        site = self.site()
        self.calibrate("--chips", site, "--replace", "--draft", content=raw, expect=0)
        made = json.loads(pathlib.Path(site, "cpu-generic.json").read_text(encoding="utf-8"))
        self.assertEqual(set(made["figures"]), set(shipped["figures"]))
        for name, figure in shipped["figures"].items():
            value = figure["value"]
            if isinstance(value, str):
                self.assertEqual(made["figures"][name]["value"], value)
            else:  # another compiler's fit ends slightly elsewhere
                self.assertAlmostEqual(made["figures"][name]["value"], value, delta=0.02 * abs(value), msg=name)
        self.assertEqual([row["curve"] for row in made["collectives"]], [row["curve"] for row in shipped["collectives"]])

    def test_the_steps_of_the_shipped_measurements_are_as_expected(self):
        raw = (EXAMPLES.parent / "bench/chips/cpu-generic.microbench.json").read_text(encoding="utf-8")
        measured = [row["step_time_seconds"] for row in json.loads(raw)["items"]["step"]["rows"]]
        steps = json.loads(self.calibrate("--output", "json", content=raw).stdout)["steps"]
        self.assertEqual([step["measured_seconds"] for step in steps], measured)
        for step in steps:
            self.assertEqual(step["error"], "")
            self.assertLess(abs(step["expected_seconds"] / step["measured_seconds"] - 1), 0.15, step)

    def test_the_shipped_hopper_chips_follow_from_their_measurements(self):
        """These figures of the chip files are those of one device of each (docs/chips/measured.md)."""
        for chip in ("nvidia-h100-sxm5-80gb", "nvidia-h200-sxm5-141gb"):
            root = EXAMPLES.parent
            shipped = json.loads((root / f"vendor_models/chips/{chip}.json").read_text(encoding="utf-8"))["figures"]
            site = self.site()
            raw = (root / f"bench/chips/{chip}.microbench.json").read_text(encoding="utf-8")
            answer = json.loads(self.calibrate("--output", "json", "--chips", site, "--replace", "--draft", chip=chip,
                                               content=raw, expect=0).stdout)
            made = json.loads(pathlib.Path(site, f"{chip}.json").read_text(encoding="utf-8"))["figures"]
            for name in ("attention_flash2_ratio", "host_link_bandwidth_bytes_per_second", "stream_efficiency_ratio"):
                self.assertEqual(shipped[name]["provenance"], "measured")
                self.assertAlmostEqual(made[name]["value"] / shipped[name]["value"], 1, delta=0.01, msg=name)
            fits = {(fit["name"], fit["detail"]): fit for fit in answer["operators"]}
            for name in (("gemm", "bf16"), ("attention", "bf16"), ("stream", "")):
                self.assertEqual(fits[name]["verdict"], "good", name)
            self.assertLess(fits["attention", "bf16"]["before"]["median_ratio"], 0.1)
            sustained = next(row for row in json.loads(raw)["items"]["sustained_gemm"]["rows"]
                             if row["precision"] == "bf16")
            self.assertIn(f"takes {sustained['time_seconds'] * 1e3:.3f} ms", shipped["sustained_time_ratio"]["source"])

    def test_the_measured_steps_of_an_h100_are_as_expected(self):
        """The models from 1B parameters on are; smaller ones wait for the host."""
        text = (EXAMPLES.parent / "bench/chips/nvidia-h100-sxm5-80gb.steps.jsonl").read_text(encoding="utf-8")
        rows = [json.loads(line) for line in text.splitlines()]
        done = self.run_cli("evaluate", "--cases", "-", text_in="".join(json.dumps(row["case"]) + "\n" for row in rows))
        large = 0
        for row, line in zip(rows, done.stdout.splitlines()):
            name, measured, found = row["case"]["id"], row["measured"], json.loads(line)
            if "failure" in measured:
                self.assertFalse(found["fits"])
                continue
            self.assertLess(abs(measured["peak_memory_bytes"] / found["peak_memory_bytes"] - 1), 0.1, name)
            if name.startswith(("gpt1.3b", "llama1b", "llama3b")):
                large += 1
                self.assertLess(abs(measured["step_time_seconds"] / found["step_time_seconds"] - 1), 0.08, name)
        self.assertEqual(large, 5)

    def test_bad_input_is_named(self):
        broken = measurements(gemm=[{**gemm(128, -1), "pass": "sideways"}])
        text = self.calibrate(content=broken, expect=3).stderr
        self.assertIn("/measured.json: items.gemm.rows[0].time_seconds = -1; must be", text)
        self.assertIn("/measured.json: items.gemm.rows[0].pass = sideways; must be one of", text)
        text = self.calibrate(content="{", expect=3).stderr
        self.assertIn("/measured.json = no JSON: parse error at line 1, column 2", text)
        self.assertNotIn("json.exception", text)
        self.calibrate(chip="no-such-chip", expect=5)
        self.assertIn("--server", self.calibrate("--server", "127.0.0.1:1", expect=3).stderr)

    def test_measurements_of_another_chip_are_refused(self):
        site = self.site()
        shutil.copy(EXAMPLES / "new-chip/acme-x1.json", site)
        # 2 x 4096^3 operations in 2.14e-4 s: 643 TFLOP/s of 320.
        content = measurements(gemm=[{**gemm(4096, 2.14e-4), "precision": "bf16"}])
        text = self.calibrate("--chips", site, "--replace", content=content, expect=3, chip="acme-x1").stderr
        self.assertIn("/measured.json: items.gemm = 6.422e+14 a second in the fastest bf16 GEMM, 2.01 times the published "
                      "peak_bf16_flops_per_second of 3.2e+14; must be 0.05 to 1.1 times", text)
        self.assertEqual(pathlib.Path(site, "acme-x1.json").read_bytes(),
                         (EXAMPLES / "new-chip/acme-x1.json").read_bytes())

    def test_a_step_that_could_not_be_expected_before_is_expected_now(self):
        """acme-x1 has no peak of fp32, in which the steps were measured."""
        raw = json.loads((EXAMPLES.parent / "bench/chips/cpu-generic.microbench.json").read_text(encoding="utf-8"))
        answer = json.loads(self.calibrate(
            "--output", "json", "--chips", str(EXAMPLES / "new-chip"), "--folder", self.site(), chip="acme-x1",
            content=measurements(gemm=self.ROWS, step=raw["items"]["step"]["rows"])).stdout)
        self.assertEqual(len(answer["steps"]), 2)
        for step in answer["steps"]:
            self.assertIn("fp32", step["error_before"])
            self.assertEqual((step["error"], step["expected_before_seconds"]), ("", 0))
            self.assertGreater(step["expected_high_seconds"], step["expected_seconds"])
            self.assertGreater(step["expected_seconds"], 0)

    def test_the_same_file_gives_the_same_bytes(self):
        self.assertEqual(self.calibrate("--output", "json").stdout, self.calibrate("--output", "json").stdout)


class MachineTest(Folder):
    """Calibrates this machine as the chip cpu-generic."""

    def test_microbenchmarks_make_it_ready_to_tune(self):
        path = str(pathlib.Path(self.folder) / "machine.json")
        subprocess.run([PYTHON, str(MICROBENCH), "--output", path, "--processes", "2", "--sustained-seconds", "3",
                        "--seconds-per-point", "0.05", "--max-bytes", str(2**27)],
                       check=True, timeout=500, stdout=subprocess.DEVNULL)
        site = pathlib.Path(self.folder) / "site"
        site.mkdir()
        answer = json.loads(self.run_cli("calibrate", "--chip", "cpu-generic", "--measurements", path, "--name", "here",
                                         "--chips", str(site), "--draft", "--output", "json").stdout)
        found = {(fit["name"], fit["detail"]): fit for fit in answer["operators"]}
        for wanted in (("gemm", "fp32"), ("memory-bound", ""), ("stream", ""), ("sustained gemm", ""),
                       ("all_reduce", "2 ranks"), ("all_gather", "2 ranks")):
            self.assertIn(wanted, found)
            self.assertNotEqual(found[wanted]["verdict"], "assumed", wanted)
        self.assertEqual(len(answer["steps"]), 2)
        for step in answer["steps"]:
            self.assertEqual(step["error"], "")
            self.assertGreater(step["expected_seconds"], 0)
            self.assertGreater(step["measured_seconds"], 0)
        tuned = json.loads(self.run_cli(
            "tune", "--model", str(EXAMPLES / "two-cores/model.json"), "--workload",
            str(EXAMPLES / "two-cores/workload.json"), "--cluster", str(EXAMPLES / "two-cores/cluster.json"),
            "--chips", str(site), "--output", "json").stdout)
        self.assertTrue(tuned["plans"][0]["estimate"]["fits"])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[5:]])
