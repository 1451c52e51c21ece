"""Tests that the report on a run of ctest names each failed test, with the words of Vitest.

    test_times_test.py SOURCE
"""

import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(sys.argv.pop(1)) / "scripts" / "test_times.py"

LOG = """\
1/3 Testing: tuner_test.RankTest
[==========] 2 tests from 1 test suite ran. (7 ms total)
[  FAILED  ] RankTest.OrdersPlans (3 ms)
Test time =   0.52 sec
2/3 Testing: cli_test
FAIL: test_usage (__main__.CliTest)
Ran 5 tests in 1.4s
Test time =   1.40 sec
3/3 Testing: web_browser
\x1b[33m\u2713\x1b[39m a page is sound
\x1b[31m\u23af\u23af Failed Tests 1 \u23af\u23af\x1b[39m

\x1b[41m FAIL \x1b[49m tests/browser/ask.test.ts > a question is asked
Error: Test timed out
Test time = 700.10 sec
"""


class TestTimesTest(unittest.TestCase):
    def test_names_what_failed(self):
        with tempfile.NamedTemporaryFile("w", suffix=".log") as log:
            log.write(LOG)
            log.flush()
            report = subprocess.run([sys.executable, SCRIPT, log.name], check=True,
                                    capture_output=True, encoding="utf-8").stdout.splitlines()
        self.assertEqual(report[0], "8 tests in 3 runs, the slowest of which:")
        self.assertEqual(report[1], "   700.1 s  web_browser")
        self.assertEqual(report[4:7], [
            "FAILED: web_browser: \u23af\u23af Failed Tests 1 \u23af\u23af",
            "FAILED: web_browser:  FAIL  tests/browser/ask.test.ts > a question is asked",
            "FAILED: web_browser: Error: Test timed out"])
        self.assertEqual(report[-2:], ["FAILED: cli_test: test_usage (__main__.CliTest)",
                                       "FAILED: tuner_test.RankTest: RankTest.OrdersPlans"])


if __name__ == "__main__":
    unittest.main()
