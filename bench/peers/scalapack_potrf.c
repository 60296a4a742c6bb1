/* ScaLAPACK: pdpotrf on a square grid of processes. Needs libscalapack-mpi-dev (Open MPI), libopenblas-dev.
 * Usage: mpirun -n P scalapack_potrf n block [times]. Each process has one BLAS thread. Rank 0 prints
 *   scalapack n block processes gflops least_seconds
 * the median rate of the factorisation; entries of the first columns are checked on the way. */
#include "peer.h"
#include <math.h>
#include <mpi.h>

extern void Cblacs_pinfo(int *, int *);
extern void Cblacs_get(int, int, int *);
extern void Cblacs_gridinit(int *, const char *, int, int);
extern void Cblacs_gridinfo(int, int *, int *, int *, int *);
extern void Cblacs_barrier(int, const char *);
extern void Cblacs_gridexit(int);
extern int numroc_(const int *, const int *, const int *, const int *, const int *);
extern void descinit_(int *, const int *, const int *, const int *, const int *, const int *, const int *, const int *,
                      const int *, int *);
extern void pdpotrf_(const char *, const int *, double *, const int *, const int *, const int *, int *);

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 0, nb = argc > 2 ? atoi(argv[2]) : 0, times = argc > 3 ? atoi(argv[3]) : 3;
	if (n < 1 || nb < 1 || times < 1 || times > 100) {
		fprintf(stderr, "usage: %s n block [times]\n", argv[0]);
		return 2;
	}
	with_blas_threads(1, argv);
	MPI_Init(&argc, &argv);
	int me, processes, context, rows = 1, columns, row, column, zero = 0, one = 1, info, descriptor[9];
	Cblacs_pinfo(&me, &processes);
	for (int r = 1; r * r <= processes; r++)
		if (processes % r == 0) rows = r;
	columns = processes / rows;
	Cblacs_get(-1, 0, &context);
	Cblacs_gridinit(&context, "Row", rows, columns);
	Cblacs_gridinfo(context, &rows, &columns, &row, &column);
	int local_rows = numroc_(&n, &nb, &row, &zero, &rows), local_columns = numroc_(&n, &nb, &column, &zero, &columns);
	int ld = local_rows > 1 ? local_rows : 1;
	descinit_(descriptor, &n, &n, &nb, &nb, &zero, &zero, &context, &ld, &info);
	double *a = malloc((size_t)ld * (size_t)(local_columns > 0 ? local_columns : 1) * sizeof *a), seconds[100];
	if (info || !a) {
		fprintf(stderr, "no room for the matrix\n");
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	for (int t = 0; t < times; t++) {
		for (int c = 0; c < local_columns; c++)
			for (int r = 0; r < local_rows; r++) {
				long i = ((long)(r / nb) * rows + row) * nb + r % nb, j = ((long)(c / nb) * columns + column) * nb + c % nb;
				a[(size_t)c * (size_t)ld + (size_t)r] = spd_entry(n, i, j);
			}
		Cblacs_barrier(context, "All");
		double from = clock_s(CLOCK_MONOTONIC);
		pdpotrf_("L", &n, a, &one, &one, descriptor, &info);
		Cblacs_barrier(context, "All");
		seconds[t] = clock_s(CLOCK_MONOTONIC) - from;
		/* The first column of the factor is that of the matrix by the root of its first entry. */
		double root = sqrt(1.0 + n);
		for (int r = 0; column == 0 && r < local_rows; r++) {
			long i = ((long)(r / nb) * rows + row) * nb + r % nb;
			double wanted = i == 0 ? root : spd_entry(n, i, 0) / root;
			if (fabs(a[r] - wanted) > 1e-12 * root) info = -1;
		}
		if (info) {
			fprintf(stderr, "pdpotrf: info %d, or a wrong factor\n", info);
			MPI_Abort(MPI_COMM_WORLD, 1);
		}
	}
	qsort(seconds, (size_t)times, sizeof *seconds, by_value);
	if (me == 0)
		printf("scalapack %d %d %d %.1f %.3f\n", n, nb, processes, (double)n * n * n / 3 / seconds[times / 2] / 1e9, seconds[0]);
	free(a);
	Cblacs_gridexit(context);
	MPI_Finalize();
	return 0;
}
