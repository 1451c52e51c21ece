# Runs the processes of one node of a job in its pod.
#
#   bash -c "$(<kubernetes_pod.sh)" bash LOG RANK_VARIABLE MASTER_ADDR NODES PROCESSES TIME_LIMIT_SECONDS COMMAND...
#
# RANK_VARIABLE names the variable in which the cluster tells the pod its number among the NODES. All pods append
# to LOG. Ends with the code of the first process that fails, 124 at the time limit (as timeout(1)), 126 when the
# job cannot be begun; TERM ends the job. Processes get 10 seconds to go. What they leave behind ends with the pod.
set -u
log=$1 rank_variable=$2 master=$3 nodes=$4 processes=$5 limit=$6
shift 6
grace_ticks=100
time_limit_code=124
refusal_code=126
code=0 pids=()
# Waits as long as sleep(1) would, but starts no process, so that a waiting script takes no time from the
# job that is measured: nothing is ever written to this pipe.
exec {silence}<> <(:)
pause() {
  read -rt "$1" -u "$silence"
}

# No line up to the next trap has $(...): bash 5.2 loses a signal that comes while it reads one.
trap '((code != 0)) || code=143' TERM
trap '((code != 0)) || code=$time_limit_code' ALRM

refuse() {
  echo "$1" >&2
  exit "$refusal_code"
}

cd "${log%/*}" || refuse "the folder ${log%/*} is not there: is the volume mounted in this pod?"
exec >>"$log" 2>&1 || refuse "$log cannot be written"
node=${!rank_variable-}
[[ $node =~ ^[0-9]+$ ]] && ((node < nodes)) ||
  refuse "$rank_variable = '$node'; must be the number of this pod among $nodes"

# The port differs between jobs, because pods on the network of their host share its ports.
name=${log##*/} sum=0
for ((i = 0; i < ${#name}; i++)); do
  printf -v letter %d "'${name:i:1}"
  sum=$(((31 * sum + letter) % 12000))
done
export WORLD_SIZE=$((nodes * processes)) MASTER_ADDR=$master MASTER_PORT=$((20000 + sum))
(sleep "$limit" && kill -ALRM $$) &
alarm=$!
disown
for ((i = 0; i < processes; i++)); do
  RANK=$((node * processes + i)) LOCAL_RANK=$i "$@" {silence}>&- &
  pids+=("$!")
done

# Looks, since "wait -n" does not tell of a process that ended before it was called (bash 5.2).
running=("${pids[@]}")
while ((code == 0 && ${#running[@]} > 0)); do
  pause 0.05
  for i in "${!running[@]}"; do
    if kill -0 "${running[i]}" 2>/dev/null; then continue; fi
    wait "${running[i]}" || code=$?
    unset "running[i]"
  done
done
trap '' TERM ALRM
# The id of a process that has ended may be another's by now.
kill -TERM $(jobs -pr) 2>/dev/null
for ((tick = 0; tick < grace_ticks; tick++)); do
  [[ -n $(jobs -pr) ]] || break
  pause 0.1
done
kill -KILL "$alarm" $(jobs -pr) 2>/dev/null
exit "$code"
