#!/usr/bin/env bash
# Ends what scripts/slurm_up.sh started in FOLDER: its jobs, its daemons (by the process ids that it wrote
# down), and the folder. Succeeds if there is nothing to end.
#
#   scripts/slurm_down.sh FOLDER
set -uo pipefail
[[ $# -eq 1 ]] || { sed -n '2,5s/^# \{0,1\}//p' "$0" >&2; exit 2; }
folder=$(realpath -m -- "$1")
[[ -e $folder/pids ]] || exit 0
export SLURM_CONF=$folder/slurm.conf

# An id may belong to another program by now, and an orphan may remain as a zombie for long.
is_ours() {
  grep -q '^State:[[:space:]]Z' "/proc/$1/status" 2>/dev/null && return 1
  { tr '\0' ' ' <"/proc/$1/cmdline"; } 2>/dev/null | grep -qF -- "$folder/"
}

timeout 5 scancel --user="$(id -un)" >/dev/null 2>&1
for _ in {1..25}; do
  [[ -n $(timeout 5 squeue -h 2>/dev/null) ]] || break
  sleep 0.2
done
for kind in slurmd slurmctld munged; do
  mapfile -t pids < <(sed -n "s/^$kind[^ ]* //p" "$folder/pids")
  for signal in TERM KILL; do
    for pid in "${pids[@]}"; do ! is_ours "$pid" || kill -"$signal" "$pid"; done
    for _ in {1..50}; do
      left=
      for pid in "${pids[@]}"; do ! is_ours "$pid" || left=1; done
      [[ -n $left ]] || break
      sleep 0.1
    done
  done
done
# If the slurmd of a node was killed, the steps of its jobs are still running.
for process in /proc/[0-9]*; do
  [[ $(cat "$process/comm" 2>/dev/null) == slurmstepd ]] || continue
  find "$process/fd" -lname "$folder/*" 2>/dev/null | grep -q . || continue
  for child in $(cat "$process"/task/*/children 2>/dev/null); do
    kill -KILL -- "-$child" 2>/dev/null || kill -KILL "$child" 2>/dev/null
  done
  kill -KILL "${process#/proc/}" 2>/dev/null
done
rm -rf "$folder"
