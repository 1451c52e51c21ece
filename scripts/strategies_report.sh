#!/usr/bin/env bash
# Reports how fast each search strategy finds good plans, on five questions. Writes docs/search/
# (the rows and the plots) and the table of docs/search/strategies.md. Counts evaluations, not
# seconds, so that every machine writes the same. Takes about ten minutes on two cores.
#
#   scripts/strategies_report.sh
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." >/dev/null

seeds=11
evaluations=10000

scripts/setup.sh >&2
scripts/build.sh release strategies_report
rows=$(mktemp)
trap 'rm -f "$rows"' EXIT
build/release/bin/strategies_report "$seeds" "$evaluations" >"$rows"
mkdir -p docs/search
cp "$rows" docs/search/strategies.csv
chmod 644 docs/search/strategies.csv
python3 -B scripts/strategies_plots.py "$evaluations"
