#!/usr/bin/env bash
# Estimates large runs whose speed was published, none of which the model was fitted to.
#
#   scripts/published.sh            prints the table
#   scripts/published.sh --write    also between the markers of docs/accuracy/published.md
#
# MESHWRIGHT_BIN names the program (build/release/bin/meshwright). Exit 3: it is absent.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." >/dev/null

binary=${MESHWRIGHT_BIN:-build/release/bin/meshwright}
[[ -x $binary ]] || { echo "scripts/published.sh: no $binary: build first: scripts/build.sh release" >&2; exit 3; }
exec python3 -B bench/published/published.py --bin "$binary" "$@"
