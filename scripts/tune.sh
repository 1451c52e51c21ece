#!/usr/bin/env bash
# Takes a fresh Debian 12 to an answer: installs what is missing, builds, and tunes the example.
# Arguments go to `meshwright tune`; --model, --workload and --cluster replace the example's files:
#
#   scripts/tune.sh
#   scripts/tune.sh --model my/config.json --cluster my-cluster.json
#   scripts/tune.sh --top 10 --output json > answer.json
set -euo pipefail
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." >/dev/null && pwd)

"$root/scripts/setup.sh" >&2
"$root/scripts/build.sh" release meshwright meshwrightd

example=$root/examples/llama2-70b
declare -A files=(
  [--model]=$example/config.json [--workload]=$example/workload.json [--cluster]=$example/cluster.json)
for argument in "$@"; do
  unset "files[${argument%%=*}]" # accepts --model X and --model=X
done
arguments=()
for option in --model --workload --cluster; do
  [[ -z ${files[$option]-} ]] || arguments+=("$option" "${files[$option]}")
done
# There is no cd, so that the user's relative paths stay valid.
exec "$root/build/release/bin/meshwright" tune "${arguments[@]}" "$@"
