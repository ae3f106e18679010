#!/bin/sh
set -e
# An upgrade calls this script too, with another argument: deb "upgrade", rpm 1.
case "$1" in
remove | 0)
  if [ -d /run/systemd/system ]; then
    systemctl disable --now dibs.socket dibs.service || true
  fi
  ;;
esac
