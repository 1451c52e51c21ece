#!/usr/bin/env bash
# Measures how long views of the dashboard take for a study of 100,000 trials, by the browser's own
# performance entries (web/tools/measure.mjs). Takes some minutes.
#
#   scripts/bench_dashboard.sh          with 100,000 trials
#   scripts/bench_dashboard.sh 1000     with another number
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

folder=$(mktemp -d)
server=
trap '[[ -z $server ]] || kill "$server"; rm -rf "$folder"' EXIT
history=$folder/history.db
ask() {
  "$bin/meshwright" --db "$history" tune --model examples/llama2-70b/config.json \
    --workload examples/llama2-70b/workload.json --cluster examples/llama2-70b/cluster.json "$@" >/dev/null
}
newest() {
  "$bin/meshwright" --db "$history" --output csv study list | sed -n 2p | cut -d, -f1
}

ask --top 100
"$bin/meshwright" --db "$history" --output json study plans "$(newest)" |
  python3 -c '
import json, sys
for ranked in json.load(sys.stdin)["plans"]:
    print(json.dumps({"plan": ranked["plan"], "outcome": "ok",
                      "step_time_seconds": ranked["estimate"]["step_time_seconds"]}))' >"$folder/replay.jsonl"
ask --top 100 --launcher replay --replay "$folder/replay.jsonl" --max-trials 4
study=$(newest)
bench/many_trials.py "$history" "$study" "${1-100000}" >&2

"$bin/meshwright" --db "$history" dashboard --http 127.0.0.1:0 >"$folder/log" &
server=$!
until address=$(sed -n 's/^dashboard at //p' "$folder/log") && [[ -n $address ]]; do
  kill -0 "$server"
  sleep 0.1
done
(cd web && node tools/measure.mjs "$address" "$study")
