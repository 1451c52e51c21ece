#!/usr/bin/env bash
# Builds the release and prints, as Markdown, how long whole answers take, their peak memory, the
# plans per second of each tier, and how time grows with the number of devices. With CALCULON_SRC,
# compares it with Calculon:
#
#   scripts/bench_search.sh
#   scripts/bench_search.sh --write        into docs/benchmarks/search.md too
#   scripts/bench_search.sh --quick --json figures.json
#   scripts/bench_search.sh --section answers --question deepseek_v3_on_2048_h800 --runs 20
#   CALCULON_SRC=../calculon scripts/bench_search.sh      CALCULON_PYTHON: has what Calculon imports
set -euo pipefail
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." >/dev/null && pwd)

"$root/scripts/setup.sh" >&2
"$root/scripts/build.sh" release meshwright estimate_bench
# There is no cd, so that the user's relative paths stay valid.
exec python3 -B "$root/bench/search_report.py" "$@"
