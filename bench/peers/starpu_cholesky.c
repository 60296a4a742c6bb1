/* StarPU: tiled Cholesky on OpenBLAS tiles, dependencies from submission order, scheduler lws unless STARPU_SCHED names another.
 * Needs libstarpu-dev libopenblas-dev liblapacke-dev. Usage: starpu_cholesky n tile f32|f64 [workers].
 * Prints: starpu cholesky format n tile workers gflops gflops_per_cpu_s kernel_share gemm_gflops, where
 *   gflops            n^3 / 3 by the time on the wall, submission included
 *   gflops_per_cpu_s  the same by the CPU time of the whole process (StarPU's workers spin when idle)
 *   kernel_share      thread CPU time inside kernels by the CPU time of the process
 *   gemm_gflops       rate of the tile product in this very run, per CPU second of one worker
 * The submitting thread is no worker. Samples of A - L L^T are checked after the run. */
#include "peer.h"
#include <cblas.h>
#include <lapacke.h>
#include <math.h>
#include <starpu.h>

enum { POTRF, TRSM, SYRK, GEMM, KINDS };
#define MAX_WORKERS 64

static int nb, is_double;
static struct { double seconds[KINDS]; long calls[KINDS]; char apart[64]; } spent[MAX_WORKERS];

static void account(int kind, double from)
{
	int worker = starpu_worker_get_id() % MAX_WORKERS;
	spent[worker].seconds[kind] += clock_s(CLOCK_THREAD_CPUTIME_ID) - from;
	spent[worker].calls[kind]++;
}

#define TILE_OF(k) ((void *)STARPU_MATRIX_GET_PTR(buffers[k]))

static void potrf(void *buffers[], void *argument)
{
	(void)argument;
	double from = clock_s(CLOCK_THREAD_CPUTIME_ID);
	int info = is_double ? LAPACKE_dpotrf_work(LAPACK_COL_MAJOR, 'L', nb, TILE_OF(0), nb)
	                     : LAPACKE_spotrf_work(LAPACK_COL_MAJOR, 'L', nb, TILE_OF(0), nb);
	account(POTRF, from);
	if (info) {
		fprintf(stderr, "potrf of a tile failed: info %d\n", info);
		exit(1);
	}
}

static void trsm(void *buffers[], void *argument)
{
	(void)argument;
	double from = clock_s(CLOCK_THREAD_CPUTIME_ID);
	if (is_double)
		cblas_dtrsm(CblasColMajor, CblasRight, CblasLower, CblasTrans, CblasNonUnit, nb, nb, 1, TILE_OF(0), nb, TILE_OF(1), nb);
	else
		cblas_strsm(CblasColMajor, CblasRight, CblasLower, CblasTrans, CblasNonUnit, nb, nb, 1, TILE_OF(0), nb, TILE_OF(1), nb);
	account(TRSM, from);
}

static void syrk(void *buffers[], void *argument)
{
	(void)argument;
	double from = clock_s(CLOCK_THREAD_CPUTIME_ID);
	if (is_double)
		cblas_dsyrk(CblasColMajor, CblasLower, CblasNoTrans, nb, nb, -1, TILE_OF(0), nb, 1, TILE_OF(1), nb);
	else
		cblas_ssyrk(CblasColMajor, CblasLower, CblasNoTrans, nb, nb, -1, TILE_OF(0), nb, 1, TILE_OF(1), nb);
	account(SYRK, from);
}

static void gemm(void *buffers[], void *argument)
{
	(void)argument;
	double from = clock_s(CLOCK_THREAD_CPUTIME_ID);
	if (is_double)
		cblas_dgemm(CblasColMajor, CblasNoTrans, CblasTrans, nb, nb, nb, -1, TILE_OF(0), nb, TILE_OF(1), nb, 1, TILE_OF(2), nb);
	else
		cblas_sgemm(CblasColMajor, CblasNoTrans, CblasTrans, nb, nb, nb, -1, TILE_OF(0), nb, TILE_OF(1), nb, 1, TILE_OF(2), nb);
	account(GEMM, from);
}

