"""Runs the examples for platforms (a job of a real Slurm, a step of a workflow against a fake API server of
Kubernetes, a notebook) and the programs of docs/clients.md:

    examples_test.py MESHWRIGHT MESHWRIGHTD EXAMPLES PACKAGE

SLURM_CONF names a Slurm of this machine (scripts/slurm_up.sh)."""

import contextlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
import unittest
import urllib.error
import urllib.request

import servers
from programs import BIG_MODEL, EXAMPLES, TINY_CLUSTER, TINY_MODEL, TINY_WORKLOAD
from servers import PACKAGE, SOURCE
from wait_for import wait_until

import meshwright

OWN_FLAGS = "--tensor-model-parallel-size 8 --pipeline-model-parallel-size 4 --micro-batch-size 1"
NOBODY = "unix:/absent/socket"

# Stands in for PyTorch's launcher: says what it was started with, and how long a step took.
TORCHRUN = """#!/bin/bash
echo "torchrun $*" >>"{folder}/launched.${{SLURM_PROCID:-$JOB_COMPLETION_INDEX}}"
[[ ${{SLURM_PROCID:-1}} -ne 0 ]] || echo 0.75 >"{folder}/step_time"
"""


class Examples(servers.Servers):
    def setUp(self):
        super().setUp()
        self.tiny = self.question_of(TINY_MODEL)
        stub = self.folder / "bin" / "torchrun"
        stub.parent.mkdir()
        stub.write_text(TORCHRUN.format(folder=self.folder))
        stub.chmod(0o755)
        self.environment = {
            **os.environ, "ASK_SECONDS": "120", "QUESTION": str(self.tiny),
            "PATH": f"{stub.parent}:{os.path.dirname(sys.executable)}:{os.environ['PATH']}",
            "PYTHONPATH": str(PACKAGE), "STEP_TIME_FILE": str(self.folder / "step_time")}

    def question_of(self, model):
        """Returns the folder of a question; no plan of the big model fits 8 devices."""
        folder = self.folder / model["name"]
        folder.mkdir()
        for name, content in (("config", model), ("workload", TINY_WORKLOAD), ("cluster", TINY_CLUSTER)):
            (folder / f"{name}.json").write_text(json.dumps(content))
        return folder

    def launched(self):
        """Returns the command lines with which each node was launched; all must be equal."""
        lines = {path.name: path.read_text() for path in self.folder.glob("launched.*")}
        for path in self.folder.glob("launched.*"):
            path.unlink()
        self.assertEqual(len(set(lines.values())), 1, lines)
        return len(lines), lines.popitem()[1]


@unittest.skipUnless("SLURM_CONF" in os.environ, "needs a Slurm")
class SlurmTest(Examples):
    def submit(self, server, expect=0):
        """Runs the job to its end and returns what it printed."""
        output = self.folder / "output"
        done = subprocess.run(
            ["sbatch", "--wait", "--parsable", f"--output={output}", EXAMPLES / "slurm" / "train.sbatch"],
            env={**self.environment, "MESHWRIGHT_SERVER": server}, cwd=SOURCE, text=True, capture_output=True,
            check=False)
        self.assertTrue(wait_until(output.exists), done.stderr)
        self.assertEqual(done.returncode, expect, done.stderr + output.read_text())
        return done.stdout.split(";")[0].strip(), output.read_text()

    def test_with_a_server_and_without(self):
        address = self.start()[1]
        job, printed = self.submit(address)
        self.assertIn("the plan comes from: server\n", printed)
        nodes, line = self.launched()
        self.assertEqual(nodes, 2)
        self.assertIn("--nnodes 2 --nproc-per-node 8", line)
        self.assertIn(" --seq-length 2048 ", line)  # not in the job's own flags
        with meshwright.Client(address) as client:
            reports = list(client.list_job_reports())
            self.assertEqual([(one.job_name, one.outcome, one.step_time_seconds) for one in reports],
                             [(f"slurm-{job}", "ok", 0.75)], printed)
            self.assertEqual(reports[0].device_count, 16)
            self.assertTrue(client.get_study(reports[0].study_id).result.plans)

        _, printed = self.submit(NOBODY)
        self.assertIn("meshwright: launching with the job's own plan: UNAVAILABLE", printed)
        self.assertIn("the plan comes from: own\n", printed)
        nodes, line = self.launched()
        self.assertTrue(line.endswith(f"pretrain_gpt.py {OWN_FLAGS}\n"), line)


