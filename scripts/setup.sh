#!/usr/bin/env bash
# Installs the missing ones of Debian 12's packages and names them. Silent if nothing is missing.
#
#   scripts/setup.sh           what the build needs
#   scripts/setup.sh --test    also what scripts/test.sh needs
set -euo pipefail

# The only list of packages: each name, and its purpose.
build_packages=(
  g++                      # the compiler (12) of the release build
  cmake                    # 3.25: configure presets
  ninja-build              # runs the build
  ccache                   # a second build of the same source costs nothing
  pkg-config               # finds libyaml and libseccomp; gRPC's CMake files find c-ares and re2 by it
  git                      # which files changed (scripts/lint.sh)
  libabsl-dev              # absl::Status
  libfmt-dev               # messages
  libboost-dev             # Boost.Asio: waiting for child processes, their streams and timers
  libeigen3-dev            # small linear algebra: what runs have taught
  libnlopt-dev             # fits of chips' constants to microbenchmarks
  nlohmann-json3-dev       # Hugging Face configs, chip files, framework profiles
  libyaml-dev              # YAML of training frameworks
  libsqlite3-dev           # the history
  libpq-dev                # the history of several servers, on PostgreSQL
  libssl-dev               # checksums of exported history
  libseccomp-dev           # forbids system calls to vendors' models
  libcurl4-openssl-dev     # requests to Kubernetes
  libprotobuf-dev          # messages of the service, and their JSON
  protobuf-compiler        # protoc
  libre2-dev               # patterns of training logs
  libgrpc++-dev            # the service
  protobuf-compiler-grpc   # protoc's plugin for services
  grpc-proto               # grpc/health/v1/health.proto, so that reflection can show it
  libspdlog-dev            # the server's log
  libcli11-dev             # command line flags
  prometheus-cpp-dev       # the server's metrics
  libgtest-dev             # tests
  libgmock-dev             # matchers of the tests
  libbenchmark-dev         # bench/
  python3                  # the end-to-end test of the programs
  nodejs                   # builds the pages of the dashboard (18 or newer)
  npm                      # downloads what they are built with
)
test_packages=(
  clang                    # clang++-14 of the builds with sanitizers: dev and tsan
  libclang-rt-14-dev       # their run time
  llvm                     # llvm-symbolizer: their reports name functions and lines
  clang-format             # layout of the source
  clang-tidy               # static checks of changed files
  stress                   # load beside the tests (scripts/stress_tests.sh)
  openssl                  # certificates of the tests
  chromium                 # the tests of the dashboard's pages
  slurm-wlm                # a real Slurm on this machine (scripts/slurm_up.sh)
  munge                    # its authentication
  postgresql-15            # a real PostgreSQL on this machine (scripts/postgres_up.sh)
  python3-grpcio           # the Python template of a vendor's cost model; questions to the health service
  python3-torch            # the reference training step (workloads/)
  libopenblas0-pthread     # its linear algebra: without, seven times slower, and timings mean nothing
  python3-numpy            # PyTorch warns without
  dpkg-dev                 # dependencies of the Debian package (scripts/package.sh)
  file                     # which of its files are programs
  coinor-cbc               # solvers of `meshwright place`, which works without them for few jobs
  glpk-utils               # the other one
  debootstrap              # an empty Debian to try it in (scripts/package_try.sh)
)

# Prints the given packages that are not installed, one per line.
missing_of() {
  local installed
  installed=$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' "$@" 2>/dev/null |
    sed -n 's/^installed //p' | sort -u) || true
  comm -13 <(printf '%s\n' "$installed") <(printf '%s\n' "$@" | sort -u)
}

fail() {
  echo "scripts/setup.sh: $*" >&2
  exit 1
}

wanted=("${build_packages[@]}")
case "${1-}" in
  '') ;;
  --test) wanted+=("${test_packages[@]}") ;;
  *) echo "usage: scripts/setup.sh [--test]" >&2; exit 2 ;;
esac

# Where Node comes from elsewhere (nodejs.org, NodeSource), it brings npm along, and Debian's would clash.
if command -v node >/dev/null && command -v npm >/dev/null; then
  mapfile -t wanted < <(printf '%s\n' "${wanted[@]}" | grep -vx -e nodejs -e npm)
fi

# Both sides of comm must be sorted the same way, whatever the user's locale.
export LC_ALL=C
if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  fail "needs Debian 12 (no dpkg-query or apt-get here); on another system install the like of: ${wanted[*]}"
fi
mapfile -t missing < <(missing_of "${wanted[@]}")
[[ ${#missing[@]} -gt 0 ]] || exit 0

as_root=()
if [[ $EUID -ne 0 ]]; then
  command -v sudo >/dev/null ||
    fail "not root and no sudo here. As root, run: apt-get update && apt-get install --no-install-recommends ${missing[*]}"
  as_root=(sudo)
fi

echo "Installing ${#missing[@]} missing packages from Debian (this can take a few minutes):" >&2
printf '  %s\n' "${missing[@]}" >&2

log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=120 "$@" >>"$log" 2>&1
}
# A broken package source that we do not need must not stop us, so only the installation decides.
apt update || true
if ! apt install -y --no-install-recommends "${missing[@]}"; then
  tail -n 25 "$log" >&2
  fail "apt-get could not install: ${missing[*]} (its last lines stand above). Is there a network, and is this Debian 12?"
fi
echo "Installed." >&2
