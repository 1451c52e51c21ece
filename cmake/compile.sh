#!/bin/sh
# Starts the compiler through ccache in a way that lets another checkout use what this one compiled.
#
#   cmake/compile.sh CCACHE COMPILER ARGUMENT...
#
# ccache rewrites most paths by itself, but not those of precompiled headers: here they become relative to
# the build folder, in which ninja starts this script. The bytes of a precompiled header name its folder
# too. So each is made anew in each checkout, and gets a checksum beside it, over what it was made from, by
# which ccache tells it from others (CCACHE_PCH_EXTSUM).
#
# A unity source includes its sources by absolute paths, which end up in the messages of tests (__FILE__):
# a copy beside it, which is compiled instead, includes them relative to the checkout.
for argument in "$@"; do
  shift
  case "$argument" in
    "$PWD"/*) argument=${argument#"$PWD"/} ;;
  esac
  case "$argument" in
    */Unity/unity_*_cxx.cxx)
      copy=${argument%.cxx}.relative.cxx
      sed "s|^#include \"$CCACHE_BASEDIR/|#include \"|" "$argument" >"$copy.new"
      if cmp -s "$copy.new" "$copy"; then rm "$copy.new"; else mv "$copy.new" "$copy"; fi
      argument=$copy
      ;;
  esac
  set -- "$@" "$argument"
done

# Finds the output and the list of dependencies of a command that makes a precompiled header.
output='' list='' makes='' before=''
for argument in "$@"; do
  case "$before" in
    -o) output=$argument ;;
    -MF) list=$argument ;;
  esac
  [ "$argument" != -emit-pch ] || makes=1
  before=$argument
done
[ -n "$makes" ] || exec "$@"

shift # the cache
"$@" || exit
# Without the list nothing tells one header from another, so ccache then reads the header itself.
rm -f "$output.sum"
[ -s "$list" ] || exit 0
# The list is a rule of make: "TARGET: FILE \" and so on. None of these names has a space.
{
  echo "$*"
  sed -e 's/^[^:]*: //' -e 's/\\$//' "$list" | tr -s ' \n' '\n' | sed '/^$/d' | xargs cat
} | sha256sum >"$output.sum"
