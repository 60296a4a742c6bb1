#!/usr/bin/env bash
# CADNA 3.1.12, the copy in the source package cadnaPromise 0.4.1: square roots and elementary functions of exact numbers
# are rounded to nearest in all three samples, and count as exact.
#
# Good guess: every operation of a stochastic type is rounded up or down at random. Then sqrt(2) - 1.414213562373095, of
# which only about one digit is right, shows one digit or none, as 2.0 / 3.0 - 0.666666666666666 does.
# Seen: "root 15 ratio 0": all 15 digits of 0.488498130835068E-016, although only one is right. The quotient shows @.0.
# So a program that loses its digits after a root looks exact.
#
# Needs a network, g++, make, m4 and python3 with pip. Exit status 0 as long as this is so.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m pip download -q --no-binary :all: --no-deps --no-cache-dir -d . cadnaPromise==0.4.1
mkdir package cadna
tar -xzf cadnapromise-0.4.1.tar.gz -C package --strip-components=1
tar -xzf package/cadnaPromise/cadna/cadna_c_half-*.tar.gz -C cadna --strip-components=1
(cd cadna && ./configure CXX=g++ --enable-half-emulation --disable-dependency-tracking && make -C srcC libcadnaC.a) >build.log 2>&1
cat >program.cpp <<'END'
#include <cadna.h>
#include <cstdio>
int main()
{
	cadna_init(-1);
	double_st two = 2.0, three = 3.0, near_root = 1.414213562373095, near_ratio = 0.666666666666666;
	double_st root = sqrt(two) - near_root, ratio = two / three - near_ratio;
	std::printf("root %d ratio %d\n", root.nb_significant_digit(), ratio.nb_significant_digit());
	cadna_end();
}
END
g++ -std=c++17 -frounding-math -isystem cadna/srcC program.cpp cadna/srcC/libcadnaC.a -o program
./program | tee seen.txt
grep -q '^root 15 ratio [01]$' seen.txt
