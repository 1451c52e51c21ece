"""Tests that the scripts that need the exam say so where it is absent, and look nowhere else for it.

    exam_test.py SOURCE
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPTS = pathlib.Path(sys.argv[1]) / "scripts"
COMMANDS = {"accuracy.sh": [], "accuracy_what_if.py": ["source"], "replay.sh": []}


class ExamTest(unittest.TestCase):
    def check_absent(self, environment, words):
        for name, arguments in COMMANDS.items():
            with self.subTest(name):
                done = subprocess.run([SCRIPTS / name, *arguments], capture_output=True, text=True,
                                      env={"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1", **environment})
                self.assertEqual(done.returncode, 3)
                self.assertEqual(done.stderr, f"scripts/{name}: {words}\n")

    def test_not_set(self):
        self.check_absent({}, "MESHWRIGHT_EXAM is not set; must be the folder of the exam")

    def test_not_there(self):
        with tempfile.TemporaryDirectory() as folder:
            self.check_absent({"MESHWRIGHT_EXAM": folder}, f"no exam in {folder} (MESHWRIGHT_EXAM)")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
