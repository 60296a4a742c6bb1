#!/usr/bin/env bash
# StarPU 1.3.10 (Debian 1.3.10+dfsg-2): under the policy `eager`, which ignores priorities, tasks that wait for data run by
# priority.
#
# Good guess: eager is first come, first served, and its range of priorities is 0 to 0; so tasks that commute on one handle
# run in the order of their submission, whatever their priority.
# Seen: priorities 0 3 -2 5 1 3, submitted behind a task that has the data, run as "5 3 3 1 0 -2": the queue of the handle
# is sorted by priority under every policy, and numbers outside of the policy's range count.
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
#include <stdio.h>
#include <time.h>
static void occupy(void *buffers[], void *arg)
{
	struct timespec time = {0, 300000000};
	nanosleep(&time, NULL);
}
static void show(void *buffers[], void *arg)
{
	int priority;
	starpu_codelet_unpack_args(arg, &priority);
	printf(" %d", priority);
}
static struct starpu_codelet first = {.cpu_funcs = {occupy}, .nbuffers = 1, .modes = {STARPU_RW | STARPU_COMMUTE}};
static struct starpu_codelet next = {.cpu_funcs = {show}, .nbuffers = 1, .modes = {STARPU_RW | STARPU_COMMUTE}};
int main(void)
{
	int value = 0, priorities[] = {0, 3, -2, 5, 1, 3};
	starpu_data_handle_t handle;
	if (starpu_init(NULL) != 0)
		return 2;
	starpu_variable_data_register(&handle, STARPU_MAIN_RAM, (uintptr_t) &value, sizeof value);
	if (starpu_task_insert(&first, STARPU_RW | STARPU_COMMUTE, handle, 0) != 0)
		return 2;
	printf("order");
	for (int i = 0; i < 6; i++)
		if (starpu_task_insert(&next, STARPU_RW | STARPU_COMMUTE, handle, STARPU_VALUE, &priorities[i], sizeof(int),
		                       STARPU_PRIORITY, priorities[i], 0) != 0)
			return 2;
	starpu_task_wait_for_all();
	starpu_data_unregister(handle);
	starpu_shutdown();
	puts("");
	return 0;
}
END
cc -std=gnu99 program.c -Iroot/usr/include -Iroot/usr/include/starpu/1.3 -L"${libraries%%:*}" -lstarpu-1.3 -lhwloc -Wl,--allow-shlib-undefined -o program 2>/dev/null
STARPU_NCPU=1 STARPU_SCHED=eager ./program | tee seen.txt
grep -q '^order 5 3 3 1 0 -2$' seen.txt
