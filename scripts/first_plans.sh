#!/usr/bin/env bash
# Asks for the plans of 100 questions, and says of each first plan whether it fits, has flags, rests
# on an assumed feature, and what it costs over the model's optimum.
#
#   scripts/first_plans.sh                prints the table
#   scripts/first_plans.sh --write        also between the markers of docs/choice/first_plans.md
#   scripts/first_plans.sh --only WORD... asks the questions whose name has one of the words
#
# MESHWRIGHT_BIN names the program (build/release/bin/meshwright). Exit 3: it is absent.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." >/dev/null

binary=${MESHWRIGHT_BIN:-build/release/bin/meshwright}
[[ -x $binary ]] || { echo "scripts/first_plans.sh: no $binary: build first: scripts/build.sh release" >&2; exit 3; }
exec python3 -B bench/first_plans/first_plans.py --bin "$binary" "$@"
