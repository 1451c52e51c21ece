"""Tests what the commands print, and where: cli_output_test.py MESHWRIGHT MESHWRIGHTD EXAMPLES"""

import csv
import fcntl
import io
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import unittest

from programs import BIG_MODEL, LLAMA, MESHWRIGHT, Folder

CLEAR = "\r\x1b[K"


class OutputTest(Folder):
    EXAMPLE = ["--model", str(LLAMA / "config.json"), "--workload", str(LLAMA / "workload.json"),
               "--cluster", str(LLAMA / "cluster.json")]

    def on_terminal(self, stream, *args, columns=80, interrupt_at=None, **environment):
        """Runs a command with one stream on a terminal of its own. Returns its exit code and what
        the terminal was sent. Ctrl-C follows the text `interrupt_at`."""
        master, slave = pty.openpty()
        self.addCleanup(os.close, master)
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR")}
        kept |= {"XDG_STATE_HOME": str(self.folder / "state"), "TERM": "xterm", **environment}
        program = subprocess.Popen([MESHWRIGHT, *args], env=kept,
                                   **{"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, stream: slave})
        os.close(slave)
        sent = b""
        while True:
            try:
                part = os.read(master, 65536)
            except OSError:  # the program has closed the other end
                break
            sent += part
            if interrupt_at and interrupt_at in sent:
                program.send_signal(signal.SIGINT)
                interrupt_at = None
        return program.wait(timeout=60), sent.decode()

    def test_progress_is_one_line_that_goes_away(self):
        columns = 50
        code, sent = self.on_terminal(
            "stderr", "tune", *self.EXAMPLE, "--strategy", "random", "--evaluations", "100000000",
            columns=columns, interrupt_at=b"searching")
        self.assertEqual(code, 130)
        *lines, end = sent.split(CLEAR)
        for line in lines:
            self.assertLess(len(line), columns)
            self.assertNotIn("\n", line)
        self.assertRegex(sent, r"searching: [\d,]+ of at most 100,000,000 plans")
        self.assertEqual(end, "error: cancelled; this is the best plan so far\r\n")

    def test_a_terminal_that_only_prints_gets_no_progress(self):
        code, sent = self.on_terminal("stderr", "tune", *self.EXAMPLE, TERM="dumb")
        self.assertEqual((code, sent), (0, ""))

    def test_colours(self):
        self.run_cli("tune", *self.question(), "--save", str(self.folder / "saved"))
        study = json.loads((self.folder / "saved" / "answer.json").read_text())["study_id"]
        show = ["study", "show", study]
        for flags, environment, has_color in (
                ([], {}, True), ([], {"NO_COLOR": "1"}, False), ([], {"TERM": "dumb"}, False),
                (["--color", "never"], {}, False), (["--color", "always"], {"NO_COLOR": "1"}, True)):
            with self.subTest(flags=flags, environment=environment):
                code, sent = self.on_terminal("stdout", *show, *flags, **environment)
                self.assertEqual((code, "\x1b[1;38;5;28mLaunch plan 1.\x1b[0m" in sent), (0, has_color))
                self.assertEqual("\x1b" in sent, has_color)
        self.assertNotIn("\x1b", self.run_cli(*show).stdout)  # a pipe
        self.assertIn("\x1b", self.run_cli(*show, "--color", "always").stdout)

    def test_verdict_and_flags_are_on_one_screen(self):
        lines = self.run_cli("tune", *self.EXAMPLE, columns=80).stdout.splitlines()
        self.assertLessEqual(len(lines), 40)
        self.assertLessEqual(max(map(len, lines)), 80)
        self.assertTrue(lines[1].startswith("Launch plan 1."))
        self.assertIn("--tensor-model-parallel-size", "\n".join(lines))

    def test_saved_files(self):
        folder = self.folder / "new" / "answer"
        done = self.run_cli("tune", *self.question(), "--output", "json", "--save", str(folder))
        self.assertEqual((folder / "answer.json").read_text(), done.stdout)
        self.assertEqual({path.name for path in folder.iterdir()},
                         {"answer.json", "report.txt", "launch.sh", "memory.svg", "step_times.svg", "time.svg"})
        self.assertIn("Defaults that were applied", (folder / "report.txt").read_text())
        script = (folder / "launch.sh").read_text()
        # The script states the flags of the answer, each once and in order.
        flags = json.loads(done.stdout)["plans"][0]["exports"]["megatron-core"]
        self.assertEqual(re.findall(r"--[a-z-]+", script)[-flags.count("--"):], re.findall(r"--[a-z-]+", flags))
        self.assertTrue(os.access(folder / "launch.sh", os.X_OK))
        subprocess.run(["sh", "-n", folder / "launch.sh"], check=True)
        # The answer of another run is not mixed with it, and the first stays.
        refused = self.run_cli("tune", *self.question(), "--save", str(folder), expect=3)
        self.assertIn("--save", refused.stderr)
        self.assertIn(str(folder), refused.stderr)
        self.assertEqual(refused.stdout, "")
        self.assertEqual((folder / "answer.json").read_text(), done.stdout)

    def test_saved_files_of_other_forms(self):
        framework = self.folder / "yaml"
        self.run_cli("tune", *self.question(), "--framework", "flagscale", "--save", str(framework))
        self.assertTrue((framework / "conf" / "train" / "plan.yaml").exists())
        self.assertTrue((framework / "conf" / "config.yaml").exists())
        nothing = self.folder / "infeasible"
        self.run_cli("tune", *self.question(model=BIG_MODEL), "--save", str(nothing), expect=4)
        self.assertEqual({path.name for path in nothing.iterdir()}, {"answer.json", "report.txt"})
        answer = json.loads((nothing / "answer.json").read_text())
        self.assertEqual((answer["exit_reason"], "infeasible" in answer), ("infeasible", True))

    def rows(self, *args, expect=0):
        text = self.run_cli(*args, "--output", "csv", expect=expect).stdout
        self.assertTrue(text.endswith("\n"))
        return list(csv.DictReader(io.StringIO(text)))

    def test_csv(self):
        plans = self.rows("tune", *self.question(), "--top", "3")
        self.assertEqual([row["rank"] for row in plans], ["1", "2", "3", "0"])
        answer = json.loads(self.run_cli("tune", *self.question(), "--top", "3", "--output", "json").stdout)
        for row, plan in zip(plans, [*answer["plans"], answer["baseline"]]):
            self.assertEqual(float(row["step_time_seconds"]), plan["estimate"]["step_time_seconds"])
            self.assertEqual(row["tensor_parallel"], str(plan["plan"]["tensor_parallel"]))
            self.assertEqual(row["recompute.granularity"], plan["plan"]["recompute"]["granularity"])
        # Half of the devices of a node, and no memory: nothing fits.
        points = self.rows("tune", *self.question(), "--devices", "8,16", "--free-memory", "0,0.99",
                           "--device-hour-price", "2")
        self.assertEqual([(row["device_count"], row["free_memory_ratio"]) for row in points],
                         [("8", "0"), ("8", "0.99"), ("16", "0"), ("16", "0.99")])
        self.assertGreater(float(points[0]["price_per_million_tokens"]), 0)
        self.assertEqual(points[1]["step_time_seconds"], "")
        for group in ("study", "history"):
            studies = self.rows(group, "list")
            self.assertEqual([row["model_name"] for row in studies], ["tiny", "tiny"])
        self.assertEqual(self.rows("study", "plans", studies[0]["id"])[0]["rank"], "0")
        self.assertEqual(self.rows("history", "measurements"), [])
        self.run_cli("chip", "list", "--output", "csv", expect=2)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
