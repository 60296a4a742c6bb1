#!/usr/bin/env bash
# StarPU 1.3.10 (Debian 1.3.10+dfsg-2): `precedence_over_environment_variables` holds for the number of workers, and not
# for the scheduling policy.
#
# Good guess: with precedence_over_environment_variables = 1 the members of struct starpu_conf win over the environment,
# as the documentation of that member says, for ncpus and for sched_policy_name alike.
# Seen: "workers 2 policy eager": ncpus = 2 wins over STARPU_NCPU=1, but STARPU_SCHED=eager wins over
# sched_policy_name = "prio". So a program cannot fix its policy by name.
#
# Needs Debian 12 on x86-64 with apt's lists, a C compiler and a network. Exit status 0 as long as this is so.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get download -q libstarpu-dev=1.3.10+dfsg-2 libstarpu-1.3-9=1.3.10+dfsg-2 libhwloc-dev libhwloc15 ocl-icd-libopencl1 \
    libglpk40 libltdl7 libcolamd2 libamd2 libsuitesparseconfig5 >apt.log 2>&1
for package in *.deb; do dpkg -x "$package" root; done
libraries=$folder/root/usr/lib/x86_64-linux-gnu:$folder/root/lib/x86_64-linux-gnu
export LD_LIBRARY_PATH=$libraries STARPU_HOME=$folder STARPU_SILENT=1
cat >program.c <<'END'
#include <starpu.h>
#include <starpu_scheduler.h>
#include <stdio.h>
int main(void)
{
	struct starpu_conf conf;
	starpu_conf_init(&conf);
	conf.precedence_over_environment_variables = 1;
	conf.ncpus = 2;
	conf.sched_policy_name = "prio";
	if (starpu_init(&conf) != 0)
		return 2;
	printf("workers %u policy %s\n", starpu_worker_get_count(), starpu_sched_ctx_get_sched_policy(0)->policy_name);
	starpu_shutdown();
	return 0;
}
END
cc -std=gnu99 program.c -Iroot/usr/include -Iroot/usr/include/starpu/1.3 -L"${libraries%%:*}" -lstarpu-1.3 -lhwloc -Wl,--allow-shlib-undefined -o program
STARPU_NCPU=1 STARPU_SCHED=eager ./program | tee seen.txt
grep -q '^workers 2 policy eager$' seen.txt
