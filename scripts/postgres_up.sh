#!/usr/bin/env bash
# Starts a private PostgreSQL on this machine, for tests and for trying `--db postgresql://...`: its data
# in a folder below /tmp, and a Unix socket there that only this user can reach.
#
#   scripts/postgres_up.sh FOLDER
#
# Prints the server's address, and writes it to FOLDER/address. scripts/postgres_down.sh FOLDER ends it.
# Nothing is synced to the disk: a kill of the server loses nothing, but a crash of the machine does.
set -euo pipefail
[[ $# -eq 1 ]] || { sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2; }
folder=$(realpath -m -- "$1")

fail() {
  echo "scripts/postgres_up.sh: $*" >&2
  exit 1
}

programs=/usr/lib/postgresql/15/bin
[[ -x $programs/initdb ]] || programs=$(dirname "$(command -v initdb || echo .)")
[[ -x $programs/initdb && -x $programs/pg_ctl ]] ||
  fail "PostgreSQL is missing; scripts/setup.sh --test installs it (cmake -DMESHWRIGHT_TEST_POSTGRES=OFF does without)"
"$(dirname "$0")/postgres_down.sh" "$folder" # what an earlier run has left

# The path of a socket has at most 107 bytes, so it is not below the folder. PostgreSQL refuses to run
# as root.
server=$(mktemp -d "${TMPDIR:-/tmp}/meshwright-postgres.XXXXXX")
as_user=()
if [[ $EUID -eq 0 ]]; then
  id postgres >/dev/null 2>&1 || fail "root cannot run PostgreSQL, and there is no user 'postgres'"
  as_user=(setpriv --reuid=postgres --regid=postgres --clear-groups)
  chown postgres:postgres "$server"
fi
mkdir -p "$folder"
echo "$server" >"$folder/server"
cd "$server"

# The names of databases sort by the rules of a language, as on many servers, and the store must not care.
"${as_user[@]}" "$programs/initdb" --pgdata="$server/data" --username=meshwright --auth=trust --encoding=UTF8 \
  --locale=C.UTF-8 --locale-provider=icu --icu-locale=en --no-sync >"$folder/initdb.log" 2>&1 ||
  fail "initdb failed; see $folder/initdb.log"
"${as_user[@]}" "$programs/pg_ctl" start --wait --timeout=120 --silent --pgdata="$server/data" --log="$server/log" \
  --options="-c listen_addresses= -c unix_socket_directories=$server -c fsync=off -c max_connections=200" ||
  fail "PostgreSQL did not start: $(tail -n 5 "$server/log")"
echo "postgresql://meshwright@/postgres?host=$server" | tee "$folder/address"