static struct starpu_perfmodel models[KINDS] = {
	{ .type = STARPU_HISTORY_BASED, .symbol = "peer_potrf" },
	{ .type = STARPU_HISTORY_BASED, .symbol = "peer_trsm" },
	{ .type = STARPU_HISTORY_BASED, .symbol = "peer_syrk" },
	{ .type = STARPU_HISTORY_BASED, .symbol = "peer_gemm" },
};
static struct starpu_codelet codelets[KINDS] = {
	{ .cpu_funcs = { potrf }, .nbuffers = 1, .modes = { STARPU_RW }, .model = &models[POTRF], .name = "potrf" },
	{ .cpu_funcs = { trsm }, .nbuffers = 2, .modes = { STARPU_R, STARPU_RW }, .model = &models[TRSM], .name = "trsm" },
	{ .cpu_funcs = { syrk }, .nbuffers = 2, .modes = { STARPU_R, STARPU_RW }, .model = &models[SYRK], .name = "syrk" },
	{ .cpu_funcs = { gemm }, .nbuffers = 3, .modes = { STARPU_R, STARPU_R, STARPU_RW }, .model = &models[GEMM], .name = "gemm" },
};

static void submit(int kind, int priority, starpu_data_handle_t a, starpu_data_handle_t b, starpu_data_handle_t c)
{
	struct starpu_task *task = starpu_task_create();
	task->cl = &codelets[kind];
	task->priority = priority;
	task->handles[0] = a;
	if (b) task->handles[1] = b;
	if (c) task->handles[2] = c;
	int refused = starpu_task_submit(task);
	if (refused) {
		fprintf(stderr, "StarPU refused a task: error %d\n", refused);
		exit(1);
	}
}

static void submit_all(const starpu_data_handle_t *h, int nt)
{
	for (int k = 0; k < nt; k++) {
		int base = 3 * (nt - k);
		submit(POTRF, base, h[TILE(k, k)], NULL, NULL);
		for (int i = k + 1; i < nt; i++) submit(TRSM, base - (i - k), h[TILE(k, k)], h[TILE(i, k)], NULL);
		for (int j = k + 1; j < nt; j++) {
			submit(SYRK, base - 2 * (j - k), h[TILE(j, k)], h[TILE(j, j)], NULL);
			for (int i = j + 1; i < nt; i++)
				submit(GEMM, base - (j - k) - (i - k), h[TILE(i, k)], h[TILE(j, k)], h[TILE(i, j)]);
		}
	}
}

/* Entry (i, j), i >= j, of the tiles: each contiguous, column-major. */
static double get(const char *tiles, long i, long j)
{
	size_t at = (size_t)TILE(i / nb, j / nb) * nb * nb + (size_t)(j % nb) * nb + i % nb;
	return is_double ? ((const double *)tiles)[at] : ((const float *)tiles)[at];
}

static void fill(char *tiles, long n, int nt)
{
	for (int ti = 0; ti < nt; ti++)
		for (int tj = 0; tj <= ti; tj++)
			for (int c = 0; c < nb; c++)
				for (int r = 0; r < nb; r++) {
					size_t at = (size_t)TILE(ti, tj) * nb * nb + (size_t)c * nb + r;
					double v = spd_entry(n, (long)ti * nb + r, (long)tj * nb + c);
					if (is_double) ((double *)tiles)[at] = v;
					else ((float *)tiles)[at] = (float)v;
				}
}

