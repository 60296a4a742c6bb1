/* libgomp (OpenMP tasks with depend): CPU time of one empty task, submission included.
 * Needs gcc -fopenmp. Usage: OMP_WAIT_POLICY=active omp_tasks [workers] [tasks].
 * The submitting thread is one of the workers. With one thread, or with more than 64 tasks per thread waiting, libgomp runs a
 * task at once instead of queueing it: the figure of `independent` is then the cost of a call. */
#include "peer.h"
#include <omp.h>

static char grid[GRAPH3_DATA], tiles[CHOL_TILES];
static volatile int sink;

static void submit_independent(long n)
{
	for (long i = 0; i < n; i++) {
#pragma omp task
		sink = 0;
	}
}

static void submit_chain(long n)
{
	for (long i = 0; i < n; i++) {
#pragma omp task depend(inout : grid[0])
		sink = 0;
	}
}

static void submit_graph3(long n)
{
	for (long i = 0; i < n; i++) {
#pragma omp task depend(in : grid[GRAPH3_A(i)], grid[GRAPH3_B(i)]) depend(inout : grid[GRAPH3_C(i)])
		sink = 0;
	}
}

static void submit_cholesky(long n)
{
	(void)n;
	for (int k = 0; k < CHOL; k++) {
#pragma omp task depend(inout : tiles[TILE(k, k)])
		sink = 0;
		for (int i = k + 1; i < CHOL; i++) {
#pragma omp task depend(in : tiles[TILE(k, k)]) depend(inout : tiles[TILE(i, k)])
			sink = 0;
		}
		for (int j = k + 1; j < CHOL; j++) {
#pragma omp task depend(in : tiles[TILE(j, k)]) depend(inout : tiles[TILE(j, j)])
			sink = 0;
			for (int i = j + 1; i < CHOL; i++) {
#pragma omp task depend(in : tiles[TILE(i, k)], tiles[TILE(j, k)]) depend(inout : tiles[TILE(i, j)])
				sink = 0;
			}
		}
	}
}

int main(int argc, char **argv)
{
	int workers;
	long n;
	if (!task_arguments(argc, argv, &workers, &n)) return 2;
	const struct { const char *name; void (*submit)(long); long tasks; } cases[] = {
		{ "independent", submit_independent, n },
		{ "chain", submit_chain, n },
		{ "graph3", submit_graph3, n },
		{ "cholesky_empty", submit_cholesky, CHOL_TASKS },
	};
	for (int print = 0; print < 2; print++) /* once to warm up, once to measure */
		for (int c = 0; c < 4; c++) {
#pragma omp parallel num_threads(workers)
#pragma omp single
			{
				struct stamp from = stamp_now();
				cases[c].submit(n);
#pragma omp taskwait
				if (print) report_tasks("libgomp", cases[c].name, workers, cases[c].tasks, from);
			}
		}
	return 0;
}
