"""The file of results. It is read, checked against this machine, and written so that a killed run
leaves a complete file."""

import json
import os

FORMAT, VERSION = "meshwright.microbench", 1
ITEMS = ("device", "memory", "gemm", "grouped_gemm", "sustained_gemm", "attention", "elementwise", "collectives",
         "network", "host_link", "overlap", "step")
# Rows from machines that differ in one of these do not belong in the same file.
_OF_ONE_MACHINE = ("device", "device_name", "device_count", "node_count", "threads_per_rank", "torch",
                   "is_quick")


def new(machine):
    return {"format": FORMAT, "version": VERSION, "machine": machine,
            "items": {name: skipped("not asked for") for name in ITEMS}}


def skipped(reason):
    return {"status": "skipped", "reason": reason, "seconds": 0.0, "rows": []}


def load(path):
    """Returns the document, None if there is no file, or the reason as text if it is not a file of
    results."""
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        return f"cannot be read as JSON: {error}"
    if not isinstance(found, dict) or any(not isinstance(found.get(name, {}), dict) for name in ("machine", "items")):
        return "is not a file of microbench.py"
    return found


def refusals(path, document, machine):
    """Returns the reasons why this run cannot continue the file. `machine` holds what is known
    about the machine."""
    if document is None:
        return []
    if isinstance(document, str):
        return [f"{path} {document}"]
    pairs = [("format", document.get("format"), FORMAT), ("version", document.get("version"), VERSION)]
    pairs += [(f"machine.{name}", document.get("machine", {}).get(name), machine[name])
              for name in _OF_ONE_MACHINE if name in machine]
    return [f"{path}: {name} is {old!r} in the file and {now!r} here" for name, old, now in pairs if old != now]


def save(path, document):
    temporary = f"{path}.tmp"  # always the same name, so that the next run overwrites what a killed run left
    try:
        with open(temporary, "w", encoding="utf-8") as file:
            json.dump(document, file, indent=1)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        os.rename(temporary, path)
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)
    folder = os.open(os.path.dirname(os.path.abspath(path)), os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
