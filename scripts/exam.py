"""Finds the exam on measured runs, which is not part of this repository, as scripts/accuracy.sh does."""
import importlib.util
import os
import sys


def absent(words):
    print(f"scripts/{os.path.basename(sys.argv[0])}: {words}", file=sys.stderr)
    sys.exit(3)


def load():
    """Returns the module score.py of the exam, and the folder of the measured runs. Relative paths
    count from the working folder."""
    folder = os.environ.get("MESHWRIGHT_EXAM")
    if not folder:
        absent("MESHWRIGHT_EXAM is not set; must be the folder of the exam")
    path = os.path.join(folder, "score.py")
    if not os.path.isfile(path):
        absent(f"no exam in {folder} (MESHWRIGHT_EXAM)")
    spec = importlib.util.spec_from_file_location("score", path)
    score = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(score)
    return score, os.path.join(folder, "../data/measured")
