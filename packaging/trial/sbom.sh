#!/usr/bin/env bash
# The SBOMs: each names the modules that are in the program, and no others.
#
#   sbom.sh DIST
# shellcheck source=begin
. "$(dirname "$0")/begin"

for archive in "$dist"/dibs_*.tar.gz; do
  name=$(basename "$archive" .tar.gz)
  tar -xzf "$archive" -C "$work" "$name/dibs"
  # What stands in for a module ("=>") is what is built in.
  go version -m "$work/$name/dibs" | awk '$1 == "dep" { print $2, $3 }' | sort >"$work/in"
  ruby -rjson -e '
    bom = JSON.parse(File.read(ARGV[0]))
    abort "it is not CycloneDX" unless bom["bomFormat"] == "CycloneDX"
    parts = bom["components"].reject { |c| c["name"] == "std" }
    bare = parts.reject { |c| c["hashes"] && c["purl"] }.map { |c| c["name"] }
    abort "there is no sum of #{bare}" unless bare.empty?
    puts parts.map { |c| "#{c["name"]} #{c["version"]}" }.sort
    unknown = parts.reject { |c| c["evidence"] || c["licenses"] }.map { |c| c["name"] }
    warn "#{parts.size} modules, of unknown licence: #{unknown.join(" ")}"
  ' "$dist/$name.cdx.json" | LC_ALL=C sort >"$work/said"
  LC_ALL=C sort "$work/in" | diff - "$work/said" || fail "$name.cdx.json names other modules than the program has"
done
