#!/usr/bin/env bash
# Replays measured tables and counts the trials that Meshwright and others need to find a plan
# within 3 % of the best measured one. Writes the tables between the markers of docs/replay/measured.md
# and docs/replay/simulated.md, and the plots docs/replay/*.svg.
#
#   scripts/replay.sh
#   scripts/replay.sh --only SOURCE...   prints the table of some sources, writes nothing
#   scripts/replay.sh --simulated        uses FlagScale's problems on a simulated cluster instead
#
# The exam is not part of this repository: MESHWRIGHT_EXAM names its folder, and the measured runs are
# in ../data/measured next to it. MESHWRIGHT_BIN names the program (build/release/bin/meshwright).
# Relative paths count from the repository's root. Exit 3: one is absent.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." >/dev/null

absent() { echo "scripts/replay.sh: $1" >&2; exit 3; }

exam=${MESHWRIGHT_EXAM-}
binary=${MESHWRIGHT_BIN:-build/release/bin/meshwright}
data=$exam/../data/measured
[[ -n $exam ]] || absent "MESHWRIGHT_EXAM is not set; must be the folder of the exam"
[[ -f $exam/replay.py ]] || absent "no exam in $exam (MESHWRIGHT_EXAM)"
[[ -d $data ]] || absent "no measured runs at $data"
[[ -f $binary && -x $binary ]] || absent "no program at $binary (MESHWRIGHT_BIN): build first: scripts/build.sh release"

exec python3 -B bench/replay/replay_report.py --exam "$exam/replay.py" --data "$data" --bin "$binary" "$@"
