#!/usr/bin/env bash
# The container's image: others' tools can read it, and the program runs in nothing but its files.
#
#   image.sh DIST
# shellcheck source=begin
. "$(dirname "$0")/begin"

file=$(one "$dist" "dibs_*_linux_amd64.oci.tar")
arm=$(one "$dist" "dibs_*_linux_arm64.oci.tar")
version=${file##*/dibs_} version=${version%_linux_amd64.oci.tar}
skopeo inspect "oci-archive:$file" >"$work/oci"
skopeo inspect "docker-archive:$file" >"$work/docker"
skopeo copy -q "oci-archive:$file:dibs:$version" "dir:$work/image"
has "$work/oci" '"Architecture": "amd64"'
has "$work/docker" '"DIBS_SOCKET=/run/dibs/dibs.sock"'
skopeo inspect "oci-archive:$arm" >"$work/arm"
has "$work/arm" '"Architecture": "arm64"'

mkdir "$work/root"
tar -xzf "$work/image/$(sed -n 's/.*"digest": *"sha256:\([0-9a-f]*\)".*/\1/p' "$work/image/manifest.json" | tail -1)" -C "$work/root"
chroot --userspec=65532:65532 "$work/root" /usr/bin/dibs version | tee "$work/said"
has "$work/said" "dibs $version, "
openssl crl2pkcs7 -nocrl -certfile "$work/root/etc/ssl/certs/ca-certificates.crt" | openssl pkcs7 -print_certs -noout >"$work/roots"
[ "$(grep -c '^subject' "$work/roots")" -gt 50 ] || fail "the image knows too few certificates"
