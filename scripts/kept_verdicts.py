#!/usr/bin/env python3
"""Spares tests that have passed before with the same inputs.

    scripts/kept_verdicts.py select PRESET          prints a pattern for ctest -R: the tests to run;
                                                    nothing if all are spared
    scripts/kept_verdicts.py keep PRESET JUNIT      notes what passed in the results of ctest

The verdicts are in build/PRESET/verdicts.json, as digests of what a test can read. They are taken by
`select`, before the run; a test whose inputs changed meanwhile is not kept.

- its command and its environment, and the installed Debian packages;
- its own program, and all programs and libraries of build/PRESET/bin that are no tests, because
  tests start them;
- the files of the working tree. C++ sources and documentation do not count for tests of GoogleTest,
  unless they have the label `reads_sources`, nor for other tests with the label `reads_no_sources`.
  Tests with the label `reads_workloads` read no program, and of the tree only workloads/ and its
  tests.
"""

import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[1]
PACKAGES = pathlib.Path("/var/lib/dpkg/status")
SOURCES = (".cc", ".h", ".md", ".svg", ".c")
WORKLOADS = ("workloads/", "tests/workloads/", "tests/events/")


def digest(parts):
    whole = hashlib.sha256()
    for part in parts:
        whole.update(hashlib.sha256(part).digest())
    return whole.hexdigest()


def file_digest(path):
    return hashlib.sha256(path.read_bytes()).digest() if path.is_file() else b""


def tree(root):
    """Returns the digest of each file of the working tree that git does not ignore, by name."""
    names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=root, check=True,
                           stdout=subprocess.PIPE).stdout.decode().split("\0")
    return {name: file_digest(root / name) for name in sorted(set(names)) if name}


class Inputs:
    """The digest of what each test of a preset can read."""

    def __init__(self, root, preset):
        files = tree(root)
        self.bin = root / "build" / preset / "bin"
        self.packages = file_digest(PACKAGES)
        self.programs = self._programs()
        self.all = self._digest(files, lambda name: True)
        self.without_sources = self._digest(files, lambda name: not name.endswith(SOURCES))
        self.workloads = self._digest(files, lambda name: name.startswith(WORKLOADS))

    @staticmethod
    def _digest(files, counts):
        return digest([name.encode() + b"\0" + value for name, value in files.items() if counts(name)]).encode()

    def _programs(self):
        found = sorted(path for path in self.bin.glob("*") if path.is_file() and not path.name.endswith("_test"))
        return digest([path.name.encode() + b"\0" + file_digest(path) for path in found]).encode()

    def of(self, test):
        labels = values(test, "LABELS")
        parts = [json.dumps([test["command"], values(test, "ENVIRONMENT")]).encode(), self.packages]
        if "reads_workloads" in labels:
            return digest([*parts, self.workloads])
        program = pathlib.Path(test["command"][0])
        is_built = program.parent == self.bin
        reads_sources = "reads_sources" in labels if is_built else "reads_no_sources" not in labels
        return digest([*parts, file_digest(program) if is_built else b"", self.programs,
                       self.all if reads_sources else self.without_sources])


def values(test, name):
    """Returns the values of a property of a test."""
    return next((one["value"] for one in test.get("properties", []) if one["name"] == name), [])


def tests_of(root, preset):
    """Returns the tests of a preset. Set-up and clean-up run with the tests that need them."""
    text = subprocess.run(["ctest", "--preset", preset, "--show-only=json-v1"], cwd=root, check=True,
                          stdout=subprocess.PIPE).stdout
    return [test for test in json.loads(text)["tests"]
            if not values(test, "FIXTURES_SETUP") and not values(test, "FIXTURES_CLEANUP")]


def read_kept(path):
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def digests(root, preset):
    inputs = Inputs(root, preset)
    return {test["name"]: inputs.of(test) for test in tests_of(root, preset)}


def write(path, value):
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(value, indent=1, sort_keys=True), encoding="utf-8")
    os.replace(temporary, path)


def select(root, preset):
    """Returns the names of the tests to run, and the number of those that are spared."""
    kept = read_kept(root / "build" / preset / "verdicts.json")
    now = digests(root, preset)
    write(root / "build" / preset / "verdicts.before.json", now)
    run = [name for name, value in now.items() if kept.get(name) != value]
    return run, len(now) - len(run)


def keep(root, preset, junit):
    """Notes the tests that passed, and forgets those that failed."""
    path = root / "build" / preset / "verdicts.json"
    before, now = read_kept(root / "build" / preset / "verdicts.before.json"), digests(root, preset)
    verdicts = {case.get("name"): case.get("status") for case in ElementTree.parse(junit).getroot().iter("testcase")}
    kept = {name: value for name, value in read_kept(path).items() if name in now and name not in verdicts}
    kept.update({name: now[name] for name, status in verdicts.items()
                 if status == "run" and name in now and before.get(name) == now[name]})
    write(path, kept)


def main(arguments):
    if len(arguments) == 2 and arguments[0] == "select":
        run, spared = select(ROOT, arguments[1])
        if spared:
            print(f"{spared} tests of {spared + len(run)} have passed with the same inputs before and are spared; "
                  "scripts/test.sh --again runs them too", file=sys.stderr)
        print("^(" + "|".join(map(re.escape, run)) + ")$" if run else "")
        return 0
    if len(arguments) == 3 and arguments[0] == "keep":
        keep(ROOT, arguments[1], arguments[2])
        return 0
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
