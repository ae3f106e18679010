#!/usr/bin/env bash
# The Homebrew formula, read by ruby with a small stand-in for Homebrew: it names each archive, with
# its checksum.
#
#   formula.sh DIST
# shellcheck source=begin
. "$(dirname "$0")/begin"

ruby - "$dist/dibs.rb" >"$work/named" <<'END'
class Formula
  class << self
    def on_macos; yield; end
    alias on_linux on_macos
    alias on_arm on_macos
    alias on_intel on_macos
    def desc(*); end
    alias version desc
    alias license desc
    alias service desc
    alias test desc
    def url(url); @url = url; end
    def sha256(sum); puts "#{sum}  #{File.basename(@url)}"; warn "no URL: #{@url}" unless @url.start_with?("file:///", "https://"); end
  end
end
load ARGV[0]
END
sort "$work/named" >"$work/sorted"
grep 'tar\.gz$' "$dist/SHA256SUMS" | sort | diff - "$work/sorted" || fail "the formula names other files than SHA256SUMS"
[ "$(wc -l <"$work/named")" = 4 ] || fail "the formula names not four archives"
