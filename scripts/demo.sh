#!/usr/bin/env bash
# Starts a server with a filled history, and its dashboard. The history comes from real searches over
# examples/, and, if there is PyTorch, from real trials on this machine's cores (some two minutes). It
# is kept in build/demo, so that a second start takes a second.
#
#   scripts/demo.sh                      http://127.0.0.1:8080/
#   scripts/demo.sh --http 127.0.0.1:0   any free port; further flags go to meshwrightd, too
#   scripts/demo.sh --history-only FILE  only fills FILE, without trials; the tests use it
#
# MESHWRIGHT_BIN names the folder of the programs; without it, they are built.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." >/dev/null

bin=${MESHWRIGHT_BIN-}
if [[ -z $bin ]]; then
  scripts/setup.sh >&2
  scripts/build.sh release meshwright meshwrightd
  bin=build/release/bin
fi

# tune HISTORY EXAMPLE CLUSTER [FLAG...]: a search over examples/EXAMPLE whose answer is kept. That no
# plan fits (4) is an answer, too.
tune() {
  local history=$1 example=examples/$2 cluster=$3 model=config.json status=0
  shift 3
  [[ -f $example/$model ]] || model=model.json
  "$bin/meshwright" --db "$history" tune --model "$example/$model" \
    --workload "$example/workload.json" --cluster "$cluster" "$@" >/dev/null || status=$?
  [[ $status -eq 0 || $status -eq 4 ]] || return "$status"
}

# with_nodes EXAMPLE COUNT NAME: the cluster of an example with another number of nodes.
with_nodes() {
  sed "s/\"node_count\": [0-9]*/\"node_count\": $2/; 0,/\"name\"/s/\"name\": \"[^\"]*\"/\"name\": \"$3\"/" \
    "examples/$1/cluster.json"
}

# two_pools HISTORY FOLDER COUNT: a search over COUNT nodes of A100 and eight of H100, in one cluster.
two_pools() {
  local name="a100x$(($3 * 8))+h100x64"
  cat >"$2/$name.json" <<END
{"name": "$name", "pools": [
  {"name": "ampere", "chip": "nvidia-a100-sxm4-80gb", "node_count": $3, "devices_per_node": 8},
  {"name": "hopper", "chip": "nvidia-h100-sxm5-80gb", "node_count": 8, "devices_per_node": 8}]}
END
  sed 's/megatron-core/flagscale/' examples/llama2-70b/workload.json >"$2/flagscale.json"
  "$bin/meshwright" --db "$1" tune --model examples/llama2-70b/config.json \
    --workload "$2/flagscale.json" --cluster "$2/$name.json" >/dev/null
}

# two_vendors HISTORY FOLDER: a search over four nodes each of two vendors' chips, whose messages pass
# through the hosts. Its baseline has two groups of replicas whose stages are halves of nodes, and
# leaves a node idle.
two_vendors() {
  cat >"$2/vendors.json" <<END
{"name": "a100x32+910bx32", "pools": [
  {"name": "nv", "chip": "nvidia-a100-sxm4-80gb", "node_count": 4, "devices_per_node": 8},
  {"name": "ascend", "chip": "huawei-ascend-910b-313t", "node_count": 4, "devices_per_node": 8}],
 "pool_links": [{"from": "nv", "to": "ascend", "bandwidth_bytes_per_second_per_node": 12.5e9,
                 "latency_seconds": 50e-6, "path": "host"}]}
END
  cat >"$2/groups.json" <<END
{"sequence_parallel": true, "zero_stage": 1, "replica_groups": [
  {"replica_count": 1, "micro_batch_count": 272, "stages": [
    {"pool": "nv", "node_count": 1, "device_count": 4, "count": 4, "tensor_parallel": 4,
     "data_parallel": 1, "layer_count": 13, "micro_batch_size": 1},
    {"pool": "nv", "node_count": 1, "device_count": 4, "count": 2, "tensor_parallel": 4,
     "data_parallel": 1, "layer_count": 14, "micro_batch_size": 1}]},
  {"replica_count": 1, "micro_batch_count": 240, "stages": [
    {"pool": "ascend", "node_count": 1, "device_count": 4, "count": 8, "tensor_parallel": 4,
     "data_parallel": 1, "layer_count": 10, "micro_batch_size": 1}]}]}
END
  cat >"$2/generic.json" <<END
{"sequence_length": 4096, "global_batch_size": 512, "framework": {"name": "generic"}}
END
  "$bin/meshwright" --db "$1" tune --model examples/llama2-70b/config.json \
    --workload "$2/generic.json" --cluster "$2/vendors.json" --baseline "$2/groups.json" >/dev/null
}

