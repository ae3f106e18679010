#!/bin/sh
# Installs dibs from the archives of a release, for you alone and without root:
#
#   sh install.sh              install, or replace what it installed before
#   sh install.sh --uninstall  remove what it installed; configuration and journal stay
#
# DIBS_DOWNLOADS is the URL of the folder that has the release's files (https, http or file); without
# it, it is the folder of this script. PREFIX is where to install, ~/.local by default: the program
# goes to PREFIX/bin, man pages and completions to PREFIX/share.
set -eu
umask 022

# packaging/release.sh puts the URL here if it knows it.
published=

fail() {
  echo "install.sh: $1" >&2
  exit 1
}
if [ -n "${PREFIX:-}" ]; then
  prefix=$PREFIX
else
  [ -n "${HOME:-}" ] || fail "neither PREFIX nor HOME is set: set PREFIX to the folder to install to"
  prefix=$HOME/.local
fi
case $prefix in
/*) ;;
*) fail "PREFIX is \"$prefix\": write the whole path, from / on" ;;
esac
list=$prefix/share/dibs/installed # what was installed, a file a line, itself included

uninstall() {
  [ -f "$list" ] || fail "there is nothing to remove in $prefix: no $list; if it was installed elsewhere, set PREFIX to that folder"
  (cd "$prefix" && xargs rm -f) <"$list"
  rmdir "$prefix/share/dibs" 2>/dev/null || true
  echo "Removed dibs from $prefix. A daemon that runs goes on until it is stopped."
  case $(uname -s) in
  Darwin) echo "What stays: the configuration and the journal, in ~/Library/Application Support/dibs." ;;
  *) echo "What stays: the configuration in ~/.config/dibs, and the journal in ~/.local/state/dibs." ;;
  esac
}

# target prints which of the archives is for this machine.
target() {
  system=$(uname -s)
  machine=$(uname -m)
  case $system in
  Linux) os=linux ;;
  Darwin) os=darwin ;;
  *) fail "there is no dibs for $system, only for Linux and macOS; on Windows, try it inside WSL" ;;
  esac
  case $machine in
  x86_64 | amd64) arch=amd64 ;;
  aarch64 | arm64) arch=arm64 ;;
  *) fail "there is no dibs for $machine processors, only for those of 64 bit: x86_64 and arm64" ;;
  esac
  # An Intel shell on Apple's processor says x86_64.
  if [ $os = darwin ] && [ "$(sysctl -n sysctl.proc_translated 2>/dev/null)" = 1 ]; then
    arch=arm64
  fi
  echo "${os}_$arch"
}

# get downloads a file of the release.
get() { # name file
  case $downloads in
  file://*)
    cp "${downloads#file://}/$1" "$2" 2>/dev/null ||
      fail "there is no $1 in ${downloads#file://}: set DIBS_DOWNLOADS to the URL of the folder that has a release's files"
    return
    ;;
  http://* | https://*) ;;
  *) fail "DIBS_DOWNLOADS is \"$downloads\": write a URL that begins with https://, http:// or file:///" ;;
  esac
  if command -v curl >/dev/null; then
    said=$(curl -fsSL --retry 2 -o "$2" "$downloads/$1" 2>&1) && return
  elif command -v wget >/dev/null; then
    said=$(wget -q -O "$2" "$downloads/$1" 2>&1) && return
  else
    fail "neither curl nor wget is installed: install one, or download the release and set DIBS_DOWNLOADS to file:// and its folder"
  fi
  said=$(printf '%s' "$said" | tail -n 1)
  fail "cannot download $downloads/$1${said:+ ($said)}: check the network and DIBS_DOWNLOADS, then try again"
}

# sum prints the SHA-256 of a file.
sum() { # file
  if command -v sha256sum >/dev/null; then
    sha256sum <"$1"
  elif command -v shasum >/dev/null; then
    shasum -a 256 <"$1"
  else
    fail "neither sha256sum nor shasum is installed, so the download cannot be checked: install one, then try again"
  fi
}

install() {
  target=$(target)
  downloads=${DIBS_DOWNLOADS:-$published}
  # Read from a pipe, it lies nowhere.
  if [ -z "$downloads" ] && [ "${0##*/}" = install.sh ] && [ -f "$(dirname "$0")/SHA256SUMS" ]; then
    downloads=file://$(cd "$(dirname "$0")" && pwd)
  fi
  [ -n "$downloads" ] || fail "it is not known where dibs lies: set DIBS_DOWNLOADS to the URL of the folder that has a release's files"
  downloads=${downloads%/}

  { mkdir -p "$prefix/bin" && [ -w "$prefix/bin" ]; } 2>/dev/null ||
    fail "you may not write to $prefix/bin: set PREFIX to a folder that is yours, such as ~/.local"
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  trap 'exit 1' HUP INT TERM
  get SHA256SUMS "$work/sums"
  line=$(grep "  dibs_v[^ /]*_$target\.tar\.gz\$" "$work/sums") ||
    fail "$downloads/SHA256SUMS names no archive for $target: set DIBS_DOWNLOADS to the URL of the folder that has a release's files"
  archive=${line##* }
  get "$archive" "$work/archive"
  got=$(sum "$work/archive")
  [ "${got%% *}" = "${line%% *}" ] ||
    fail "$archive is not the file that SHA256SUMS names (its SHA-256 is ${got%% *}): nothing was installed; download again, and if it stays so, do not trust $downloads"
  (cd "$work" && gzip -dc archive | tar -xf -) || fail "$archive cannot be unpacked in $work: check that the disk has room, then try again"
  tree=$work/${archive%.tar.gz}
  new=$("$tree/dibs" version) || fail "the program in $archive does not run on this machine: nothing was installed; report it with what uname -a says"
  before=
  [ ! -x "$prefix/bin/dibs" ] || before=$("$prefix/bin/dibs" version 2>/dev/null) || before="a dibs that does not run"

  cd "$prefix"
  mkdir -p share/man/man1 share/bash-completion/completions share/zsh/site-functions share/fish/vendor_completions.d share/dibs
  cp "$tree"/man/* share/man/man1
  cp "$tree/completions/dibs.bash" share/bash-completion/completions/dibs
  cp "$tree/completions/dibs.zsh" share/zsh/site-functions/_dibs
  cp "$tree/completions/dibs.fish" share/fish/vendor_completions.d/dibs.fish
  cp "$tree/config.example.yaml" "$tree/LICENSE" share/dibs
  # A program that is started meanwhile is the old one, or the new one, and whole.
  cp "$tree/dibs" bin/dibs.new
  mv -f bin/dibs.new bin/dibs
  {
    for page in "$tree"/man/*; do
      echo "share/man/man1/${page##*/}"
    done
    echo "bin/dibs
