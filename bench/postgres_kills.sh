#!/usr/bin/env bash
# Kills one of two servers on a PostgreSQL store, 200 times or as often as stated, while a client creates
# studies: every acknowledged study must be there once and end. The other benchmarks of kills are tests
# (tests/recorder/crash_test.cc, tests/rpc/kill_test.cc).
#
#   bench/postgres_kills.sh [KILLS]
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$(mktemp -d)
trap 'scripts/postgres_down.sh "$folder"; rm -rf "$folder"' EXIT
scripts/postgres_up.sh "$folder" >/dev/null
MESHWRIGHT_POSTGRES=$folder/address python3 tests/cli/postgres_store_test.py build/release/bin/meshwright \
  build/release/bin/meshwrightd examples "${1:-200}" PostgresStoreTest.test_killed_servers_lose_nothing
