/* OpenBLAS: its own Cholesky on its own threads, and its GEMM at a tile size on one thread.
 * Needs libopenblas-dev. Usage: openblas_potrf n tile f32|f64 [workers].
 * Prints: openblas core name-of-its-kernels        (OPENBLAS_CORETYPE chooses others: 0.3.21 knows few CPUs newer than itself)
 *         openblas cholesky format n - workers gflops gflops_per_cpu_s - -
 *         openblas gemm format tile gflops gflops_per_cpu_s      (1 worker only: C -= A B^T over distinct tiles) */
#include "peer.h"
#include <cblas.h>
#include <math.h>

extern void spotrf_(const char *, const int *, float *, const int *, int *);
extern void dpotrf_(const char *, const int *, double *, const int *, int *);

static void fill(void *a, int n, int is_double)
{
	for (int j = 0; j < n; j++)
		for (int i = 0; i < n; i++) {
			size_t at = (size_t)j * n + i;
			if (is_double) ((double *)a)[at] = spd_entry(n, i, j);
			else ((float *)a)[at] = (float)spd_entry(n, i, j);
		}
}

static int cholesky(int n, int is_double, int workers, const char *format)
{
	void *a = malloc((size_t)n * n * (is_double ? sizeof(double) : sizeof(float)));
	if (!a) {
		fprintf(stderr, "no memory for a matrix of order %d\n", n);
		return 1;
	}
	for (int print = 0; print < 2; print++) { /* once to warm up, once to measure */
		int info;
		fill(a, n, is_double);
		struct stamp from = stamp_now();
		if (is_double) dpotrf_("L", &n, a, &n, &info);
		else spotrf_("L", &n, a, &n, &info);
		struct stamp to = stamp_now();
		if (info) {
			fprintf(stderr, "potrf failed: info %d\n", info);
			return 1;
		}
		double flops = (double)n * n * n / 3;
		if (print)
			printf("openblas cholesky %s %d - %d %.2f %.2f - -\n", format, n, workers, flops / (to.wall - from.wall) * 1e-9,
			       flops / (to.cpu - from.cpu) * 1e-9);
	}
	free(a);
	return 0;
}

static int gemm(int nb, int is_double, const char *format)
{
	enum { TILES = 24 };
	size_t entries = (size_t)nb * nb;
	double *d = malloc(3 * TILES * entries * sizeof *d);
	if (!d) {
		fprintf(stderr, "no memory for %d tiles of order %d\n", 3 * TILES, nb);
		return 1;
	}
	float *s = (float *)d;
	for (size_t i = 0; i < 3 * TILES * entries; i++) {
		double v = 1e-3 * (double)(i * 2654435761u % 100);
		if (is_double) d[i] = v;
		else s[i] = (float)v;
	}
	double flops = 2.0 * nb * nb * nb;
	int calls = (int)fmax(20, 1e10 / flops); /* a few tenths of a second */
	for (int print = 0; print < 2; print++) {
		struct stamp from = stamp_now();
		for (int k = 0; k < calls; k++) {
			size_t a = (size_t)(3 * (k % TILES)) * entries, b = (size_t)(3 * ((k * 7 + 1) % TILES) + 1) * entries, c = a + 2 * entries;
			if (is_double) cblas_dgemm(CblasColMajor, CblasNoTrans, CblasTrans, nb, nb, nb, -1, d + a, nb, d + b, nb, 1, d + c, nb);
			else cblas_sgemm(CblasColMajor, CblasNoTrans, CblasTrans, nb, nb, nb, -1, s + a, nb, s + b, nb, 1, s + c, nb);
		}
		struct stamp to = stamp_now();
		if (print)
			printf("openblas gemm %s %d %.2f %.2f\n", format, nb, flops * calls / (to.wall - from.wall) * 1e-9,
			       flops * calls / (to.cpu - from.cpu) * 1e-9);
	}
	free(d);
	return 0;
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 0, nb = argc > 2 ? atoi(argv[2]) : 0, workers = argc > 4 ? atoi(argv[4]) : 1;
	if (argc < 4 || argc > 5 || n < 1 || nb < 1 || workers < 1) {
		fprintf(stderr, "usage: %s n tile f32|f64 [workers]\n", argv[0]);
		return 2;
	}
	int is_double = argv[3][1] == '6';
	with_blas_threads(workers, argv);
	printf("openblas core %s\n", openblas_get_corename());
	return cholesky(n, is_double, workers, argv[3]) || (workers == 1 && gemm(nb, is_double, argv[3]));
}
