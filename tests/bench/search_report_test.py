"""Tests the search report, end to end on a small question: search_report_test.py REPORT PROGRAMS

Figures are only read, never judged, because how fast this machine is today is not a property of the
program.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

REPORT, PROGRAMS = (pathlib.Path(arg).resolve() for arg in sys.argv[1:3])
SMALL = "gpt3_175b_on_64_a100"

# Does what the report can see of bin/calculon: work for a pool, and two counts.
CALCULON = """\
import multiprocessing, sys, time
assert sys.argv[1] == "llm-optimal-execution" and sys.argv[3:6] == ["64", "1536", "float16"], sys.argv
def search(tried, fitted):
    while time.process_time() - start < 0.01: pass
    return tried, fitted
start = time.process_time()
with multiprocessing.Pool(1) as pool:
    found = pool.starmap(search, [(10, 4)] * 3)
print("Total executions:", sum(tried for tried, _ in found))
print("Good executions:", sum(fitted for _, fitted in found))
sys.exit(0)
"""


class SearchReportTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="meshwright-bench-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_report(self, *args, expect=0, **environment):
        plain = {key: value for key, value in os.environ.items() if not key.startswith("CALCULON")}
        done = subprocess.run([sys.executable, "-B", REPORT, "--programs", PROGRAMS, *args],
                              capture_output=True, text=True, env={**plain, **environment})
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        return done

    def figures(self, *args, **environment):
        path = self.folder / "figures.json"
        out = self.run_report("--quick", "--json", str(path), *args, **environment).stdout
        return out, json.loads(path.read_text())

    def test_answers_tiers_and_growth(self):
        out, report = self.figures("--question", SMALL)
        for heading in ("### Whole answers", "### Plans a second and core", "### Growth"):
            self.assertIn(heading, out)
        self.assertNotIn("Calculon", out)
        (answer,) = report["answers"]
        self.assertEqual((answer["question"], answer["devices"]), (SMALL, 64))
        self.assertTrue(answer["complete"])
        self.assertEqual(answer["optimality_gap_ratio"], 0)
        self.assertEqual(answer["seconds"]["count"], 2)
        self.assertGreater(answer["space_count"], answer["evaluated_count"])
        self.assertGreater(answer["peak_bytes"], 2**20)
        self.assertIn("Finalist/1f1b", [row["benchmark"] for row in report["tiers"]])
        rows = report["growth"]["rows"]
        self.assertEqual([row["devices"] for row in rows], [8 * 4**power for power in range(8)])
        self.assertFalse(rows[0]["fits"])  # 175 billion parameters on one node
        self.assertTrue(rows[-1]["fits"])
        self.assertIsNotNone(report["growth"]["exponent_of_space"])

    def test_calculon(self):
        (self.folder / "bin").mkdir()
        (self.folder / "bin/calculon").write_text(CALCULON)
        (self.folder / "systems").mkdir()
        (self.folder / "systems/a100_80g.json").write_text("{}")
        out, report = self.figures("--section", "calculon", CALCULON_SRC=str(self.folder))
        self.assertIn("### Beside Calculon", out)
        (row,) = report["calculon"]
        self.assertEqual((row["question"], row["executions"], row["good_executions"]), (SMALL, 30, 12))
        self.assertEqual((row["pieces"], row["all_pieces"]), (3, 3))

    def test_mistakes(self):
        unknown = self.run_report("--question", "no_such", expect=1)
        self.assertIn("no question no_such", unknown.stderr)
        absent = self.run_report("--section", "calculon", expect=1, CALCULON_SRC=str(self.folder))
        self.assertIn("no bin/calculon", absent.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
