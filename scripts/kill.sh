#!/usr/bin/env bash
# Kills a study with trials in 200 places (MESHWRIGHT_KILLS), and at a quarter as many random times,
# and lets it continue. Nothing that was acknowledged is lost, nothing appears twice, and the answer
# is the same (docs/store/trials.md). The tests do the same in fewer places.
#
#   scripts/kill.sh
#
# MESHWRIGHT_BUILD names the build (build/release), from the repository's root. Exit 3: it is
# absent.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." >/dev/null

binary=${MESHWRIGHT_BUILD:-build/release}/bin/kill_test
[[ -x $binary ]] || { echo "scripts/kill.sh: no $binary: build first: scripts/build.sh release" >&2; exit 3; }
MESHWRIGHT_KILLS=${MESHWRIGHT_KILLS:-200} exec "$binary" --gtest_also_run_disabled_tests
