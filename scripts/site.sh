#!/usr/bin/env bash
# Makes a static site of the documentation in build/site, to be read from disk or served by any web
# server; nothing in it comes from elsewhere. The build does not need it.
#
#   scripts/site.sh
#
# Needs Debian's mkdocs-material. A link that leads nowhere is an error.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." >/dev/null
[[ $# -eq 0 ]] || { echo "usage: scripts/site.sh" >&2; exit 2; }
command -v mkdocs >/dev/null ||
  { echo "scripts/site.sh: there is no mkdocs: apt-get install mkdocs-material" >&2; exit 1; }

rm -rf build/site build/site_source
python3 -B scripts/site_pages.py build/site_source
mkdocs build --quiet --strict --config-file build/site_source/mkdocs.yml --site-dir "$PWD/build/site"
echo "build/site/index.html"
