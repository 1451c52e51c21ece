"""Follows pages from an install, as a stranger would: the way of the README from an installed program to a
measured plan on this machine, and the guide for a new chip. Everything comes from the prefix.

    installed_pages_test.py CMAKE BUILD TESTS_OF_DOCS PYTHON_WITH_TORCH
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

CMAKE, BUILD, DOCS, TORCH_PYTHON = sys.argv[1:5]
sys.path.insert(0, DOCS)
import pages  # noqa: E402

PREFIX = "/opt/meshwright"  # as the README writes it


def section_of(text, heading):
    """The commands of a section of a page, with continued lines as one."""
    lines, is_there = [], False
    for line in pages.lines_of(text):
        if not line.is_code and line.text.startswith("#"):
            is_there = line.text.lstrip("# ") == heading
        elif is_there and line.is_code and line.text.strip():
            lines.append(line.text.strip())
    return re.sub(r"\\\n\s*", "", "\n".join(lines)).split("\n")


class InstalledPagesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="meshwright-pages-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.prefix = cls.folder / "prefix"
        start = time.monotonic()
        subprocess.run([CMAKE, "--install", BUILD, "--prefix", cls.prefix], check=True, stdout=subprocess.DEVNULL)
        cls.install_seconds = time.monotonic() - start
        cls.documents = cls.prefix / "share" / "doc" / "meshwright"

    def setUp(self):
        self.elsewhere = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        self.environment = {"HOME": str(self.elsewhere), "COLUMNS": "100", "LANG": "C.UTF-8",
                            "PATH": f"{self.prefix / 'bin'}:{os.path.dirname(TORCH_PYTHON)}:/usr/bin:/bin"}

    def run_there(self, command, expect=0):
        """Runs a command of the shell in the other folder. The test fails unless it exits with `expect`."""
        done = subprocess.run(["bash", "-ec", command], cwd=self.elsewhere, text=True, capture_output=True, timeout=600,
                              env=self.environment)
        self.assertEqual(done.returncode, expect, command + "\n" + done.stdout + done.stderr)
        return done

    def test_the_readme_leads_to_a_measured_plan(self):
        text = (self.documents / "README.md").read_text()
        # The build is what this test installs from, and setUpClass has run the second command.
        self.assertEqual(section_of(text, "Install")[1:],
                         ["scripts/setup.sh && scripts/build.sh release",
                          f"cmake --install build/release --prefix {PREFIX}"])
        commands = section_of(text, "A measured plan on this machine")
        script, setting = [], ""
        for command in commands:
            command = command.replace(PREFIX, str(self.prefix))
            if re.match(r"\w+=", command):
                setting += command + "\n"
            else:
                script.append(setting + command)
        self.assertEqual(len(script), 4, commands)
        outputs = []
        print(f"cmake --install: {self.install_seconds:.1f} s")
        start = time.monotonic()
        for command in script:
            before = time.monotonic()
            outputs.append(self.run_there(command).stdout)
            shown = command.split("\n")[-1].replace(str(self.prefix), PREFIX)
            print(f"{shown}: {time.monotonic() - before:.1f} s")
        print(f"from the installed program to a measured plan: {time.monotonic() - start + self.install_seconds:.0f} s")
        _, measured, history, learnt = outputs
        self.assertRegex(measured, r"\n2 of \d+ plans were tried")
        self.assertEqual(len(re.findall(r"^  \d  ok ", measured, re.M)), 2)
        self.assertRegex(measured, r"\n  1 .*\n .* by measured figures\n")
        self.assertRegex(history, r"\nstudy-\w+ +succeeded +\w+ +gpt-small ")
        self.assertIn("Learnt from measured runs", learnt)

    def test_the_guide_for_a_new_chip(self):
        text = (self.documents / "docs" / "guides" / "new_chip.md").read_text()
        share = self.prefix / "share" / "meshwright"
        page = self.elsewhere / "page.md"
        page.write_text(text.replace(pages.SHARE, str(share)))
        self.assertIn(str(share), page.read_text())
        commands = pages.commands_of(page)
        report = next(i for i, command in enumerate(commands) if command.startswith("study="))
        settings = "\n".join(command for command in commands if re.match(r"\w+=", command) and "$(" not in command)
        self.run_there("\n".join(commands[:report]))
        chip = self.elsewhere / "site" / "acme-x1.json"
        before = chip.read_bytes()

        measure, calibrate = section_of(page.read_text(), "3. Measure")
        quick = measure.replace("--device npu --processes 8", "--device cpu --processes 2 --quick --only gemm,elementwise")
        self.assertNotEqual(quick, measure)
        without = self.run_there(f"{settings}\n{quick.replace('python3', 'python3 -S', 1)}", expect=2)
        self.assertRegex(without.stderr, r"^microbench: needs PyTorch, .*\n$")  # one line
        self.run_there(f"{settings}\n{quick}")
        said = self.run_there(calibrate, expect=10).stdout
        for missing in ("stream was not measured", "collectives was not measured", "it was measured with --quick",
                        "microbench.py --only gemm"):
            self.assertIn(missing, said)
        self.assertEqual(chip.read_bytes(), before)
        self.assertEqual([path.name for path in chip.parent.iterdir()], ["acme-x1.json"])
        self.run_there(f"{calibrate} --draft")
        self.assertNotEqual(chip.read_bytes(), before)

        self.run_there("\n".join(commands[report:]))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
