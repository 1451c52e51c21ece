#!/usr/bin/env bash
# Builds the release and prints how many items per second each benchmark handles: nodes, checks,
# plans, rows. Arguments go to the benchmark programs:
#
#   scripts/bench.sh
#   scripts/bench.sh --benchmark_filter=Quick
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." >/dev/null

scripts/setup.sh >&2
scripts/build.sh release

table=$(mktemp)
log=$(mktemp)
trap 'rm -f "$table" "$log"' EXIT
printf '%-11s %-42s %14s %14s\n' program benchmark 'one round' 'items/s'
for concept in enumerate prune estimate search recorder http plugin; do
  "build/release/bin/${concept}_bench" --benchmark_color=false "$@" >"$table" 2>"$log" ||
    # A filter that matches no benchmark of a program is not an error.
    grep -q 'Failed to match' "$log" || { cat "$log" >&2; exit 1; }
  awk -v program="$concept" '
      /^BM_/ {
        rate = "-"
        for (i = 2; i <= NF; ++i) if (sub(/^items_per_second=/, "", $i)) rate = $i
        sub(/^BM_/, "", $1); sub(/\/real_time/, "", $1)
        printf "%-11s %-42s %11s %-2s %14s\n", program, $1, $2, $3, rate
      }' "$table"
done
