"""Runs the commands of the guides: the lines of code that begin with "$ " or "> ", one guide after another, each
from a folder of its own that has the examples.

    guides_test.py SOURCE FOLDER_OF_THE_PROGRAMS
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import pages
from pages import commands_of

SOURCE, PROGRAMS = (pathlib.Path(word).resolve() for word in sys.argv[1:3])
GUIDES = sorted((SOURCE / "docs" / "guides").glob("*.md"))


class GuidesTest(unittest.TestCase):
    def run_guide(self, page):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="meshwright-guide-"))
        self.addCleanup(shutil.rmtree, folder)
        for name in ("examples", "scripts", "vendor_models", "workloads"):
            (folder / name).symlink_to(SOURCE / name)
        environment = {**os.environ, "HOME": str(folder), "XDG_STATE_HOME": str(folder / "state"), "COLUMNS": "100",
                       "PATH": f"{PROGRAMS}:{os.environ['PATH']}"}
        # A server that a guide starts ends with its shell.
        script = "\n".join(["set -e", "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT", *commands_of(page)])
        script = script.replace(pages.SHARE, ".")  # the folder has what the package has there
        start = time.monotonic()
        done = subprocess.run(["bash", "-x", "-c", script], cwd=folder, text=True, capture_output=True, env=environment,
                              timeout=300)
        self.assertEqual(done.returncode, 0, done.stdout[-2000:] + done.stderr[-2000:])
        print(f"{page.stem}: {time.monotonic() - start:.0f} s")

    def test_each_guide_has_commands(self):
        self.assertGreaterEqual(len(GUIDES), 6)
        for page in GUIDES:
            if page.name != "README.md":
                self.assertGreater(len(commands_of(page)), 2, page)


def add_tests():
    """A test for each guide, which names it."""
    for page in GUIDES:
        if commands_of(page):
            setattr(GuidesTest, f"test_{page.stem}", lambda self, page=page: self.run_guide(page))


if __name__ == "__main__":
    add_tests()
    unittest.main(argv=sys.argv[:1], verbosity=2)
