#!/usr/bin/env bash
# Prints a package's version for a name from `git describe --always
# --dirty`. Versions of deb and rpm begin with a digit, have no "-", and are
# compared: what comes after a release sorts after it, what comes before it ("~")
# before it, and a commit without any release before all releases.
#
#   v1.2.3                      1.2.3
#   v1.2.3-rc.1                 1.2.3~rc.1
#   v1.2.3-4-g0ba5e1f-dirty     1.2.3+4.g0ba5e1f.dirty
#   0ba5e1f                     0+g0ba5e1f
set -euo pipefail

name=$1 after=
if [[ $name =~ ^(.+)-dirty$ ]]; then
  name=${BASH_REMATCH[1]} after=.dirty
fi
if [[ $name =~ ^[0-9a-f]{7,64}$ ]]; then # a commit
  after=.g$name$after name=0
elif [[ $name =~ ^(.+)-([0-9]+)-(g[0-9a-f]+)$ ]]; then
  name=${BASH_REMATCH[1]} after=.${BASH_REMATCH[2]}.${BASH_REMATCH[3]}$after
fi
if ! [[ $name =~ ^v?([0-9][0-9A-Za-z.]*)(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$ ]]; then
  echo "no package can have the version \"$1\": name a release like v1.2.3" >&2
  exit 1
fi
version=${BASH_REMATCH[1]}
before=${BASH_REMATCH[2]#-}
after=${BASH_REMATCH[3]/#+/.}$after
if [ -n "$before" ]; then
  version+="~$before"
fi
if [ -n "$after" ]; then
  version+="+${after#.}"
fi
echo "${version//-/.}"
