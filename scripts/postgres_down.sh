#!/usr/bin/env bash
# Ends what scripts/postgres_up.sh started for FOLDER, and removes both folders. Succeeds if there is
# nothing to end.
#
#   scripts/postgres_down.sh FOLDER
set -uo pipefail
[[ $# -eq 1 ]] || { sed -n '2,5s/^# \{0,1\}//p' "$0" >&2; exit 2; }
folder=$(realpath -m -- "$1")
[[ -s $folder/server ]] || exit 0
server=$(<"$folder/server")

# The first line of the file is the process id. It may belong to another program by now.
pid=$(head -n 1 "$server/data/postmaster.pid" 2>/dev/null)
is_ours() { [[ -n $pid ]] && { tr '\0' ' ' <"/proc/$pid/cmdline"; } 2>/dev/null | grep -qF -- "$server/"; }
for signal in INT QUIT KILL; do # fast, immediate, and by force
  ! is_ours || kill -"$signal" "$pid"
  for _ in {1..100}; do
    is_ours || break
    sleep 0.1
  done
done
rm -rf "$server" "$folder"
