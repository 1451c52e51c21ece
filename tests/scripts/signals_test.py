"""Tests that the scripts which run jobs lose no signal.

    signals_test.py SOURCE

bash 5.2 loses a signal whose trap runs while it reads a command substitution: "trap: line 2:
unexpected EOF while looking for matching `)'". A job that is cancelled in that moment would go on.
"""

import pathlib
import re
import sys
import unittest

LAUNCHERS = pathlib.Path(sys.argv[1]) / "server" / "launchers"
SCRIPTS = ("local/local_supervisor.sh", "kubernetes/kubernetes_pod.sh")


class SignalsTest(unittest.TestCase):
    def test_no_substitution_while_a_trap_is_set(self):
        for name in SCRIPTS:
            with self.subTest(name):
                lines = (LAUNCHERS / name).read_text().splitlines()
                traps = [i for i, line in enumerate(lines) if re.match(r"trap '[^']", line)]
                ends = [i for i, line in enumerate(lines) if line.startswith("trap '' ")]
                self.assertEqual((len(traps), len(ends)), (2, 1))
                for line in lines[traps[-1]:ends[0]]:
                    self.assertNotRegex(line.split(" #")[0], r"\$\((?!\()|`|[<>]\(")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
