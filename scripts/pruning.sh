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
# that reads them; the runs are in ../data/measured next to it. If it is not set, only the spaces are
# reported. MESHWRIGHT_BIN names the program (build/release/bin/meshwright). Relative paths count
# from the repository's root. Exit 3: one is absent.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." >/dev/null

absent() { echo "scripts/pruning.sh: $1" >&2; exit 3; }

exam=${MESHWRIGHT_EXAM-}
binary=${MESHWRIGHT_BIN:-build/release/bin/meshwright}
[[ -f $binary && -x $binary ]] || absent "no program at $binary (MESHWRIGHT_BIN): build first: scripts/build.sh release"
runs=()
if [[ -n $exam ]]; then
  data=$exam/../data/measured
  [[ -f $exam/replay.py ]] || absent "no exam in $exam (MESHWRIGHT_EXAM)"
  [[ -d $data ]] || absent "no measured runs at $data"
  runs=(--exam "$exam/replay.py" --data "$data")
else
  echo "scripts/pruning.sh: MESHWRIGHT_EXAM is not set: spaces only" >&2
fi
exec python3 -B bench/pruning/pruning_report.py "${runs[@]}" --bin "$binary" "$@"
