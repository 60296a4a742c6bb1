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
    local all=(zellige-cli/mock-gpu zellige-starpu/mock-gpu zellige-cli/script) cli=()
    if has_hwloc; then all+=(zellige-runtime/hwloc) cli+=(zellige-cli/hwloc); fi
    if has_hdf5; then all+=(zellige-psa/hdf5) cli+=(zellige-cli/hdf5); fi
    # shellcheck disable=SC2034 # read by the scripts that read this file
    features=(--features "${all[*]} ${cli[*]}") cli_features=()
    # shellcheck disable=SC2034
    [ ${#cli[@]} -eq 0 ] || cli_features=(--features "${cli[*]}")
}

# build_cadna: builds CADNA, the library of discrete stochastic arithmetic, in target/peers/cadna from the source package cadnaPromise of PyPI,
# and says in cadna_source where it is. Ends the script where that is not possible.
cadna_promise=0.4.1 # bundles CADNA 3.1.12
build_cadna() {
    local checksum=99d78167840ae0b11cd8fa93cecc0554c39c039f0f0fb5bc0db2072dcfe33680 wanted=() out package
    out=$(target_folder)/peers/cadna
    cadna_source=$out/source-$cadna_promise
    mkdir -p "$out"
    command -v g++ >/dev/null 2>&1 || wanted+=(g++ libc6-dev)
    command -v make >/dev/null 2>&1 || wanted+=(make)
    command -v m4 >/dev/null 2>&1 || wanted+=(m4) # its configure script asks for it
    command -v python3 >/dev/null 2>&1 || wanted+=(python3)
    python3 -m pip --version >/dev/null 2>&1 || wanted+=(python3-pip)
    if [ ${#wanted[@]} -gt 0 ]; then
        apt_install "CADNA is built here" "${wanted[@]}" || die "left out: CADNA (needs ${wanted[*]})"
    fi
    if [ -e "$cadna_source/srcC/libcadnaC.a" ]; then return; fi
    package=$out/cadnapromise-$cadna_promise.tar.gz
    if [ ! -e "$package" ]; then
        say "fetching cadnaPromise $cadna_promise from PyPI"
        python3 -m pip download -q --no-binary :all: --no-deps --no-cache-dir -d "$out" "cadnaPromise==$cadna_promise" >"$out/fetch.log" 2>&1 ||
            die "left out: CADNA (no package cadnaPromise $cadna_promise: no network, or no PyPI; see $out/fetch.log)"
    fi
    echo "$checksum  $package" | sha256sum --check --status || die "$package is not the package that this script knows: remove it, try again"
    rm -rf "$cadna_source" "$out/package"
    mkdir "$cadna_source" "$out/package"
    tar -xzf "$package" -C "$out/package" --strip-components=1
    tar -xzf "$out"/package/cadnaPromise/cadna/cadna_c_half-*.tar.gz -C "$cadna_source" --strip-components=1
    rm -rf "$out/package"
    say "building CADNA (-O3 -frounding-math, its own choice; about a minute)"
    if ! (cd "$cadna_source" && ./configure CXX=g++ --enable-half-emulation --disable-dependency-tracking &&
        make -C srcC libcadnaC.a) >"$out/build.log" 2>&1; then
        die "left out: CADNA (it does not build: see $out/build.log)"
    fi
}
