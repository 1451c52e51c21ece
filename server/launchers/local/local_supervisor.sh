# Runs one job of the local engine to its end, even if the server that began it does not live so long.
# It leads a process group of its own and leaves none of it behind.
#
#   bash -c "$(<local_supervisor.sh)" bash PREFIX PROCESSES TIME_LIMIT_SECONDS SLOTS_FOLDER SLOTS \
#       SLOTS_OF_JOB MEMORY_LIMIT_KIB DEVICES_VARIABLE DEVICE_NAMES COMMAND...
#
# An empty limit is none, and an empty variable is not set. DEVICE_NAMES are those of all slots, separated by
# commas. Writes, each file whole or not at all: PREFIX.pid "PID START_TIME" at once, after which it closes
# descriptor 3; PREFIX.running "TIME_MS" when it has the locks of the job's device slots; PREFIX.exit
# "CODE CAUSE TIME_MS" (exited, cancelled, time_limit). TERM ends the job; processes get 10 seconds to end.
set -u
((BASH_VERSINFO[0] >= 5)) || {
  echo "bash $BASH_VERSION; must be 5.0 or later" >&2
  exit 126
}
prefix=$1 processes=$2 limit=$3 slots=$4 slot_count=$5
job_slots=$6 memory_limit=$7 devices_variable=$8
IFS=, read -ra device_names <<<"$9"
shift 9
grace_ticks=100
cause=exited code=0 devices=() pids=()

put() {
  printf '%s\n' "$2" >"$prefix.$1.part"
  mv "$prefix.$1.part" "$prefix.$1"
}

# Sets `now` to the time in milliseconds.
set_now() {
  now=${EPOCHREALTIME//[!0-9]/}
  now=${now%???}
}

# Ends, and ends whatever is left of the job.
finish() {
  trap '' TERM ALRM
  set_now
  put exit "$code $cause $now"
  kill -KILL 0
}

start_time=$(cut -d ' ' -f 22 "/proc/$$/stat")
mask=$(umask)
limit_before=$(ulimit -d)
# Waits as long as sleep(1) would, but starts no process, so that a waiting script takes no time from the
# job that is measured: nothing is ever written to this pipe.
exec {silence}<> <(:)
pause() {
  read -rt "$1" -u "$silence"
}

# From here to the next trap no line has $(...): bash 5.2 loses a signal that comes while it reads one.
trap 'cause=cancelled' TERM
trap 'cause=time_limit' ALRM
put pid "$$ $start_time"
exec 3>&-  # whoever started us waits for this, or for our end

# Takes the locks, which the processes inherit, so that a slot is free only when they have ended. A lock
# is named by its slot's device if that has a name, since others may list the device elsewhere.
take_slots() {
  local i fd name held=()
  devices=()
  umask 0  # whoever shares the folder shares the locks
  for ((i = 0; i < slot_count && ${#held[@]} < job_slots; i++)); do
    name=${device_names[i]-$i}
    exec {fd}>"$slots/${name//[^A-Za-z0-9._-]/_}"
    if flock -n "$fd"; then
      held+=("$fd") devices+=("$i")
    else
      exec {fd}>&-
    fi
  done
  umask "$mask"
  ((${#held[@]} < job_slots)) || return 0
  for fd in "${held[@]}"; do exec {fd}>&-; done
  return 1
}

until take_slots; do
  pause 0.1
  [[ $cause == exited ]] || finish
done

export WORLD_SIZE=$processes MASTER_ADDR=127.0.0.1 MASTER_PORT=$((20000 + $$ % 12000))
while (exec 3<>"/dev/tcp/127.0.0.1/$MASTER_PORT") 2>/dev/null; do MASTER_PORT=$((MASTER_PORT + 1)); done
printf -v MESHWRIGHT_DEVICES '%s,' "${devices[@]}"
export MESHWRIGHT_DEVICES=${MESHWRIGHT_DEVICES%,}
if [[ -n $devices_variable ]]; then
  visible=
  for i in "${devices[@]}"; do visible+=,${device_names[i]}; done
  export "$devices_variable=${visible#,}"
fi
# The limit is on private writable memory of each process (RLIMIT_DATA), not on its address space, which
# programs on GPUs reserve by the terabyte. A lower limit of the site stays.
if [[ -n $memory_limit ]] && { [[ $limit_before == unlimited ]] || ((limit_before > memory_limit)); }; then
  ulimit -d "$memory_limit"
fi
set_now
put running "$now"
(sleep "$limit" && kill -ALRM $$) &
disown
for ((rank = 0; rank < processes; rank++)); do
  RANK=$rank LOCAL_RANK=$rank "$@" {silence}>&- &
  pids+=("$!")
done

# Polls, because "wait -n" does not report a process that ended before it was called (bash 5.2).
running=("${pids[@]}")
while ((code == 0 && ${#running[@]} > 0)) && [[ $cause == exited ]]; do
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
finish
