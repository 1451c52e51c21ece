"""Tests the commands about vendors' models, as users run them: MESHWRIGHT MESHWRIGHTD EXAMPLES"""

import hashlib
import json
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
import programs  # noqa: E402
from programs import MESHWRIGHT, MESHWRIGHTD  # noqa: E402

BIN = MESHWRIGHT.parent


class ModelTest(programs.Folder):

    def setUp(self):
        super().setUp()
        self.models = self.folder / "models"
        self.models.mkdir()
        self.manifest("roofline-cpp", program=BIN / "template_cost_model_cpp")
        self.manifest("roofline-c", library=BIN / "libtemplate_cost_model_c.so")
        self.manifest("bad", program=BIN / "bad_cost_model",
                      arguments=["--mode", "crash_at_start"])

    def manifest(self, name, arguments=None, **file):
        (kind, path), = file.items()
        manifest = {"name": name, kind: str(path),
                    "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
        if arguments:
            manifest["arguments"] = arguments
        (self.models / f"{name}.json").write_text(json.dumps(manifest))

    def with_models(self, *args, **kwargs):
        return self.run_cli("--cost-models", str(self.models), *args, **kwargs)

    def start_server_with_models(self):
        server = subprocess.Popen(
            [MESHWRIGHTD, "--listen", "127.0.0.1:0", "--db", str(self.folder / "server.db"),
             "--cost-models", str(self.models)],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

        def stop():
            server.terminate()
            server.wait(timeout=30)
            server.stdout.close()
        self.addCleanup(stop)
        return server.stdout.readline().split()[-1]

    def test_list_and_show(self):
        listed = json.loads(self.with_models("--output", "json", "model", "list").stdout)
        self.assertEqual([model["name"] for model in listed["cost_models"]],
                         ["bad", "roofline-c", "roofline-cpp"])
        self.assertEqual({model["state"] for model in listed["cost_models"]}, {"ok"})
        self.assertEqual([(model["kind"], model["file"]) for model in listed["cost_models"]],
                         [("program", "bad_cost_model"), ("library", "libtemplate_cost_model_c.so"),
                          ("program", "template_cost_model_cpp")])
        address = self.start_server_with_models()
        (self.models / "bad.json").unlink()  # a running server keeps what it has read
        for form in ("json", "table"):
            served = self.run_cli("--server", address, "--output", form, "model", "list").stdout
            self.assertIn("bad_cost_model", served)
            self.assertNotIn(str(BIN), served)
        self.manifest("bad", program=BIN / "bad_cost_model", arguments=["--mode", "crash_at_start"])
        for form in ("json", "table"):
            self.assertEqual(
                self.run_cli("--server", address, "--output", form, "model", "list").stdout,
                self.with_models("--output", form, "model", "list").stdout)
        shown = json.loads(self.with_models("--output", "json", "model", "show",
                                            "roofline-c").stdout)
        text = self.with_models("model", "show", "roofline-cpp").stdout
        self.assertRegex(text, r"batch limit +8192 plans")
        self.assertRegex(text, r"lower bounds +yes")
        self.assertRegex(text, r"calibrated for +no chip")
        for command in (["show", "roofline-cpp"], ["check", "roofline-cpp"],
                        ["check", "--program", "x"], ["tests", "roofline-cpp", "--chip", "x"]):
            wrong = self.run_cli("--server", "127.0.0.1:1", "model", *command, expect=2)
            self.assertIn("run it on the model's machine with --cost-models", wrong.stderr)
            self.assertEqual(wrong.stderr.count("\n"), 1)
        for command in (["list"], ["show", "x"], ["check", "x"], ["tests", "x", "--chip", "x"]):
            self.run_cli("model", *command, expect=2)  # no folder
        self.assertEqual(shown["info"]["version"], "1.0.0")
        self.assertIn("network=", shown["isolation"])
        self.with_models("model", "show", "nobody", expect=5)
        self.with_models("model", "show", "bad", expect=8)

    def listed(self, name):
        models = json.loads(self.with_models("--output", "json", "model", "list").stdout)["cost_models"]
        return next(model for model in models if model["name"] == name)

    def test_check(self):
        done = subprocess.run(
            [MESHWRIGHT, "model", "check", "--library", str(BIN / "libtemplate_cost_model_c.so")],
            capture_output=True, text=True, timeout=600, check=False)
        if "throughput" in done.stdout and done.returncode == 10:  # a busy machine
            done = self.run_cli("--output", "json", "model", "check", "--library",
                                str(BIN / "libtemplate_cost_model_c.so"), expect=10)
            failed = {check["name"] for check in json.loads(done.stdout)["checks"]
                      if check["outcome"] == "failed"}
            self.assertEqual(failed, {"throughput"})
        else:
            self.assertEqual(done.returncode, 0, done.stdout)
            self.assertIn("passed: a study may use this model", done.stdout)
        written = self.models / "report" / "bad.json"
        text = self.with_models("model", "check", "bad", "--json", str(written), expect=10).stdout
        names = [check["name"] for check in json.loads(written.read_text())["checks"]]
        for name in names:
            self.assertIn(name, text)
        report = json.loads(self.with_models("--output", "json", "model", "check", "bad",
                                             expect=10).stdout)
        self.assertFalse(report["passed"])
        self.assertEqual(report["checks"][0]["outcome"], "failed")
        self.assertEqual(report["isolation"].split("=")[0], "network")
        detail = report["checks"][0]["detail"]
        self.assertIn("it wrote: no licence found", detail)
        self.assertNotIn("meshwright-confinement", detail)
        # The list of the folder has the result, and says if it is another program's.
        kept = self.listed("bad")["check"]
        self.assertEqual((kept["passed_count"], kept["is_current"]), (0, True))
        self.assertIn(report["checks"][0]["name"], kept["failed_checks"])
        self.assertNotIn("check", self.listed("roofline-c"))
        self.assertRegex(self.with_models("model", "list").stdout, r"\d{4}-\d\d-\d\d: 0 passed, \d+ failed")
        self.manifest("bad", program=BIN / "template_cost_model_cpp")
        self.assertFalse(self.listed("bad")["check"]["is_current"])
        self.run_cli("model", "check", expect=2)
        self.run_cli("model", "check", "bad", "--program", "/nowhere", expect=2)
        self.run_cli("model", "check", "--program", "/nowhere", expect=5)

    def test_tune_embedded_and_served_alike(self):
        question = ["tune", *self.question(), "--output", "json"]
        own = json.loads(self.with_models(*question, "--cost-model", "roofline-cpp").stdout)
        source = own["plans"][0]["estimate"]["cost_model"]
        self.assertEqual(source["name"], "roofline-cpp")
        self.assertEqual(source["state"], "used")
        self.assertEqual(len(source["checksum"]), 64)
        self.assertGreater(int(own["search"]["pruned_count_by_rule"]["bound"]), 0)
        self.assertTrue(any("own bounds, which are not verified" in text
                            for text in own["warnings"]), own["warnings"])
        text = self.with_models("tune", *self.question(), "--cost-model", "roofline-cpp").stdout
        self.assertIn("the best of the space if the cost model's own bounds are right", " ".join(text.split()))
        self.assertNotIn("proven best", text)
        plain = json.loads(self.run_cli(*question).stdout)
        self.assertNotIn("cost_model", plain["plans"][0]["estimate"])
        address = self.start_server_with_models()
        served = json.loads(self.run_cli("--server", address, *question, "--cost-model",
                                         "roofline-cpp").stdout)
        self.assertEqual(served["plans"], own["plans"])
        info = json.loads(self.run_cli("--server", address, "--output", "json", "server",
                                       "info").stdout)
        self.assertEqual(info["cost_models"], ["bad", "roofline-c", "roofline-cpp"])

    def test_it_chooses_trials_embedded_and_served_alike(self):
        rows = [{"plan": {"tensor_parallel": t}, "outcome": "ok", "step_time_seconds": 100.0} for t in (1, 2, 4, 8)]
        question = ["tune", *self.question(), "--launcher", "replay", "--max-trials", "1", "--replay",
                    self.write("rows.jsonl", "\n".join(json.dumps(row) for row in rows)), "--output", "json"]
        own = json.loads(self.with_models(*question, "--cost-model", "roofline-cpp").stdout)
        plain = json.loads(self.run_cli(*question).stdout)
        expected, = (trial["expected_step_time_seconds"] for trial in own["trials"])
        self.assertNotEqual(expected, plain["trials"][0]["expected_step_time_seconds"])
        first, *rest = own["plans"]
        self.assertEqual(first["estimate"]["provenance"], "measured")
        self.assertEqual(len(rest), 3)
        for plan in rest:
            self.assertEqual(plan["estimate"]["cost_model"]["name"], "roofline-cpp")
            self.assertEqual(plan["estimate"]["cost_model"]["state"], "used")
        served = json.loads(self.run_cli("--server", self.start_server_with_models(), *question, "--cost-model",
                                         "roofline-cpp").stdout)
        self.assertEqual(served["plans"], own["plans"])

    def test_fronts_and_sweeps_embedded_and_served_alike(self):
        address = self.start_server_with_models()
        model = ["--cost-model", "roofline-cpp"]
        front = ["tune", *self.question(), "--pareto", "--output", "json"]
        own = json.loads(self.with_models(*front, *model).stdout)
        served = json.loads(self.run_cli("--server", address, *front, *model).stdout)
        plans = [point["plan"] for point in own["pareto_front"]]
        self.assertEqual(plans[0]["plan"], own["plans"][0]["plan"])
        self.assertEqual(served["pareto_front"], own["pareto_front"])
        sweep = ["tune", *self.question(), "--devices", "8,16", "--free-memory", "0,0.3", "--output", "json"]
        own = json.loads(self.with_models(*sweep, *model).stdout)
        served = json.loads(self.run_cli("--server", address, *sweep, *model).stdout)
        self.assertEqual(served, own)
        self.assertEqual(len(own["points"]), 4)
        plain = json.loads(self.run_cli(*sweep).stdout)
        for mine, built_in in zip(own["points"], plain["points"]):
            plans.append(mine["best"])
            self.assertNotEqual(mine["best"]["estimate"]["step_time_seconds"],
                                built_in["best"]["estimate"]["step_time_seconds"])
        for plan in plans:
            self.assertEqual(plan["estimate"]["cost_model"]["name"], "roofline-cpp")
            self.assertEqual(plan["estimate"]["cost_model"]["state"], "used")
        text = self.with_models(*sweep[:-2], *model).stdout
        self.assertIn("Step times by cost model roofline-cpp", text)
        self.with_models(*sweep, "--cost-model", "bad", expect=8)
        fallen = self.with_models(*sweep[:-2], "--cost-model", "bad", "--allow-fallback").stdout
        self.assertIn("FALLBACK: all figures are the built-in model's", fallen)

    def test_a_model_that_cannot_be_asked(self):
        question = ["tune", *self.question(), "--output", "json"]
        self.run_cli(*question, "--cost-model", "roofline-c", expect=2)  # no folder
        self.with_models(*question, "--cost-model", "nobody", expect=5)
        failed = self.with_models(*question, "--cost-model", "bad", expect=8)
        self.assertEqual(failed.stderr.count("no licence found"), 1, failed.stderr)
        answer = json.loads(self.with_models(*question, "--cost-model", "bad",
                                             "--allow-fallback").stdout)
        for plan in answer["plans"]:
            self.assertEqual(plan["estimate"]["cost_model"]["state"], "fallback")
            self.assertIn("no licence found", plan["estimate"]["cost_model"]["reason"])

    def test_explain_embedded_and_served_alike(self):
        question = ["explain", *self.question(), "--cost-model", "roofline-cpp"]
        own = json.loads(self.with_models("--output", "json", *question).stdout)
        self.assertEqual(own["best"]["estimate"]["cost_model"]["name"], "roofline-cpp")
        self.assertEqual(own["plan"]["plan_digest"], own["best"]["plan_digest"])
        self.assertTrue(any(line.startswith("matmul ") for line in own["cost_model_lines"]))
        self.assertFalse(own.get("sensitivities"))
        address = self.start_server_with_models()
        served = self.run_cli("--server", address, "--output", "json", *question).stdout
        self.assertEqual(json.loads(served), own)
        text = self.with_models(*question).stdout
        self.assertIn("Step times by cost model roofline-cpp 1.0.0 of Example", text)
        self.assertIn("Cost model roofline-cpp explains it", text)
        self.assertNotIn("How 10 % more or less", text)
        baseline = json.loads(self.with_models(
            "--output", "json", *question, "--baseline",
            self.write("plan.json", programs.TINY_PLAN)).stdout)
        self.assertEqual(baseline["best"]["plan_digest"], own["best"]["plan_digest"])
        self.assertEqual(baseline["plan"]["plan"]["tensor_parallel"], 2)
        self.assertNotEqual(baseline["cost_model_lines"], own["cost_model_lines"])
        self.run_cli(*question, expect=2)  # no folder

    def test_calibrate(self):
        chip = ["roofline-cpp", "--chip", "nvidia-a100-sxm4-80gb"]
        listed = json.loads(self.with_models("--output", "json", "model", "tests", *chip).stdout)
        self.assertEqual([(test["name"], test["unit"]) for test in listed["tests"]],
                         [("matmul_bf16", "flops_per_second"), ("memory_copy", "bytes_per_second")])
        self.assertIn("matmul_bf16", self.with_models("model", "tests", *chip).stdout)
        question = ["tune", *self.question(), "--output", "json", "--cost-model", "roofline-cpp"]
        before = json.loads(self.with_models(*question).stdout)

        def calibrate(measured, *flags, expect=0):
            return self.with_models("--output", "json", "model", "calibrate", *chip,
                                    "--measurements", self.write("measured.json", measured),
                                    *flags, expect=expect)
        wrong = calibrate({"matmul_bf16": "fast", "other": 1}, expect=3)
        for name in ("matmul_bf16", "memory_copy", "other"):
            self.assertIn("measurements." + name, wrong.stderr)
        rates = {"matmul_bf16": 93.6e12, "memory_copy": 1.2e12}
        path = self.models / "calibrations" / "roofline-cpp.nvidia-a100-sxm4-80gb.json"
        # This is above the data sheet's 312e12: the model refuses its own parameters, and none are kept.
        refused = calibrate({**rates, "matmul_bf16": 400e12}, expect=3)
        self.assertIn("matmul_bf16 = 4e+14 flops_per_second; must be <= 3.12e+14", refused.stderr)
        self.assertFalse(path.exists())
        written = json.loads(calibrate(rates).stdout)
        self.assertEqual(pathlib.Path(written["path"]), path)
        stored = json.loads(path.read_text())
        self.assertEqual(stored["checksum"], hashlib.sha256(
            (BIN / "template_cost_model_cpp").read_bytes()).hexdigest())
        calibrate(rates, expect=6)  # exists already
        shown = json.loads(self.with_models("--output", "json", "model", "show", chip[0]).stdout)
        self.assertEqual(shown["calibrated_chips"], [chip[2]])
        calibrate(rates, "--replace")

        after = json.loads(self.with_models(*question).stdout)
        for plan in after["plans"]:
            self.assertEqual(plan["estimate"]["cost_model"]["calibration_version"],
                             written["calibration_version"])
        self.assertEqual(before["plans"][0]["estimate"]["cost_model"]["calibration_version"], "")
        self.assertGreater(after["plans"][0]["estimate"]["step_time_seconds"],
                           before["plans"][0]["estimate"]["step_time_seconds"])
        address = self.start_server_with_models()
        served = json.loads(self.run_cli("--server", address, *question).stdout)
        self.assertEqual(served["plans"], after["plans"])

        stored["checksum"] = "0" * 64
        path.write_text(json.dumps(stored))
        foreign = json.loads(self.with_models(*question).stdout)
        self.assertTrue(any("was fitted by a model with another SHA-256" in text
                            for text in foreign["warnings"]), foreign["warnings"])
        self.assertEqual(foreign["plans"], before["plans"])
        # The chip has no bf16, so the test is compared with its fp16 peak of 125e12.
        chip[2] = "nvidia-v100-sxm2-32gb"
        refused = calibrate({**rates, "memory_copy": 0.6e12, "matmul_bf16": 126e12}, expect=3)
        self.assertIn("must be <= 1.25e+14", refused.stderr)
        calibrate({**rates, "memory_copy": 0.6e12})
        self.with_models("model", "tests", "roofline-c", *chip[1:], expect=6)
        self.with_models("model", "tests", "roofline-cpp", "--chip", "nobodys", expect=5)

    def test_check_beside_measured_runs(self):
        run = {key: value for key, value in programs.case().items() if key != "id"}
        rows = [{**run, "plan": {**programs.TINY_PLAN, "tensor_parallel": tensor},
                 "outcome": "ok", "step_time_seconds": seconds}
                for tensor, seconds in ((1, 2.0), (2, 1.0), (4, 1.5))]
        rows.append({**run, "outcome": "oom"})
        lines = self.write("runs.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
        check = ["model", "check", "roofline-c", "--measured", lines]
        done = subprocess.run(
            [MESHWRIGHT, "--cost-models", str(self.models), "--output", "json", *check],
            capture_output=True, text=True, timeout=600, check=False)
        self.assertIn(done.returncode, (0, 10), done.stderr)  # a busy machine's throughput
        accuracy = json.loads(done.stdout)["accuracy"]
        self.assertEqual(accuracy["plan_count"], 3)
        self.assertEqual(accuracy["question_count"], 1)
        self.assertLessEqual(abs(accuracy["rank_correlation"]), 1)
        self.assertGreaterEqual(accuracy["p90_error_ratio"], accuracy["median_error_ratio"])
        self.assertEqual([run["row"] for run in accuracy["skipped"]], [3])
        self.run_cli("model", "check", "--program", str(BIN / "template_cost_model_cpp"),
                     "--measured", self.write("bad.jsonl", "{"), expect=3)

    def test_evaluate(self):
        lines = "".join(json.dumps(programs.case(id=str(i))) + "\n" for i in range(3))
        cases = ["evaluate", "--cases", "-", "--cost-model", "roofline-c"]
        own = self.with_models(*cases, text_in=lines).stdout
        answers = [json.loads(line) for line in own.splitlines()]
        self.assertEqual([answer["id"] for answer in answers], ["0", "1", "2"])
        self.assertEqual({answer["cost_model"]["name"] for answer in answers}, {"roofline-c"})
        address = self.start_server_with_models()
        self.assertEqual(self.run_cli("--server", address, *cases, text_in=lines).stdout, own)

    def test_a_changed_program_is_not_started(self):
        path = self.models / "roofline-cpp.json"
        manifest = json.loads(path.read_text())
        manifest["sha256"] = "0" * 64
        path.write_text(json.dumps(manifest))
        self.assertRegex(self.with_models("model", "list").stdout,
                         r"roofline-cpp +program +template_cost_model_cpp +changed +never +0{64}\n")
        done = self.with_models("model", "show", "roofline-cpp", expect=6)
        self.assertIn("it was changed", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
