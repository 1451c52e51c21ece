#!/usr/bin/env bash
# Compares the search with plain loops over every legal plan of random small problems. The argument
# is their number; each is asked under up to five memory capacities, from "nothing fits" to "all
# fits":
#
#   scripts/random_problems.sh 2000
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." >/dev/null

problems=${1:-2000}
scripts/setup.sh >&2
scripts/build.sh release pruner_test
seeds=$(((problems + 4) / 5)) # five problems per seed
MESHWRIGHT_RANDOM_SEEDS=$seeds build/release/bin/pruner_test \
  --gtest_filter='Random/OptimumTest.SearchFindsTheBestOfAllLegalPlans/*' --gtest_brief=1
echo "$((seeds * 5)) problems, no mismatch"
