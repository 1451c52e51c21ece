"""Shared by the tests of real jobs: a folder of jobs, a replacement for a training program, and a
server that may be lost."""

import contextlib
import json
import os
import pathlib
import sqlite3
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from events.wait_for import wait_until
from programs import MESHWRIGHTD, Folder

LAUNCHER, PYTHON = sys.argv[4:6]

MODEL = {"name": "gpt-tiny", "layer_count": 4, "hidden_size": 64, "ffn_hidden_size": 256, "attention_head_count": 4,
         "kv_head_count": 4, "head_dim": 16, "vocab_size": 512, "mlp": "gelu", "norm": "layernorm",
         "tied_embeddings": False}
WORKLOAD = {"sequence_length": 64, "global_batch_size": 8, "precision": "fp32", "attention_kernel": "unfused"}
CLUSTER = {"name": "two-cores",
           "pools": [{"name": "cpu", "chip": "cpu-generic", "node_count": 1, "devices_per_node": 2}]}

# The options that a site states for its engine.
SITE = {"poll_interval_seconds": 0.2}
FAKE_KUBERNETES = pathlib.Path(__file__).resolve().parent.parent / "launchers" / "fake_kubernetes.py"


def setUpModule():
    if LAUNCHER != "kubernetes":
        return
    with tempfile.NamedTemporaryFile("w", suffix=".json", delete=False) as script:
        script.write("{}")
    unittest.addModuleCleanup(os.unlink, script.name)
    cluster = subprocess.Popen([sys.executable, FAKE_KUBERNETES, script.name], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    unittest.addModuleCleanup(cluster.wait)
    unittest.addModuleCleanup(cluster.stdout.close)
    unittest.addModuleCleanup(cluster.stdin.close)
    SITE["kubernetes"] = {"server": cluster.stdout.readline().strip(), "namespace": "tests", "image": "image",
                          "labels": ["team=tests"]}


# Notes that it began, and then does what FOLDER/behaviour.json says about plans with this tensor
# parallelism. "drift": the machine gets slower by that share with each job; "later": the behaviour
# of all jobs but the first. A job that "waits" prints so many steps and continues once the file
# FOLDER/go exists.
TRAINER = """
import json, os, pathlib, signal, sys, time
folder, case, attempt = pathlib.Path(sys.argv[1]), json.load(open(sys.argv[2])), sys.argv[3]
with open(folder / f"{attempt}.began.{os.environ['RANK']}", "a") as file:
    file.write("began\\n")
while not (folder / f"{attempt}.began.0").exists():  # else a rank that fails may end the first before it has begun
    time.sleep(0.01)
tensor = case["plan"]["tensor_parallel"]
behaviour = json.load(open(folder / "behaviour.json"))
does = behaviour.get(f"mb{case['plan']['micro_batch_size']}") or behaviour.get(str(tensor), {})
if any(path.name != f"{attempt}.began.0" for path in folder.glob("*.began.0")):
    does = behaviour.get("later", does)
if does.get("dies") and os.environ["RANK"] == "1":
    print("torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", flush=True)
    sys.exit(1)
if "says" in does:
    print(does["says"], flush=True)
if "exits" in does:
    sys.exit(does["exits"])
if "signal" in does:
    os.kill(os.getpid(), does["signal"])
if does.get("garbage"):
    sys.stdout.buffer.write(b"\\x00\\xff\\xfe{" + b"\\xf0" * 100_000 + b'\\n{"meshwright": 1, "event": "st\\n[[[[\\n')
    sys.stdout.buffer.flush()
if does.get("deaf"):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if does.get("hangs"):
    signal.pause()
slower = 1 + behaviour.get("drift", 0) * (len(list(folder.glob("*.began.0"))) - 1)
for step in range(40):
    if step == does.get("stalls"):
        signal.pause()
    while step == does.get("waits") and not (folder / "go").exists():
        time.sleep(0.01)
    print(json.dumps({"meshwright": 1, "event": "step", "step": step, "step_time_seconds": slower / tensor,
                      "is_warmup": False}), flush=True)
signal.pause()
"""


class JobsFolder(Folder):

    def setUp(self):
        super().setUp()
        if LAUNCHER == "local":  # slots of the tests only, because others may use the machine
            SITE["slots_folder"] = str(self.folder / "slots")
        self.jobs = self.folder / "jobs"
        self.jobs.mkdir()
        self.behave({})

    def behave(self, by_tensor_parallel):
        (self.jobs / "behaviour.json").write_text(json.dumps(by_tensor_parallel))

    def let_jobs_wait(self, key=None, **more):
        """Makes all jobs, or those that `key` names, run until `let_go`."""
        (self.jobs / "go").unlink(missing_ok=True)
        does = {"waits": 1, **more}
        self.behave({key: does} if key else {"1": does, "2": does})

    def let_go(self):
        (self.jobs / "go").touch()

    def job(self, **changes):
        trainer = self.write("trainer.py", TRAINER)
        return {"folder": str(self.jobs), "python": PYTHON, "time_limit_seconds": 300, **SITE,
                "command": [PYTHON, trainer, "{folder}", "{case_file}", "{attempt}"],
                "metrics": {"warmup_steps": 1, "min_steps": 4, "max_steps": 8, "start_limit_seconds": 240,
                            "hang_limit_seconds": 240}, **changes}

    def tune_command(self, *args, trials=3, job=None, cluster=CLUSTER, stop_within="0"):
        """Returns a command that runs as many trials as it may, unless a ratio ends them; None is
        the default ratio."""
        ends = [] if stop_within is None else ["--stop-within", stop_within]
        return ["tune", *self.question(MODEL, WORKLOAD, cluster), "--launcher", LAUNCHER, "--job",
                self.write("job.json", job or self.job()), "--max-trials", str(trials), *ends, "--output", "json", *args]

    def tune(self, *args, expect=0, **how):
        return self.run_cli(*self.tune_command(*args, **how), expect=expect, seconds=600)

    def modelled_memory(self, plan):
        line = {"id": "1", "model": MODEL, "workload": WORKLOAD, "cluster": CLUSTER, "plan": plan}
        shown = self.run_cli("evaluate", "--cases", self.write("case.jsonl", line), "--db",
                             str(self.folder / "none.db"))
        return json.loads(shown.stdout)["reserved_memory_bytes"]

    def began(self):
        """Returns how often each attempt began, by its name."""
        return {path.name.split(".")[0]: path.read_text().count("began") for path in self.jobs.glob("*.began.0")}


class ServedFolder(JobsFolder):

    def start(self, *flags):
        environment = {**os.environ, "XDG_STATE_HOME": str(self.folder / "state")}
        self.server = subprocess.Popen(
            [MESHWRIGHTD, "--listen", "127.0.0.1:0", "--db", str(self.folder / "server.db"), *flags],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)
        self.addCleanup(self.server.stdout.close)
        self.addCleanup(self.server.wait)
        self.addCleanup(self.server.kill)
        return self.server.stdout.readline().split()[-1]

    def create(self, address, trials=3):
        done = self.run_cli("--server", address, "study", "create", *self.question(MODEL, WORKLOAD, CLUSTER),
                            "--launcher", LAUNCHER, "--job", self.write("job.json", self.job()),
                            "--max-trials", str(trials), "--stop-within", "0", "--output", "json")
        created = json.loads(done.stdout)
        return (created.get("study") or created)["id"]

    def ended(self, address, study):
        self.run_cli("--server", address, "study", "watch", study)
        return json.loads(self.run_cli("--server", address, "study", "show", study, "--output", "json").stdout)

    def state_of(self, address, study):
        shown = self.run_cli("--server", address, "study", "list", "--output", "json")
        return next(s["state"] for s in json.loads(shown.stdout)["studies"] if s["id"] == study)

    def wait_for(self, what):
        self.assertTrue(wait_until(what), "does not come")

    def check_whole(self, answer, trials=3):
        tried = answer["result"]["trials"]
        self.assertEqual([trial["outcome"] for trial in tried], ["ok"] * trials)
        self.assertEqual(set(self.began().values()), {1}, "an attempt began twice")
        self.wait_for(lambda: not self.processes(answer["study"]["id"]))  # under Slurm they end a moment later

    def processes(self, study):
        found = []
        for path in pathlib.Path("/proc").glob("[0-9]*/environ"):
            try:
                if f"MESHWRIGHT_ATTEMPT={study}" in path.read_text(errors="replace"):
                    found.append(path.parent.name)
            except OSError:
                pass
        return found

    def rows(self, query, *values):
        """Returns the first column of a query of the server's store."""
        try:
            with contextlib.closing(sqlite3.connect(f"file:{self.folder}/server.db?mode=ro", uri=True)) as store:
                return [row[0] for row in store.execute(query, values)]
        except sqlite3.OperationalError:  # not there yet
            return []

    def states(self):
        """Returns the states of the attempts in their order."""
        return self.rows("SELECT state FROM attempts ORDER BY fencing_token")

    def study_state(self, study):
        return next(iter(self.rows("SELECT state FROM studies WHERE id = ?", study)), None)

    def attempts(self, address, study):
        shown = self.run_cli("--server", address, "study", "attempts", study, "--output", "json")
        return json.loads(shown.stdout)["attempts"]
