#!/usr/bin/env bash
# Checks that the same commit makes the same bytes on every machine: it builds HEAD in two folders of
# different names and compares the results.
#
#   twice.sh             the archive for this machine's system, by build.sh; TARGETS are those of it.
#                        The folders share what Go has compiled: it does so by what goes into it,
#                        so what comes from a folder's name or the time of the day still shows
#   twice.sh v1.2.3 DIR  a whole release, by release.sh; it is left in DIR/one/dist. Here Go compiles
#                        everything twice
set -euo pipefail
cd "$(dirname "$0")/.."

if [ $# = 2 ]; then
  mkdir -p "$2"
  work=$(cd "$2" && pwd)
  make() { packaging/release.sh "$1" >"$work/said"; }
else
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  TARGETS=${TARGETS:-"$(go env GOHOSTOS)/$(go env GOHOSTARCH)"}
  export TARGETS
  make() { packaging/build.sh dist >/dev/null; }
fi
for folder in one "another folder"; do
  # Not a worktree: what git says of the tree must not depend on what is at work here.
  git clone -q --shared --no-tags . "$work/$folder"
done
(cd "$work/one" && make "$@")
TOOLS_GOCACHE=$(go env GOCACHE)
export TOOLS_GOCACHE
[ $# = 0 ] || export GOCACHE=$work/cache
(cd "$work/another folder" && make "$@")
diff -r "$work/one/dist" "$work/another folder/dist"
echo "the same twice:"
cd "$work/one/dist"
sha256sum dibs*.* # archives, and what else there is
