#!/usr/bin/env bash
# Makes a release into dist/, all that is published of it:
#
#   release.sh v1.2.3        # or 1.2.3
#
#   dibs_v1.2.3_OS_ARCH.tar.gz       archives for Linux and macOS on amd64 and arm64
#   dibs_v1.2.3_linux_ARCH.deb, .rpm packages
#   dibs_v1.2.3_linux_ARCH.oci.tar   a container's image
#   dibs_v1.2.3_OS_ARCH.cdx.json     what modules are in the program (SBOM, CycloneDX)
#   dibs.rb, install.sh              a Homebrew formula, and the script that installs an archive
#   SHA256SUMS                       the checksums of all these
#
# DOWNLOADS is the URL of the folder in which dist's files will be published; formula and script know
# it then, and must else be told. TARGETS are those of build.sh. The tree has to be clean: the same
# commit and the same Go make the same bytes on every machine, which twice.sh shows.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
  echo "release.sh: $1" >&2
  exit "${2:-1}"
}
VERSION=${1:-}
[[ ! $VERSION =~ ^[0-9]+\. ]] || VERSION=v$VERSION
number='(0|[1-9][0-9]*)'
[ $# = 1 ] || fail "name the release to make, such as v1.2.3" 2
[[ $VERSION =~ ^v$number\.$number\.$number(-[0-9A-Za-z]+(\.[0-9A-Za-z]+)*)?$ ]] ||
  fail "\"$VERSION\" is not the version of a release: name one like v1.2.3, or v1.2.3-rc.1" 2
COMMIT=$(git rev-parse -q --verify HEAD 2>/dev/null) || fail "this is no git repository with a commit: a release is made of one"
changed=$(git status --porcelain | head -1)
[ -z "$changed" ] || fail "the tree is not clean (${changed:3}): commit or stash what has changed, then try again"
tagged=$(git rev-parse -q --verify "refs/tags/$VERSION^{commit}" || true)
[ -z "$tagged" ] || [ "$tagged" = "$COMMIT" ] ||
  fail "$VERSION is the tag of another commit, ${tagged:0:12}: run git checkout $VERSION first, or name another version"
[ ! -e dist ] || fail "dist is there already: move it away, or remove it with rm -r dist"
DOWNLOADS=${DOWNLOADS:-}
DOWNLOADS=${DOWNLOADS%/}
[[ $DOWNLOADS =~ ^((https|http|file)://[^\'\"\\[:space:]|\&]+)?$ ]] ||
  fail "DOWNLOADS is \"$DOWNLOADS\", which is no URL: set it to one such as https://example.org/dibs/$VERSION"

SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
TARGETS=${TARGETS:-"linux/amd64 linux/arm64 darwin/amd64 darwin/arm64"}
export VERSION COMMIT SOURCE_DATE_EPOCH TARGETS TREE=clean
export CGO_ENABLED=0 GOFLAGS=-mod=readonly TZ=UTC LC_ALL=C
umask 022
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
made=$work/made
packaging/build.sh "$made"

echo "== tools"
# Their own bytes are in nothing that they make, so twice.sh builds them only once.
(cd packaging/tools && GOCACHE=${TOOLS_GOCACHE:-$(go env GOCACHE)} go build -trimpath -o "$work/tools/" ./image tool)

# inventory writes what is in the program of a target, read from the program itself. The modules'
# licences are read from the module cache, which has what was just built, and without the network.
# What the tool says of its own bytes is left out: they depend on the machine that built it.
inventory() { # name
  GOPROXY=off GOSUMDB=off GOFLAGS=-mod=mod "$work/tools/cyclonedx-gomod" bin -json -noserial -notimestamp -std -licenses \
    -version "$VERSION" -output "$work/sbom" "$made/$1/dibs" 2>"$work/said" || fail "no SBOM of $1: $(tail -1 "$work/said")"
  sed '/^    "tools": \[$/,/^    \],\{0,1\}$/ { /^        "hashes": \[$/,/^        \],$/d; }' "$work/sbom" >"$made/$1.cdx.json"
}

for target in $TARGETS; do
  name=dibs_${VERSION}_${target/\//_}
  echo "== what is in $name"
  inventory "$name"
  case $target in linux/*) ;; *) continue ;; esac
  export ARCH=${target#*/} PROGRAM=$made/$name
  for kind in deb rpm; do
    "$work/tools/nfpm" package --config packaging/nfpm.yaml --packager "$kind" --target "$made/$name.$kind"
  done
  echo "== the image of $name"
  "$work/tools/image" "$PROGRAM/dibs" "$ARCH" "$VERSION" "$made/$name.oci.tar"
done
for target in $TARGETS; do
  rm -r "$made/dibs_${VERSION}_${target/\//_}"
done

echo "== checksums"
sums=sha256sum
command -v sha256sum >/dev/null || sums="shasum -a 256"
sed "s|^published=\$|published='$DOWNLOADS'|" packaging/install.sh >"$made/install.sh"
chmod 755 "$made/install.sh"
formula=(-e "s|@VERSION@|${VERSION#v}|" -e "s|@DOWNLOADS@|${DOWNLOADS:-file://#{__dir__\}}|")
for target in $TARGETS; do
  name=dibs_${VERSION}_${target/\//_}
  sum=$($sums "$made/$name.tar.gz")
  formula+=(-e "s|@${target/\//_}@|${sum%% *}|")
done
sed "${formula[@]}" packaging/dibs.rb >"$made/dibs.rb"
(cd "$made" && $sums ./* | sed 's|  \./|  |' >"$work/SHA256SUMS")
mv "$work/SHA256SUMS" "$made/SHA256SUMS"
mv "$made" dist
cat dist/SHA256SUMS
