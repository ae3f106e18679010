#!/usr/bin/env bash
# Builds what a release has for every system, into a folder that is not there yet:
#
#   build.sh FOLDER
#
# For each of TARGETS a folder dibs_VERSION_OS_ARCH with the static program, man pages, completions,
# services and texts, and its archive, a .tar.gz. The same commit and the same Go give the same bytes
# on every machine. release.sh makes all else of a release from this. VERSION, COMMIT,
# SOURCE_DATE_EPOCH and TREE (clean, or changed) are git's, unless they are set.
set -euo pipefail
[ $# = 1 ] || { echo "usage: packaging/build.sh FOLDER" >&2; exit 2; }
mkdir "$1"
out=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."

tar=$(command -v gtar || command -v tar)
"$tar" --version | grep -q GNU || {
  echo "build.sh: $tar is not GNU tar, whose archives are the same everywhere: install it (brew install gnu-tar)" >&2
  exit 1
}
VERSION=${VERSION:-$(git describe --tags --always)}
COMMIT=${COMMIT:-$(git rev-parse HEAD)}
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
TREE=${TREE:-$([ -z "$(git status --porcelain)" ] && echo clean || echo changed)}
TARGETS=${TARGETS:-"linux/amd64 linux/arm64 darwin/amd64 darwin/arm64"}
export SOURCE_DATE_EPOCH
# Keep this machine's, the checkout's and the user's settings out of the build.
export CGO_ENABLED=0 GOFLAGS=-mod=readonly GOAMD64=v1 GOARM64=v8.0 TZ=UTC LC_ALL=C
umask 022
form=%Y-%m-%dT%H:%M:%SZ
date=$(date -u -d "@$SOURCE_DATE_EPOCH" +$form 2>/dev/null || date -u -r "$SOURCE_DATE_EPOCH" +$form) # GNU's, or BSD's
cli=dibs/internal/cli

build() { # os arch file
  GOOS=$1 GOARCH=$2 go build -trimpath -buildvcs=false \
    -ldflags "-s -w -buildid= -X $cli.version=$VERSION -X $cli.commit=$COMMIT -X $cli.date=$date -X $cli.tree=$TREE" \
    -o "$3" ./cmd/dibs
}

host=$(mktemp -d)
trap 'rm -rf "$host"' EXIT
here=$(go env GOHOSTOS)/$(go env GOHOSTARCH)
build "${here%/*}" "${here#*/}" "$host/dibs"
"$host/dibs" man "$host/man"
gzip -9 -n "$host"/man/*.1
mkdir "$host/completions"
for shell in bash zsh fish; do
  "$host/dibs" completion "$shell" >"$host/completions/dibs.$shell"
done

for target in $TARGETS; do
  os=${target%/*} arch=${target#*/} name=dibs_${VERSION}_${target/\//_}
  echo "== $name"
  tree=$out/$name
  mkdir "$tree"
  if [ "$target" = "$here" ]; then cp "$host/dibs" "$tree"; else build "$os" "$arch" "$tree/dibs"; fi
  cp -R LICENSE README.md config.example.yaml "$host/man" "$host/completions" "$tree"
  case $os in
  linux) cp -R packaging/systemd "$tree" ;;
  darwin) cp -R packaging/launchd "$tree" ;;
  esac
  "$tar" -C "$out" --format=ustar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
    --mode=u=rwX,go=rX -c "$name" | gzip -9 -n >"$tree.tar.gz"
done
