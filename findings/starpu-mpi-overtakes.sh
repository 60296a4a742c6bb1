#!/usr/bin/env bash
# StarPU-MPI 1.3.10 (Debian 1.3.10+dfsg-2): sends with one tag to one rank overtake each other.
#
# Good guess: StarPU keeps the sequential order of the program, and MPI says that messages between two processes with
# the same tag do not overtake each other; so the first of two sends belongs to the first of two receives.
# Seen: "first receive: 2, second: 1". A send counts from the moment when its data are ready. Where the program has
# acquired the data of the first one, the second one goes first, and the receives get each other's values: no error and
# no warning. Each handle needs a tag of its own, as starpu_mpi_data_register asks for; plain sends do not ask.
#
# Needs Debian 12 on x86-64 with apt's lists, a C compiler and a network. One process sends to itself, without mpirun.
# Exit status 0 as long as this is so.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get download -q libstarpu-dev=1.3.10+dfsg-2 libstarpu-1.3-9=1.3.10+dfsg-2 libstarpumpi-1.3-3=1.3.10+dfsg-2 \
    libopenmpi-dev=4.1.4-3+b1 libopenmpi3=4.1.4-3+b1 openmpi-bin openmpi-common libpmix2 libevent-core-2.1-7 libevent-pthreads-2.1-7 \
    libhwloc-dev libhwloc15 ocl-icd-libopencl1 libglpk40 libltdl7 libcolamd2 libamd2 libsuitesparseconfig5 >apt.log 2>&1
for package in *.deb; do dpkg -x "$package" root; done
libraries=$folder/root/usr/lib/x86_64-linux-gnu
openmpi=$libraries/openmpi
export LD_LIBRARY_PATH=$libraries:$openmpi/lib:$libraries/pmix2/lib STARPU_HOME=$folder STARPU_SILENT=1 STARPU_NCPU=1
export OPAL_PREFIX=$openmpi OPAL_BINDIR=$folder/root/usr/bin OPAL_LIBDIR=$openmpi/lib OPAL_PKGDATADIR=$folder/root/usr/share/openmpi
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mca_base_component_path=$openmpi/lib/openmpi3 OMPI_MCA_btl=self OMPI_MCA_pml=ob1
cat >program.c <<'END'
#include <starpu_mpi.h>
#include <stdio.h>
#include <time.h>
int main(int argc, char **argv)
{
	int sent[2] = {1, 2}, received[2] = {0, 0}, i;
	starpu_data_handle_t from[2], to[2];
	struct timespec time = {0, 300000000};
	if (starpu_mpi_init_conf(&argc, &argv, 1, MPI_COMM_WORLD, NULL) != 0)
		return 2;
	for (i = 0; i < 2; i++) {
		starpu_variable_data_register(&from[i], STARPU_MAIN_RAM, (uintptr_t) &sent[i], sizeof sent[i]);
		starpu_variable_data_register(&to[i], STARPU_MAIN_RAM, (uintptr_t) &received[i], sizeof received[i]);
	}
	starpu_data_acquire(from[0], STARPU_RW);
	for (i = 0; i < 2; i++)
		starpu_mpi_isend_detached(from[i], 0, 7, MPI_COMM_WORLD, NULL, NULL);
	for (i = 0; i < 2; i++)
		starpu_mpi_irecv_detached(to[i], 0, 7, MPI_COMM_WORLD, NULL, NULL);
	nanosleep(&time, NULL);
	starpu_data_release(from[0]);
	starpu_mpi_wait_for_all(MPI_COMM_WORLD);
	for (i = 0; i < 2; i++) {
		starpu_data_unregister(from[i]);
		starpu_data_unregister(to[i]);
	}
	printf("first receive: %d, second: %d\n", received[0], received[1]);
	starpu_mpi_shutdown();
	return 0;
}
END
cc -std=gnu99 program.c -Iroot/usr/include -Iroot/usr/include/starpu/1.3 -I"$openmpi/include" -L"$libraries" -L"$openmpi/lib" \
    -lstarpumpi-1.3 -lstarpu-1.3 -lhwloc -l:libmpi.so.40 -Wl,--allow-shlib-undefined -o program 2>cc.log || { cat cc.log; exit 2; }
timeout 60 ./program 2>run.log | tee seen.txt || { cat run.log; exit 2; }
grep -q '^first receive: 2, second: 1$' seen.txt
