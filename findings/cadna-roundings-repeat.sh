#!/usr/bin/env bash
# CADNA 3.1.12, the copy in the source package cadnaPromise 0.4.1: with the default seed, the random roundings repeat after
# 2560 operations.
#
# Good guess: the generator of the rounding bits has a period beyond any program, at least 2^32.
# Seen: "equal 7440 of 7440": in 10000 quotients 1 / 3, the roundings of all three samples at operation k + 2560 are
# those at operation k. A loop with a body of a divisor of 2560 operations therefore repeats its errors, and the errors of
# a sum of a million terms drift instead of averaging: one digit less than independent rounding leaves.
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
#include <vector>
int main()
{
	const int operations = 10000, period = 2560;
	cadna_init(-1);
	const double_st one = 1.0, three = 3.0;
	std::vector<double_st> quotients(operations);
	for (double_st &quotient : quotients) quotient = one / three;
	int equal = 0;
	for (int k = 0; k + period < operations; k++) {
		double_st &a = quotients[k], &b = quotients[k + period];
		equal += a.getx() == b.getx() && a.gety() == b.gety() && a.getz() == b.getz();
	}
	std::printf("equal %d of %d\n", equal, operations - period);
	cadna_end();
}
END
g++ -std=c++17 -frounding-math -isystem cadna/srcC program.cpp cadna/srcC/libcadnaC.a -o program
./program | tee seen.txt
grep -q '^equal 7440 of 7440$' seen.txt
