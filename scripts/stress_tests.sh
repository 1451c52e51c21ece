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

# ctest would start its fixtures (the Slurm clusters, PostgreSQL) once per round, so they are started here.
fixtures() {
  ctest --preset "$preset" -R "^(slurm_.*|postgres)_$1\$" --fixture-exclude-any '.*' --no-tests=error >/dev/null
}
fixtures down
fixtures up
stress --cpu "$(nproc)" >/dev/null &
load=$!
trap 'kill "$load" 2>/dev/null || true; fixtures down' EXIT

# A test reaches this deadline only if it hangs; one round of the longest test takes some minutes.
passed=0
ctest --preset "$preset" -L processes -R "$names" --repeat "until-fail:$rounds" --timeout 1200 \
  --fixture-exclude-any '.*' --parallel "$((6 * $(nproc)))" --no-tests=error || passed=$?
echo
scripts/test_times.py "build/$preset/Testing/Temporary/LastTest.log"
echo "$rounds rounds in $SECONDS s: $([[ $passed -eq 0 ]] && echo "no failure" || echo "FAILED")"
exit "$passed"
