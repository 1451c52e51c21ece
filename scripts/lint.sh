#!/usr/bin/env bash
# Checks the layout of the C++ and .proto files, the style of the C++ ones, and the messages of commits.
#
#   scripts/lint.sh format           clang-format over every tracked file (`format --fix` rewrites them), and
#                                    the first words of comments
#   scripts/lint.sh tidy [FILE...]   clang-tidy over the given files, else over the changed ones
#   scripts/lint.sh commits [RANGE]  messages of the commits in RANGE, else of those not yet upstream
#
# Changed files are those that differ from the upstream branch, committed or not. In a fresh clone, where
# none differ, they are those of the last commit, and its message is the one that is checked. tidy takes
# the flags of build/release, which must be built because of its generated headers.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." >/dev/null

# A checkout that another user owns (usual in containers) is read like any other.
repository() { git -c safe.directory="$PWD" "$@"; }

in_repository() { repository rev-parse -q --verify HEAD >/dev/null 2>&1; }

# tracked PATTERN...: the files whose names match one.
tracked() {
  local file names=()
  for file in "$@"; do names+=(-o -name "$file"); done
  if in_repository; then
    repository ls-files -- "$@"
  else # an unpacked archive
    find . \( -path ./build -o -path ./web/node_modules \) -prune -o \( -false "${names[@]}" \) -printf '%P\n'
  fi | while IFS= read -r file; do [[ ! -f $file ]] || printf '%s\n' "$file"; done
}

# The changed files since commit $1, incl. what is not committed yet.
changed_since() { repository diff --name-only --diff-filter=d "$1" -- '*.h' '*.cc'; }

changed() {
  local base files=''
  in_repository || { tracked '*.h' '*.cc'; return; }
  base=$(repository merge-base HEAD '@{upstream}' 2>/dev/null) || base=HEAD
  files=$(changed_since "$base")
  if [[ -z $files ]]; then
    if repository rev-parse -q --verify HEAD~1 >/dev/null; then
      files=$(changed_since HEAD~1)
    else
      files=$(tracked '*.h' '*.cc') # the first commit, or a clone that is one commit deep
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
  tracked '*.h' '*.cc' '*.proto' | xargs -r -d '\n' clang-format "${mode[@]}"
  full_sentences
}

# Comments begin with a whole sentence, so none begins with one of these words.
full_sentences() {
  local found
  found=$(tracked '*.h' '*.cc' '*.proto' '*.ts' '*.tsx' '*.py' '*.sh' 'CMakeLists.txt' '*.cmake' |
    xargs -r -d '\n' grep -nE '^ *(//|/\*\*|#|--) (What|Of|Whether|Those|By) ') || true
  [[ -n $found ]] || return 0
  printf '%s: a comment is a whole sentence; this one begins with half of one\n' "$found" >&2
  return 1
}

# tidy_one BUILD FILE: silent when all is well, which clang-tidy itself is not.
tidy_one() {
  local words
  words=$(clang-tidy --quiet --extra-arg=-Wno-unknown-warning-option -p "$1" "$2" 2>&1) || { printf '%s\n' "$words" >&2; return 1; }
}

tidy() {
  local build=build/release file files units=()
  [[ -f $build/compile_commands.json ]] || { echo "scripts/lint.sh: build first: scripts/build.sh release" >&2; return 1; }
  mkdir -p "$build/tidy"
  scripts/compile_commands.py "$build" >"$build/tidy/compile_commands.json"
  build=$build/tidy
  [[ $# -gt 0 ]] || { mapfile -t files < <(changed); set -- "${files[@]}"; }
  mapfile -t units < <(for file in "$@"; do unit_of "$file"; done | sort -u)
  # A unit that this build does not know has no flags: leave it to a build that does.
  mapfile -t units < <(for file in "${units[@]}"; do grep -qF "/$file\"" "$build/compile_commands.json" && echo "$file"; done)
  echo "clang-tidy: ${#units[@]} files" >&2
  [[ ${#units[@]} -gt 0 ]] || return 0
  export -f tidy_one
  printf '%s\n' "${units[@]}" | xargs -d '\n' -P "$(nproc)" -I{} bash -c 'tidy_one "$@"' - "$build" {}
}

# Prints what is wrong with the message of commit $1, one fault a line.
faults_of_commit() {
  local subject body lines folder word short
  subject=$(repository log -1 --format=%s "$1")
  body=$(repository log -1 --format=%b "$1")
  lines=$(repository show --format= --numstat -M "$1" | awk '{ sum += $1 + $2 } END { print sum + 0 }')
  short="$(repository log -1 --format=%h "$1") \"$subject\":"
  [[ ${#subject} -le 72 ]] || echo "$short ${#subject} characters; at most 72"
  if [[ $subject =~ ^([a-z0-9_./-]+):\ ([a-z][a-z-]*),?\  ]]; then
    folder=${BASH_REMATCH[1]} word=${BASH_REMATCH[2]}
    # "repo" stands for the whole tree; else a folder by its path or an end of it.
    [[ $folder == repo || " $(folders_of "$1") " == *" $folder "* ]] || echo "$short no folder is called $folder"
    case $word in
      a | an | the | of | what | where | whether | which | how | no | not | nothing | in | on | by | for | more | some | all)
        echo "$short begins with \"$word\"; it must begin with a verb" ;;
    esac
  else
    echo "$short is not of the form \"folder: verb ...\""
  fi
  [[ $lines -le 50 || -n $body ]] || is_cut_off "$1" || echo "$short changes $lines lines without a body; one is needed above 50"
  # A machine's own folders in a message mean nothing to others.
  [[ ! "$subject $body" =~ (^|[[:space:]\"\'\`\(])/(home|root|tmp|work|Users)/ ]] || echo "$short names a path of one machine"
}

# The folders of commit $1, each by its path and every end of it, in one line.
folders_of() {
  repository ls-tree -d -r --name-only "$1" | sed ':next; p; s#^[^/]*/##; t next' | sort -u | tr '\n' ' '
}

# Returns true if commit $1 has no parent only because the clone is not that deep: then git shows the
# whole tree as its change.
is_cut_off() {
  [[ $(repository rev-parse --is-shallow-repository) == true ]] && ! repository rev-parse -q --verify "$1~1" >/dev/null
}

commits() {
  local range=${1-} commit faults
  in_repository || return 0
  if [[ -z $range ]]; then
    range='@{upstream}..HEAD'
    [[ -n $(repository rev-list --no-merges "$range" 2>/dev/null) ]] || range=HEAD~1..HEAD
    repository rev-parse -q --verify HEAD~1 >/dev/null || range=HEAD
  fi
  faults=$(for commit in $(repository rev-list --no-merges "$range"); do faults_of_commit "$commit"; done)
  [[ -z $faults ]] || { printf '%s\n' "$faults" >&2; return 1; }
}

case "${1-}" in
  format | tidy | commits) "$@" ;;
  *) sed -n '2,11s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
esac
