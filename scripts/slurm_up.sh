#!/usr/bin/env bash
# Starts a private Slurm on this machine, for tests and for trying `--launcher slurm`: munged, slurmctld
# and several slurmd, all on loopback, without systemd or cgroups, its state under one folder.
#
#   eval "$(scripts/slurm_up.sh FOLDER [NODES [CPUS_PER_NODE [GRES [NODES_PER_SWITCH]]]])"
#
# Without more arguments it has 3 nodes of 4 CPUs. With GRES (such as gpu:h100:8) each node claims
# these devices, which no job can use; with NODES_PER_SWITCH the nodes are below leaf switches.
# Prints the lines that point Slurm's commands at it. scripts/slurm_down.sh FOLDER ends it.
set -euo pipefail
export PATH=$PATH:/usr/sbin
[[ $# -ge 1 && $# -le 5 ]] || { sed -n '2,11s/^# \{0,1\}//p' "$0" >&2; exit 2; }
folder=$(realpath -m -- "$1") nodes=${2:-3} cpus=${3:-4} gres=${4:-} per_switch=${5:-}

fail() {
  echo "scripts/slurm_up.sh: $*" >&2
  exit 1
}

for tool in munged slurmctld slurmd; do
  command -v "$tool" >/dev/null || fail "$tool is missing; scripts/setup.sh --test installs it"
done
[[ ! -e $folder/pids ]] || fail "$folder is in use: scripts/slurm_down.sh $folder"

# until_true SECONDS COMMAND... waits until the command succeeds.
until_true() {
  local tries=$(($1 * 20))
  shift
  until "$@" 2>/dev/null; do
    ((tries-- > 0)) || return 1
    sleep 0.05
  done
}

# Finds as many unused ports in a row as are needed: one for the controller and one for each node.
is_taken() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }
are_free() {
  local port
  for ((port = $1; port <= $1 + nodes; port++)); do ! is_taken "$port" || return 1; done
}
# Clusters that start at the same time must not choose the same ports, so they choose and start one
# after the other.
exec 9>"/tmp/meshwright-slurm-ports.$(id -u)"
flock 9
base=$((21000 + $$ % 8000))
until are_free "$base"; do base=$((base + nodes + 1)); done

mkdir -p "$folder"/{munge,state,log,run}
chmod 755 "$folder" "$folder"/{state,log,run}
chmod 700 "$folder/munge"
: >"$folder/pids"
host=$(hostname -s) user=$(id -un)

# The key and the socket are private. The option --force is needed because the folder may be below
# /tmp, which all users can write to.
(umask 077 && head -c 128 /dev/urandom >"$folder/munge/key")
munged --force --key-file="$folder/munge/key" --socket="$folder/run/munge" --pid-file="$folder/run/munge.pid" \
  --log-file="$folder/munge/log" --seed-file="$folder/munge/seed" 2>"$folder/log/munged.err" 9>&-
until_true 60 test -s "$folder/run/munge.pid" || fail "munged did not start; see $folder/log/munged.err"
echo "munged $(<"$folder/run/munge.pid")" >>"$folder/pids"

{
  cat <<EOF
ClusterName=meshwright
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$base
SlurmUser=$user
SlurmdUser=$user
AuthType=auth/munge
CryptoType=crypto/munge
AuthInfo=socket=$folder/run/munge
# Without these options, the daemons listen on every address.
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/run/spool-%n
SlurmctldPidFile=$folder/run/slurmctld.pid
SlurmdPidFile=$folder/run/slurmd-%n.pid
SlurmctldLogFile=$folder/log/slurmctld.log
SlurmdLogFile=$folder/log/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SwitchType=switch/none
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,bf_interval=1,sched_min_interval=0,batch_sched_delay=0
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
# Nodes may claim more cores than the machine has.
SlurmdParameters=config_overrides
SlurmdTimeout=60
KillWait=2
ReturnToService=2
# There is no accounting, as on many sites; completed jobs are lines of a file.
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/filetxt
JobCompLoc=$folder/log/completed
RebootProgram=/bin/true
PartitionName=debug Nodes=n[1-$nodes] Default=YES MaxTime=60 DefaultTime=5 State=UP
EOF
  [[ -z $gres ]] || echo "GresTypes=${gres%%:*}"
  [[ -z $per_switch ]] || echo "TopologyPlugin=topology/tree"
  for ((i = 1; i <= nodes; i++)); do
    echo "NodeName=n$i NodeHostname=$host NodeAddr=127.0.0.1 Port=$((base + i)) CPUs=$cpus" \
      "Boards=1 SocketsPerBoard=1 CoresPerSocket=$cpus ThreadsPerCore=1 RealMemory=2000 State=UNKNOWN" \
      ${gres:+"Gres=$gres"}
  done
} >"$folder/slurm.conf"
if [[ -n $gres ]]; then
  IFS=: read -r name type count <<<"$gres"
  mkdir -p "$folder/devices" # Slurm counts the files of devices, and these are empty ones
  for ((i = 0; i < count; i++)); do : >"$folder/devices/$name$i"; done
  echo "Name=$name Type=$type File=$folder/devices/$name[0-$((count - 1))]" >"$folder/gres.conf"
fi
if [[ -n $per_switch ]]; then
  leaves=0
  for ((i = 1; i <= nodes; i += per_switch)); do
    last=$((i + per_switch - 1 < nodes ? i + per_switch - 1 : nodes))
    echo "SwitchName=leaf$((++leaves)) Nodes=n[$i-$last]"
  done >"$folder/topology.conf"
  echo "SwitchName=core Switches=leaf[1-$leaves]" >>"$folder/topology.conf"
fi
export SLURM_CONF=$folder/slurm.conf

slurmctld -c -f "$SLURM_CONF" 2>"$folder/log/slurmctld.err" 9>&-
until_true 60 scontrol ping >/dev/null || fail "slurmctld does not answer; see $folder/log"
echo "slurmctld $(<"$folder/run/slurmctld.pid")" >>"$folder/pids"
for ((i = 1; i <= nodes; i++)); do
  mkdir -p "$folder/run/spool-n$i"
  slurmd -N "n$i" -f "$SLURM_CONF" 2>"$folder/log/slurmd-n$i.err" 9>&-
  until_true 60 test -s "$folder/run/slurmd-n$i.pid" || fail "slurmd n$i did not start; see $folder/log"
  echo "slurmd-n$i $(<"$folder/run/slurmd-n$i.pid")" >>"$folder/pids"
done
exec 9>&-
all_idle() { [[ $(sinfo -h -N -t idle -o %N | sort -u | wc -l) -eq $nodes ]]; }
until_true 120 all_idle || fail "the nodes did not become idle; see $folder/log"
echo "export SLURM_CONF=$SLURM_CONF"
