#!/usr/bin/env bash
# Checks that build.sh gives the same bytes on every machine: it builds HEAD in two folders of
# different names, which share only Go and its modules, and compares the results. TARGETS are those
# of build.sh; by default this machine's.
set -euo pipefail
cd "$(dirname "$0")/.."

TARGETS=${TARGETS:-"$(go env GOHOSTOS)/$(go env GOHOSTARCH)"}
VERSION=$(git describe --tags --always)
COMMIT=$(git rev-parse HEAD)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export TARGETS VERSION COMMIT SOURCE_DATE_EPOCH

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for folder in one "another folder"; do
  mkdir "$work/$folder"
  git archive HEAD | tar -x -C "$work/$folder"
done
"$work/one/packaging/build.sh" >/dev/null
GOCACHE="$work/cache" "$work/another folder/packaging/build.sh" >/dev/null
diff -r "$work/one/dist" "$work/another folder/dist"
echo "the same twice:"
cat "$work/one/dist/SHA256SUMS"