class AskTest(Examples):
    """The command that scripts of jobs use."""

    def ask(self, server, *flags, question=None, expect=0):
        done = subprocess.run(
            [sys.executable, "-m", "meshwright", "ask", "--server", server, "--model", question or self.tiny,
             "--workload", (question or self.tiny) / "workload.json", "--own-flags", OWN_FLAGS, "--deadline", "120",
             *flags],
            env=self.environment, text=True, capture_output=True, check=False)
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        return dict(shlex.split(line)[0].split("=", 1) for line in done.stdout.splitlines()), done.stderr

    def test_answers(self):
        address = self.start()[1]
        nodes = ["--chip", "nvidia-a100-sxm4-80gb", "--nodes"]
        said, _ = self.ask(address, *nodes, "2")
        self.assertEqual((said["MESHWRIGHT_SOURCE"], said["MESHWRIGHT_REASON"]), ("server", ""))
        self.assertIn("--tensor-model-parallel-size", said["MESHWRIGHT_FLAGS"])
        self.assertNotIn("\\", said["MESHWRIGHT_FLAGS"])
        own = {"MESHWRIGHT_FLAGS": OWN_FLAGS, "MESHWRIGHT_SOURCE": "own", "MESHWRIGHT_STUDY": ""}
        said, errors = self.ask(NOBODY, *nodes, "2")
        self.assertEqual(said, {**own, "MESHWRIGHT_REASON": "UNAVAILABLE"})
        said, errors = self.ask(address, *nodes, "2", "--framework", "deepspeed")
        self.assertEqual(said, {**own, "MESHWRIGHT_REASON": "NO_FLAGS"})
        self.assertIn("no flags for deepspeed", errors)
        said, errors = self.ask(address, *nodes, "1", question=self.question_of(BIG_MODEL), expect=4)
        self.assertEqual(said, {})
        self.assertIn("NO_FEASIBLE_PLAN", errors)
        said, errors = self.ask(address, "--chip", "no-chip", expect=3)
        self.assertIn("cluster.pools[0].chip", errors)
        said, _ = self.ask(address, "--chip", "no-chip", "--launch-anyway")
        self.assertEqual(said, {**own, "MESHWRIGHT_REASON": "INVALID_FIELDS"})
        cluster = str(self.tiny / "cluster.json")
        said, _ = self.ask(address, "--cluster", cluster, "--nodes", "4", "--own-plan",
                           self.write("plan.json", {"tensor_parallel": 8, "pipeline_parallel": 4}))
        with meshwright.Client(address) as client:
            asked = client.get_study(said["MESHWRIGHT_STUDY"]).question
        self.assertEqual((asked.cluster.pools[0].node_count, asked.baseline.pipeline_parallel), (4, 4))
        self.ask(address, "--cluster", cluster, "--tls-cert", "x", expect=2)

    def test_reports(self):
        address = self.start()[1]
        study = self.ask(address, "--chip", "nvidia-a100-sxm4-80gb", "--nodes", "2")[0]["MESHWRIGHT_STUDY"]

        def report(*flags, server=address):
            return subprocess.run([sys.executable, "-m", "meshwright", "report", "--server", server, "--study", study,
                                   *flags], env=self.environment, text=True, capture_output=True, check=False)
        first = report("--outcome", "ok", "--step-time", "0.75", "--job", "j1")
        self.assertEqual(first.returncode, 0, first.stderr)
        again = report("--outcome", "ok", "--step-time", "0.75", "--job", "j1")
        self.assertEqual(again.stdout, first.stdout)  # stored once
        self.assertEqual(report("--outcome", "good").returncode, 3)
        self.assertEqual(report("--outcome", "oom", server=NOBODY).returncode, 8)


