#!/usr/bin/env bash
# Searches for inputs that break a parser, with libFuzzer (docs/fuzzing.md): each target for a number of
# seconds, all targets unless some are named. Inputs that reach something new are kept in
# build/fuzz/corpus, so that the next campaign begins where this one ends; what broke a target is in
# build/fuzz/found, and its copy in tests/fuzz/corpus makes it a test.
#
#   bench/fuzz.sh                       every target for 600 s
#   bench/fuzz.sh 60 plan_key yaml      two targets, for a minute each
#
# JOBS=2 runs two targets at once.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." >/dev/null
seconds=${1:-600}
[[ $seconds =~ ^[1-9][0-9]*$ ]] || { echo "usage: bench/fuzz.sh [SECONDS] [TARGET...]" >&2; exit 2; }
scripts/setup.sh --test >&2
scripts/build.sh fuzz fuzz_campaign
program=$PWD/build/fuzz/bin/fuzz_campaign
targets=("${@:2}")
[[ ${#targets[@]} -gt 0 ]] || mapfile -t targets < <("$program" --targets)
mkdir -p build/fuzz/found build/fuzz/logs

# campaign TARGET: prints a row; fails if the target broke.
campaign() {
  local target=$1 kept=build/fuzz/corpus/$1 log=build/fuzz/logs/$1.log seeds word=clean
  mkdir -p "$kept"
  seeds=$("$program" --target="$target" --seeds | paste -sd,)
  # A log of a job can be long; longer inputs than this only take longer to read.
  "$program" --target="$target" -seed_inputs="$seeds" -max_total_time="$seconds" -max_len=65536 \
    -len_control=50 -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
    -artifact_prefix="build/fuzz/found/$target-" "$kept" >"$log" 2>&1 || word=BROKEN
  printf '%-20s %-7s %6s s %12s inputs %7s kept\n' "$target" "$word" \
    "$(sed -n 's/^Done .* in \([0-9]*\) second.*/\1/p' "$log" | grep . || echo '<'"$seconds")" \
    "$(sed -n 's/^stat::number_of_executed_units: *//p' "$log" | grep . || echo '?')" \
    "$(find "$kept" -type f | wc -l)"
  [[ $word == clean ]] || { tail -n 25 "$log"; return 1; }
}
export -f campaign
export program seconds

printf '%s\n' "${targets[@]}" | xargs -P "${JOBS:-1}" -I{} bash -c 'campaign {}'
