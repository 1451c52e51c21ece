"""Runs jobs that are given as text under the harness, in a folder of their own."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import unittest

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TESTS))

from events.wait_for import wait_until

WORKLOADS = TESTS.parent / "workloads"
HARNESS = WORKLOADS / "harness.py"
STEPPED_HARNESS = TESTS / "workloads" / "stepped_harness.py"
CODES = {"ok": 0, "oom_device": 40, "oom_host": 41, "invalid_config": 42, "numeric": 43, "hang": 44, "crash": 45,
         "timeout": 46, "start_timeout": 47, "node_failure": 48, "launch_error": 49, "metrics_missing": 50,
         "cancelled": 51}

# Precedes every job's text.
PRELUDE = """
import json, os, signal, subprocess, sys, time

def step(number, seconds=0.01, **more):
    print(json.dumps({"meshwright": 1, "event": "step", "step": number, "step_time_seconds": seconds, **more}),
          flush=True)

def steps(count, seconds=0.01, first=1):
    for number in range(first, first + count):
        step(number, seconds)
"""

# Precedes the text of jobs that wait for the clock of stepped_harness.py.
WAITING = """
sys.path.insert(0, {tests!r})
from events.wait_for import wait_until

def wait_for_clock():
    if not wait_until(lambda: os.path.exists({passed!r})):
        sys.exit("the clock does not go on")

"""


def is_alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.results = self.folder / "results"
        self.environment = {key: value for key, value in os.environ.items() if "RANK" not in key}

    def command(self, job, *options, behind=()):
        """Returns the harness's arguments for a job given as text; `behind` holds the job's own
        arguments."""
        script = self.folder / "job.py"
        script.write_text(PRELUDE + textwrap.dedent(job))
        return self.of(sys.executable, script, *behind, options=options)

    def of(self, *command, options=()):
        return [sys.executable, HARNESS, "--attempt", "a1", "--token", "7", "--folder", self.results, *options, "--",
                *command]

    def stepped(self, step_count, seconds, job, *options):
        """Returns the same for a harness whose clock stands still until it has read that many
        steps. Then so many seconds pass, and the job's `wait_for_clock` returns if they are within
        the limits."""
        passed = str(self.folder / "passed")
        waiting = WAITING.format(tests=str(TESTS), passed=passed)
        python, _, *arguments = self.command(waiting + textwrap.dedent(job), *options)
        return [python, STEPPED_HARNESS, str(step_count), str(seconds), passed, *arguments]

    def finished(self, command):
        return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.environment,
                              timeout=300, check=False)

    def result(self, command, expect):
        """Runs the harness and returns its result. File, stdout and exit code must agree on it."""
        done = self.finished(command)
        lines = done.stdout.decode().splitlines()
        self.assertEqual(len(lines), 1, done)
        self.assertTrue(lines[0].startswith("meshwright-result: "))
        result = json.loads(lines[0].partition(" ")[2])
        self.assertEqual(result, json.loads((self.results / "a1.result.json").read_text()))
        self.assertEqual((result["class"], done.returncode), (expect, CODES[expect]), result["message"])
        self.assertEqual((result["meshwright_result"], result["attempt"], result["token"]), (1, "a1", 7))
        self.assertEqual(result["left_behind"], [])
        self.assertEqual(list(self.results.glob("*.tmp")), [])
        return result

    def started(self, command):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=self.environment)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def pids(self, count):
        """Returns the ids that a job wrote, once there are `count`."""
        def read():
            return [int(text) for text in path.read_text().split()] if path.exists() else []
        path = self.folder / "pids"
        self.assertTrue(wait_until(lambda: len(read()) == count), "the job did not start")
        return read()
