#!/usr/bin/env bash
# Installs the Debian packages of Meshwright in an empty Debian 12 below a temporary folder, and runs
# the programs there: an answer, the same answer from the server and through the Python client, the
# end of the server, the removal. Nothing else of this machine is in that Debian.
#
#   scripts/package_try.sh MESHWRIGHT.deb PYTHON3-MESHWRIGHT.deb
#
# MESHWRIGHT_DEBIAN_MIRROR names another mirror than deb.debian.org. Without root rights, debootstrap
# or a mirror, the script says that it was left out, and exits with 0.
set -euo pipefail
[[ $# -eq 2 && -f $1 && -f $2 ]] ||
  { echo "usage: scripts/package_try.sh MESHWRIGHT.deb PYTHON3-MESHWRIGHT.deb" >&2; exit 2; }
package=$(realpath -- "$1")
client=$(realpath -- "$2")
mirror=${MESHWRIGHT_DEBIAN_MIRROR:-http://deb.debian.org/debian}

left_out() {
  echo "scripts/package_try.sh: left out: $1"
  exit 0
}
[[ $EUID -eq 0 ]] || left_out "needs root rights"
command -v debootstrap >/dev/null || left_out "debootstrap is not installed"

# Mounts of the new Debian end with this process.
unshare --mount true 2>/dev/null || left_out "this machine allows no mounts of its own"
if [[ -z ${MESHWRIGHT_OWN_MOUNTS-} ]]; then
  MESHWRIGHT_OWN_MOUNTS=1 exec unshare --mount -- "${BASH_SOURCE[0]}" "$package" "$client"
fi

folder=$(mktemp -d -t meshwright-package-XXXXXX)
root=$folder/root
log=$folder/log
trap 'umount -l "$root/proc" 2>/dev/null || true; rm -rf --one-file-system "$folder"' EXIT
fail() {
  tail -n 30 "$log" >&2
  echo "scripts/package_try.sh: FAILED: $1" >&2
  exit 1
}

# Runs a command in the new Debian with an environment of its own.
inside=(chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8
  DEBIAN_FRONTEND=noninteractive)

debootstrap --variant=minbase bookworm "$root" "$mirror" >"$log" 2>&1 ||
  left_out "debootstrap cannot fetch Debian from $mirror: $(tail -n 1 "$log")"
mount -t proc proc "$root/proc" 2>>"$log" || left_out "/proc cannot be mounted"
cp -- "$package" "$root/tmp/meshwright.deb"
cp -- "$client" "$root/tmp/python3-meshwright.deb"
"${inside[@]}" apt-get install -y --no-install-recommends /tmp/meshwright.deb >>"$log" 2>&1 ||
  fail "the package cannot be installed"

"${inside[@]}" meshwright --version | tee -a "$log"
"${inside[@]}" meshwrightd --version >>"$log" || fail "meshwrightd does not start"
"${inside[@]}" sh -c 'test -z "$(dpkg --verify meshwright)"' || fail "files differ from those of the package"
"${inside[@]}" apt-get install -y --no-install-recommends systemd >>"$log" 2>&1 || fail "systemd cannot be installed"
"${inside[@]}" systemd-analyze verify --man=no meshwrightd.service >>"$log" 2>&1 ||
  fail "systemd does not accept the unit"

"${inside[@]}" meshwrightd --config /etc/meshwright/meshwrightd.toml --check-config >>"$log" 2>&1 ||
  fail "the configuration is not valid"

example=/usr/share/meshwright/examples/llama2-70b
question=(--model "$example/config.json" --workload "$example/workload.json"
  --cluster "$example/cluster.json" --output json)
"${inside[@]}" meshwright tune "${question[@]}" --no-record >"$folder/embedded.json" 2>>"$log" ||
  fail "tune does not answer"
grep -q '"tensor_parallel"' "$folder/embedded.json" || fail "the answer has no plan"

exec {out}< <(exec "${inside[@]}" meshwrightd --listen 127.0.0.1:0 --db /tmp/history.db 2>"$folder/server")
server=$!
read -r -t 60 -u "$out" line || { cat "$folder/server" >>"$log"; fail "meshwrightd does not listen"; }
"${inside[@]}" meshwright tune "${question[@]}" --server "${line#listening on }" >"$folder/served.json" 2>>"$log" ||
  fail "the server does not answer"
# The study's id and the seconds of the search are of each answer's own.
own='/"study_id"/d; /"seconds"/d'
diff <(sed "$own" "$folder/embedded.json") <(sed "$own" "$folder/served.json") >>"$log" ||
  fail "the server's answer is another one"
"${inside[@]}" apt-get install -y --no-install-recommends /tmp/python3-meshwright.deb >>"$log" 2>&1 ||
  fail "the Python client cannot be installed"
"${inside[@]}" python3 -m meshwright ask --server "${line#listening on }" --model "$example/config.json" \
  --workload "$example/workload.json" --cluster "$example/cluster.json" --deadline 60 >"$folder/asked" 2>>"$log" ||
  fail "the Python client does not ask"
grep -q '^MESHWRIGHT_SOURCE=server$' "$folder/asked" || fail "the Python client has no answer"
kill -TERM "$server"
timeout 60 tail --pid="$server" -f /dev/null || fail "the server does not end"
grep -q 'event=stopped' "$folder/server" || fail "the server did not end in order"

"${inside[@]}" apt-get purge -y meshwright python3-meshwright >>"$log" 2>&1 || fail "the packages cannot be removed"
[[ ! -e $root/usr/share/meshwright && ! -e $root/usr/bin/meshwright &&
  ! -e $root/usr/lib/python3/dist-packages/meshwright ]] || fail "the removal leaves files"
echo "The packages were installed, run and removed in an empty Debian 12."