# study_of HISTORY MODEL CLUSTER: the id of the oldest study of a model on a cluster.
study_of() {
  "$bin/meshwright" --db "$1" --output csv study list --text "$3" | grep ",$2,$3," | tail -n 1 | cut -d, -f1
}

# report HISTORY STUDY RANK VERSION OUTCOME [SECONDS]: what a job achieved, which nobody has measured.
report() {
  local time=()
  [[ -z ${6-} ]] || time=(--step-time "$6")
  "$bin/meshwright" --db "$1" job report --study "$2" --rank "$3" --framework-version "$4" \
    --outcome "$5" "${time[@]}" --job "demo-rank-$3" --note "invented for this demonstration" >/dev/null
}

# Reports of jobs, so that the pages about predictions have something to show. Their times are invented.
report_jobs() {
  local history=$1 llama deepseek wrong seconds
  llama=$(study_of "$history" llama2-70b a100x128)
  deepseek=$(study_of "$history" deepseek-v3 h100x2048)
  for seconds in 79.4 76.1 78.2; do report "$history" "$llama" 1 0.12 ok "$seconds"; done
  report "$history" "$llama" 2 0.12 oom
  for seconds in 71.9 73.3 72.5 70.8; do report "$history" "$llama" 1 0.14 ok "$seconds"; done
  for seconds in 30.1 31.0 38.9 29.4; do report "$history" "$deepseek" 1 0.14 ok "$seconds"; done
  report "$history" "$deepseek" 0 0.14 ok 69.5
  report "$history" "$llama" 1 0.14 ok 725
  wrong=$("$bin/meshwright" --db "$history" --output csv history measurements --page-size 1 |
    tail -n 1 | cut -d, -f1)
  "$bin/meshwright" --db "$history" history retract "$wrong" --reason "another unit than seconds" >/dev/null
}

fill() {
  local history=$1 folder
  folder=$(mktemp -d)
  tune "$history" llama2-70b examples/llama2-70b/cluster.json
  tune "$history" deepseek-v3 examples/deepseek-v3/cluster.json
  with_nodes llama2-70b 4 a100x32 >"$folder/a100x32.json"
  tune "$history" llama2-70b "$folder/a100x32.json" --pareto
  with_nodes deepseek-v3 1 h100x8 >"$folder/h100x8.json"
  tune "$history" deepseek-v3 "$folder/h100x8.json" # nothing fits
  two_pools "$history" "$folder" 8 # the mix gains
  two_pools "$history" "$folder" 1 # it does not
  two_vendors "$history" "$folder"
  report_jobs "$history"
  rm -r "$folder"
}

if [[ ${1-} == --history-only ]]; then
  [[ $# -eq 2 ]] || { echo "usage: scripts/demo.sh --history-only FILE" >&2; exit 2; }
  fill "$2"
  exit
fi

history=build/demo/history.db
if [[ ! -f $history ]]; then
  echo "Filling $history" >&2
  mkdir -p build/demo
  fill build/demo/new.db
  if /usr/bin/python3 -c 'import torch' 2>/dev/null; then
    echo "Measuring on this machine (some two minutes)" >&2
    tune build/demo/new.db two-cores examples/two-cores/cluster.json \
      --launcher local --job examples/two-cores/job.json --max-trials 4
  fi
  mv build/demo/new.db "$history"
fi

flags=(--db "$history" --listen "unix:$PWD/build/demo/server.sock")
[[ " $* " == *" --http"* ]] || flags+=(--http 127.0.0.1:8080)
exec "$bin/meshwrightd" "${flags[@]}" "$@"
