#!/bin/sh
set -e
# deb says "remove" and "purge", rpm 0; an upgrade says something else. The user dibs stays: another
# one who got its number would own what it left behind.
case "$1" in
remove | 0)
  echo "dibs: the configuration and the token in /etc/dibs stay, and the journal in /var/lib/dibs"
  ;;
purge)
  rm -rf /var/lib/dibs
  rm -f /etc/dibs/notion-token
  rmdir /etc/dibs 2>/dev/null || true
  ;;
esac
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload || true
fi
