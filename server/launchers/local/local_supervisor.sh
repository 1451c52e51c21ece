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

# Ends, and ends whatever is left of the job.
finish() {
  trap '' TERM ALRM
  put exit "$code $cause $(date +%s%3N)"
  kill -KILL 0
}

trap 'cause=cancelled' TERM
trap 'cause=time_limit' ALRM
put pid "$$ $(cut -d ' ' -f 22 "/proc/$$/stat")"
exec 3>&-  # whoever started us waits for this, or for our end

# Names the lock of a slot: by its device if that has a name, since others may list the device elsewhere.
lock_of() {
  local name=${device_names[$1]-$1}
  echo "$slots/${name//[^A-Za-z0-9._-]/_}"
}

# Takes the locks, which the processes inherit, so that a slot is free only when they have ended.
take_slots() {
  local i fd held=() mask
  devices=()
  mask=$(umask)
  umask 0  # whoever shares the folder shares the locks
  for ((i = 0; i < slot_count && ${#held[@]} < job_slots; i++)); do
    exec {fd}>"$(lock_of "$i")"
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
  sleep 0.1
  [[ $cause == exited ]] || finish
done

export WORLD_SIZE=$processes MASTER_ADDR=127.0.0.1 MASTER_PORT=$((20000 + $$ % 12000))
while (exec 3<>"/dev/tcp/127.0.0.1/$MASTER_PORT") 2>/dev/null; do MASTER_PORT=$((MASTER_PORT + 1)); done
MESHWRIGHT_DEVICES=$(IFS=, && echo "${devices[*]}")
export MESHWRIGHT_DEVICES
if [[ -n $devices_variable ]]; then
  visible=()
  for i in "${devices[@]}"; do visible+=("${device_names[i]}"); done
  export "$devices_variable=$(IFS=, && echo "${visible[*]}")"
fi
# The limit is on private writable memory of each process (RLIMIT_DATA), not on its address space, which
# programs on GPUs reserve by the terabyte. A lower limit of the site stays.
if [[ -n $memory_limit ]] && { [[ $(ulimit -d) == unlimited ]] || (($(ulimit -d) > memory_limit)); }; then
  ulimit -d "$memory_limit"
fi
put running "$(date +%s%3N)"
(sleep "$limit" && kill -ALRM $$) &
disown
for ((rank = 0; rank < processes; rank++)); do
  RANK=$rank LOCAL_RANK=$rank "$@" &
  pids+=("$!")
done

# Polls, because "wait -n" does not report a process that ended before it was called (bash 5.2).
running=("${pids[@]}")
while ((code == 0 && ${#running[@]} > 0)) && [[ $cause == exited ]]; do
  sleep 0.05
  for i in "${!running[@]}"; do
    if kill -0 "${running[i]}" 2>/dev/null; then continue; fi
    wait "${running[i]}" || code=$?
    unset "running[i]"
  done
done
# The id of a process that has ended may be another's by now.
kill -TERM $(jobs -pr) 2>/dev/null
for ((tick = 0; tick < grace_ticks; tick++)); do
  [[ -n $(jobs -pr) ]] || break
  sleep 0.1
done
finish
