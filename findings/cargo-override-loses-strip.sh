#!/usr/bin/env bash
# Cargo 1.95.0: a profile override for a program's own package makes Cargo ignore `strip = true` of the profile.
#
# [profile.release]
# strip = true
# [profile.release.package.program]    # of the package that has the program
# opt-level = 1
#
# Good guess: an override changes what it names, so the program is still stripped. The manual lists `panic`, `lto` and
# `rpath` as what overrides cannot set, and does not speak of `strip`.
# Seen: rustc gets `-C strip=symbols` without the override, and `-C strip=debuginfo` with it, without a warning. The
# symbol table stays in the program (10 of 60 MB of a larger one). `strip = "symbols"` is ignored in the same way.
# So a package that lowers the optimisation of its command for build time ships its symbols.
#
# Needs rustup's or another cargo 1.95.0; no network. Exit status 0 as long as this is so.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cargo init -q --vcs none --name program .
printf '[profile.release]\nstrip = true\n' >>Cargo.toml
strips() { cargo build --release -v 2>&1 | grep -o 'strip=[a-z]*'; }
before=$(strips)
printf '[profile.release.package.program]\nopt-level = 1\n' >>Cargo.toml
after=$(strips)
echo "without the override: $before; with it: $after; $(cargo --version)"
[ "$before" = strip=symbols ] && [ "$after" = strip=debuginfo ]
