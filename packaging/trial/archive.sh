#!/usr/bin/env bash
# From a release to the first claim, on a machine that has a shell, wget and tar, and no Go and no
# network but its own: install.sh, dibs try, dibs try next.
#
#   archive.sh DIST
# shellcheck source=begin
. "$(dirname "$0")/begin"

root=$work/root
bare "$root"
mkdir "$root/release" "$root/home"
cp -R "$dist"/. "$root/release"
cat >"$root/first.sh" <<'END'
set -eu
mount -t proc proc /proc
ip link set lo up
httpd -p 127.0.0.1:8000 -h /release
cd /tmp
export HOME=/home PATH=/home/.local/bin:/bin DIBS_DOWNLOADS=http://127.0.0.1:8000
begun=$(date +%s)
wget -q -O - $DIBS_DOWNLOADS/install.sh | sh
dibs try >/tmp/try 2>&1 &
try=$!
until dibs try next --agent Sandman --json >/tmp/claim 2>/tmp/said; do
  [ $(($(date +%s) - begun)) -lt 60 ] || { cat /tmp/try /tmp/said; exit 1; }
  sleep 0.1
done
echo "from the archive to the first claim: $(($(date +%s) - begun)) s"
dibs version
kill $try
wait $try || true
wget -q -O - $DIBS_DOWNLOADS/install.sh | sh -s -- --uninstall
find /home/.local ! -type d
END
unshare --net --mount --pid --fork chroot "$root" /bin/sh /first.sh | tee "$work/said"
has "$root/tmp/claim" '"agent":"Sandman"'
has "$root/tmp/claim" '"expires_at":'
seconds=$(sed -n 's/^from the archive to the first claim: \(.*\) s$/\1/p' "$work/said")
promised=$(sed -n 's/^| from .* to the first claim | \([0-9]*\) seconds .*/\1/p' "$(dirname "$0")/../../README.md")
[ "$seconds" -le $((2 * promised)) ] || fail "it took $seconds s, and README.md says $promised; twice that is for a busy machine"
has "$work/said" "from a clean tree"
gone "$root"/home/.local/bin/dibs "$root"/home/.local/share/dibs
