"""Tests which tests scripts/kept_verdicts.py spares, in a repository made for it.

    kept_verdicts_test.py SOURCE
"""

import importlib.util
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

SOURCE = pathlib.Path(sys.argv[1])
SPEC = importlib.util.spec_from_file_location("kept_verdicts", SOURCE / "scripts" / "kept_verdicts.py")
kept_verdicts = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(kept_verdicts)


class KeptVerdictsTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="meshwright-verdicts-"))
        self.addCleanup(shutil.rmtree, self.folder)
        subprocess.run(["git", "init", "-q", self.folder], check=True)
        self.bin = self.folder / "build/release/bin"
        self.write(".gitignore", "/build/\n")
        for name in ("build/release/bin/a_test", "build/release/bin/b_test", "build/release/bin/program",
                     "a.cc", "docs/page.md", "chips/one.json", "workloads/train.py", "tests/workloads/x_test.py"):
            self.write(name, name)
        self.tests = [self.entry("a", self.bin / "a_test"), self.entry("b", self.bin / "b_test", "reads_sources"),
                      self.entry("cli", "python3", "reads_no_sources"), self.entry("text", "python3"),
                      self.entry("step", "python3", "reads_workloads")]
        patched = mock.patch.object(kept_verdicts, "tests_of", lambda root, preset: self.tests)
        patched.start()
        self.addCleanup(patched.stop)

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    @staticmethod
    def entry(name, program, *labels):
        return {"name": name, "command": [str(program)], "properties": [{"name": "LABELS", "value": list(labels)}]}

    def select(self):
        return kept_verdicts.select(self.folder, "release")[0]

    def passed(self, **status):
        cases = "".join(f'<testcase name="{name}" status="{word}"/>' for name, word in status.items())
        self.write("build/results.xml", f"<testsuite>{cases}</testsuite>")
        kept_verdicts.keep(self.folder, "release", self.folder / "build/results.xml")

    def all_pass(self):
        self.select()
        self.passed(**{test["name"]: "run" for test in self.tests})

    def test_only_what_passed_is_spared(self):
        self.assertEqual(self.select(), ["a", "b", "cli", "text", "step"])
        self.passed(a="run", b="fail", text="run")
        self.assertEqual(self.select(), ["b", "cli", "step"])
        self.select()
        self.passed(a="fail", cli="run")
        self.assertEqual(self.select(), ["a", "b", "step"])

    def test_what_changed_during_the_run_is_not_kept(self):
        self.select()
        self.write("docs/page.md", "changed")
        self.passed(**{test["name"]: "run" for test in self.tests})
        self.assertEqual(self.select(), ["b", "text"])

    def test_what_a_test_reads_decides(self):
        for name, runs in (("build/release/bin/a_test", ["a"]),
                           ("build/release/bin/program", ["a", "b", "cli", "text"]),
                           ("a.cc", ["b", "text"]), ("docs/page.md", ["b", "text"]),
                           ("chips/one.json", ["a", "b", "cli", "text"]), ("chips/new.json", ["a", "b", "cli", "text"]),
                           ("workloads/train.py", ["a", "b", "cli", "text", "step"]),
                           ("tests/workloads/x_test.py", ["a", "b", "cli", "text", "step"])):
            with self.subTest(name):
                self.all_pass()
                self.assertEqual(self.select(), [])
                self.write(name, "changed")
                self.assertEqual(self.select(), runs)

    def test_another_command_is_another_test(self):
        self.all_pass()
        self.tests[3]["command"].append("--more")
        self.tests[4]["properties"].append({"name": "ENVIRONMENT", "value": ["A=1"]})
        self.assertEqual(self.select(), ["text", "step"])

    def test_a_broken_file_spares_nothing(self):
        self.all_pass()
        self.write("build/release/verdicts.json", "{")
        self.assertEqual(len(self.select()), 5)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
