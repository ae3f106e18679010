#!/usr/bin/env bash
# Builds releases into dist/: static programs for linux and darwin on amd64 and arm64, man pages,
# completions, and, if nfpm is installed, deb and rpm packages. The same commit and the same Go give
# the same bytes on every machine. Without git, set VERSION, COMMIT and SOURCE_DATE_EPOCH.
set -euo pipefail
cd "$(dirname "$0")/.."

VERSION=${VERSION:-$(git describe --tags --always --dirty)}
COMMIT=${COMMIT:-$(git rev-parse HEAD)}
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
TARGETS=${TARGETS:-"linux/amd64 linux/arm64 darwin/amd64 darwin/arm64"}
export SOURCE_DATE_EPOCH
# Keep this machine's, the checkout's and the user's settings out of the build.
export CGO_ENABLED=0 GOFLAGS=-mod=readonly GOAMD64=v1 GOARM64=v8.0 TZ=UTC LC_ALL=C
umask 022

build() { # os arch file
  GOOS=$1 GOARCH=$2 go build -trimpath -buildvcs=false \
    -ldflags "-s -w -buildid= -X dibs/internal/cli.version=$VERSION -X dibs/internal/cli.commit=$COMMIT" \
    -o "$3" ./cmd/dibs
}

rm -rf dist
for target in $TARGETS; do
  os=${target%/*} arch=${target#*/}
  echo "== $target"
  build "$os" "$arch" "dist/dibs_${VERSION}_${os}_${arch}"
done

echo "== man pages and completions"
build "$(go env GOHOSTOS)" "$(go env GOHOSTARCH)" dist/host/dibs
dist/host/dibs man dist/man
gzip -9 -n dist/man/*.1
mkdir dist/completions
for shell in bash zsh fish; do
  dist/host/dibs completion "$shell" >"dist/completions/dibs.$shell"
done
rm -r dist/host

if command -v nfpm >/dev/null; then
  PACKAGE_VERSION=$(packaging/version.sh "$VERSION")
  export PACKAGE_VERSION
  for target in $TARGETS; do
    case $target in linux/*) ;; *) continue ;; esac
    export ARCH=${target#*/}
    # nfpm does not expand variables in the paths of contents.
    cp "dist/dibs_${VERSION}_linux_${ARCH}" dist/dibs
    for kind in deb rpm; do
      echo "== $kind for $ARCH"
      nfpm package --config packaging/nfpm.yaml --packager "$kind" --target dist/
    done
    rm dist/dibs
  done
else
  echo "== no nfpm: no packages" >&2
fi

echo "== checksums"
sum=sha256sum
command -v sha256sum >/dev/null || sum="shasum -a 256"
# The names of rpm packages begin with "dibs-".
(cd dist && $sum dibs[_-]* >SHA256SUMS && cat SHA256SUMS)
