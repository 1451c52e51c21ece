"""Tests what scripts/lint.sh commits says about messages, in a repository made for it.

    commits_test.py SOURCE
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(sys.argv[1])

# Each case has a subject, a body, the number of changed lines, and a part of the output (None: no
# output).
CASES = {
    "good": ("pruner: reject plans whose group crosses nodes", "", 1, None),
    "good with a body": ("pruner: reject plans", "They were slower.", 80, None),
    "whole tree": ("repo: move every file", "", 1, None),
    "nested folder": ("rules: reject plans", "", 1, None),
    "path of a folder": ("pruner/rules: reject plans", "", 1, None),
    "end of a path": ("rules/later: reject plans", "", 1, None),
    "no folder": ("reject plans whose group crosses nodes", "", 1, "not of the form"),
    "unknown folder": ("review: mend the findings", "", 1, "no folder is called review"),
    "noun": ("pruner: the plans that were left out", "", 1, 'begins with "the"'),
    "capital": ("pruner: Reject plans", "", 1, "not of the form"),
    "72 characters": ("pruner: reject " + "x" * 57, "", 1, None),
    "73 characters": ("pruner: reject " + "x" * 58, "", 1, "73 characters; at most 72"),
    "50 lines": ("pruner: reject plans", "", 50, None),
    "51 lines": ("pruner: reject plans", "", 51, "changes 51 lines without a body"),
    "a machine's path": ("pruner: reject plans", "Seen in /home/me/x.", 1, "names a path of one machine"),
}


class CommitsTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="meshwright-commits-"))
        self.addCleanup(shutil.rmtree, self.folder)
        (self.folder / "scripts").mkdir()
        shutil.copy(SOURCE / "scripts" / "lint.sh", self.folder / "scripts")
        self.git("init", "--quiet")
        self.commit("repo: begin", "As small as it can be.", 1)

    def git(self, *arguments):
        environment = os.environ | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
        subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=e", *arguments], cwd=self.folder, check=True,
                       env=environment)

    def commit(self, subject, body, lines):
        folder = self.folder / "pruner" / "rules" / "later"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{subject[-5:].strip()}{lines}.txt").write_text("line\n" * lines)
        self.git("add", "-A")
        self.git("commit", "--quiet", "-m", subject, *(["-m", body] if body else []))

    def test_messages(self):
        for name, (subject, body, lines, said) in CASES.items():
            with self.subTest(name):
                self.commit(subject, body, lines)
                done = subprocess.run(["scripts/lint.sh", "commits"], cwd=self.folder, text=True, capture_output=True)
                if said is None:
                    self.assertEqual((done.returncode, done.stderr), (0, ""))
                else:
                    self.assertEqual(done.returncode, 1)
                    self.assertIn(said, done.stderr)
                self.git("rm", "--quiet", "-r", "pruner")
                self.commit("repo: go on", "Each case begins alike.", 1)

    def test_a_shallow_clone(self):
        self.commit("pruner: reject plans", "They were slower.", 80)
        self.commit("pruner: reject more", "", 1)
        clone = self.folder / "clone"
        self.git("clone", "--quiet", "--depth", "1", self.folder.as_uri(), str(clone))
        done = subprocess.run(["scripts/lint.sh", "commits"], cwd=clone, text=True, capture_output=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
