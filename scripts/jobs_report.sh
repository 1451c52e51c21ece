#!/usr/bin/env bash
# Reports if trials find the best plan. Compares studies of a few real jobs on a real Slurm of this
# machine with a sweep that measures every candidate. The fastest of these and a few others then run
# again, next to a reference plan. Takes an hour on two cores, which nothing else should use
# meanwhile.
#
#   scripts/jobs_report.sh                      prints the report
#   scripts/jobs_report.sh --write              also between the markers of docs/jobs/check.md
#   scripts/jobs_report.sh --processes 2 --trials 8 --finalists 10 --others 16 --rounds 3 --final-rounds 6
#
# MESHWRIGHT_BIN names the program (build/release/bin/meshwright). Exit 3: it is absent.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." >/dev/null

binary=${MESHWRIGHT_BIN:-build/release/bin/meshwright}
[[ -x $binary ]] || { echo "scripts/jobs_report.sh: no $binary: build first: scripts/build.sh release" >&2; exit 3; }
folder=$(mktemp -d)
trap 'scripts/slurm_down.sh "$folder/slurm" >&2 || true; rm -rf "$folder"' EXIT
lines=$(scripts/slurm_up.sh "$folder/slurm") # on its own line: eval would hide a failure
eval "$lines"
python3 -B bench/jobs/jobs_report.py --bin "$binary" --folder "$folder" "$@"