/* Largest |A - L L^T| over samples, by the largest entry of A. */
static double residual(const char *tiles, long n)
{
	double worst = 0;
	unsigned long state = 1;
	for (int s = 0; s < 500; s++) {
		state = state * 6364136223846793005ul + 1442695040888963407ul;
		long i = (long)((state >> 33) % (unsigned long)n), j = (long)((state >> 11) % (unsigned long)(i + 1));
		double sum = 0;
		for (long k = 0; k <= j; k++) sum += get(tiles, i, k) * get(tiles, j, k);
		double error = fabs(sum - spd_entry(n, i, j));
		if (error > worst) worst = error;
	}
	return worst / (1.0 + (double)n);
}

int main(int argc, char **argv)
{
	long n = argc > 1 ? atol(argv[1]) : 0;
	nb = argc > 2 ? atoi(argv[2]) : 0;
	is_double = argc > 3 && argv[3][1] == '6';
	int workers = argc > 4 ? atoi(argv[4]) : 1;
	if (argc < 4 || argc > 5 || nb < 1 || n < nb || workers < 1 || workers > MAX_WORKERS) {
		fprintf(stderr, "usage: %s n tile f32|f64 [workers <= %d], n >= tile >= 1\n", argv[0], MAX_WORKERS);
		return 2;
	}
	int nt = (int)((n + nb - 1) / nb), count = nt * (nt + 1) / 2;
	n = (long)nt * nb;
	size_t size = is_double ? sizeof(double) : sizeof(float), tile_bytes = size * nb * nb;
	with_blas_threads(1, argv);

	struct starpu_conf conf;
	starpu_conf_init(&conf);
	conf.ncpus = workers;
	conf.ncuda = 0;
	conf.nopencl = 0;
	if (!getenv("STARPU_SCHED")) conf.sched_policy_name = "lws";
	void *memory = NULL;
	starpu_data_handle_t *handles = calloc((size_t)count, sizeof *handles);
	if (!handles || posix_memalign(&memory, 4096, (size_t)count * tile_bytes)) {
		fprintf(stderr, "no memory for %d tiles of %zu bytes\n", count, tile_bytes);
		return 1;
	}
	if (starpu_init(&conf)) {
		fprintf(stderr, "StarPU does not start with %d CPU workers\n", workers);
		return 1;
	}
	char *tiles = memory;
	for (int print = 0; print < 2; print++) { /* once to warm up, once to measure */
		fill(tiles, n, nt);
		for (int t = 0; t < count; t++)
			starpu_matrix_data_register(&handles[t], STARPU_MAIN_RAM, (uintptr_t)(tiles + (size_t)t * tile_bytes),
			                            (uint32_t)nb, (uint32_t)nb, (uint32_t)nb, size);
		memset(spent, 0, sizeof spent);
		struct stamp from = stamp_now();
		submit_all(handles, nt);
		starpu_task_wait_for_all();
		struct stamp to = stamp_now();
		for (int t = 0; t < count; t++) starpu_data_unregister(handles[t]);
		if (!print) continue;
		double kernels = 0, gemms = 0, flops = (double)n * n * n / 3;
		long calls = 0;
		for (int w = 0; w < MAX_WORKERS; w++) {
			for (int k = 0; k < KINDS; k++) kernels += spent[w].seconds[k];
			gemms += spent[w].seconds[GEMM];
			calls += spent[w].calls[GEMM];
		}
		printf("starpu cholesky %s %ld %d %d %.2f %.2f %.4f ", argv[3], n, nb, workers, flops / (to.wall - from.wall) * 1e-9,
		       flops / (to.cpu - from.cpu) * 1e-9, kernels / (to.cpu - from.cpu));
		if (calls) printf("%.2f\n", 2.0 * nb * nb * nb * (double)calls / gemms * 1e-9);
		else printf("-\n");
	}
	double error = residual(tiles, n);
	starpu_shutdown();
	if (!(error < (is_double ? 1e-14 : 1e-5))) {
		fprintf(stderr, "wrong factor: max |A - L L^T| / max |A| = %.2e over 500 samples\n", error);
		return 1;
	}
	return 0;
}
