#!/usr/bin/env bash
# From a fresh Debian 12 to "all tests passed": installs what is missing, checks the layout of the code
# and the messages of commits, builds and tests the presets release, dev (address and
# undefined-behaviour sanitizers) and tsan, runs clang-tidy on changed files, and tries the Debian package
# in an empty Debian. Every part runs, even after one has failed; the exit code is 0 if all passed. A
# preset is built while the tests of the one before it run, and the package is tried beside those of dev.
#
# Tests that have passed before with the same inputs are spared (scripts/kept_verdicts.py); a fresh clone
# has none.
#
#   scripts/test.sh            everything
#   scripts/test.sh --quick    layout, messages and the release preset
#   scripts/test.sh --again    also the tests that would be spared
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." >/dev/null
quick= again=
for argument in "$@"; do
  case "$argument" in
    --quick) quick=1 ;;
    --again) again=1 ;;
    *) echo "usage: scripts/test.sh [--quick] [--again]" >&2; exit 2 ;;
  esac
done

scripts/setup.sh --test

summary=()
failures=0

# part NAME COMMAND...: runs it, and notes how it ended and the seconds it took.
part() {
  local name=$1 start=$SECONDS word=ok
  shift
  echo "== $name"
  if ! "$@"; then
    word=FAILED
    failures=$((failures + 1))
  fi
  summary+=("$(printf '%-16s %-6s %5d s' "$name" "$word" $((SECONDS - start)))")
}

# A test that hangs must not hold up the rest; few take more than two minutes.
# Twice as many at once as there are cores: tests of jobs mostly wait.
run_tests() {
  local folder=$PWD/build/$1 pattern=. status=0
  [[ -z $again ]] || rm -f "$folder/verdicts.json"
  pattern=$(scripts/kept_verdicts.py select "$1")
  if [[ -z $pattern ]]; then
    echo "100% tests passed before, with the same inputs" | tee "$folder/ctest.log"
    return
  fi
  ctest --preset "$1" -R "$pattern" --parallel "$((2 * $(nproc)))" --timeout 600 --no-tests=error \
    --output-junit "$folder/verdicts.xml" 2>&1 | tee "$folder/ctest.log" || status=$?
  # Asking ctest for its tests, as is done next, empties its log.
  cp -f "$folder/Testing/Temporary/LastTest.log" "$folder/tests.log" 2>/dev/null || true
  scripts/kept_verdicts.py keep "$1" "$folder/verdicts.xml"
  return "$status"
}

# times PRESET: how many tests ran, which took longest, and the names of those that failed.
times() {
  local log=build/$1/tests.log
  [[ ! -f $log ]] || { echo; echo "preset $1: $(scripts/test_times.py "$log")"; }
}

# begin NAME COMMAND...: runs it at low priority beside the tests that follow, because these leave a third
# of the processors idle. It has a process group of its own, which ends with this script.
declare -A beside=()
begin() {
  local name=$1
  shift
  mkdir -p build/beside
  set -m
  nice -n 5 "$@" >"build/beside/$name.log" 2>&1 &
  beside[$name]=$!
  set +m
}
end_all() {
  local group
  for group in "${beside[@]}"; do kill -- "-$group" 2>/dev/null || true; done
}
trap end_all EXIT

# finish NAME: ends when what has been begun has ended, with its output and its status.
finish() {
  local name=$1 status=0
  wait "${beside[$name]}" || status=$?
  unset "beside[$name]"
  cat "build/beside/$name.log" >&2
  return "$status"
}

# build_and_test PRESET [NEXT]: also begins to build the preset NEXT.
build_and_test() {
  rm -f "build/$1/"{ctest.log,tests.log,verdicts.xml,Testing/Temporary/LastTest.log}
  local status=0 start=$SECONDS
  if [[ -n ${beside[build-$1]-} ]]; then finish "build-$1" || status=$?; else scripts/build.sh "$1" || status=$?; fi
  summary+=("$(printf '%-16s %-6s %5d s' "  $1: build" '' $((SECONDS - start)))")
  [[ $# -eq 1 ]] || begin "build-$2" scripts/build.sh "$2"
  [[ $status -eq 0 ]] && run_tests "$1"
}

part format scripts/lint.sh format
part commits scripts/lint.sh commits
presets=(release)
if [[ -n $quick ]]; then
  part release build_and_test release
else
  part release build_and_test release dev
  begin package scripts/package.sh --try
  part dev build_and_test dev tsan
  part tsan build_and_test tsan
  part clang-tidy scripts/lint.sh tidy
  part package finish package
  presets=(tsan dev release)
fi

for preset in "${presets[@]}"; do times "$preset"; done
echo
printf '%s\n' "${summary[@]}" "$([[ $failures -eq 0 ]] && echo "All parts passed." || echo "$failures parts FAILED.")"

# The last words are ctest's own: of the preset that failed, else of release.
last=release
for preset in "${presets[@]}"; do
  log=build/$preset/ctest.log
  if [[ -f $log ]] && ! grep -q '^100% tests passed' "$log"; then last=$preset; fi
done
[[ ! -f build/$last/ctest.log ]] || { echo; echo "ctest, preset $last:"; sed -n '/% tests passed/,$p' "build/$last/ctest.log"; }
[[ $failures -eq 0 ]]
