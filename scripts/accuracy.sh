#!/usr/bin/env bash
# Runs the exam on measured training runs and writes the residual report: docs/accuracy.md and the
# tables in docs/accuracy/ (the parts between markers), docs/accuracy/SOURCE.md with scatter plots,
# and docs/accuracy/last.json.
#
#   scripts/accuracy.sh
#   scripts/accuracy.sh --only SOURCE...   prints the report of some sources, writes nothing
#
# The exam is not part of this repository: MESHWRIGHT_EXAM names its folder, and the measured runs are
# in ../data/measured next to it. MESHWRIGHT_BIN names the program that is examined
# (build/release/bin/meshwright). Relative paths count from the repository's root. Exit 3: one is absent.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." >/dev/null

usage() { sed -n '2,11s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2; }

absent() { echo "scripts/accuracy.sh: $1" >&2; exit 3; }

exam=${MESHWRIGHT_EXAM-}
binary=${MESHWRIGHT_BIN:-build/release/bin/meshwright}
if [[ $# -gt 0 ]]; then
  [[ $1 == --only && $# -gt 1 ]] || usage
  for source in "${@:2}"; do [[ $source == [a-z0-9]* ]] || usage; done
fi
[[ -n $exam ]] || absent "MESHWRIGHT_EXAM is not set; must be the folder of the exam"
[[ -f $exam/score.py ]] || absent "no exam in $exam (MESHWRIGHT_EXAM)"
data=$exam/../data/measured
[[ -d $data ]] || absent "no measured runs at $data"
[[ -f $binary && -x $binary ]] || absent "no program at $binary (MESHWRIGHT_BIN): build first: scripts/build.sh release"
command -v python3 >/dev/null || absent "python3 is not installed"

exec python3 -B scripts/accuracy_report.py --exam "$exam/score.py" --data "$data" --bin "$binary" "$@"
