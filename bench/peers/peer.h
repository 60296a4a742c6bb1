/* What the peer programs share: clocks, the order of the cases, and the one line each measurement prints. */
#ifndef PEER_H
#define PEER_H
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* graph3: two operands read on a grid of 32 + 32 data, one updated among 960: the accesses of a tiled product. */
#define GRAPH3_DATA 1024
#define GRAPH3_A(i) (((i) / 32) % 32)
#define GRAPH3_B(i) (32 + (i) % 32)
#define GRAPH3_C(i) (64 + (i) % 960)

/* cholesky_empty: a lower triangle of CHOL x CHOL tiles, CHOL (CHOL + 1) (CHOL + 2) / 6 tasks. */
#define CHOL 64
#define CHOL_TASKS (CHOL * (CHOL + 1) * (CHOL + 2) / 6)
#define CHOL_TILES (CHOL * (CHOL + 1) / 2)
#define TILE(i, j) ((i) * ((i) + 1) / 2 + (j)) /* i >= j */

static inline double clock_s(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* CPU seconds of all threads of this process, and seconds on the wall. */
struct stamp { double cpu, wall; };
static inline struct stamp stamp_now(void)
{
	struct stamp s;
	s.cpu = clock_s(CLOCK_PROCESS_CPUTIME_ID);
	s.wall = clock_s(CLOCK_MONOTONIC);
	return s;
}

/* One line: peer case workers us_cpu us_wall, both times per task. */
static inline void report_tasks(const char *peer, const char *name, int workers, long tasks, struct stamp from)
{
	struct stamp to = stamp_now();
	printf("%s %s %d %.4f %.4f\n", peer, name, workers, (to.cpu - from.cpu) / (double)tasks * 1e6,
	       (to.wall - from.wall) / (double)tasks * 1e6);
	fflush(stdout);
}

/* Command line of the task programs: workers [tasks]; anything else is refused. */
static inline int task_arguments(int argc, char **argv, int *workers, long *tasks)
{
	*workers = argc > 1 ? atoi(argv[1]) : 1;
	*tasks = argc > 2 ? atol(argv[2]) : 100000;
	if (argc > 3 || *workers < 1 || *tasks < 1) {
		fprintf(stderr, "usage: %s [workers >= 1] [tasks >= 1]\n", argv[0]);
		return 0;
	}
	return 1;
}

/* OpenBLAS reads its number of threads when it is loaded, and a thread too many spins for a while on our CPU clock: a program
 * that was started with another number starts itself again. */
static inline void with_blas_threads(int threads, char **argv)
{
	char wanted[16];
	const char *given = getenv("OPENBLAS_NUM_THREADS");
	snprintf(wanted, sizeof wanted, "%d", threads);
	if (given && !strcmp(given, wanted)) return;
	setenv("OPENBLAS_NUM_THREADS", wanted, 1);
	execv("/proc/self/exe", argv);
	perror("cannot start again with OPENBLAS_NUM_THREADS set");
	exit(1);
}

/* The test matrix of every Cholesky here: 1 / (1 + |i - j|) off the diagonal, 1 + n on it. */
static inline double spd_entry(long n, long i, long j)
{
	return i == j ? 1.0 + (double)n : 1.0 / (1.0 + (double)labs(i - j));
}
#endif
