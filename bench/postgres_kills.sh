#!/usr/bin/env bash
# Kills one of two servers that share a store on PostgreSQL, 200 times or as often as stated, under a mixed
# load: every acknowledged call must be stored once, every study must end, and a repeated request must get its
# first answer. The other benchmarks of kills are tests (tests/recorder/crash_test.cc, tests/rpc/kill_test.cc).
#
#   bench/postgres_kills.sh [KILLS]
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$(mktemp -d)
trap 'scripts/postgres_down.sh "$folder"; rm -rf "$folder"' EXIT
scripts/postgres_up.sh "$folder" >/dev/null
MESHWRIGHT_POSTGRES=$folder/address /usr/bin/python3 tests/cli/replicas_test.py build/release/bin/meshwright \
  build/release/bin/meshwrightd examples local /usr/bin/python3 "${1:-200}" KillsTest