share/bash-completion/completions/dibs
share/zsh/site-functions/_dibs
share/fish/vendor_completions.d/dibs.fish
share/dibs/config.example.yaml
share/dibs/LICENSE
share/dibs/installed"
  } >"$work/installed"
  if [ -f "$list" ]; then # what the version before had, and this one has not
    { grep -vxF -f "$work/installed" "$list" || true; } | xargs rm -f
  fi
  cp "$work/installed" "$list"

  case $before in
  "") echo "Installed $new" ;;
  "$new") echo "Installed again $new" ;;
  *) echo "Replaced $before" && echo "with     $new" ;;
  esac
  echo "as $prefix/bin/dibs"
  case :$PATH: in
  *":$prefix/bin:"*) ;;
  *) echo "Your shell does not look there yet: export PATH=\"$prefix/bin:\$PATH\"" ;;
  esac
  if [ -n "$before" ]; then
    echo "A daemon that runs is still the old one: restart it. Its claims stay."
  else
    echo "Next: dibs try &             a board and a daemon to play with, without an account"
    echo "      dibs init --help       connect it with your Notion"
  fi
}

# In one piece, so that a script that was cut off in the middle does nothing.
main() {
  case ${1:-} in
  "") install ;;
  --uninstall) uninstall ;;
  *) fail "\"$1\" is not known here: say nothing, or --uninstall; PREFIX and DIBS_DOWNLOADS are set in the environment" ;;
  esac
}
main "$@"
