#!/usr/bin/env bash
# Reports which predictions of the built-in cost model moved since the last release, where and by
# how much.
#
#   scripts/predictions.sh                      prints it
#   scripts/predictions.sh --write              also between the markers of docs/predictions.md
#   scripts/predictions.sh --check              fails if that page says something else (a test does this)
#   scripts/predictions.sh --release VERSION    keeps today's predictions, for later comparisons
#
# MESHWRIGHT_BIN names the program (build/release/bin/meshwright). Exit 3: it is absent.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." >/dev/null

binary=${MESHWRIGHT_BIN:-build/release/bin/meshwright}
[[ -x $binary ]] || { echo "scripts/predictions.sh: no $binary: build first: scripts/build.sh release" >&2; exit 3; }
exec python3 -B bench/predictions/predictions.py --bin "$binary" "$@"
