#!/usr/bin/env bash
# Builds the release and prints, as Markdown, how long whole answers take and their peak memory, the plans a
# second of each tier, and how time grows with the number of devices; with CALCULON_SRC, Calculon beside it:
#
#   scripts/bench_search.sh
#   scripts/bench_search.sh --write        into docs/benchmarks/search.md too
#   scripts/bench_search.sh --quick --json figures.json
#   scripts/bench_search.sh --section answers --question deepseek_v3_on_2048_h800 --runs 20
#   CALCULON_SRC=../calculon scripts/bench_search.sh      CALCULON_PYTHON: which has what Calculon imports
set -euo pipefail
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." >/dev/null && pwd)

"$root/scripts/setup.sh" >&2
"$root/scripts/build.sh" release meshwright estimate_bench
# No cd: the user's relative paths mean what they mean where the user stands.
exec python3 -B "$root/bench/search_report.py" "$@"
