#!/usr/bin/env bash
# Runs the tests that use processes, sockets or timers (ctest's label "processes") again and again while
# `stress` keeps every core busy, and fails if one fails once. The last line says how long the rounds took.
#
#   scripts/stress_tests.sh [ROUNDS [PRESET [REGEX]]]    20 rounds, preset release, all such tests
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." >/dev/null
[[ $# -le 3 ]] || { sed -n '2,7s/^# \{0,1\}//p' "$0" >&2; exit 2; }
rounds=${1:-20} preset=${2:-release} names=${3:-.}

scripts/setup.sh --test
scripts/build.sh "$preset"

# ctest would start its fixtures once per round. These are the clusters of the tests with the label.
clusters=(engine jobs limits trials devices)
slurm_down() {
  local cluster
  for cluster in "${clusters[@]}"; do scripts/slurm_down.sh "build/$preset/slurm/$cluster"; done
}
slurm_down
for cluster in "${clusters[@]}"; do
  read -ra shape <<<"$([[ $cluster != devices ]] || echo "5 2 gpu:h100:8 2")"
  scripts/slurm_up.sh "build/$preset/slurm/$cluster" "${shape[@]}" >/dev/null
done
stress --cpu "$(nproc)" >/dev/null &
load=$!
trap 'kill "$load" 2>/dev/null || true; slurm_down' EXIT

# A test reaches this deadline only if it hangs; one round of the longest test takes some minutes.
passed=0
ctest --preset "$preset" -L processes -R "$names" --repeat "until-fail:$rounds" --timeout 1200 \
  --fixture-exclude-any 'slurm_.*' --parallel "$((4 * $(nproc)))" --no-tests=error || passed=$?
echo
scripts/test_times.py "build/$preset/Testing/Temporary/LastTest.log"
echo "$rounds rounds in $SECONDS s: $([[ $passed -eq 0 ]] && echo "no failure" || echo "FAILED")"
exit "$passed"
