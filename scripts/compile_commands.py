#!/usr/bin/env python3
"""Prints a build's compile_commands.json with an entry for each source of our own.

A unity build compiles several sources in one, and tests have a precompiled header; a tool that checks
sources one by one needs the flags of each, without either, so that each must include what it uses.

  scripts/compile_commands.py build/release >build/release/tidy/compile_commands.json
"""

import json
import pathlib
import re
import sys


def sources(file):
    """Returns the sources that a unity source includes, or else the file itself."""
    path = pathlib.Path(file)
    if not re.fullmatch(r"unity_\d+_cxx\.cxx", path.name):
        return [file]
    return re.findall(r'^#include "(.+)"$', path.read_text(encoding="utf-8"), re.MULTILINE)


def main():
    entries = json.loads((pathlib.Path(sys.argv[1]) / "compile_commands.json").read_text(encoding="utf-8"))
    split = []
    for entry in entries:
        command = re.sub(r" -include \S*cmake_pch\.hxx", "", entry["command"].replace(" -Winvalid-pch", ""))
        for source in sources(entry["file"]):
            # The unity source defines this before each test (cmake/meshwright.cmake).
            name = " -DMESHWRIGHT_TEST_FILE=test_file" if source != entry["file"] else ""
            split.append({"directory": entry["directory"], "file": source,
                          "command": command.replace(f" -c {entry['file']}", f"{name} -c {source}")})
    json.dump(split, sys.stdout, indent=0)


if __name__ == "__main__":
    main()
