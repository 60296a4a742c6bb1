# shellcheck shell=bash
# What the scripts share; read with `.`, never run.

say() { printf '%s\n' "$*"; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

# The top of the project, wherever the script was called from.
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

# rustup puts cargo where a fresh shell may not look yet.
command -v cargo >/dev/null 2>&1 || PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"

# The words that make a command run as root without asking for a password; fails where there are none.
as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
        sudo -n "$@"
    else
        return 1
    fi
}

# apt_install "why" PACKAGE...: says what it installs and why, then does it. Without permission, without apt-get or without a
# network it prints the command to run and fails; the caller decides whether that matters.
apt_install() {
    local why=$1
    shift
    if ! command -v apt-get >/dev/null 2>&1; then
        say "missing: $* ($why). This machine has no apt-get: install them with its own package manager."
        return 1
    fi
    if ! as_root true; then
        say "missing: $* ($why). To install: sudo apt-get install --no-install-recommends $*"
        return 1
    fi
    say "installing with apt-get: $* ($why)"
    if as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null 2>&1; then
        return 0
    fi
    # A fresh machine has no lists of packages yet, or old ones.
    if as_root apt-get update -qq >/dev/null 2>&1 &&
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null; then
        return 0
    fi
    say "apt-get could not install: $*. To see why: sudo apt-get install --no-install-recommends $*"
    return 1
}

# Where cargo builds, as an absolute path.
target_folder() { realpath -m "${CARGO_TARGET_DIR:-target}"; }

# For builds that are made to run once: what helps later builds would be half of the disk that they take. The same in every script, or one
# would build again what another has built.
build_once() { export CARGO_INCREMENTAL=${CARGO_INCREMENTAL:-0}; }

# slowest N FILE: the tests of a JUnit file that took longest.
slowest() {
    sed -n 's/.*<testcase name="\([^"]*\)" classname="\([^"]*\)".* time="\([0-9.]*\)".*/\3 \2 \1/p' "$2" | sort -rn | head -n "$1" |
        awk '{ printf "%8.1f  %s %s\n", $1, $2, $3 }'
}

# hwloc2 is written against hwloc 2.
has_hwloc() { command -v pkg-config >/dev/null 2>&1 && pkg-config --atleast-version=2.0.0 hwloc 2>/dev/null; }

# HDF5 files for `zellige psa`, where the library is there anyway.
has_hdf5() { command -v pkg-config >/dev/null 2>&1 && pkg-config --atleast-version=1.10.0 hdf5 2>/dev/null; }

# Cargo's words for the features on this machine: of the whole workspace, whose tests have a mock in the place of GPUs too, and of the command
# alone.
features=()
cli_features=()
find_features() {
    local all=(zellige-cli/mock-gpu zellige-cli/script) cli=()
    if has_hwloc; then all+=(zellige-runtime/hwloc) cli+=(zellige-cli/hwloc); fi
    if has_hdf5; then all+=(zellige-psa/hdf5) cli+=(zellige-cli/hdf5); fi
    # shellcheck disable=SC2034 # read by the scripts that read this file
    features=(--features "${all[*]} ${cli[*]}") cli_features=()
    # shellcheck disable=SC2034
    [ ${#cli[@]} -eq 0 ] || cli_features=(--features "${cli[*]}")
}
