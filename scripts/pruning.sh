#!/usr/bin/env bash
# Reports what pruning removes and if it keeps the best plan: in measured groups before their plans
# are run, and in the spaces of bench/questions.json and of FlagScale's examples before they are
# simulated. Writes the tables between the markers of docs/pruning/measured.md and of
# docs/pruning/memory_order.md.
#
#   scripts/pruning.sh
#   scripts/pruning.sh --only SOURCE...   prints the tables of some measured sources, writes nothing
#
# The measured runs are not part of this repository. MESHWRIGHT_EXAM names the folder of the program
# that reads them (../shared/exam); the runs are in ../data/measured next to it. If it is absent,
# only the spaces are reported. MESHWRIGHT_BIN names the program (build/release/bin/meshwright).
# Relative paths count from the repository's root. Exit 3: there is no program.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." >/dev/null

exam=${MESHWRIGHT_EXAM:-../shared/exam}
binary=${MESHWRIGHT_BIN:-build/release/bin/meshwright}
data=$exam/../data/measured
if [[ ! -f $binary || ! -x $binary ]]; then
  echo "scripts/pruning.sh: no program at $binary (MESHWRIGHT_BIN): build first: scripts/build.sh release" >&2
  exit 3
fi
runs=()
if [[ -f $exam/replay.py && -d $data ]]; then
  runs=(--exam "$exam/replay.py" --data "$data")
else
  echo "scripts/pruning.sh: no measured runs at $data (MESHWRIGHT_EXAM): spaces only" >&2
fi
exec python3 -B bench/pruning/pruning_report.py "${runs[@]}" --bin "$binary" "$@"
