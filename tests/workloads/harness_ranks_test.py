"""Tests that the harness's processes end, and that other ranks report failures:
harness_ranks_test.py"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import unittest

from jobs import CODES, Folder, is_alive, wait_until

# Starts a helper in its group and one in a session of its own (as torchrun does), both of which
# ignore TERM, and leaves one more as an orphan.
FAMILY = """
here = os.path.dirname(os.path.abspath(__file__))
stubborn = "import os, signal; signal.signal(15, signal.SIG_IGN); print(os.getpid(), flush=True); signal.pause()"
pids = open(os.path.join(here, "pids"), "a")
subprocess.Popen([sys.executable, "-c", stubborn], stdout=pids)
subprocess.Popen([sys.executable, "-c", stubborn], stdout=pids, start_new_session=True)
subprocess.run(["setsid", "sh", "-c", "sleep 600 & echo $! >>" + os.path.join(here, "pids")])
print(os.getpid(), os.getppid(), file=open(os.path.join(here, "command"), "w"), flush=True)
print(os.getpid(), file=pids, flush=True)
"""
# The job continues once all four have reported.
ALL_ARE_THERE = """
while open(os.path.join(here, "pids")).read().count("\\n") < 4: pass
"""


class NothingIsLeftTest(Folder):
    def gone(self, pids):
        return wait_until(lambda: not any(map(is_alive, pids)))

    def command_and_keeper(self):
        return [int(text) for text in (self.folder / "command").read_text().split()]

    def test_after_the_command_ended_by_itself(self):
        self.result(self.command(FAMILY + ALL_ARE_THERE + "steps(20)", "--max-steps", "15"), "ok")
        self.assertFalse(any(map(is_alive, self.pids(4))))

    def test_after_term(self):
        process = self.started(self.command(FAMILY + "steps(3); signal.pause()", "--grace", "0.5"))
        pids = self.pids(4)
        self.assertTrue(all(map(is_alive, pids)))
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(60), CODES["cancelled"])
        self.assertFalse(any(map(is_alive, pids)))
        result = json.loads((self.results / "a1.result.json").read_text())
        self.assertEqual((result["class"], result["ended_by"]), ("cancelled", "signal"))
        self.assertIn("SIGTERM", result["message"])

    def test_after_the_harness_was_killed(self):
        process = self.started(self.command(FAMILY + "steps(3); signal.pause()"))
        pids = self.pids(4)
        process.kill()
        self.assertTrue(self.gone(pids), [pid for pid in pids if is_alive(pid)])
        self.assertFalse((self.results / "a1.result.json").exists())

    def test_after_the_keeper_was_killed(self):
        process = self.started(self.command(FAMILY + "steps(3); signal.pause()"))
        pids = self.pids(4)
        _, keeper = self.command_and_keeper()
        self.assertNotEqual(keeper, process.pid)
        os.kill(keeper, signal.SIGKILL)
        self.assertEqual(process.wait(60), CODES["crash"])
        self.assertIn("keeper was killed", json.loads((self.results / "a1.result.json").read_text())["message"])
        self.assertFalse(any(map(is_alive, pids)))

    def test_the_command_itself_goes_even_when_both_are_killed(self):
        process = self.started(self.command(FAMILY + "steps(3); signal.pause()"))
        pids = self.pids(4)
        command, keeper = self.command_and_keeper()
        process.send_signal(signal.SIGSTOP)  # so that it cannot clean up after the keeper
        os.kill(keeper, signal.SIGKILL)
        process.kill()
        self.assertTrue(self.gone([command]))
        for pid in filter(is_alive, pids):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def test_other_ranks_run_and_leave_nothing(self):
        self.environment["RANK"] = "3"
        done = self.finished(self.command("print('rank three'); print('and', file=sys.stderr)"))
        self.assertEqual((done.returncode, set(done.stdout.splitlines())), (0, {b"rank three", b"and"}))
        process = self.started(self.command(FAMILY + "signal.pause()", "--grace", "0.5"))
        pids = self.pids(4)
        process.terminate()
        self.assertEqual(process.wait(60), CODES["cancelled"])
        self.assertFalse(any(map(is_alive, pids)))
        self.assertFalse(self.results.exists())

    def test_other_ranks_say_why_they_failed(self):
        self.environment.update(RANK="3", A_TOKEN="s3cretOfRank3")
        for job, name, line, ended in (
                ("raise RuntimeError('CUDA out of memory. Tried to, s3cretOfRank3')", "oom_device",
                 "RuntimeError: CUDA out of memory. Tried to, [masked]", (1, None)),
                ("sys.exit(17)", "crash", None, (17, None)),
                ("os.kill(os.getpid(), signal.SIGSEGV)", "crash", None, (None, signal.SIGSEGV))):
            with self.subTest(job):
                done = self.finished(self.command(f"print('rank three ' + os.environ['A_TOKEN'])\n{job}"))
                self.assertEqual(done.returncode, CODES[name])
                path, = self.results.iterdir()
                self.assertEqual(path.name, "a1.rank3.failure.json")
                said = json.loads(path.read_text())
                self.assertEqual((said["meshwright_result"], said["attempt"], said["token"], said["rank"]),
                                 (1, "a1", 7, 3))
                self.assertEqual((said["class"], said["matched"]["line"]), (name, line))
                self.assertEqual((said["exit_code"], said["signal"]), ended)
                self.assertTrue(said["log_head"].startswith("rank three [masked]\n"))
                self.assertNotIn(b"s3cretOfRank3", path.read_bytes() + done.stdout + done.stderr)
        self.assertEqual(self.finished(self.command("os.kill(os.getpid(), signal.SIGTERM)")).returncode,
                         CODES["cancelled"])
        self.assertEqual(json.loads(path.read_text()), said, "what others end, says nothing")

    def test_the_last_rank_may_measure(self):
        self.environment.update(RANK="3", WORLD_SIZE="4")
        self.result(self.command("steps(20)", "--measuring-rank", "last"), "ok")


if __name__ == "__main__":
    unittest.main()