class KubernetesTest(Examples):
    def setUp(self):
        super().setUp()
        fake = SOURCE / "tests" / "launchers" / "fake_kubernetes.py"
        self.kubernetes = subprocess.Popen([sys.executable, fake, self.write("script.json", {"token": "of-the-pod"})],
                                           stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.kubernetes.communicate)
        self.api = self.kubernetes.stdout.readline().strip()
        self.token = self.write("account.token", "of-the-pod\n")
        self.job = json.loads((EXAMPLES / "kubernetes" / "job.json").read_text())
        self.job["spec"].update(completions=2, parallelism=2)
        # A pod of the fake is a process of this machine.
        self.job["spec"]["template"]["spec"]["containers"][0]["env"].append(
            {"name": "PATH", "value": self.environment["PATH"]})

    def launch(self, server, name, question=None, expect=0):
        self.job["metadata"]["name"] = name
        done = subprocess.run(
            [sys.executable, EXAMPLES / "kubernetes" / "launch.py", "--server", server,
             "--question", question or self.tiny, "--chip", "NVIDIA-A100-SXM4-80GB", "--deadline", "120",
             "--job", self.write("job.json", self.job), "--api", self.api,
             "--api-token-file", self.token], env=self.environment, text=True, capture_output=True, check=False)
        self.assertEqual(done.returncode, expect, done.stderr)
        return done.stderr

    def get(self, name):
        request = urllib.request.Request(f"{self.api}/apis/batch/v1/namespaces/default/jobs/{name}",
                                         headers={"Authorization": "Bearer of-the-pod"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def finished(self, name):
        """Waits for the job's pods; returns how many were launched, with which command line."""
        self.assertTrue(wait_until(lambda: any(one["type"] == "Complete" for one in self.get(name)["status"].get(
            "conditions", []) if one["status"] == "True")))
        return self.launched()

    def test_with_a_server_and_without(self):
        address = self.start()[1]
        self.launch(address, "asked")
        annotations = self.get("asked")["metadata"]["annotations"]
        self.assertEqual(annotations["meshwright.io/plan"], "server")
        pods, line = self.finished("asked")
        self.assertEqual(pods, 2)
        self.assertIn(" --seq-length 2048 ", line)
        with meshwright.Client(address) as client:
            study = client.get_study(annotations["meshwright.io/study"])
        self.assertEqual(study.question.cluster.pools[0].node_count, 2)
        self.assertIn("exists already", self.launch(address, "asked"))  # a step that is repeated

        self.launch(NOBODY, "own")
        self.assertEqual(self.get("own")["metadata"]["annotations"]["meshwright.io/plan"], "own: UNAVAILABLE")
        pods, line = self.finished("own")
        self.assertTrue(line.endswith(f"pretrain_gpt.py {OWN_FLAGS}\n"), line)

    def test_a_question_that_cannot_be_answered(self):
        address = self.start()[1]
        self.job["spec"].update(completions=1, parallelism=1)  # too few devices
        self.assertIn("NO_FEASIBLE_PLAN", self.launch(address, "none", question=self.question_of(BIG_MODEL), expect=1))
        with self.assertRaises(urllib.error.HTTPError):
            self.get("none")
        self.assertIn("a mistake", self.launch(address, "wrong", question=self.folder / "absent"))
        self.assertEqual(self.get("wrong")["metadata"]["annotations"]["meshwright.io/plan"], "own: INVALID_FIELDS")


class PageTest(Examples):
    """The programs on docs/clients.md."""

    def test_each_program(self):
        page = (SOURCE / "docs" / "clients.md").read_text()
        programs = re.findall(r"^```python\n(.*?)^```$", page, re.M | re.S)
        authority = str(self.folder / "authority")
        self.certificate("authority")
        key, certificate = self.certificate("server", authority)
        self.certificate("robot", authority, has_address=False)
        self.write("ci.token", "token-of-ci\n")
        for name in ("config", "workload", "cluster"):
            (self.folder / f"{name}.json").write_bytes((self.tiny / f"{name}.json").read_bytes())
        addresses = {
            '"127.0.0.1:50551"': self.start()[1],
            '"meshwright.example:50551"': self.start(
                "--db", str(self.folder / "other.db"), "--callers",
                self.callers("ci viewer", "robot operator cert:robot"), "--tls-cert", certificate, "--tls-key", key,
                "--tls-client-ca", f"{authority}.pem")[1]}
        printed = []
        for program in programs:
            for written, address in addresses.items():
                program = program.replace(written, f'"{address}"')
            done = subprocess.run([sys.executable, "-c", program], cwd=self.folder, env=self.environment, text=True,
                                  capture_output=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            printed.append(done.stdout)
        self.assertEqual(len(printed), 3)  # sync, asyncio, with certificates
        self.assertIn("--tensor-model-parallel-size", printed[0])
        self.assertIn(" state succeeded\n", printed[1])
        self.assertRegex(printed[2], r"^\d+\.\d+\.\d+\n\[\]\n$")


class NotebookTest(Examples):
    def test_all_cells(self):
        """Runs the cells without Jupyter, which only has to show what they print."""
        notebook = json.loads((EXAMPLES / "notebook.ipynb").read_text())
        self.assertEqual(notebook["nbformat"], 4)
        names, printed = {}, io.StringIO()
        os.environ.update(MESHWRIGHT_SERVER=self.start()[1], QUESTION=str(self.tiny))
        with contextlib.redirect_stdout(printed):
            for number, cell in enumerate(notebook["cells"]):
                self.assertEqual(cell.get("outputs", []), [], number)  # none are kept
                if cell["cell_type"] == "code":
                    exec(compile("".join(cell["source"]), f"cell {number}", "exec"), names)
        self.assertIn("Meshwright ", printed.getvalue())
        self.assertIn("  128 devices ", printed.getvalue())
        self.assertIn(" state succeeded\n", printed.getvalue())


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[5:]])
