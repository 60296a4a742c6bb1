#!/usr/bin/env bash
# StarPU 1.3.10 (Debian 1.3.10+dfsg-2): a task's callback runs after its data have been released.
#
# Good guess: the callback belongs to the task, so that a task which writes the same data begins after it has returned:
# then a callback may read the data, or reuse the memory, that the task has written.
# Seen: "next task began during the callback": with two workers the successor runs while the callback of its predecessor
# sleeps. In releases with epilogue callbacks that is where such code belongs; 1.3.10 has none.
#
# Needs Debian 12 on x86-64 with apt's lists, two cores, a C compiler and a network. Exit status 0 as long as this is so.
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
static volatile int in_callback, overlapped;
static void nothing(void *buffers[], void *arg) {}
static void look(void *buffers[], void *arg) { overlapped = in_callback; }
static void callback(void *arg)
{
	struct timespec time = {0, 300000000};
	in_callback = 1;
	nanosleep(&time, NULL);
	in_callback = 0;
}
static struct starpu_codelet first = {.cpu_funcs = {nothing}, .nbuffers = 1, .modes = {STARPU_RW}};
static struct starpu_codelet next = {.cpu_funcs = {look}, .nbuffers = 1, .modes = {STARPU_RW}};
int main(void)
{
	int value = 0;
	starpu_data_handle_t handle;
	if (starpu_init(NULL) != 0)
		return 2;
	starpu_variable_data_register(&handle, STARPU_MAIN_RAM, (uintptr_t) &value, sizeof value);
	if (starpu_task_insert(&first, STARPU_RW, handle, STARPU_CALLBACK, callback, 0) != 0)
		return 2;
	if (starpu_task_insert(&next, STARPU_RW, handle, 0) != 0)
		return 2;
	starpu_task_wait_for_all();
	starpu_data_unregister(handle);
	starpu_shutdown();
	puts(overlapped ? "next task began during the callback" : "next task began after the callback");
	return 0;
}
END
cc -std=gnu99 program.c -Iroot/usr/include -Iroot/usr/include/starpu/1.3 -L"${libraries%%:*}" -lstarpu-1.3 -lhwloc -Wl,--allow-shlib-undefined -o program 2>/dev/null
STARPU_NCPU=2 STARPU_SCHED=eager ./program | tee seen.txt
grep -q '^next task began during the callback$' seen.txt
