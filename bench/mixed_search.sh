#!/usr/bin/env bash
# Compares the search of mixed plans with a plain list of all plans of random small problems, and
# times it on two pools of 512 devices. The argument is the number of problems:
#
#   bench/mixed_search.sh 2000
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." >/dev/null

problems=${1:-2000}
scripts/setup.sh >&2
scripts/build.sh release mixed_search_test
scripts/build.sh release mixed_report
MESHWRIGHT_MIXED_PROBLEMS=$problems build/release/bin/mixed_search_test --gtest_brief=1
echo "$problems problems, no mismatch"
build/release/bin/mixed_report flagscale 64       # room enough
build/release/bin/mixed_report flagscale 64 40    # short memory
build/release/bin/mixed_report flagscale 64 80 1  # a slow boundary
