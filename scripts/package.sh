#!/usr/bin/env bash
# Makes in build/packages, from build/release:
# - meshwright_VERSION_ARCHITECTURE.deb, the programs;
# - python3-meshwright_VERSION_all.deb and meshwright-VERSION-py3-none-any.whl, the Python client;
# - meshwright-VERSION.tar.gz, the source of the last commit.
#
#   scripts/package.sh         all of them
#   scripts/package.sh --try   also installs the .debs in an empty Debian and runs them there, which
#                              takes minutes (scripts/package_try.sh)
#
# Two packages of one build have the same bytes. The programs name the commit (--version).
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." >/dev/null
try=
case "${1-}" in
  '') ;;
  --try) try=1 ;;
  *) echo "usage: scripts/package.sh [--try]" >&2; exit 2 ;;
esac
for program in dpkg-shlibdeps file; do # CPack finds the dependencies by them
  command -v "$program" >/dev/null ||
    { echo "scripts/package.sh: there is no $program: apt-get install dpkg-dev file" >&2; exit 1; }
done

build=build/release
out=build/packages
stage=$out/root
log=$out/package.log
rm -rf "$out"
mkdir -p "$out"

# Runs a command whose output is of interest only if it fails.
quietly() {
  "$@" >>"$log" 2>&1 || { cat "$log" >&2; exit 1; }
}

commit=
if [[ -e .git ]]; then
  commit=$(git describe --always --dirty --abbrev=12 --exclude '*')
  SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
  export SOURCE_DATE_EPOCH
fi

# A build by hand does not name a commit: each would be another program, and have all tests run again.
forget_commit() {
  rm -rf "$stage" "$stage-python" "$out/_CPack_Packages"
  cmake -DMESHWRIGHT_COMMIT= "$build" >/dev/null 2>&1
}
[[ -f $build/build.ninja ]] || scripts/build.sh release meshwright
trap forget_commit EXIT
quietly cmake -DMESHWRIGHT_COMMIT="$commit" "$build"
scripts/build.sh release meshwright meshwrightd meshwright-costmodel-host python_client

# CPack would build all tests first if it installed by itself.
quietly env DESTDIR="$PWD/$stage" cmake --install "$build" --prefix /usr --strip
quietly cpack --config "$build/CPackConfig.cmake" -B "$PWD/$out" \
  -D CPACK_INSTALL_CMAKE_PROJECTS= -D "CPACK_INSTALLED_DIRECTORIES=$PWD/$stage;/"
deb=$(echo "$out"/*.deb)
ls -l "$deb"

quietly env DESTDIR="$PWD/$stage-python" cmake --install "$build" --prefix /usr --component python
quietly cpack --config "$build/CPackPythonConfig.cmake" -B "$PWD/$out" \
  -D CPACK_INSTALL_CMAKE_PROJECTS= -D "CPACK_INSTALLED_DIRECTORIES=$PWD/$stage-python;/"
python_deb=$(echo "$out"/python3-*.deb)
ls -l "$python_deb"

# A wheel is made from copies, because setuptools leaves files beside its sources.
python=/usr/bin/python3
if "$python" -c 'import setuptools, wheel, pip' 2>/dev/null; then
  mkdir -p "$out/wheel/clients"
  cp -R clients/python "$out/wheel/clients/"
  cp -R proto "$out/wheel/"
  quietly "$python" -m pip wheel --no-index --no-deps --no-build-isolation --wheel-dir "$out" \
    "$out/wheel/clients/python"
  rm -rf "$out/wheel"
  ls -l "$out"/*.whl
else
  echo "scripts/package.sh: no wheel is made: apt-get install python3-pip" >&2
fi

if [[ -n $commit ]]; then
  version=$(sed -n 's/^CMAKE_PROJECT_VERSION:.*=//p' "$build/CMakeCache.txt")
  archive=$out/meshwright-$version.tar.gz
  git archive --prefix="meshwright-$version/" HEAD | gzip -n -9 >"$archive"
  ls -l "$archive"
fi
[[ -z $try ]] || scripts/package_try.sh "$deb" "$python_deb"
