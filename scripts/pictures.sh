#!/usr/bin/env bash
# Draws docs/pictures/*.png, which the README shows, from the dashboard over the history of
# scripts/demo.sh. Needs the built programs and Chromium.
#
#   scripts/pictures.sh
#
# MESHWRIGHT_BIN names the folder of the programs (build/release/bin).
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." >/dev/null

bin=${MESHWRIGHT_BIN-build/release/bin}
folder=$(mktemp -d)
server=
finish() {
  [[ -z $server ]] || kill "$server" 2>/dev/null || true
  rm -r "$folder"
}
trap finish EXIT

MESHWRIGHT_BIN=$bin scripts/demo.sh --history-only "$folder/history.db" >&2
mkfifo "$folder/said"
"$bin/meshwright" --db "$folder/history.db" dashboard --http 127.0.0.1:0 >"$folder/said" &
server=$!
read -r line <"$folder/said" # dashboard at http://127.0.0.1:PORT/
mkdir -p docs/pictures
(cd web && node tools/pictures.mjs "${line##* }" ../docs/pictures)
