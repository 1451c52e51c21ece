"""The commands about vendors' models, as users run them: MESHWRIGHT MESHWRIGHTD EXAMPLES"""

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
        self.assertEqual([model["name"] for model in listed["models"]],
                         ["bad", "roofline-c", "roofline-cpp"])
        shown = json.loads(self.with_models("--output", "json", "model", "show",
                                            "roofline-c").stdout)
        self.assertEqual(shown["info"]["version"], "1.0.0")
        self.assertIn("network=", shown["isolation"])
        self.with_models("model", "show", "nobody", expect=5)
        self.with_models("model", "show", "bad", expect=8)

    def test_check(self):
        done = subprocess.run(
            [MESHWRIGHT, "model", "check", "--library", str(BIN / "libtemplate_cost_model_c.so")],
            capture_output=True, text=True, timeout=120, check=False)
        if "throughput" in done.stdout and done.returncode == 10:  # a busy machine
            done = self.run_cli("--output", "json", "model", "check", "--library",
                                str(BIN / "libtemplate_cost_model_c.so"), expect=10)
            failed = {check["name"] for check in json.loads(done.stdout)["checks"]
                      if check["outcome"] == "failed"}
            self.assertEqual(failed, {"throughput"})
        else:
            self.assertEqual(done.returncode, 0, done.stdout)
            self.assertIn("passed: a study may use this model", done.stdout)
        report = json.loads(self.with_models("--output", "json", "model", "check", "bad",
                                             expect=10).stdout)
        self.assertFalse(report["passed"])
        self.assertEqual(report["checks"][0]["outcome"], "failed")
        self.run_cli("model", "check", expect=3)
        self.run_cli("model", "check", "--program", "/nowhere", expect=5)

    def test_tune_embedded_and_served_alike(self):
        question = ["tune", *self.question(), "--output", "json"]
        own = json.loads(self.with_models(*question, "--cost-model", "roofline-cpp").stdout)
        source = own["plans"][0]["estimate"]["cost_model"]
        self.assertEqual(source["name"], "roofline-cpp")
        self.assertEqual(source["state"], "used")
        self.assertEqual(len(source["checksum"]), 64)
        plain = json.loads(self.run_cli(*question).stdout)
        self.assertNotIn("cost_model", plain["plans"][0]["estimate"])
        address = self.start_server_with_models()
        served = json.loads(self.run_cli("--server", address, *question, "--cost-model",
                                         "roofline-cpp").stdout)
        self.assertEqual(served["plans"], own["plans"])
        info = json.loads(self.run_cli("--server", address, "--output", "json", "server",
                                       "info").stdout)
        self.assertEqual(info["cost_models"], ["bad", "roofline-c", "roofline-cpp"])

    def test_a_model_that_cannot_be_asked(self):
        question = ["tune", *self.question(), "--output", "json"]
        self.run_cli(*question, "--cost-model", "roofline-c", expect=6)  # no folder
        self.with_models(*question, "--cost-model", "nobody", expect=5)
        self.with_models(*question, "--cost-model", "bad", expect=8)
        answer = json.loads(self.with_models(*question, "--cost-model", "bad",
                                             "--allow-fallback").stdout)
        for plan in answer["plans"]:
            self.assertEqual(plan["estimate"]["cost_model"]["state"], "fallback")
            self.assertIn("no licence found", plan["estimate"]["cost_model"]["reason"])

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
        done = self.with_models("model", "show", "roofline-cpp", expect=6)
        self.assertIn("it was changed", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
