#!/usr/bin/env bash
# The life of the rpm in a root file system of its own: installed, upgraded, removed.
#
#   rpm.sh DIST BEFORE    BEFORE is the folder of an earlier release, with another config.yaml
# shellcheck source=begin
. "$(dirname "$0")/begin"

root=$work/root etc=$work/root/etc/dibs
after=$(one "$dist" "dibs_*_linux_amd64.rpm") before=$(one "$2" "dibs_*_linux_amd64.rpm")
bare "$root"
# Nothing else is an rpm in there, so what it depends on is unknown.
within() { rpm --root "$root" --nodeps "$@" 2>&1; }

rpm -qlp "$after" >"$work/files"
for file in /usr/bin/dibs /etc/dibs/config.yaml /usr/lib/systemd/system/dibs.service /usr/share/man/man1/dibs.1.gz; do
  grep -qxF "$file" "$work/files" || fail "the package lacks $file"
done
rpm -K --nosignature "$after"
within -i "$before"
chroot "$root" /usr/bin/dibs version
echo "# mine" >>"$etc/config.yaml"
mkdir -p "$root/var/lib/dibs" && echo claims >"$root/var/lib/dibs/journal.db"
within -U "$after"
chroot "$root" /usr/bin/dibs version
has "$etc/config.yaml" "# mine"
there "$etc/config.yaml.rpmnew" "$etc/notion-token"
within -e dibs | tee "$work/said"
has "$work/said" "stay"
gone "$root/usr/bin/dibs"
has "$etc/config.yaml.rpmsave" "# mine"
there "$etc/notion-token" "$root/var/lib/dibs/journal.db"
echo "what stays:" && (cd "$root" && find etc/dibs var/lib/dibs -type f)
