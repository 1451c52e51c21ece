#!/usr/bin/env python3
"""Reports how many tests a run of ctest had, which took longest, and which failed with what words.

    scripts/test_times.py build/release/Testing/Temporary/LastTest.log

ctest counts suites of GoogleTest and programs. Here their tests are counted; one suite has many.
"""
import re
import sys

MOST = 10
COLORS = re.compile(r"\x1b\[[0-9;]*m")
LINES_OF_FAILURES = 60


def read(log):
    """Returns (seconds, name, output) of each test of ctest."""
    for entry in re.split(r"(?m)^\d+/\d+ Testing: ", log)[1:]:
        name, _, rest = entry.partition("\n")
        seconds = re.search(r"^Test time = *([\d.]+) sec", rest, re.M)
        yield float(seconds.group(1)) if seconds else 0.0, name, rest


def count(output):
    """Returns the number of tests that GoogleTest or Python's unittest ran; 1 for any other
    program."""
    found = re.search(r"^\[==========\] (\d+) tests? from .* ran\.", output, re.M) or re.search(
        r"^Ran (\d+) tests? in ", output, re.M)
    return int(found.group(1)) if found else 1


def failures(name, output):
    """Yields a line for each failed test of GoogleTest and of Python's unittest, and the words of
    Vitest on the tests that failed."""
    for failed in sorted(set(re.findall(r"^\[  FAILED  \] ([^\s,]+\.[^\s,]+)", output, re.M) +
                             re.findall(r"^(?:FAIL|ERROR): (\S+ \(\S+\))", output, re.M))):
        yield f"FAILED: {name}: {failed}"
    plain = COLORS.sub("", output)
    found = re.search(r"^\S* *(?:Failed (?:Tests|Suites) \d+|Unhandled Error).*", plain, re.M | re.S)
    if found:
        for line in [line for line in found.group().splitlines() if line.strip()][:LINES_OF_FAILURES]:
            yield f"FAILED: {name}: {line}"


def main(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        runs = sorted(read(file.read()), reverse=True)
    print(f"{sum(count(output) for _, _, output in runs)} tests in {len(runs)} runs, the slowest of which:")
    for seconds, name, _ in runs[:MOST]:
        print(f"{seconds:8.1f} s  {name}")
    for _, name, output in runs:
        for line in failures(name, output):
            print(line)


if __name__ == "__main__":
    main(sys.argv[1])
