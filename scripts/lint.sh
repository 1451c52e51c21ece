#!/usr/bin/env bash
# Layout and static checks of the C++ sources.
#
#   scripts/lint.sh format          clang-format over every tracked file; `format --fix` rewrites them
#   scripts/lint.sh tidy [FILE...]  clang-tidy over the given files, else over the changed ones
#
# Changed: against the upstream branch, committed or not. Where that is nothing (a fresh clone): what the
# last commit changed. tidy takes the flags of build/release, which must be built (generated headers).
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." >/dev/null

# A checkout that another user owns (usual in containers) is read like any other.
repository() { git -c safe.directory="$PWD" "$@"; }

in_repository() { repository rev-parse -q --verify HEAD >/dev/null 2>&1; }

tracked() {
  local file
  if in_repository; then
    repository ls-files -- '*.h' '*.cc'
  else # an unpacked archive
    find . -path ./build -prune -o \( -name '*.h' -o -name '*.cc' \) -printf '%P\n'
  fi | while IFS= read -r file; do [[ ! -f $file ]] || printf '%s\n' "$file"; done
}

# The changed files since commit $1, incl. what is not committed yet.
changed_since() { repository diff --name-only --diff-filter=d "$1" -- '*.h' '*.cc'; }

changed() {
  local base files=''
  in_repository || { tracked; return; }
  base=$(repository merge-base HEAD '@{upstream}' 2>/dev/null) || base=HEAD
  files=$(changed_since "$base")
  if [[ -z $files ]]; then
    if repository rev-parse -q --verify HEAD~1 >/dev/null; then
      files=$(changed_since HEAD~1)
    else
      files=$(tracked) # the first commit, or a clone that is one commit deep
    fi
  fi
  [[ -z $files ]] || printf '%s\n' "$files"
}

# clang-tidy checks translation units: a header through its own .cc, else through one that includes it.
unit_of() {
  local unit=${1%.h}.cc
  if [[ $1 == *.cc ]]; then
    unit=$1
  elif [[ ! -f $unit ]]; then
    unit=$(repository grep -lF "#include \"$1\"" -- '*.cc' | sed -n 1p) || true
  fi
  [[ -z $unit ]] || printf '%s\n' "$unit"
}

format() {
  local mode=(--dry-run --Werror)
  [[ ${1-} != --fix ]] || mode=(-i)
  tracked | xargs -r -d '\n' clang-format "${mode[@]}"
}

# tidy_one BUILD FILE: silent when all is well, which clang-tidy itself is not.
tidy_one() {
  local words
  words=$(clang-tidy --quiet --extra-arg=-Wno-unknown-warning-option -p "$1" "$2" 2>&1) || { printf '%s\n' "$words" >&2; return 1; }
}

tidy() {
  local build=build/release file files units=()
  [[ -f $build/compile_commands.json ]] || { echo "scripts/lint.sh: build first: scripts/build.sh release" >&2; return 1; }
  [[ $# -gt 0 ]] || { mapfile -t files < <(changed); set -- "${files[@]}"; }
  mapfile -t units < <(for file in "$@"; do unit_of "$file"; done | sort -u)
  # A unit that this build does not know has no flags: leave it to a build that does.
  mapfile -t units < <(for file in "${units[@]}"; do grep -qF "/$file\"" "$build/compile_commands.json" && echo "$file"; done)
  echo "clang-tidy: ${#units[@]} files" >&2
  [[ ${#units[@]} -gt 0 ]] || return 0
  export -f tidy_one
  printf '%s\n' "${units[@]}" | xargs -d '\n' -P "$(nproc)" -I{} bash -c 'tidy_one "$@"' - "$build" {}
}

case "${1-}" in
  format | tidy) "$@" ;;
  *) sed -n '2,9s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
esac
