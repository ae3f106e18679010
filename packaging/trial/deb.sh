#!/usr/bin/env bash
# The life of the deb in a Debian of its own: installed, upgraded, removed, purged.
#
#   deb.sh DIST BEFORE    BEFORE is the folder of an earlier release, with another config.yaml
# shellcheck source=begin
. "$(dirname "$0")/begin"

root=$work/root etc=$work/root/etc/dibs journal=$work/root/var/lib/dibs/journal.db
after=$(one "$dist" "dibs_*_linux_amd64.deb")
before=$(one "$2" "dibs_*_linux_amd64.deb")
debian=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
mmdebstrap --quiet --variant=essential --include=systemd "$debian" "$root"
cp "$before" "$root/before.deb"
cp "$after" "$root/after.deb"
within() { DEBIAN_FRONTEND=noninteractive chroot "$root" "$@"; }

echo "-- installed"
within dpkg -i /before.deb
within dibs version | tee "$work/before"
there "$etc"/{config.yaml,notion-token} "$root"/usr/lib/systemd/system/dibs.{service,socket} "$root"/usr/share/man/man1/dibs.1.gz
within getent passwd dibs
[ "$(stat -c %a%U "$etc/notion-token")" = 600root ] || fail "others can read the token"

echo "-- upgraded, with another configuration than the package's"
echo "# mine" >>"$etc/config.yaml"
echo secret >"$etc/notion-token"
mkdir -p "${journal%/*}" "$root/run/systemd/system" && echo claims >"$journal"
cat >"$root/usr/local/bin/systemctl" <<'END'
#!/bin/sh
echo "$* $(dibs version 2>/dev/null)" >>/asked
END
chmod 755 "$root/usr/local/bin/systemctl"
within dpkg --compare-versions "$(within dpkg-deb -f /before.deb Version)" lt "$(within dpkg-deb -f /after.deb Version)" ||
  fail "the release before is not earlier to dpkg"
within dpkg --force-confdef --force-confold -i /after.deb
within dibs version | tee "$work/after"
! cmp -s "$work/before" "$work/after" || fail "the upgrade left the program as it was"
has "$etc/config.yaml" "# mine"
has "$etc/notion-token" secret
has "$journal" claims
there "$etc/config.yaml.dpkg-dist"
[ "$(tail -n 1 "$root/asked")" = "try-restart dibs.service $(cat "$work/after")" ] || fail "the upgrade did not restart the daemon at its end: $(cat "$root/asked")"
! grep -qE 'stop|disable' "$root/asked" || fail "the upgrade stopped the daemon, or its socket: $(cat "$root/asked")"

echo "-- removed"
within dpkg -r dibs | tee "$work/removed"
has "$root/asked" "disable --now dibs.socket dibs.service"
has "$work/removed" "stay"
has "$etc/config.yaml" "# mine"
has "$etc/notion-token" secret
has "$journal" claims
gone "$root"/usr/bin/dibs "$root"/usr/lib/systemd/system/dibs.{service,socket} "$root"/usr/share/man/man1/dibs.1.gz
echo "what stays:" && (cd "$root" && find etc/dibs var/lib/dibs -type f) && within getent passwd dibs

echo "-- purged"
within dpkg -P dibs
gone "$etc" "$root/var/lib/dibs"
echo "what stays:" && (cd "$root" && find . -xdev -path ./proc -prune -o -name '*dibs*' -print) && within getent passwd dibs
