#!/usr/bin/env bash
# Configures (once) and builds one preset of CMakePresets.json into build/<preset>. All output goes
# to stderr, and there is none if there is nothing to report. On a terminal it is ninja's one line
# of progress; elsewhere it is the log of a build that failed.
#
#   scripts/build.sh release|dev|tsan|fuzz [TARGET...]     without targets: everything
set -euo pipefail
[[ $# -ge 1 ]] || { echo "usage: scripts/build.sh release|dev|tsan|fuzz [TARGET...]" >&2; exit 2; }
preset=$1
targets=("${@:2}")
[[ ${#targets[@]} -gt 0 ]] || targets=(all)
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." >/dev/null
folder=build/$preset
mkdir -p "$folder"
log=$folder/build.log

# ninja configures again by itself if a CMakeLists.txt changes, but does not know the presets.
if [[ ! $folder/build.ninja -nt CMakePresets.json ]]; then
  echo "Configuring $folder" >&2
  cmake --preset "$preset" >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
fi

build=(cmake --build "$folder" --parallel "$(nproc)" --target "${targets[@]}")
if [[ -t 2 ]]; then
  "${build[@]}" >&2
else
  plan=$(ninja -C "$folder" -n "${targets[@]}" 2>&1) || true
  [[ $plan == *"no work to do"* ]] || echo "Building $folder (minutes the first time; log: $log)" >&2
  "${build[@]}" >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
fi
