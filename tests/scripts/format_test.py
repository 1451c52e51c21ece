"""Tests what scripts/lint.sh format looks at, in a repository made for it.

    format_test.py SOURCE
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(sys.argv[1])
FILES = {"a.cc": "int  x;\n", "a.h": "int  x;\n", "a.proto": "message  A {}\n"}


class FormatTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="meshwright-format-"))
        self.addCleanup(shutil.rmtree, self.folder)
        (self.folder / "scripts").mkdir()
        shutil.copy(SOURCE / "scripts" / "lint.sh", self.folder / "scripts")
        shutil.copy(SOURCE / ".clang-format", self.folder)

    def format(self, *arguments):
        return subprocess.run([self.folder / "scripts" / "lint.sh", "format", *arguments], capture_output=True, text=True,
                              env=os.environ | {"GIT_CEILING_DIRECTORIES": str(self.folder.parent)})

    def check_each_file(self):
        for name, text in FILES.items():
            with self.subTest(name):
                (self.folder / name).write_text(text)
                done = self.format()
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(f"{name}:1:", done.stderr)
                self.assertEqual(self.format("--fix").returncode, 0)
                self.assertEqual((self.folder / name).read_text(), text.replace("  ", " "))
                done = self.format()
                self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_tracked_files(self):
        for name in FILES:
            (self.folder / name).touch()
        subprocess.run(["git", "init", "--quiet"], cwd=self.folder, check=True)
        subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=e", "add", "-A"], cwd=self.folder, check=True)
        subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=e", "commit", "--quiet", "-m", "m"],
                       cwd=self.folder, check=True)
        self.check_each_file()

    def test_comments_are_whole_sentences(self):
        for name, text in (("a.cc", "// What it does.\nint x;\n"), ("a.py", "    # Whether it is.\n"),
                           ("a.ts", "// Of all of them.\n")):
            with self.subTest(name):
                (self.folder / name).write_text(text)
                done = self.format()
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(f"{name}:1:", done.stderr)
                (self.folder / name).write_text(text.replace("What it does", "Returns what it does")
                                                .replace("Whether it", "It").replace("Of all", "All"))
                self.assertEqual(self.format().returncode, 0)

    def test_files_of_an_archive(self):
        self.check_each_file()


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
